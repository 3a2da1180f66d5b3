package dashboard

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/strandjobs/strand/executor"
)

// order is an action as it was asked for.
type order struct {
	Verb  Verb
	Scope string // "id", "selected", "filtered", "all"
	Queue string
	ID    string
	Name  string // of a key or a schedule
	Index int    // of the Cron
	Picks []pick

	list   list                // where it was asked for, and what filtered means
	states []executor.JobState // of the jobs that filtered and all mean; none: any
	reason string              // of a Cancel
	from   string              // the page
	sure   bool                // it was confirmed
}

// pick is a row that a person has ticked.
type pick struct {
	ID       string
	Position uint64 // 0: the job as a whole
	raw      string
}

// orderOf reads an action.
func orderOf(r *http.Request) (o order, err error) {
	if err := r.ParseForm(); err != nil {
		return o, problem{http.StatusBadRequest, err.Error()}
	}
	f := r.Form
	o = order{
		Verb: Verb(f.Get("verb")), Scope: f.Get("scope"), Queue: f.Get("queue"), ID: f.Get("id"), Name: f.Get("key"),
		reason: f.Get("reason"), from: f.Get("from"), sure: f.Get("confirm") == "yes",
		list: list{Queue: f.Get("queue"), Tab: f.Get("tab"), Prefix: f.Get("prefix"), Error: f.Get("error"), Limit: defaultRows},
	}
	if o.Scope == "all" && o.Queue == "" && deeds[o.Verb].list == noList {
		o.Scope = "executor"
	}
	if o.list.Tab != "" {
		if _, err := listOf(url.Values{"name": {o.Queue}, "tab": {o.list.Tab}}); err != nil {
			return o, err
		}
		o.states = o.list.tab().states
	}
	if text := f.Get("cron"); text != "" {
		if o.Index, err = strconv.Atoi(text); err != nil {
			return o, wrong("cron is %q; it must be a number", clip(text, 40))
		}
	}
	for _, raw := range f["sel"] {
		p, err := pickOf(raw)
		if err != nil {
			return o, err
		}
		o.Picks = append(o.Picks, p)
	}
	name := "key" // of pages, also of a schedule
	if slices.Contains(deeds[o.Verb].needs, "schedule") {
		name = "schedule"
	}
	return o, o.meansOne(map[string]bool{"queue": o.Queue != "", "id": o.ID != "", "selected": o.Picks != nil,
		"tab": o.list.Tab != "", "prefix": o.list.Prefix != "", "error": o.list.Error != "", name: o.Name != "",
		"cron": f.Get("cron") != "", "reason": o.reason != ""}, true)
}

// maxPicks is how many rows an action may name.
const maxPicks = 1000

func pickOf(raw string) (p pick, err error) {
	at, id, found := strings.Cut(raw, ":")
	p.raw = raw
	if found && at != "" {
		p.Position, err = strconv.ParseUint(at, 10, 64)
	}
	if err == nil {
		p.ID, err = url.QueryUnescape(id)
	}
	if err != nil || !found {
		return p, problem{http.StatusBadRequest, fmt.Sprintf("sel is %q; it must be a position, a colon and an id", clip(raw, 80))}
	}
	return p, nil
}

// act does what a POST asks for, or asks back.
func (h *handler) act(w http.ResponseWriter, r *http.Request) error {
	if h.readOnly {
		return problem{http.StatusForbidden, ErrReadOnly.Error()}
	}
	o, err := orderOf(r)
	if err != nil {
		return err
	}
	heard(w)
	if err := h.may(r, Action{Verb: o.Verb, Queue: o.Queue, Name: o.Name}); err != nil {
		return err
	}
	if o.asksFirst() && !o.sure {
		return h.ask(w, r, o)
	}
	n, err := h.perform(r, o)
	if err != nil {
		p := problemOf(err)
		if n > 0 {
			p.text = fmt.Sprintf("%s affected before this went wrong: %s", plural(n, "was", "were"), p.text)
		}
		return p
	}
	w.Header().Set("Location", o.origin()+"done="+h.notices.keep(o.said(n)))
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// perform does it for a request, and has it in the log.
func (h *handler) perform(r *http.Request, o order) (n int, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.ActionTimeout)
	defer cancel()
	n, err = h.carryOut(ctx, o)
	h.cfg.Logger.Info("dashboard: an action", slog.String("verb", string(o.Verb)), slog.String("queue", o.Queue),
		slog.String("scope", o.Scope),
		slog.String("id", o.ID), slog.Int("affected", n), slog.String("from", r.RemoteAddr), slog.Any("error", err))
	return n, err
}

