package executortest

import (
	"sync"
	"time"

	"github.com/strandjobs/strand/journal"
)

// Disk is that of an executor under test, with faults on demand. It is in memory, and
// survives the lives of the executor. [Open] makes it. With Config.OpenLog its methods have no effect.
// Any goroutine may call them.
type Disk struct {
	// mu guards what follows. No user code is called under it.
	mu       sync.Mutex
	memory   *journal.Memory // of the present life
	image    *journal.Memory // what a kill has left; nil: the executor lives
	slow     time.Duration
	hurry    chan struct{} // closed when no commit of this life takes its time any more
	fails    bool          // the test has asked for a failure
	onCommit func()        // see OnCommit
}

// Full has the disk take about so many bytes of payloads more, and then no other: calls
// return ErrFull. There is room for the results of some hundred jobs beyond. Where a call of more
// than 32 KiB waits, it takes less: see package journal on what is kept for such. A disk that
// has become full, or has room again, is found out within a second: see
// [Executor.Advance].
func (d *Disk) Full(bytes int) { locked(&d.mu, func() { d.memory.Fill(max(bytes, 0), 64<<10) }) }

// NoRoom has the disk take nothing more: not even results, which wait for room.
func (d *Disk) NoRoom() { locked(&d.mu, func() { d.memory.Limit(1) }) }

// HasRoom ends Full and NoRoom, as a new life of the executor does.
func (d *Disk) HasRoom() { locked(&d.mu, func() { d.memory.Limit(0) }) }

// Slow has each commit of this life take so long, until it is called again; 0: no time.
func (d *Disk) Slow(commit time.Duration) { locked(&d.mu, func() { d.slow = commit }) }

// FailCommit has the next commit fail with err, and with it the executor, which stays so
// until Crash or Restart: calls return ErrUnknown, and then ErrFailed.
func (d *Disk) FailCommit(err error) {
	locked(&d.mu, func() { d.fails = true; d.memory.FailNext(err) })
}

// OnCommit has f called after each commit, in this life and in later ones, before a
// caller learns of it and on the goroutine that commits: for faults between two commits,
// such as Kill, Full, HasRoom and FailCommit, which f may call. Nil ends it.
func (d *Disk) OnCommit(f func()) { locked(&d.mu, func() { d.onCommit = f; d.memory.OnCommit(f) }) }

// next makes it the disk of a new life: what a kill has left, or else a copy, because faults
// that have not come are of the old process.
func (d *Disk) next() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.image == nil {
		d.image = d.memory.Crash()
	}
	d.memory = d.image
}

// begin has the faults be those of a new life.
func (d *Disk) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.image, d.fails, d.hurry = nil, false, make(chan struct{})
	d.memory.OnCommit(d.onCommit)
	d.memory.BeforeCommit(d.beforeCommit)
}

// kill keeps what is on the disk now for the next life.
func (d *Disk) kill() { locked(&d.mu, func() { d.image = d.memory.Kill(errKilled); close(d.hurry) }) }

// toFail reports whether the test has asked for a failure.
func (d *Disk) toFail() (asked bool) {
	locked(&d.mu, func() { asked = d.fails || d.image != nil })
	return asked
}

// calm lets a life come to its end: commits take no time, and there is room.
func (d *Disk) calm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.slow = 0; d.image == nil {
		close(d.hurry)
	}
	d.memory.Limit(0)
}

// beforeCommit takes the time of a commit.
func (d *Disk) beforeCommit() {
	d.mu.Lock()
	slow, hurry := d.slow, d.hurry
	d.mu.Unlock()
	if slow <= 0 {
		return
	}
	select {
	case <-time.After(slow):
	case <-hurry:
	}
}
