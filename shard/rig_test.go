package shard

import (
	"cmp"
	"context"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	require.TestingT
	Helper()
}

// rig is the cores of one queue on a journal in memory, driven from the test's
// own goroutine.
type rig struct {
	t      tester
	cfg    Config
	mem    *journal.Memory
	log    *journal.Log
	queue  uint32
	cores  []*Core
	now    int64
	record func(*journal.Change) // sees every change before the journal does

	told  bool             // the cores know the time when something comes
	turns map[string]int64 // when an id last had a turn: a part of its payloads was done

	mu    sync.Mutex
	inbox []*arrival // committed and not given to a core yet
}

type arrival struct {
	entry journal.Entry
	ref   journal.Ref
	into  journal.Position // what Core.deliver said
}

func newRig(t tester, cfg Config, shards int) *rig {
	g := &rig{t: t, cfg: cfg, mem: new(journal.Memory), record: func(*journal.Change) {}, turns: make(map[string]int64)}
	g.open(shards)
	return g
}

// open opens the journal, and loads what is in it.
func (g *rig) open(shards int) {
	g.t.Helper()
	var err error
	// What is on disk leaves memory at once: a core must not notice.
	g.log, err = journal.OpenMemory(g.mem, journal.Config{Deliver: g.deliver, MemoryBudget: 1})
	require.NoError(g.t, err)
	g.queue, err = g.log.Queue(context.Background(), "queue")
	require.NoError(g.t, err)
	g.cores = nil
	for range shards {
		c := NewCore(g.queue, g.cfg)
		c.Tick(g.now)
		g.cores = append(g.cores, c)
	}
	for b, err := range g.log.Morgue(g.queue, 0) {
		require.NoError(g.t, err)
		if c := g.core(string(b.Entry.ID)); c.supersedes() {
			c.LoadDead(&b.Entry, b.Crashed)
		}
	}
	_, err = LoadAll(g.cores, g.log.PendingPages(g.queue), func(id []byte) int { return int(g.route(string(id))) }, func([]journal.Entry) {})
	require.NoError(g.t, err)
	for _, c := range g.cores {
		c.Record(g)
	}
}

func (g *rig) close() { require.NoError(g.t, g.log.Close()) }

// must is for where a test can't be ended.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func mustRead(ref journal.Ref, e *journal.Entry) { must(e, ref.Read(e)) }

// deliver runs on the committer's goroutine.
func (g *rig) deliver(d *journal.Delivery) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range d.Len() {
		a := new(arrival)
		a.ref = must(d.Read(i, &a.entry))
		g.inbox = append(g.inbox, a)
	}
	d.Done()
}

// Record implements Recorder.
func (g *rig) Record(c *Change) {
	g.record(&c.Change)
	g.log.Record(&c.Change)
	if len(c.Rewritten) == 0 { // else the cores don't know yet where that is, and no turn was had
		g.noteTurns()
	}
}

func (g *rig) noteTurns() {
	for _, c := range g.cores {
		for id, l := range c.lanes.named() {
			if l.rest != nil && l.rest.id != "" {
				g.turns[id] = l.due
			}
		}
	}
}

func (g *rig) route(id string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(id))
	return h.Sum32() % uint32(len(g.cores))
}

func (g *rig) core(id string) *Core { return g.cores[g.route(id)] }

// put has entries accepted and delivered.
func (g *rig) put(entries ...journal.Entry) []*arrival {
	g.t.Helper()
	for i := range entries {
		e := &entries[i]
		e.Queue, e.Route = g.queue, g.route(string(e.ID))
		if e.Accepted == 0 && e.Due > g.now && g.cfg.Merge != MergeSupersede {
			e.Accepted = cmp.Or(g.now, -1) // its caller asks for a time; 0 would say that it did not
		}
	}
	ticket, err := g.log.Append(context.Background(), entries, nil)
	require.NoError(g.t, err)
	require.NoError(g.t, ticket.Wait(context.Background()))
	return g.takeIn()
}

