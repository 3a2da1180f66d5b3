package journal

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// expected is the reference model of a log: what has to be there after a replay.
type expected struct {
	live   map[Position]Entry
	morgue map[Position]Buried
}

func newExpected() expected  { return expected{make(map[Position]Entry), make(map[Position]Buried)} }
func show(e Entry) string    { return fmt.Sprintf("%+v\n", e) }
func showB(b Buried) string  { return fmt.Sprintf("buried %+v\n", b) }
func isPayload(e Entry) bool { return e.Kind == KindEnqueued }
func anything(Entry) bool    { return true }

func (w expected) String() string {
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(w.live)) {
		b.WriteString(show(w.live[p]))
	}
	for _, p := range slices.Sorted(maps.Keys(w.morgue)) {
		b.WriteString(showB(w.morgue[p]))
	}
	return b.String()
}

// moment is what is expected after an operation.
type moment struct {
	expected
	text string
}

func (w expected) moment() moment {
	return moment{expected{maps.Clone(w.live), maps.Clone(w.morgue)}, w.String()}
}

// modelQueue is the one queue of the model.
const modelQueue = 1

// contents says the same of a log that was just opened, in the log's order, and
// claims its entries.
func contents(t require.TestingT, l *Log) (string, map[Position]Ref) {
	var b strings.Builder
	refs := make(map[Position]Ref)
	for _, r := range slices.Concat(l.PendingPages(modelQueue)...) {
		var e Entry
		require.NoError(t, r.Read(&e))
		b.WriteString(show(e))
		refs[e.Position] = r
	}
	for buried, err := range l.Morgue(modelQueue, 0) {
		require.NoError(t, err)
		b.WriteString(showB(buried))
	}
	return b.String(), refs
}

// model drives a log and what is expected of it through the same random operations.
type model struct {
	log  *Log
	now  expected
	open func(cfg Config) (*Log, error) // what Close or a crash left
	with func(Config) Config            // how it is opened
	snap func() func(cfg Config) (*Log, error)

	mu      sync.Mutex
	refs    map[Position]Ref // of what was delivered
	history []moment         // after each operation since the last opening
	acked   int              // of these, how many are known to be durable
	images  []image          // after each commit since the last opening
}

// image is the disk after a commit, and how many operations it must hold.
type image struct {
	open  func(cfg Config) (*Log, error)
	acked int
}

// tight trims all the time.
func tight(c Config) Config {
	c.MaxBlockBytes, c.trimSlack, c.minCarry = 1<<12, 600, 300
	return c
}

// frugal lets everything go from memory that is on disk.
func frugal(c Config) Config {
	c.MemoryBudget = 1
	return c
}

// start opens the log, which must hold what is expected.
func (m *model) start(t require.TestingT) {
	log, err := m.open(m.with(Config{Deliver: m.deliver}))
	require.NoError(t, err)
	m.log = log
	var found string
	found, m.refs = contents(t, log)
	require.Equal(t, m.now.String(), found)
	m.history, m.acked, m.images = []moment{m.now.moment()}, 1, nil
}

// committed is called after every commit.
func (m *model) committed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.images = append(m.images, image{m.snap(), m.acked})
}

func (m *model) deliver(d *Delivery) {
	m.mu.Lock()
	for i := range d.Len() {
		var e Entry
		r := must(d.Read(i, &e))
		m.refs[r.Position()] = r
	}
	m.mu.Unlock()
	d.Done()
}

// did ends an operation. A durable one waited for its commit, and so for all
// before it.
func (m *model) did(durable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.history = append(m.history, m.now.moment())
	if durable {
		m.acked = len(m.history)
	}
}

// pick draws one of the live entries that were delivered and suit.
func (m *model) pick(t *rapid.T, suits func(Entry) bool) (r Ref, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ps []Position
	for p, e := range m.now.live {
		if _, delivered := m.refs[p]; delivered && suits(e) {
			ps = append(ps, p)
		}
	}
	if len(ps) == 0 {
		return r, false
	}
	slices.Sort(ps)
	return m.refs[rapid.SampledFrom(ps).Draw(t, "position")], true
}

