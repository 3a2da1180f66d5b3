package dashboard

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/serving"
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
	if o.asksFirst() && !o.has("confirm") {
		return h.looks.Look(w, r, func(w http.ResponseWriter) error { return h.ask(w, r, o) })
	}
	did, err := h.perform(r, &o)
	if err != nil {
		if gone(r, err) {
			return err
		}
		p := problemOf(err)
		if did.N > 0 {
			p.text = fmt.Sprintf("%s affected before this went wrong: %s", plural(did.N, "was", "were"), p.text)
		}
		return p
	}
	w.Header().Set("Location", o.origin()+"done="+h.notices.keep(o.told(did)))
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// apiAct does what a POST asks for. It asks nothing back: a program means what it says.
func (h *handler) apiAct(w http.ResponseWriter, r *http.Request) error {
	if _, err := paramsOf(r); err != nil {
		return err
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	o, err := orderIn(kind, r.Body)
	if err != nil {
		return err
	}
	heard(w)
	if err := h.permit(r, &o); err != nil {
		return err
	}
	did, err := h.perform(r, &o)
	switch {
	case err == nil:
		did.Of = o.what()
		return sendJSON(w, r, http.StatusOK, "application/json", did)
	case gone(r, err):
		return err
	}
	h.refuse(w, r, err, did.N)
	return nil
}

// perform does it for a request, and has it in the log.
func (h *handler) perform(r *http.Request, o *order) (did admin.Affected, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.ActionTimeout)
	defer cancel()
	err = h.acts.Act(ctx, func() (err error) {
		did, err = o.do(ctx, h)
		return err
	})
	h.hots.forget()
	h.record(r, o, "dashboard: an action", slog.Int("affected", did.N), err)
	return did, late(err, "This takes longer than Config.ActionTimeout. What it has done stays done: ask for it again, "+
		"and it goes on with the rest.")
}

// do does it.
func (o *order) do(ctx context.Context, h *handler) (did admin.Affected, err error) {
	if d := deeds[o.Verb]; d.do != nil {
		did.N, err = d.do(ctx, h, o)
		return did, err
	}
	for _, which := range o.selections() {
		part, err := admin.Do(ctx, h.x.Inspect(), string(o.Verb), which, o.said("reason"))
		if did.Add(part); err != nil {
			return did, err
		}
	}
	return did, nil
}

// asksFirst reports whether an action is confirmed before it is done.
func (o *order) asksFirst() bool {
	d := deeds[o.Verb]
	return d.danger || slices.Contains(d.asks, o.Scope)
}

// selections are what is meant: jobs, and payloads.
func (o *order) selections() (all []inspect.Selection) {
	switch o.Scope {
	case "executor":
		return []inspect.Selection{inspect.SelectExecutor()}
	case "id":
		return []inspect.Selection{inspect.SelectIDs(o.Queue, o.ID)}
	case "filtered":
		return []inspect.Selection{inspect.SelectJobs(o.Queue, o.list.filter(), o.states...)}
	case "all":
		return []inspect.Selection{inspect.SelectJobs(o.Queue, inspect.JobFilter{}, o.states...)}
	}
	var ids, of []string
	var positions []uint64
	for _, p := range o.Picks {
		if p.Position == 0 {
			ids = append(ids, p.ID)
			continue
		}
		of, positions = append(of, p.ID), append(positions, p.Position)
	}
	if len(ids) > 0 {
		all = append(all, inspect.SelectIDs(o.Queue, ids...))
	}
	if len(of) > 0 {
		all = append(all, inspect.SelectIDs(o.Queue, of...).At(positions...))
	}
	return all
}

// origin is the page that an action came from, up to where its query goes on.
func (o *order) origin() string {
	stays := o.Verb == Pause || o.Verb == Resume || o.Verb == Cancel // otherwise the job may be over
	switch {
	case o.said("from") == "job" && o.ID != "" && stays:
		return "job?" + string(query("queue", o.Queue, "id", o.ID)) + "&"
	case o.said("from") == "locks", o.said("from") == "schedules":
		return o.said("from") + "?"
	case o.Queue != "":
		return "queue?" + string(o.list.Address()) + "&"
	}
	return "./?"
}

