// Package journaltest holds the contract of a journal as tests: what the
// package comment of journal promises, checked on any disk that a journal can
// be kept on.
//
// The tests use what is exported only, and no clock. They open every journal
// again, as a crash would leave it, and look at what is there.
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// Disk is something that a journal can be kept on.
type Disk interface {
	// Open opens the journal, or creates it.
	Open(cfg journal.Config) (*journal.Log, error)

	// Crash returns a copy of the disk as a crash at this moment would leave
	// it. No commit may be under way.
	Crash(t testing.TB) Disk
}

// Faults are what a Disk has besides if its next commits can be made to fail, as with
// [journal.Memory.FailNext].
type Faults interface {
	FailNext(errs ...error)
	OnCommit(f func())
}

// Dir is a journal in the directory of that name.
type Dir string

func (d Dir) Open(cfg journal.Config) (*journal.Log, error) { return journal.Open(string(d), cfg) }

func (d Dir) Crash(t testing.TB) Disk {
	copied := Dir(t.TempDir())
	for _, name := range []string{"journal.db", "journal.wal"} {
		b, err := os.ReadFile(filepath.Join(string(d), name))
		if name == "journal.wal" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(string(copied), name), b, 0o600))
	}
	return copied
}

// Memory is a journal on a disk in memory.
type Memory struct{ *journal.Memory }

func (m Memory) Open(cfg journal.Config) (*journal.Log, error) {
	return journal.OpenMemory(m.Memory, cfg)
}

func (m Memory) Crash(testing.TB) Disk { return Memory{m.Memory.Crash()} }

// contract is what holds on each disk, part by part.
var contract = map[string]func(*testing.T, Disk){
	"order/positions are dense":             opened(testPositionsDense),
	"order/positions of many appenders":     opened(testPositionsConcurrent),
	"order/deliveries by route":             opened(testDeliveryOrder),
	"order/durable before delivered":        opened(testDurableBeforeDelivered),
	"order/wait for the consumer":           opened(testWaitForConsumer),
	"order/wait for no other consumer":      opened(testWaitForNoOther),
	"order/merged reaches the ticket":       opened(testMerged),
	"reopen/the living come back in order":  opened(testReopenLive),
	"reopen/states":                         opened(testReopenStates),
	"reopen/queue numbers":                  opened(testReopenQueues),
	"reopen/positions are never used twice": opened(testReopenPositions),
	"reopen/epoch grows":                    opened(testReopenEpoch),
	"reopen/fields":                         opened(testReopenFields),
	"reopen/unclaimed queues":               opened(testReopenUnclaimed),
	"morgue/burial is one commit":           opened(testBurial),
	"morgue/exhumed is one commit":          opened(testExhumed),
	"morgue/restore":                        opened(testRestore),
	"morgue/restore together":               opened(testRestoreTogether),
	"morgue/restore all or none":            opened(testRestoreAllOrNone),
	"morgue/a list longer than a page":      opened(testMorgueLong),
	"morgue/loop that restores":             opened(testMorgueLoop),
	"morgue/restore heeds its context":      opened(testRestoreContext),
	"morgue/buried and restored again":      opened(testBuriedAgain),
	"morgue/restored before it is back":     opened(testRestoreSlowConsumer),
	"close/commits what was accepted":       opened(testCloseCommits),
	"close/against appenders":               testCloseRace,
	"close/everything is refused":           opened(testClosed),
	"flush":                                 opened(testFlush),
	"limits/context ended before":           opened(testContextBefore),
	"limits/append waits for room":          testRoom,
	"limits/too large":                      opened(testTooLarge),
	"limits/larger than a block":            testLargerThanBlock,
	"limits/nothing":                        opened(testAppendNothing),
	"limits/names of queues":                opened(testQueueNames),
	"limits/entries may be reused":          opened(testEntriesReused),
	"limits/payloads are read only":         opened(testPayloadCapacity),
	"trim/first in first out":               opened(testTrimFIFO),
	"trim/one old job among many":           opened(testTrimOneOld),
	"trim/random completion":                opened(testTrimRandom),
	"trim/a few large among small":          opened(testTrimLarge),
	"trim/slow consumer":                    opened(testTrimSlowConsumer),
	"trim/ended while it was carried":       opened(testTrimEndedMeanwhile),
	"faults/a failed commit latches":        withFaults(testLatch),
	"faults/a commit that fails at close":   withFaults(testLatchAtClose),
	"faults/full disk":                      withFaults(testFull),
	"faults/full disk refuses all waiting":  withFaults(testFullWaiting),
	"faults/full disk at close":             withFaults(testFullAtClose),
	"faults/full disk and the morgue":       withFaults(testFullMorgue),
	"faults/open fails":                     withFaults(testOpenFails),
	"copy/of a log at rest":                 opened(testCopy),
	"copy/of a log at work":                 opened(testCopyRunning),
	"copy/where something is":               opened(testCopyExists),
	"copy/of an empty journal":              testCopyEmpty,
}

// Run runs the contract, or only these of its tests. open returns an empty disk each
// time it is called.
func Run(t *testing.T, open func(t *testing.T) Disk, only ...string) {
	for _, name := range slices.Sorted(maps.Keys(contract)) {
		if len(only) == 0 || slices.Contains(only, name) {
			t.Run(name, func(t *testing.T) { contract[name](t, open(t)) })
		}
	}
}

// opened is a test of a log that is open, as start leaves it.
func opened(test func(*testing.T, *fixture)) func(*testing.T, Disk) {
	return func(t *testing.T, disk Disk) { test(t, start(t, disk)) }
}

// Got is an entry that a consumer was given.
type Got struct {
	Ref   journal.Ref
	Entry journal.Entry
}