// restore has a payload come back from the morgue.
func (g *rig) restore(p journal.Position, due int64) *arrival {
	g.t.Helper()
	g.flush() // a burial is in the morgue once it is committed
	err := g.log.Restore(context.Background(), g.queue, []journal.Position{p}, due, func(id []byte) uint32 { return g.route(string(id)) })
	require.NoError(g.t, err)
	return g.takeIn()[0]
}

func (g *rig) takeIn() []*arrival {
	g.mu.Lock()
	defer g.mu.Unlock()
	in := g.inbox
	g.inbox = nil
	slices.SortStableFunc(in, func(a, b *arrival) int { return cmp.Compare(a.entry.Position, b.entry.Position) })
	for _, a := range in {
		c := g.core(string(a.entry.ID))
		id := string(a.entry.ID)
		at, turn := g.turns[id]
		v, _ := c.view(id)
		turn = turn && at == v.due
		if hash := hashOf(a.entry.ID); g.told {
			a.into = c.come(&a.entry, a.ref, hash)
		} else {
			a.into = c.deliver(&a.entry, a.ref, hash)
		}
		c.Record(g)
		if turn {
			v, _ = c.view(id)
			g.turns[id] = v.due // it may have been moved
		}
	}
	return in
}

func (g *rig) flush() { require.NoError(g.t, g.log.Flush(context.Background())) }

// crash throws the cores away and opens what a crash would leave on disk. Ids that
// have had a turn lose that, and are due when a payload of theirs was: then they get
// it back here. So does what was due at the end of a rest that is over, under MergeSupersede: the rest is gone.
func (g *rig) crash(shards int) {
	g.t.Helper()
	type turn struct{ had, limit, has, back int64 }
	turns, rested := make(map[string]turn), make(map[string]int64)
	now, told := g.now, int64(0)
	for _, c := range g.cores {
		told = max(told, c.now)
		g.now = max(g.now, c.now) // for the new ones
		for id, l := range c.lanes.named() {
			v, _ := c.view(id)
			if at, ok := g.turns[id]; ok && at == v.due && !l.known().hasState() {
				has, back := g.replayed(slices.Concat(v.out, v.held, v.waiting))
				turns[id] = turn{at, g.limitOf(id), has, back}
			} else if c.supersedes() && c.cfg.Throttle > 0 && v.due <= g.now {
				rested[id] = v.due
			}
		}
	}
	disk := g.mem.Crash()
	g.close()
	g.mem = disk
	g.open(shards)
	g.now = now
	for _, c := range g.cores {
		c.now = told
	}
	for id, turn := range turns {
		c := g.core(id)
		l := c.lanes.find([]byte(id))
		require.Equal(g.t, turn.has, l.due, "%s: by its payloads", id)
		require.LessOrEqual(g.t, turn.has, max(turn.had, turn.back), "%s is put off", id)
		c.enqueue(l, turn.had)
		c.bound(l, turn.limit)
	}
	for id, due := range rested {
		c := g.core(id)
		if l := c.lanes.find([]byte(id)); due > l.due {
			c.enqueue(l, due)
		}
	}
}

// limitOf returns how far a job may be put off, or might be if it did not run.
func (g *rig) limitOf(id string) int64 {
	c := g.core(id)
	l := c.lanes.find([]byte(id))
	if it := l.item(); it != nil {
		_, limit := c.undone(it)
		return limit
	}
	return c.limitOf(l)
}

// replayed returns the due time that a start makes of payloads without a state: that
// of the earliest one, or of the last one that came back from the morgue, moved by
// those after it. back is when that one came back, and so is over.
func (g *rig) replayed(payloads []Payload) (due, back int64) {
	slices.SortFunc(payloads, func(a, b Payload) int { return cmp.Compare(a.Ref.Position(), b.Ref.Position()) })
	w := model{cfg: g.cfg}
	j := &modelJob{retry: -1}
	var e journal.Entry
	back = math.MinInt64
	for i, p := range payloads {
		mustRead(p.Ref, &e)
		if e.Restored {
			back = e.Due
		}
		if tp := (&modelPayload{due: e.Due, restored: e.Restored}); i == 0 || e.Restored {
			w.open(j, tp)
		} else {
			w.move(j, tp)
		}
	}
	return j.due, back
}

