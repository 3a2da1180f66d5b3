package dashboard

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/strandjobs/strand/executor/inspect"
)

// act does what a POST asks for, or asks back.
func (h *handler) act(w http.ResponseWriter, r *http.Request) error {
	o, err := orderOf(r)
	if err != nil {
		return err
	}
	heard(w)
	if err := h.permit(r, &o); err != nil {
		return err
	}
	if o.asksFirst() && o.confirm != "yes" {
		return h.looks.Look(w, r, func(w http.ResponseWriter) error { return h.ask(w, r, o) })
	}
	o.back = new(inspect.Requeued)
	n, err := h.perform(r, o)
	if err != nil {
		if gone(r, err) {
			return err
		}
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
	err = h.acts.Act(ctx, func() (err error) {
		n, err = h.carryOut(ctx, o)
		return err
	})
	h.hots.forget()
	h.record(r, &o, "dashboard: an action", slog.Int("affected", n), err)
	return n, late(err, "This takes longer than Config.ActionTimeout. What it has done stays done: ask for it again, "+
		"and it goes on with the rest.")
}

// asksFirst reports whether an action is confirmed before it is done.
func (o *order) asksFirst() bool {
	switch o.Verb {
	case Cancel, Delete, KillFailed, DeleteFailed, DeleteDead, Unlock:
		return true
	case RunNow, RetryNow, Requeue:
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
		if o.Scope == "executor" {
			return h.pauseAll(ctx, o.Verb == Pause)
		}
		o.states = nil // of the list where it was asked for
	case Unlock:
		return one(h.x.KeyLocks().Unlock(ctx, o.Name), true)
	case Trigger, PauseSchedule, ResumeSchedule:
		return h.schedule(ctx, o)
	}
	in := h.x.Inspect()
	do := map[Verb]func(context.Context, inspect.Selection) (int, error){
		RunNow: in.RunNow, RetryNow: in.RetryNow, Delete: in.Delete, KillFailed: in.KillFailed, DeleteFailed: in.DeleteFailed,
		DeleteDead: in.DeleteDead, Pause: in.Pause, Resume: in.Resume,
		Requeue: func(ctx context.Context, s inspect.Selection) (int, error) {
			back, err := in.Requeue(ctx, s)
			o.back.Back, o.back.Superseded = o.back.Back+back.Back, o.back.Superseded+back.Superseded
			o.back.Late, o.back.Unsure = o.back.Late+back.Late, o.back.Unsure+back.Unsure
			return back.Back, err
		},
		Cancel: func(ctx context.Context, s inspect.Selection) (int, error) { return in.Cancel(ctx, s, o.reason) },
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
func (o *order) selections() (all []inspect.Selection) {
	switch o.Scope {
	case "id":
		return []inspect.Selection{inspect.SelectIDs(o.Queue, o.ID)}
	case "filtered":
		return []inspect.Selection{inspect.SelectJobs(o.Queue, o.list.filter(), o.states...)}
	case "all":
		return []inspect.Selection{inspect.SelectJobs(o.Queue, inspect.JobFilter{}, o.states...)}
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
		all = append(all, inspect.SelectIDs(o.Queue, ids...))
	}
	for id, positions := range payloads {
		all = append(all, inspect.SelectPayloads(o.Queue, id, positions...))
	}
	return all
}

func (h *handler) pauseAll(ctx context.Context, on bool) (int, error) {
	all, _ := h.x.Inspect().Paused()
	if on {
		return one(h.x.Pause(ctx), !all)
	}
	return one(h.x.Resume(ctx), all)
}

// one is how many were affected by what does all or nothing, unless it was so before.
func one(err error, changed bool) (int, error) {
	if err != nil || !changed {
		return 0, err
	}
	return 1, nil
}

// origin is the page that an action came from, up to where its query goes on.
func (o *order) origin() string {
	stays := o.Verb == Pause || o.Verb == Resume || o.Verb == Cancel // otherwise the job may be over
	switch {
	case o.from == "job" && o.ID != "" && stays:
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
		case o.Scope == "filtered":
			return "prefix"
		case o.Queue != "":
			return "queue"
		}
		return "executor"
	}
	switch o.Verb {
	case RunNow, RetryNow:
		return "job"
	case Unlock:
		return "key"
	case Trigger, PauseSchedule, ResumeSchedule:
		return "schedule"
	}
	return "payload"
}
