package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

const slack = 25 * time.Millisecond

// Nothing starts early. What was put off for a hundred slacks is late by less than
// one, and everything else on time, whatever waits beside it.
func TestHowLateASlackMakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pauses := []time.Duration{1, 5 * time.Millisecond, time.Second, patience*slack - 1, 2 * patience * slack, time.Minute}
		pause := func() time.Duration { return time.Duration(rand.Int64N(1 + int64(pauses[rand.IntN(len(pauses))]))) }
		type wait struct{ from, due time.Time }
		var mu sync.Mutex
		waits := map[string]wait{}
		runs, late := 0, 0
		h := newHouse(t, 4, 8, Config{Slack: slack, MaxRetries: 5}, func(it *Item) Outcome {
			mu.Lock()
			defer mu.Unlock()
			w, now := waits[it.ID], time.Now()
			runs++
			switch by := now.Sub(w.due); {
			case by < 0:
				t.Errorf("%s is %v early", it.ID, -by)
			case by > 0 && w.due.Sub(w.from) < patience*slack:
				t.Errorf("%s is %v late, after a pause of %v", it.ID, by, w.due.Sub(w.from))
			case by >= slack:
				t.Errorf("%s is %v late", it.ID, by)
			case by > 0:
				late++
			}
			if it.Retry > 1 || rand.IntN(2) == 0 {
				return Outcome{Verdict: VerdictDone}
			}
			d := pause()
			waits[it.ID] = wait{now, now.Add(d)}
			return Outcome{Verdict: VerdictFailed, Delay: d}
		})
		for i := range 1000 {
			id := fmt.Sprintf("%c%d", 'a'+i%4, i)
			now := time.Now()
			w := wait{now, now.Add(pause())}
			mu.Lock()
			waits[id] = w
			mu.Unlock()
			h.put(id, "", w.due)
			time.Sleep(time.Duration(rand.Int64N(int64(slack))))
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Zero(t, h.counts().Jobs)
		require.Greater(t, runs, 1000)
		require.NotZero(t, late, "a slack was used")
		h.close()
	})
}

// Jobs of several shards that are due within a slack start at one moment.
func TestSlackBringsJobsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		starts := map[time.Time]int{}
		h := newHouse(t, 4, 8, Config{Slack: slack}, func(*Item) Outcome {
			mu.Lock()
			defer mu.Unlock()
			starts[time.Now()]++
			return Outcome{Verdict: VerdictDone}
		})
		first := time.Now().Add(time.Hour)
		for i := range 1000 {
			h.put(fmt.Sprintf("%c%d", 'a'+i%4, i), "", first.Add(time.Duration(i)*time.Millisecond+1))
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		require.Len(t, starts, int(time.Second/slack))
		for at, n := range starts {
			require.Equal(t, int(slack/time.Millisecond), n, "at %v", at.Sub(first))
		}
		h.close()
	})
}

func TestNextWake(t *testing.T) {
	now := int64(20*year) / int64(slack) * int64(slack)
	for name, row := range map[string]struct {
		slack    time.Duration
		due      []int64
		wantWake int64
	}{
		"nothing waits":     {slack, nil, math.MaxInt64},
		"no slack":          {0, []int64{now + int64(time.Hour) + 1}, now + int64(time.Hour) + 1},
		"patient":           {slack, []int64{now + int64(time.Hour) + 1}, now + int64(time.Hour+slack)},
		"at the instant":    {slack, []int64{now + int64(time.Hour)}, now + int64(time.Hour)},
		"prompt":            {slack, []int64{now + int64(time.Second) + 1}, now + int64(time.Second) + 1},
		"before a prompt":   {slack, []int64{now + patience*int64(slack) + 1, now + patience*int64(slack) - 1}, now + patience*int64(slack) - 1},
		"in the far future": {slack, []int64{farFuture - 1}, farFuture - 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, Config{Slack: row.slack}, 1)
			c := g.cores[0]
			c.Tick(now)
			for i, due := range row.due {
				g.put(journal.Entry{ID: fmt.Append(nil, i), Due: due})
			}
			require.Equal(t, row.wantWake, c.nextWake())
			g.close()
		})
	}
}

// A short pause before a retry goes along with the clock, and has no slack
// afterwards.
func TestNextWakeAfterTheClockIsSet(t *testing.T) {
	for _, step := range steps {
		t.Run(step.String(), func(t *testing.T) {
			now := int64(20 * year)
			g := newRig(t, Config{Slack: slack, MaxRetries: 5}, 1)
			c := g.cores[0]
			c.Tick(now)
			g.put(journal.Entry{ID: []byte("a"), Due: now})
			r := c.NewRun()
			require.True(t, c.Take(now, r))
			require.True(t, r.Items[0].start(0))
			r.Items[0].Outcome = Outcome{Verdict: VerdictFailed, Delay: time.Second + 1}
			c.Finish(now, r)
			c.Record(g)
			c.stepClock(now, int64(step))
			require.Equal(t, now+int64(step+time.Second)+1, c.nextWake())
			g.close()
		})
	}
}