func drawEntry(t *rapid.T) Entry {
	e := Entry{
		Kind: KindEnqueued, Queue: modelQueue,
		ID:      rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "id"),
		Due:     rapid.Int64().Draw(t, "due"),
		Score:   rapid.Float64().Draw(t, "score"),
		Payload: rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "payload"),
		Route:   rapid.Uint32Range(0, 3).Draw(t, "route"),
	}
	if rapid.Bool().Draw(t, "with metadata") {
		e.Metadata = rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "metadata")
	}
	if now := format.TimeOf(e.Score); rapid.Bool().Draw(t, "put off") && now != e.Due {
		e.Accepted = now // what else there may be is FuzzEntry's
	}
	return e
}

func (m *model) append(t *rapid.T) {
	list := make([]Entry, rapid.IntRange(0, 6).Draw(t, "n"))
	for i := range list {
		list[i] = drawEntry(t)
	}
	ticket, err := m.log.Append(t.Context(), list, nil)
	require.NoError(t, err)
	for i, e := range list {
		e.Position, e.Route = ticket.Position(i), 0
		m.now.live[e.Position] = e
	}
	wait := rapid.Bool().Draw(t, "wait") && len(list) > 0
	if wait {
		require.NoError(t, ticket.Wait(t.Context()))
	}
	m.did(wait)
}

func drawHistory(t *rapid.T) (h History) {
	for i := range rapid.IntRange(0, 6).Draw(t, "failures") {
		h = h.Add("no", Failure{Attempt: i, At: 1e9, Text: "yes"})
	}
	return h
}