// asksFirst reports whether an action is confirmed before it is done.
func (o *order) asksFirst() bool {
	switch o.Verb {
	case Cancel, Delete, KillFailed, DeleteFailed, DeleteDead, Unlock:
		return true
	case RunNow, Requeue:
		return o.Scope == "filtered" || o.Scope == "all"
	case Pause:
		return o.Queue == ""
	}
	return false
}

// carryOut does it, and returns how many were affected.
func (h *handler) carryOut(ctx context.Context, o order) (n int, err error) {
	switch o.Verb {
	case Pause, Resume:
		return h.pause(ctx, o)
	case Unlock:
		return one(h.x.KeyLocks().Unlock(ctx, o.Name))
	case Trigger, PauseSchedule, ResumeSchedule:
		return one(h.schedule(ctx, o))
	}
	in := h.x.Inspect()
	do := map[Verb]func(context.Context, executor.Selection) (int, error){
		RunNow: in.RunNow, Delete: in.Delete, KillFailed: in.KillFailed, DeleteFailed: in.DeleteFailed,
		Requeue: in.Requeue, DeleteDead: in.DeleteDead,
		Cancel: func(ctx context.Context, s executor.Selection) (int, error) { return in.Cancel(ctx, s, o.reason) },
	}[o.Verb]
	for _, s := range o.selections() {
		did, err := do(ctx, s)
		if n += did; err != nil {
			return n, err
		}
	}
	return n, nil
}

// selections are what is meant: those that name payloads are one for each id.
func (o *order) selections() (all []executor.Selection) {
	switch o.Scope {
	case "id":
		return []executor.Selection{executor.SelectIDs(o.Queue, o.ID)}
	case "filtered":
		return []executor.Selection{executor.SelectJobs(o.Queue, o.list.filter(), o.states...)}
	case "all":
		return []executor.Selection{executor.SelectJobs(o.Queue, executor.JobFilter{}, o.states...)}
	}
	var ids []string
	payloads := make(map[string][]uint64)
	for _, p := range o.Picks {
		if p.Position == 0 {
			ids = append(ids, p.ID)
			continue
		}
		payloads[p.ID] = append(payloads[p.ID], p.Position)
	}
	if len(ids) > 0 {
		all = append(all, executor.SelectIDs(o.Queue, ids...))
	}
	for id, positions := range payloads {
		all = append(all, executor.SelectPayloads(o.Queue, id, positions...))
	}
	return all
}

func (h *handler) pause(ctx context.Context, o order) (int, error) {
	in, on := h.x.Inspect(), o.Verb == Pause
	var ids []string
	for _, p := range o.Picks {
		ids = append(ids, p.ID)
	}
	switch {
	case o.Scope == "selected" && on:
		return in.PauseIDs(ctx, o.Queue, ids...)
	case o.Scope == "selected":
		return in.ResumeIDs(ctx, o.Queue, ids...)
	case o.Scope == "id" && on:
		return in.PauseIDs(ctx, o.Queue, o.ID)
	case o.Scope == "id":
		return in.ResumeIDs(ctx, o.Queue, o.ID)
	case o.Queue != "" && on:
		return one(in.PauseQueue(ctx, o.Queue))
	case o.Queue != "":
		return one(in.ResumeQueue(ctx, o.Queue))
	case on:
		return one(h.x.Pause(ctx))
	}
	return one(h.x.Resume(ctx))
}

// one is how many were affected by what does all or nothing.
func one(err error) (int, error) {
	if err != nil {
		return 0, err
	}
	return 1, nil
}

// origin is the page that an action came from, up to where its query goes on.
func (o *order) origin() string {
	switch {
	case o.from == "job" && o.ID != "" && (o.Verb == Pause || o.Verb == Resume || o.Verb == Cancel): // otherwise it may be over
		return "job?" + string(query("queue", o.Queue, "id", o.ID)) + "&"
	case o.from == "locks", o.from == "schedules":
		return o.from + "?"
	case o.Queue != "":
		return "queue?" + string(o.list.Address()) + "&"
	}
	return "./?"
}

// what an action counts.
func (o *order) what() string {
	switch {
	case o.Verb == Pause || o.Verb == Resume:
		switch {
		case o.Scope == "id" || o.Scope == "selected":
			return "id"
		case o.Queue != "":
			return "queue"
		}
		return "executor"
	}
	switch o.Verb {
	case RunNow:
		return "job"
	case Unlock:
		return "key"
	case Trigger, PauseSchedule, ResumeSchedule:
		return "schedule"
	}
	return "payload"
}
