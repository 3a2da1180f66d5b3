package dashboard

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/each"
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
	for _, which := range o.selections(cluster.Of(b.x) != nil) {
		part, err := b.x.Inspect().Act(ctx, string(o.Verb), which, o.said("reason"))
		if did = did.Plus(part); err != nil {
			return did, err
		}
	}
	return did, nil
}

// selections are what is meant: jobs, and payloads. Where each partition has positions of its own,
// those of an id are in a selection of their own: they may be others' there.
func (o *order) selections(apart bool) (all []inspect.Selection) {
	switch o.Scope {
	case "executor":
		return []inspect.Selection{inspect.SelectExecutor()}
	case "id":
		return []inspect.Selection{inspect.SelectIDs(o.Queue, o.ID)}
	case "filtered", "all": // which has no filter
		return []inspect.Selection{inspect.SelectJobs(o.Queue, o.list.filter(), o.states...)}
	}
	var ids []string
	var positions []uint64
	at := make(map[string][]uint64) // by id
	for _, p := range o.Picks {
		if p.Position == 0 {
			ids = append(ids, p.ID)
			continue
		}
		positions, at[p.ID] = append(positions, p.Position), append(at[p.ID], p.Position)
	}
	if len(ids) > 0 {
		all = append(all, inspect.SelectIDs(o.Queue, ids...))
	}
	of := slices.Sorted(maps.Keys(at))
	if len(of) > 0 && !apart {
		return append(all, inspect.SelectIDs(o.Queue, of...).At(positions...))
	}
	return append(all, each.Of(of, func(id string) inspect.Selection { return inspect.SelectIDs(o.Queue, id).At(at[id]...) })...)
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

// question is what is asked before an action.
type question struct {
	Text, Detail string
	Yes          string // on the button
	Danger       bool
	Reason       bool         // it may have one
	Query        template.URL // of the action, but for the picks
	Picks        []string     // as they came
	IDs          []string     // the first of them, for people
	More         int
	Back         string
}

// shownPicks is how many of what was ticked is shown again.
const shownPicks = 20

// ask answers an action with the question whether it is meant.
func (s *site) ask(w http.ResponseWriter, r *http.Request, o order) error {
	d := deeds[o.Verb]
	q := question{Yes: d.yes, Detail: d.detail, Danger: d.danger, Reason: o.Verb == Cancel, Back: o.origin()}
	if o.said("from") == "job" && o.ID != "" {
		q.Back = "job?" + string(query("queue", o.Queue, "id", o.ID))
	}
	q.Picks = o.form["selected"]
	q.IDs = each.Of(o.Picks[:min(len(o.Picks), shownPicks)], func(p pick) string { return p.ID })
	q.More = len(o.Picks) - len(q.IDs)
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.PageTimeout)
	defer cancel()
	what, err := s.meant(ctx, &o)
	if err != nil {
		return err
	}
	q.Text = strings.Replace(d.question, "{what}", what, 1)
	if it := cmp.Or(o.ID, o.Name); it != "" {
		q.IDs = []string{it}
	}
	again := maps.Clone(o.form)
	again.Del("selected")
	again.Set("confirm", "yes")
	q.Query = template.URL(again.Encode()) // all of it is escaped
	return s.show(w, r, "question.html", page{Title: q.Text, Content: q})
}

// meant says in words what an action is about.
func (s *site) meant(ctx context.Context, o *order) (string, error) {
	of := " of " + clip(o.Queue, 60)
	switch {
	case o.Queue == "":
		return "", nil
	case o.Scope == "id" && (o.Verb == DeleteDead || o.Verb == Requeue):
		d, err := s.x.Inspect().Job(ctx, o.Queue, o.ID)
		if err != nil {
			return "", err
		}
		switch n := len(d.Dead) + d.MoreDead; {
		case d.DeadUnread:
			return "all dead payloads of this id, of which there are at least " + number(n) + ",", nil
		case n == 1:
			return "the dead payload of this id", nil
		default:
			return "all " + number(n) + " dead payloads of this id", nil
		}
	case o.Scope == "id":
		return "this job", nil
	case o.Scope == "selected" && (o.list.Tab == morgue || o.Picks[0].Position != 0):
		return plural(len(o.Picks), "payload", "payloads") + of, nil
	case o.Scope == "selected":
		return plural(len(o.Picks), "job", "jobs") + of, nil
	}
	return s.listed(ctx, o, of)
}

// listed is what is meant of a list: all of it, or what matches. The figure of a list may count others: those of
// parked jobs leave out what is paused, and those of failed ones have what is halted, due or runs.
func (s *site) listed(ctx context.Context, o *order, of string) (string, error) {
	info, err := s.info(ctx, o.Queue)
	if err != nil {
		return "", err
	}
	t := o.list.tab()
	one, many := "job", "jobs"
	if t.Name == morgue {
		one, many = "dead payload", "dead payloads"
	}
	of += t.those
	all, whole := plural(t.Count(info), one, many)+of, o.Scope != "filtered"
	if t.Name == "parked" || t.Name == "retrying" {
		all = "the " + many + of
	} else if whole {
		return "all " + all, nil
	}
	p := queuePage{list: o.list}
	p.Limit, p.Whole = brief.MaxRows, true
	err = s.fill(ctx, &p, time.Now())
	n, late := len(p.Jobs)+len(p.Dead), errors.Is(err, context.DeadlineExceeded) // a person may go on without the number
	switch {
	case err != nil && !late:
		return "", err
	case whole && (late || n == 0 && p.Next != ""):
		return "all " + many + of, nil
	case whole && p.Next != "":
		return "all " + many + of + ", of which there are at least " + number(n) + ",", nil
	case whole:
		return "all " + plural(n, one, many) + of, nil
	case late:
		return "what matches the filter, of " + all, nil
	}
	least := ""
	if p.Next != "" {
		least = "at least "
	}
	return least + plural(n, one+" that matches", many+" that match") + " the filter, of " + all, nil
}
