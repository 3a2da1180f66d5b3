//go:build unix

package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// Every row is taken in once, and everything runs in order, when owners die at random moments:
// their connections are cut and they are left alone, with what they hold.
func TestRowsAreTakenInOnceWhoeverDies(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 3, 300*time.Millisecond)
	producer := c.node(c.url) // it owns nothing

	over := make(chan struct{})
	var dying sync.WaitGroup
	var deaths atomic.Int64
	dying.Go(func() {
		for {
			proxy := NewProxy(t, s.Addr())
			n := c.start(proxy.URL(c.url))
			select {
			case <-over:
				_ = n.front.Stop(context.Background())
				return
			case <-time.After(time.Duration(50+rand.IntN(500)) * time.Millisecond):
			}
			if rand.IntN(2) == 0 { // in the middle of something
				proxy.CutAfter(int64(rand.IntN(5000)))
				time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
			}
			proxy.Refuse()
			proxy.Cut()
			deaths.Add(1)
			dying.Go(n.kill)
		}
	})

	const callers = 8
	want := make(map[string]int)
	var mu sync.Mutex
	var calling sync.WaitGroup
	end := time.Now().Add(time.Duration(times(2, 30)) * time.Second)
	for i := range callers {
		id := fmt.Sprintf("id %d", i)
		calling.Go(func() {
			k := 0
			for time.Now().Before(end) || deaths.Load() < int64(times(2, 30)) {
				k++
				_, err := producer.q.Enqueue(t.Context(), id, k)
				if !assert.NoError(t, err) {
					return
				}
			}
			mu.Lock()
			want[id] = k
			mu.Unlock()
		})
	}
	calling.Wait()
	last := c.start(c.url)
	c.await(want)
	close(over)
	dying.Wait()
	require.Eventually(t, func() bool { return c.rows(last) == 0 }, time.Minute, 10*time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for _, n := range want {
		total += n
	}
	require.Empty(t, c.wrong[:min(len(c.wrong), 5)])
	require.Len(t, c.positions, total)
	t.Logf("%d calls, %d deaths, %d repeats", total, deaths.Load(), c.repeats)
}

// A flush whose answer is lost is made again, and is there once.
func TestAFlushWithoutAnAnswerIsThereOnce(t *testing.T) {
	third(t, 0)
	t.Parallel()
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 2, 10*time.Second) // it is not lost on a busy machine
	proxy := NewProxy(t, s.Addr())
	producer := c.node(proxy.URL(c.url))
	owner := c.start(c.url)
	c.serving(owner)
	const calls = 60
	for k := 1; k <= calls; k++ {
		switch k % 8 { // in between the connections are made anew, and statements prepared
		case 3, 5, 7:
			proxy.CutAnswer() // what was put is there, and may be taken in before it is asked about
		case 0:
			proxy.CutAfter(int64(rand.IntN(400)))
		}
		_, err := producer.q.Enqueue(t.Context(), "a", k)
		require.NoError(t, err)
		if k%8 == 0 {
			proxy.Heal()
		}
		time.Sleep(2 * time.Millisecond) // for the hint, which has no answer to lose
	}
	c.await(map[string]int{"a": calls})
	require.Eventually(t, func() bool { return c.rows(owner) == 0 }, time.Minute, 10*time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Zero(t, c.repeats)
	require.Len(t, c.ran["a"], calls)
}

// A row that is put again is not there again, whether it waits or was taken.
func TestPutAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	n := c.node(c.url)
	r := rowsOf([]*outCall{{parts: map[place][]byte{{0, "q"}: encodeCall([]item{{ID: "a", Payload: []byte("1")}})}}})
	put := func() {
		_, err := n.pool.Exec(t.Context(), n.texts["put"], r.partitions, r.queues, r.calls, r.tokens, nil)
		require.NoError(t, err)
	}
	put()
	put()
	require.Equal(t, 1, c.rows(n))
	require.NoError(t, n.front.Start(t.Context()))
	c.await(map[string]int{"a": 1})
	require.Eventually(t, func() bool { return c.rows(n) == 0 }, time.Minute, 10*time.Millisecond)
	put()
	require.Zero(t, c.rows(n))
}

