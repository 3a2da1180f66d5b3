package dashboard

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/serving"
)

// act does what a POST asks for. A page may be asked back; a program means what it says.
func (s *site) act(w http.ResponseWriter, r *http.Request) error {
	read, program := orderOf, s.ofAPI(r)
	if program {
		read = orderIn
	}
	o, err := read(r)
	if err != nil {
		return err
	}
	heard(w)
	if err := s.permit(r, &o); err != nil {
		return err
	}
	if d := deeds[o.Verb]; !program && !o.has("confirm") && (d.danger || slices.Contains(d.asks, o.Scope)) {
		return s.looks.Look(w, r, func(w http.ResponseWriter) error { return s.ask(w, r, o) })
	}
	did, err := s.perform(r, &o)
	switch {
	case err != nil && !gone(r, err):
		s.refuse(w, r, err, did.Back)
	case err != nil:
	case program:
		return sendJSON(w, r, http.StatusOK, "application/json", admin.Affected{Requeued: did, Of: o.what()})
	default:
		w.Header().Set("Location", o.origin()+"done="+s.notices.keep(o.told(did)))
		w.WriteHeader(http.StatusSeeOther)
	}
	return nil
}

// perform does it for a request, and has it in the log.
func (s *site) perform(r *http.Request, o *order) (did inspect.Requeued, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ActionTimeout)
	defer cancel()
	err = s.acts.Act(ctx, func() (err error) {
		did, err = o.do(ctx, s.board)
		return err
	})
	s.hots.Clear() // and they are looked for anew
	s.record(r, o, "dashboard: an action", slog.Int("affected", did.Back), err)
	return did, late(err, "This takes longer than Config.ActionTimeout. What it has done stays done: ask for it again, "+
		"and it goes on with the rest.")
}

// do does it.
func (o *order) do(ctx context.Context, b *board) (did inspect.Requeued, err error) {
	if d := deeds[o.Verb]; d.do != nil {
		did.Back, err = d.do(ctx, b, o)
		return did, err
	}
	for _, which := range o.selections() {
		part, err := b.x.Inspect().Act(ctx, string(o.Verb), which, o.said("reason"))
		if did = did.Plus(part); err != nil {
			return did, err
		}
	}
	return did, nil
}

// selections are what is meant: jobs, and payloads.
func (o *order) selections() (all []inspect.Selection) {
	switch o.Scope {
	case "executor":
		return []inspect.Selection{inspect.SelectExecutor()}
	case "id":
		return []inspect.Selection{inspect.SelectIDs(o.Queue, o.ID)}
	case "filtered", "all": // which has no filter
		return []inspect.Selection{inspect.SelectJobs(o.Queue, o.list.filter(), o.states...)}
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

// notices are what pages will say of actions: each once, to who has its name. That is in
// the address where the browser goes next, and nobody can guess one: a link says nothing
// that was not done.
type notices struct {
	mu   sync.Mutex
	kept []notice // oldest first
}

type notice struct{ name, text string }

// mostNotices is how many wait for their page: the latest ones.
const mostNotices = 256

// keep keeps a text, and returns its name.
func (n *notices) keep(text string) (name string) {
	name = rand.Text()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.kept = append(n.kept, notice{name, text})
	n.kept = n.kept[max(len(n.kept)-mostNotices, 0):]
	return name
}

// take returns the text of a name, once.
func (n *notices) take(name string) (text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at := slices.IndexFunc(n.kept, func(kept notice) bool { return kept.name == name }); at >= 0 {
		text = n.kept[at].text
		n.kept = slices.Delete(n.kept, at, at+1)
	}
	return text
}

// copy sends a copy of the journal, as a tar with the directory of a journal in it. It
// is made beside the journal's work, in the directory for temporary files, one at a
// time.
func (s *site) sendCopy(w http.ResponseWriter, r *http.Request) error {
	o := order{Verb: CopyJournal}
	if err := s.permit(r, &o); err != nil {
		return err
	}
	if err := r.ParseForm(); err != nil {
		return unread(err)
	}
	for name := range r.Form {
		return wrong("%q is given, and a copy is one of all", clip(name, 40))
	}
	heard(w)
	if !s.copies.TryLock() {
		return problem{http.StatusConflict, "another copy is being made; come back when it is done"}
	}
	defer s.copies.Unlock()
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.ActionTimeout)
	defer cancel()
	temp, err := os.MkdirTemp("", "strand-copy-")
	if err != nil {
		return err
	}
	defer func() {
		if err := os.RemoveAll(temp); err != nil {
			s.cfg.Logger.Warn("a copy of the journal is left over", slog.String("dir", temp), slog.Any("error", err))
		}
	}()
	err = s.x.Copy(ctx, filepath.Join(temp, "journal.strand"))
	s.record(r, &o, "dashboard: an action", slog.Attr{}, err)
	if err != nil {
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
