package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
)

// graves is the table of payloads of the morgue.
func (d details) graves() *table {
	return d.table("dead", "QUEUE", "ID", "POSITION", "SCORE", "ENQUEUED", "DIED", "ATTEMPT", "ERROR", "PAYLOAD")
}

func (d details) grave(t *table, g *inspect.DeadPayload) {
	t.row(g, show([]byte(g.Queue)), show([]byte(g.ID)), fmt.Sprint(g.Position), fmt.Sprint(g.Score), d.dueText(g.EnqueuedAt.UnixNano()),
		d.dueText(g.At.UnixNano()), strconv.Itoa(g.Attempt), showPayload([]byte(g.Error), d.full), showPayload(g.Raw, d.full))
}

// gravesOf lists what is chosen of the morgue of journals at rest.
func gravesOf(parts []part, s chosen) iter.Seq2[*inspect.DeadPayload, error] {
	return func(yield func(*inspect.DeadPayload, error) bool) {
		for _, p := range parts {
			for b, err := range p.Morgue() {
				queue, id := p.names[b.Entry.Queue], string(b.Entry.ID)
				if err == nil && !s.has(queue, id) {
					continue
				}
				d := admin.DeadOf(queue, &b)
				if !yield(&d, err) || err != nil {
					return
				}
			}
		}
	}
}

// gravesIn lists the morgue of some queues of a process, of all ids or some. It may be gone
// through more than once.
func gravesIn(ctx context.Context, process *control.Client, queues []inspect.QueueStats, ids []string) iter.Seq2[*inspect.DeadPayload, error] {
	return func(yield func(*inspect.DeadPayload, error) bool) {
		for _, q := range queues {
			query := control.DeadQuery{Queue: q.Name, IDs: ids, From: 1}
			for q.Dead > 0 && query.From > 0 {
				page, err := control.Call[control.DeadLetters](ctx, process, control.VerbDead, query)
				if err != nil {
					yield(nil, err)
					return
				}
				for i := range page.Dead {
					if !yield(&page.Dead[i], nil) {
						return
					}
				}
				query.From = page.Next
			}
		}
	}
}

// atOnce bounds the payloads that leave the morgue in one commit.
const atOnce = 1000

// chosen says which payloads are meant, and for what.
type chosen struct {
	verb  string
	queue string   // "" is all
	ids   []string // none is all
}

func (s *chosen) has(queue, id string) bool {
	return (s.queue == "" || s.queue == queue) && (len(s.ids) == 0 || slices.Contains(s.ids, id))
}

func morgue(ctx context.Context, c *call) error {
	s, wrong := chosenBy(c)
	var found map[string][]journal.Position
	var numbers map[string]uint32
	err := c.look(ctx, journal.OpenSides, func(views []*journal.View) (err error) {
		parts, queues := partsOf(views)
		if err = cmp.Or(known(queues, s.queue), wrong); err == nil {
			numbers = parts[0].numbers
			found, err = s.find(c, gravesOf(parts, *s))
		}
		return err
	})
	if err != nil || s.verb == "list" {
		return err
	}
	return s.empty(ctx, c, numbers, found)
}

func morgueLive(ctx context.Context, c *call) error {
	s, wrong := chosenBy(c)
	queues, _, err := queuesOf(ctx, c.client, s.queue)
	if err = cmp.Or(err, wrong); err != nil {
		return err
	}
	found, err := s.find(c, gravesIn(ctx, c.client, queues, s.ids))
	if err != nil || s.verb == "list" {
		return err
	}
	w, act := work{call: c, one: "payload", done: s.verb + "d"}, admin.Act{Do: s.verb}
	if act.Do == "delete" {
		act.Do = "delete-dead"
	}
	for _, q := range queues {
		act.Queue = q.Name
		for page := range slices.Chunk(found[q.Name], atOnce) {
			act.Positions = each.Of(page, func(p journal.Position) uint64 { return uint64(p) })
			if err := w.do(ctx, act); err != nil {
				return err
			}
		}
	}
	moved(c.output, w.done, w.Requeued)
	return nil
}

// remove deletes dead letters, and what they had locked: each by itself, because a full disk may
// have no room for all at once. What it has none for at all, Close says.
func remove(ctx context.Context, l *journal.Log, queue uint32, ps []journal.Position) error {
	locked := make(map[journal.Position][]journal.Set)
	for s, err := range l.Keys(statekey.LockPrefix, "") {
		if err != nil {
			return err
		}
		if k, err := statekey.ParseKeyLock(s); err == nil {
			p := journal.Position(k.Position)
			locked[p] = append(locked[p], journal.Set{Key: s.Key})
		}
	}
	for _, p := range ps {
		l.Record(&journal.Change{Queue: queue, Exhumed: []journal.Position{p}, Sets: locked[p]})
	}
	if err := l.Flush(ctx); !errors.Is(err, journal.ErrFull) {
		return err
	}
	return nil
}