// record has an action in the log: all that it was asked with, by whom, and what came of
// it. What is not there is left out.
func (h *handler) record(r *http.Request, o *order, text string, affected slog.Attr, err error) {
	line := []slog.Attr{slog.String("verb", string(o.Verb))}
	said := func(attrs ...slog.Attr) {
		line = append(line, slices.DeleteFunc(attrs, func(a slog.Attr) bool { return a.Value.String() == "" })...)
	}
	said(slog.String("scope", o.said("scope")), slog.String("queue", o.said("queue")), slog.String("id", o.said("id")))
	if o.said("selected") != "" {
		line = append(line, slog.Int("selected", len(o.Picks)))
	}
	if len(o.states) > 0 {
		line = append(line, slog.Any("states", o.states))
	} else {
		said(slog.String("states", o.said("state")))
	}
	said(slog.String("prefix", o.said("prefix")), slog.String("containing", o.said("error")), slog.String("reason", o.said("reason")),
		slog.String("key", o.said("key")), slog.String("cron", o.said("cron")), slog.String("schedule", o.said("schedule")))
	line = append(line, affected, slog.String("from", r.RemoteAddr))
	if user := h.user(r); user != "" {
		line = append(line, slog.String("user", user))
	}
	level := slog.LevelInfo
	if err != nil {
		level = slog.LevelWarn
		line = append(line, slog.Any("error", err))
	}
	h.cfg.Logger.LogAttrs(r.Context(), level, text, line...)
}

// user is who asks, as Config.User says.
func (h *handler) user(r *http.Request) (name string) {
	if h.cfg.User != nil {
		h.survives("User of the dashboard", func() { name = h.cfg.User(r) })
	}
	return name
}

// notices are what pages will say of actions: each once, to who has its name. That is in
// the address where the browser goes next, and nobody can guess one: a link says nothing
// that was not done.
type notices struct {
	mu    sync.Mutex
	texts map[string]string
	names []string // in the order in which they were kept
}

// mostNotices is how many wait for their page: the latest ones.
const mostNotices = 256

// keep keeps a text, and returns its name.
func (n *notices) keep(text string) (name string) {
	name = rand.Text()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.texts == nil {
		n.texts = make(map[string]string)
	}
	n.texts[name] = text
	if n.names = append(n.names, name); len(n.names) > mostNotices {
		delete(n.texts, n.names[0])
		n.names = n.names[1:]
	}
	return name
}

// take returns the text of a name, once.
func (n *notices) take(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := n.texts[name]
	delete(n.texts, name)
	return text
}

// copy sends a copy of the journal, as a tar with the directory of a journal in it. It
// is made beside the journal's work, in the directory for temporary files, one at a
// time.
func (h *handler) copy(w http.ResponseWriter, r *http.Request) error {
	o := order{Verb: CopyJournal}
	if err := h.permit(r, &o); err != nil {
		return err
	}
	if err := r.ParseForm(); err != nil {
		return unread(err)
	}
	for name := range r.Form {
		return wrong("%q is given, and a copy is one of all", clip(name, 40))
	}
	heard(w)
	select {
	case h.copies <- struct{}{}:
		defer func() { <-h.copies }()
	default:
		return problem{http.StatusConflict, "another copy is being made; come back when it is done"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.ActionTimeout)
	defer cancel()
	temp, err := os.MkdirTemp("", "strand-copy-")
	if err != nil {
		return err
	}
	defer func() {
		if err := os.RemoveAll(temp); err != nil {
			h.cfg.Logger.Warn("a copy of the journal is left over", slog.String("dir", temp), slog.Any("error", err))
		}
	}()
	dir := filepath.Join(temp, "journal.strand")
	err = h.x.Copy(ctx, dir)
	h.record(r, &o, "dashboard: an action", slog.Attr{}, err)
	if errors.Is(err, executor.ErrState) {
		return problem{http.StatusConflict, err.Error()}
	} else if err != nil {
		return late(err, "The copy takes longer than Config.ActionTimeout: nothing of it is sent.")
	}
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Content-Disposition", `attachment; filename="journal.strand.tar"`)
	out := tar.NewWriter(serving.Endless(w))
	if err := out.AddFS(os.DirFS(temp)); err != nil {
		panic(http.ErrAbortHandler) // the client has gone, or has to know that this is not all
	}
	return out.Close()
}