// A caller whose ctx ends hears whether that may have been accepted.
func TestACallerWhoGivesUp(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	c := newCluster(t, s.URL(), 1, time.Second)
	proxy := NewProxy(t, s.Addr())
	n := c.node(proxy.URL(c.url))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.q.Enqueue(ended, "a", 1)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, executor.ErrUnknown)
	proxy.Swallow()
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = n.q.Enqueue(short, "a", 1)
	require.ErrorIs(t, err, executor.ErrUnknown)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	proxy.Heal()
	require.Eventually(t, func() bool { return c.rows(n) == 1 }, time.Minute, 10*time.Millisecond, "it was accepted in time")
}

const childURL = "STRAND_TEST_CHILD"

// TestChild is the process that is stopped and killed.
func TestChild(t *testing.T) {
	with := strings.Split(os.Getenv(childURL), "|")
	if len(with) < 3 {
		t.Skip("it is a part of the tests that stop and kill a process")
	}
	lease, err := time.ParseDuration(with[2])
	require.NoError(t, err)
	n, err := openNode(t.Context(), with[0], Config{Schema: with[1], Lease: lease, SingleServer: true})
	require.NoError(t, err)
	_, err = executor.Handle(n.front, "q", func(ctx context.Context, job executor.Job[int]) error {
		fmt.Println("runs", job.Payload)
		select {
		case <-ctx.Done():
			fmt.Println("ended", errors.Is(context.Cause(ctx), ErrLeaseLost), context.Cause(ctx))
		case <-time.After(time.Minute):
		}
		return nil
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, n.front.Start(t.Context()))
	select {}
}

// A process that is paused for longer than its lease finds, when it goes on, that it is no
// owner: its handler's context ends with the cause, and it commits nothing. When it is killed the
// other one goes on.
func TestAPausedOwnerCommitsNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 1, time.Second)
	child, says := c.child()
	producer := c.node(c.url)
	_, err := producer.q.Enqueue(t.Context(), "a", 1)
	require.NoError(t, err)
	says("runs 1")
	require.NoError(t, child.Process.Signal(syscall.SIGSTOP))

	next := c.start(c.url)
	c.serving(next)
	c.await(map[string]int{"a": 1})
	row := func() (text string) {
		require.NoError(t, next.pool.QueryRow(t.Context(), in(c.schema, "SELECT concat(number, ' ', epoch, ' ', md5(manifest)) FROM {schema}.tail")).Scan(&text))
		return text
	}
	tx, err := connect(t, c.url).Begin(t.Context()) // in which nobody acquires the partition
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), in(c.schema, "SELECT FROM {schema}.lease FOR UPDATE"))
	require.NoError(t, err)
	before := settled(t, row)
	require.NoError(t, child.Process.Signal(syscall.SIGCONT))
	says("ended true")
	require.Never(t, func() bool { return before != row() }, 300*time.Millisecond, 20*time.Millisecond)
	require.NoError(t, child.Process.Kill())
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = producer.q.Enqueue(t.Context(), "a", 2)
	require.NoError(t, err)
	c.await(map[string]int{"a": 2}) // whoever had it when the child died
}

// child starts a process that is a node. says waits for a line of it.
func (c *nodes) child() (child *exec.Cmd, says func(want string)) {
	t := c.t
	t.Helper()
	child = exec.Command(os.Args[0], "-test.run", "^TestChild$", "-test.v")
	child.Env = append(os.Environ(), childURL+"="+c.url+"|"+c.schema+"|"+c.lease.String())
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	says = func(want string) {
		t.Helper()
		for line := range lines {
			if strings.Contains(line, want) {
				return
			}
		}
		t.Fatalf("the child never said %q", want)
	}
	return child, says
}

// What a process has that is killed is another's soon: within five seconds of the default lease, on a
// machine that has time for it.
func TestAKilledOwnerIsFollowed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Shared(t).URL(), 16, defaultLease)
	child, says := c.child()
	producer := c.node(c.url)
	const ids = 4 // most partitions have none, and are given away while handlers run
	for i := range ids {
		_, err := producer.q.Enqueue(t.Context(), fmt.Sprint("id ", i), 1)
		require.NoError(t, err)
	}
	says("runs 1")
	next := c.start(c.url)
	require.Eventually(t, func() bool { return len(next.Partitions()) > 0 }, time.Minute, 5*time.Millisecond)
	began := time.Now()
	require.NoError(t, child.Process.Kill())
	c.serving(next)
	took := time.Since(began)
	t.Logf("followed in %v", took)
	require.Less(t, took, 30*time.Second)
	want := make(map[string]int)
	for i := range ids {
		want[fmt.Sprint("id ", i)] = 1
	}
	c.await(want)
}