// known returns an error that lists the queues there are when queue is none of
// them.
func known(names []string, queue string) error {
	if queue == "" || slices.Contains(names, queue) {
		return nil
	}
	all := each.Of(slices.Sorted(slices.Values(names)), func(name string) string { return show([]byte(name)) })
	return usage("the journal has no queue %q; it has: %s", queue, cmp.Or(strings.Join(all, ", "), "none"))
}

// chosenBy reads the arguments. What is there is also there when they are wrong.
func chosenBy(c *call) (*chosen, error) {
	s := &chosen{verb: cmp.Or(c.Args().Get(1), "list"), queue: c.Args().Get(2), ids: c.Args().Slice()[min(c.Args().Len(), 3):]}
	switch {
	case !slices.Contains([]string{"list", "requeue", "delete"}, s.verb):
		return s, usage("the morgue knows list, requeue and delete, not %q; to list one queue: strand morgue DIR list QUEUE", s.verb)
	case c.program.Look != nil && s.verb != "list":
		return s, usage("to %s what is dead is for the node that owns its partition: its dashboard does it, or Morgue of that partition's executor", s.verb)
	case c.Args().Len() > 2 && s.queue == "":
		return s, errNoName
	case s.verb == "delete" && len(s.ids) == 0 && !c.Bool("all"):
		return s, usage("delete is for good: name a queue and its ids, or say -all")
	}
	return s, nil
}

// find returns the positions of what was chosen, by queue, and prints it if that is the verb. Nothing
// is found where a call has taken it all; where only some of the ids are there, one is misspelt.
func (s *chosen) find(c *call, all iter.Seq2[*inspect.DeadPayload, error]) (map[string][]journal.Position, error) {
	found, ids := make(map[string][]journal.Position), make(map[string]bool)
	d := details{c.output, c.Bool("full")}
	list := d.graves()
	for g, err := range all {
		if err != nil {
			return nil, err
		}
		if s.verb == "list" {
			d.grave(list, g)
		}
		found[g.Queue] = append(found[g.Queue], journal.Position(g.Position))
		ids[g.ID] = true
	}
	for _, id := range s.ids {
		if len(found) > 0 && !ids[id] {
			return nil, usage("no payload of queue %q with the id %q is in the morgue; nothing was done", s.queue, id)
		}
	}
	if len(found) == 0 && !c.json {
		c.printf("nothing in the morgue\n")
	}
	list.end()
	return found, nil
}

// empty takes what was found out of the morgue. When that goes wrong it says what was done before.
func (s *chosen) empty(ctx context.Context, c *call, numbers map[string]uint32, found map[string][]journal.Position) error {
	n := 0
	if len(found) > 0 {
		l, err := journal.Open(c.Args().First(), journal.Config{})
		if err != nil {
			return err
		}
		for queue, ps := range found {
			back := make(map[string]bool)
			note := func(id []byte) uint32 { back[string(id)] = true; return 0 }
			for page := range slices.Chunk(ps, atOnce) {
				if s.verb == "delete" {
					err = remove(ctx, l, numbers[queue], page)
				} else {
					err = l.Restore(ctx, numbers[queue], page, c.now.UnixNano(), note)
				}
				if err == nil || errors.Is(err, journal.ErrUnknown) { // Close may yet commit it
					n += len(page)
				}
				if err != nil {
					break
				}
			}
			if err = errors.Join(err, goOn(l, numbers[queue], back, c.now)); err != nil {
				break
			}
		}
		about := "up to " // a full disk may have had no room for all
		if err != nil && !errors.Is(err, journal.ErrUnknown) {
			about = ""
		}
		if err = errors.Join(cmp.Or(err, context.Cause(ctx)), l.Close()); err != nil {
			return fmt.Errorf("%s%s %sd, and then: %w", about, brief.Count(n, "payload", "payloads"), s.verb, err)
		}
	}
	moved(c.output, s.verb+"d", inspect.Requeued{Back: n})
	return nil
}

// goOn has jobs to whose ids something is back go on as in a process that runs: now, with all retries, and not halted.
// One that waits for its quiet time or a rest, of which a state is the shard's own, still does.
func goOn(l *journal.Log, queue uint32, back map[string]bool, now time.Time) error {
	if len(back) == 0 {
		return nil
	}
	var change journal.Change
	for _, page := range l.PendingPages(queue) {
		for _, ref := range page {
			var e journal.Entry
			if err := ref.Read(&e); err != nil {
				return err
			}
			if own := len(e.Failed) > 0 && e.Failed[0] == 0; e.Kind == journal.KindState && back[string(e.ID)] && !own {
				e.Due, e.Retry, e.Halted, e.Crashed = now.UnixNano(), -1, false, false
				change.Ended = append(change.Ended, ref)
				change.States = append(change.States, journal.JobState{Entry: e})
			}
		}
	}
	l.Record(&change)
	return nil
}

// moved says what was done.
func moved(o *output, done string, did inspect.Requeued) {
	text := brief.Count(did.Back, "payload", "payloads") + " " + done
	if _, rest, more := strings.Cut(did.String(), "; "); more {
		text += "; " + rest
	}
	o.say("morgue", acted{done, did}, "%s\n", text)
}