// record draws one change: entries that end, states, burials, follow-ups.
func (m *model) record(t *rapid.T) {
	var c Change
	for range rapid.IntRange(0, 4).Draw(t, "ended") {
		if r, ok := m.pick(t, anything); ok {
			c.Ended = append(c.Ended, r)
			delete(m.now.live, r.Position())
		}
	}
	for retry := range rapid.IntRange(0, 2).Draw(t, "buried") {
		if r, ok := m.pick(t, isPayload); ok {
			b := Burial{Ref: r, Retry: retry, Reason: fmt.Sprint("reason ", r.Position()), At: int64(r.Position()), History: drawHistory(t), Crashed: rapid.Bool().Draw(t, "crashed")}
			c.Buried = append(c.Buried, b)
			m.now.morgue[r.Position()] = Buried{Entry: m.now.live[r.Position()], Retry: retry, Reason: b.Reason, At: b.At, History: b.History, Crashed: b.Crashed}
			delete(m.now.live, r.Position())
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "states") {
		e := drawEntry(t)
		c.States = append(c.States, JobState{Entry: Entry{
			Queue: e.Queue, ID: e.ID, Due: e.Due, Error: e.Payload, History: drawHistory(t),
			Retry:  rapid.IntRange(-1, 30).Draw(t, "retry"),
			Halted: rapid.Bool().Draw(t, "halted"), Crashed: rapid.Bool().Draw(t, "crashed"),
			Failed: rapid.SliceOfN(rapid.Map(rapid.Uint64(), func(u uint64) Position { return Position(u) }), 0, 3).Draw(t, "failed"),
		}})
	}
	rewritten := make(map[Position]Entry)
	for range rapid.IntRange(0, 2).Draw(t, "rewritten") {
		r, ok := m.pick(t, isPayload)
		if _, twice := rewritten[r.Position()]; ok && !twice && !r.Fresh() {
			e := m.now.live[r.Position()]
			e.Payload = drawEntry(t).Payload
			rewritten[r.Position()] = e
			c.Rewritten = append(c.Rewritten, Rewrite{Ref: r, Payload: e.Payload})
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "follow-ups") {
		c.FollowUps = append(c.FollowUps, drawEntry(t))
	}
	m.log.Record(&c)
	m.mu.Lock()
	for _, e := range c.FollowUps {
		e.Route = 0
		m.now.live[e.Position] = e
	}
	for _, r := range c.Rewritten {
		m.now.live[r.Ref.Position()] = rewritten[r.Ref.Position()]
		m.refs[r.Ref.Position()] = r.Ref
	}
	for _, s := range c.States {
		m.now.live[s.Entry.Position] = s.Entry
		m.refs[s.Entry.Position] = s.Ref
	}
	m.mu.Unlock()
	flush := rapid.Bool().Draw(t, "flush") || len(c.States) > 0 // a state's Ref is for use after its commit
	if flush {
		require.NoError(t, m.log.Flush(t.Context()))
	}
	m.did(flush)
}

func (m *model) restore(t *rapid.T) {
	ps := slices.Sorted(maps.Keys(m.now.morgue))
	if len(ps) == 0 {
		return
	}
	require.NoError(t, m.log.Flush(t.Context())) // found when the burial is durable
	p := rapid.SampledFrom(ps).Draw(t, "position")
	e := m.now.morgue[p].Entry
	delete(m.now.morgue, p)
	e.Accepted = e.AcceptedAt()
	e.Due, e.Restored = e.Due+7, true
	m.now.live[p] = written(e)
	// An image may hold the operation before the call has returned.
	m.did(false)
	require.NoError(t, m.log.Restore(t.Context(), e.Queue, []Position{p}, e.Due, func([]byte) uint32 { return 2 }))
	m.did(true)
}

// written is an entry as it is read back: a time of acceptance that is that of the
// score to a microsecond is told by it.
func written(e Entry) (back Entry) {
	d := format.Decoder{B: format.AppendEntry(nil, &e, true, 0, 0)}
	d.Entry(&back, 0, 0)
	back.Route = e.Route
	return back
}

// look reads every live entry by the first Ref that there was to it, and checks
// the accounts.
func (m *model) look(t *rapid.T) {
	m.mu.Lock()
	for p, want := range m.now.live {
		if r, delivered := m.refs[p]; delivered {
			var e Entry
			require.NoError(t, r.Read(&e))
			require.Equal(t, show(want), show(e))
		}
	}
	m.mu.Unlock()
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	live := 0
	for _, b := range m.log.chain.Blocks {
		live += b.Bytes
		require.LessOrEqual(t, len(b.Origins), b.Count, "nothing is kept for Refs that are gone")
	}
	require.Equal(t, live, m.log.chain.Live)
}

// reopen closes the log, checks what every commit left, and continues from one
// of these: the last one is a proper end, any other one a crash.
func (m *model) reopen(t *rapid.T) {
	require.NoError(t, m.log.Close())
	m.acked = len(m.history)
	m.committed() // what Close left
	from := 0
	for i := range m.images {
		from = m.images[i].find(t, m, from)
		m.images[i].acked = from + 1
	}
	require.Equal(t, m.history[from].text, m.now.String(), "Close commits everything")
	chosen := m.images[rapid.IntRange(0, len(m.images)-1).Draw(t, "crash")]
	m.now = m.history[chosen.acked-1].moment().expected
	m.open, m.log = chosen.open, nil
	m.start(t)
}

// find returns which operation was the last one that the image holds: one at or
// after from, and no acknowledged one is missing.
func (i image) find(t require.TestingT, m *model, from int) int {
	history := m.history
	log, err := i.open(m.with(Config{}))
	require.NoError(t, err)
	found, _ := contents(t, log)
	require.NoError(t, log.Close())
	for k := max(from, i.acked-1); k < len(history); k++ {
		if history[k].text == found {
			return k
		}
	}
	require.Fail(t, "a commit left what no prefix of the operations makes", "%d operations were acknowledged\n%s", i.acked, found)
	return 0
}

func (m *model) run(t *rapid.T) {
	m.now = newExpected()
	m.start(t)
	defer func() {
		if m.log != nil {
			_ = m.log.Close()
		}
	}()
	_, err := m.log.Queue(t.Context(), "the queue")
	require.NoError(t, err)
	t.Repeat(map[string]func(*rapid.T){
		"append": m.append, "append more": m.append,
		"record": m.record, "record more": m.record,
		"restore": m.restore, "reopen": m.reopen, "": m.look,
	})
	m.reopen(t)
}

// onMemory continues on a disk, which is a private copy.
func (m *model) onMemory(disk *Memory) func(Config) (*Log, error) {
	return func(cfg Config) (*Log, error) {
		d := disk.Crash()
		l, err := OpenMemory(d, cfg)
		if cfg.Deliver != nil {
			m.snap = func() func(Config) (*Log, error) { return m.onMemory(d.Crash()) }
			d.OnCommit(m.committed)
		}
		return l, err
	}
}

func TestModel(t *testing.T) {
	rapidFor(t, 40, 5000)
	rapid.Check(t, func(t *rapid.T) {
		m := &model{with: tight}
		m.open = m.onMemory(new(Memory))
		m.run(t)
	})
}

func TestModelWithoutMemory(t *testing.T) {
	rapidFor(t, 40, 5000)
	rapid.Check(t, func(t *rapid.T) {
		m := &model{with: func(c Config) Config { return frugal(tight(c)) }}
		m.open = m.onMemory(new(Memory))
		m.run(t)
	})
}
