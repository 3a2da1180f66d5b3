package unique

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/lock"
)

// A lease elsewhere may be overdue when a job gets its own: whoever looks at that next wakes the job
// that waits for the first one, and holds no mutex meanwhile.
func TestAJobGetsItsLeaseWhileAnotherIsOverdue(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that the timer of the table is late
	c := &Condition{Leases: new(Leases)}
	wake := func() { // as that of a place does
		c.mu.Lock()
		defer c.mu.Unlock()
	}
	got := make(chan error, 1)
	go func() {
		_, err := c.Table.TryAcquire(lock.Options{TTL: time.Millisecond}, "a")
		assigned, _ := c.Table.Queue(lock.Options{}, nil, "b")
		_, _ = c.Table.Queue(lock.Options{}, wake, "a")
		for began := time.Now(); err == nil && time.Since(began) < 2*time.Millisecond; {
		}
		cl := &admit.Claim{By: admit.Owner{Queue: "q", ID: "b"}}
		if err == nil {
			_, err = c.await(&place{assigned, cl}, cl)
		}
		got <- err
	}()
	select {
	case err := <-got:
		require.NoError(t, err)
	case <-time.After(5 * time.Second):
		t.Fatal("it waits for itself")
	}
}
