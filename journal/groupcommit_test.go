package journal

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/store"
)

// slowDisk is one whose commits take so long.
func slowDisk(commit time.Duration) *Memory {
	disk := new(Memory)
	disk.OnCommit(func() { time.Sleep(commit) })
	return disk
}

// openSlow opens a log whose entries end as soon as they are delivered, and
// which counts its commits.
func openSlow(t *testing.T, commit time.Duration) (l *Log, commits func() uint64) {
	ended := make(chan Change, 1000)
	l, err := OpenMemory(slowDisk(commit), Config{Deliver: func(d *Delivery) {
		var e Entry
		var c Change
		for i := range d.Len() {
			c.Ended = append(c.Ended, must(d.Read(i, &e)))
		}
		ended <- c
		d.Done()
	}})
	require.NoError(t, err)
	go func() { // as a shard would, on a goroutine of its own
		for c := range ended {
			l.Record(&c)
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		close(ended)
	})
	return l, func() uint64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.manifest.Seq
	}
}

// appendOnce is what a caller does who enqueues one job and waits.
func appendOnce(t *testing.T, l *Log) {
	ticket, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("id")}}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
}

// Those who were woken together are in the next commit together, with the
// results of what they had enqueued before.
func TestCallersShareCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, rounds = 8, 100
		l, commits := openSlow(t, time.Millisecond)
		before := commits()
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for range rounds {
					appendOnce(t, l)
				}
			})
		}
		group.Wait()
		// They need a few to find together.
		require.Less(t, commits()-before, uint64(rounds+5))
	})
}

// Who does not come back is waited for in vain, and that seldom.
func TestCallersWhoDoNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds = 200
		l, _ := openSlow(t, time.Millisecond)
		var took time.Duration
		for range rounds {
			for range 3 { // that append once
				go appendOnce(t, l)
			}
			time.Sleep(100 * time.Microsecond)
			start := time.Now()
			appendOnce(t, l)
			took += time.Since(start)
			time.Sleep(20 * time.Millisecond)
		}
		require.Less(t, took, rounds*5*time.Millisecond/2)
	})
}

// A wait ends when no producer can append for want of room in the block.
func TestNobodyWaitsForTheCommitterWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := openSlow(t, time.Millisecond)
		l.cfg.MaxBlockBytes = 1 << 10
		l.committing.Lock() // both in one block
		for range 2 {
			_, err := l.Append(t.Context(), []Entry{{Queue: 1, ID: []byte("id")}}, nil)
			require.NoError(t, err)
		}
		l.committing.Unlock()
		time.Sleep(time.Millisecond) // their commit is over
		synctest.Wait()
		posted, start := make([]byte, 700), time.Now()
		for range 2 {
			_, err := l.Post(t.Context(), []Entry{{Queue: 1, ID: []byte("id"), Payload: posted}}, nil)
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(start))
	})
}

func TestCloseEndsTheWaitForCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := openSlow(t, time.Millisecond)
		appendOnce(t, l)
		synctest.Wait()
		start := time.Now()
		require.NoError(t, l.Close())
		require.Equal(t, time.Millisecond, time.Since(start)) // the results
	})
}

// takingTurns is a disk with others beside it: who takes the token may commit.
type takingTurns struct {
	store.Store
	token chan struct{}
}

func (s *takingTurns) Turn() (over func()) {
	<-s.token
	return func() { s.token <- struct{}{} }
}

func (s *takingTurns) Now() time.Time { return time.Now() }

// What comes while others have the turn is in one block. Who has nothing to commit does
// without it.
func TestLogsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &takingTurns{new(store.Memory), make(chan struct{}, 1)}
		s.token <- struct{}{}
		l, err := openOn(s, Config{}, false)
		require.NoError(t, err)
		before := l.Stats().Commits
		appendOnce(t, l)
		require.Equal(t, before+1, l.Stats().Commits)
		synctest.Wait()
		<-s.token
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() { appendOnce(t, l) })
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		require.Equal(t, before+1, l.Stats().Commits)
		require.Equal(t, time.Minute, l.Stats().CommitAge, "it waits")
		s.token <- struct{}{}
		group.Wait()
		synctest.Wait()
		require.Equal(t, before+2, l.Stats().Commits)
		<-s.token
		require.NoError(t, l.Close())
	})
}