// fixture is a log with one consumer that keeps what it is given.
type fixture struct {
	*journal.Log
	t     *testing.T
	disk  Disk
	queue uint32

	// take is called with each delivery and has to call its Done, which is all that it
	// does unless a test sets it. It runs on the committer's goroutine.
	take func(*journal.Delivery)

	mu  sync.Mutex
	got map[uint32][]Got // by route, in the order of delivery
}

const queueName = "orders"

// start opens the journal on disk with a consumer, and makes a queue.
func start(t *testing.T, disk Disk, change ...func(*fixture, *journal.Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, disk: disk, take: (*journal.Delivery).Done, got: make(map[uint32][]Got)}
	cfg := journal.Config{Deliver: f.deliver}
	for _, c := range change {
		c(f, &cfg)
	}
	var err error
	f.Log, err = disk.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() }) // most tests have looked at its error before
	if f.Err() == nil {
		f.queue, err = f.Queue(t.Context(), queueName)
		require.NoError(t, err)
	}
	return f
}

// again closes the log and opens its journal anew.
func (f *fixture) again() *fixture {
	f.t.Helper()
	require.NoError(f.t, f.Close())
	return start(f.t, f.disk)
}

// crashed opens what a crash at this moment would leave.
func (f *fixture) crashed() *fixture {
	f.t.Helper()
	return start(f.t, f.disk.Crash(f.t))
}

// lasting yields the log as it is, as a crash now would leave it, and opened anew.
func (f *fixture) lasting(yield func(*fixture) bool) {
	crashed := f.crashed()
	_ = yield(f) && yield(crashed) && yield(f.again())
}

func (f *fixture) deliver(d *journal.Delivery) {
	f.mu.Lock()
	for i := range d.Len() {
		var g Got
		g.Ref = must(d.Read(i, &g.Entry))
		f.got[d.Route] = append(f.got[d.Route], g)
	}
	f.mu.Unlock()
	f.take(d)
}

// must is for deliveries: they are not on the test's goroutine.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// entries returns n entries, numbered from `from` on, with payloads of size bytes.
func (f *fixture) entries(from, n, size int) []journal.Entry {
	list := make([]journal.Entry, n)
	for i := range list {
		list[i] = journal.Entry{Queue: f.queue, ID: fmt.Appendf(nil, "id-%d", from+i), Payload: payload(from+i, size), Due: int64(from + i)}
	}
	return list
}

// payload is recognisable: no other number has the same.
func payload(number, size int) []byte {
	b := fmt.Appendf(nil, "payload %d ", number)
	for len(b) < size {
		b = append(b, byte(len(b)*7+number))
	}
	return b
}

// post appends, and does not wait.
func (f *fixture) post(list ...journal.Entry) journal.Ticket {
	f.t.Helper()
	ticket, err := f.Append(f.t.Context(), list, nil)
	require.NoError(f.t, err)
	return ticket
}

// append appends and waits.
func (f *fixture) append(list ...journal.Entry) journal.Ticket {
	f.t.Helper()
	ticket := f.post(list...)
	require.NoError(f.t, ticket.Wait(f.t.Context()))
	return ticket
}

// end records entries as ended and waits for the commit.
func (f *fixture) end(refs ...journal.Ref) {
	f.t.Helper()
	f.record(journal.Change{Ended: refs})
}

func (f *fixture) record(c journal.Change) {
	f.t.Helper()
	f.Record(&c)
	require.NoError(f.t, f.Flush(f.t.Context()))
}

// taken returns what was delivered on route 0 so far.
func (f *fixture) taken() []Got {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.got[0])
}

// pending reads what the queue had when the journal was opened.
func (f *fixture) pending() []journal.Entry {
	list := []journal.Entry{}
	for _, r := range slices.Concat(f.PendingPages(f.queue)...) {
		list = append(list, f.read(r))
		require.Equal(f.t, r.Position(), list[len(list)-1].Position)
	}
	return list
}

func (f *fixture) read(r journal.Ref) (e journal.Entry) {
	f.t.Helper()
	require.NoError(f.t, r.Read(&e))
	return e
}

// restore puts dead letters back, on route 5.
func (f *fixture) restore(ps ...journal.Position) error {
	return f.Restore(f.t.Context(), f.queue, ps, 0, toRoute(5))
}

func (f *fixture) morgue() (list []journal.Buried) {
	for b, err := range f.Morgue(f.queue, 0) {
		require.NoError(f.t, err)
		list = append(list, b)
	}
	require.Equal(f.t, len(list), f.Buried(f.queue))
	require.Equal(f.t, len(list), f.Listed(f.queue))
	return list
}

func refsOf(got []Got) []journal.Ref { return each(got, func(g Got) journal.Ref { return g.Ref }) }

func entriesOf(got []Got) []journal.Entry {
	return each(got, func(g Got) journal.Entry { return g.Entry })
}

func positionsOf(list []journal.Entry) []journal.Position {
	return each(list, func(e journal.Entry) journal.Position { return e.Position })
}

// each returns what f makes of each of a list. It is not nil, as no list of entries is that was read.
func each[T, U any](list []T, f func(T) U) []U {
	made := make([]U, len(list))
	for i := range list {
		made[i] = f(list[i])
	}
	return made
}

// ended returns a context that has ended.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// Frugal is a disk whose logs let everything go from memory that is on it.
type Frugal struct{ Disk }

func (f Frugal) Open(cfg journal.Config) (*journal.Log, error) {
	cfg.MemoryBudget = 1
	return f.Disk.Open(cfg)
}

func (f Frugal) Crash(t testing.TB) Disk { return Frugal{f.Disk.Crash(t)} }
