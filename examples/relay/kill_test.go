package main

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestKills is what the service is for: webhooks come in over the network, one delivery of twenty fails, the process is
// killed again and again, once it is stopped in order, and the receiver finds each webhook, in the order of its customer,
// and twice only what was under way at a kill.
func TestKills(t *testing.T) {
	slow(t)
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM")
	}
	each, customers, kills := 15, 100, 3
	startsWithin := 5 * time.Second // on a machine that tests other packages meanwhile
	if os.Getenv("STRAND_LONG") == "1" {
		each, customers, kills = 40, 500, 6
		if !raceEnabled {
			startsWithin = time.Second
		}
	}
	total := each * customers
	moments, stop := make([]int, kills+1), rand.IntN(kills+1) // in webhooks accepted and delivered
	for i := range moments {
		moments[i] = rand.IntN(2 * total * 19 / 20)
	}
	slices.Sort(moments)

	r, s, journal := newReceiver(), &senders{}, filepath.Join(t.TempDir(), "journal")
	l := begin(t, journal, r)
	s.begin(t.Context(), l.url, each, customers)
	slowest, start := l.ready, time.Now()
	for i, moment := range moments {
		for int(s.accepted.Load())+r.progress() < moment {
			time.Sleep(time.Millisecond)
		}
		if i == stop {
			l.stop()
		} else {
			l.kill(r)
		}
		t.Logf("%v with %d accepted and %d delivered; it said:\n%s", l.cmd.ProcessState, s.accepted.Load(), r.progress(), &l.stderr)
		l = begin(t, journal, r)
		s.url.Store(&l.url)
		slowest = max(slowest, l.ready)
	}
	s.all.Wait()
	assert.Eventually(t, func() bool { return r.progress() == total || r.verdict() != "" }, time.Minute, 10*time.Millisecond, "not all have arrived")
	require.Empty(t, r.verdict())
	took := time.Since(start)
	require.Eventually(t, func() bool { return l.left().Jobs == 0 }, time.Minute, 10*time.Millisecond)
	assert.Zero(t, l.left().Dead, "in the morgue")
	l.stop()

	l = begin(t, journal, r)
	assert.Zero(t, l.left().Jobs, "what was done before the stop is over")
	l.stop()
	require.Empty(t, r.verdict())
	for name, c := range r.customers {
		require.Len(t, c.taken, each+1, name)
	}
	assert.Len(t, r.customers, customers)
	assert.Less(t, slowest, startsWithin, "from the start of the process until it was ready")
	t.Logf("%d webhooks in %v, %d kills, %d calls made again, %d refusals; again after a kill: %v, answered at most %v before it; ready within %v",
		total, took.Round(time.Millisecond), kills, s.lost.Load(), r.refused, r.again, r.oldest.Round(time.Microsecond), slowest.Round(time.Millisecond))
}

// slow leaves a test that takes seconds to .ci/run, which sets CI, and to those who name tests.
func slow(t *testing.T) {
	t.Helper()
	if flag.Lookup("test.run").Value.String() == "" && os.Getenv("CI") == "" && os.Getenv("STRAND_LONG") == "" {
		t.Skip("takes seconds: CI=1 makes it")
	}
}