// live lists what the journal would replay.
func (g *rig) live() map[journal.Position]journal.Entry {
	g.t.Helper()
	g.flush()
	log, err := journal.OpenMemory(g.mem.Crash(), journal.Config{})
	require.NoError(g.t, err)
	live := make(map[journal.Position]journal.Entry)
	for _, ref := range slices.Concat(log.PendingPages(g.queue)...) {
		var e journal.Entry
		mustRead(ref, &e)
		live[e.Position] = e
	}
	require.NoError(g.t, log.Close())
	return live
}

// morgue lists the buried payloads by position.
func (g *rig) morgue() map[journal.Position]journal.Buried {
	g.flush()
	m := make(map[journal.Position]journal.Buried)
	for b, err := range g.log.Morgue(g.queue, 0) {
		require.NoError(g.t, err)
		m[b.Entry.Position] = b
	}
	return m
}

// check holds a core against its own laws, by walking everything.
func (c *Core) check(t tester) {
	t.Helper()
	got, want := c.Counts(), Counts{Jobs: c.lanes.len()}
	for _, why := range c.held {
		want.Parked += count(why&(HoldWait|HoldSuspect) != 0)
		want.Paused += count(why&HoldPause != 0)
	}
	queued, out := 0, 0
	for id, l := range c.lanes.named() {
		v, _ := c.view(id)
		require.Same(t, l, c.lanes.find([]byte(id)))
		require.NotEmpty(t, slices.Concat(v.out, v.held, v.waiting), "%s has nothing to do", id)
		require.Len(t, v.waiting, l.n())
		want.Payloads += len(v.out) + len(v.held) + len(v.waiting)
		want.Retrying += count(l.retry() >= 0)
		want.Halted += count(l.halted)
		want.Running += count(l.item() != nil)
		queued += count(l.standing != absent)
		require.Equal(t, l.item() == nil && !l.halted && c.held[id] == 0, l.standing != absent, "%v: queued", v)
		if p := l.past(); p != nil {
			require.Zero(t, p.pending, "%v: change was not recorded", v)
		}
		if it := l.item(); it != nil {
			require.Same(t, l, it.lane)
			out++
		}
	}
	items := 0
	for r := range c.runs {
		for i := range r.Items {
			items += count(r.Items[i].state.Load() != revoked)
		}
	}
	require.Equal(t, out, items, "items out")
	require.LessOrEqual(t, len(c.runs)-c.exempt, c.cfg.Concurrency)
	require.Equal(t, queued, c.checkAgenda(t), "places in the agenda")
	c.lanes.check(t)
	c.checkScan(t, 0)
	got.Superseded, got.SupersededDead, got.Merged, got.Replaced, got.Done, got.Failed, got.Snoozed, got.Buried, got.Discarded, got.Deleted, got.Interrupted = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
	require.Equal(t, want, got)
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// held returns the positions that the cores know of: payloads and states.
func (g *rig) known() map[journal.Position]bool {
	known := make(map[journal.Position]bool)
	for _, c := range g.cores {
		for _, r := range c.rested.byID {
			known[r.state.Position()] = true
		}
		for id, l := range c.lanes.named() {
			v, _ := c.view(id)
			for _, p := range slices.Concat(v.out, v.held, v.waiting) {
				require.False(g.t, known[p.Ref.Position()], "#%d is there twice", p.Ref.Position())
				known[p.Ref.Position()] = true
			}
			if p := l.past(); p != nil && !p.state.IsZero() {
				known[p.state.Position()] = true
			}
		}
	}
	return known
}

// check holds the cores against their laws and against the journal.
func (g *rig) check() {
	g.t.Helper()
	for _, c := range g.cores {
		c.check(g.t)
	}
	g.checkJournal()
}

func (g *rig) checkJournal() {
	g.t.Helper()
	require.ElementsMatch(g.t, slices.Collect(maps.Keys(g.known())), slices.Collect(maps.Keys(g.live())), "live in the cores, live in the journal")
}

var _ tester = (*testing.T)(nil)
