package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

// point is one of a chart; without rates it draws none.
type point struct {
	At    int64
	Rates *struct{ Processed, Failed, Commit float64 }
}

// told is what a page is told of the figures that move.
type told struct {
	Past  []point
	Cells map[string]string
	Shape string
}

// live asks as a page does that has the samples up to one.
func (s site) live(after int64) (a told) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal([]byte(s.get(fmt.Sprint("live?after=", after))), &a))
	return a
}

func TestLiveFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
		s := mount(t, x, dashboard.Config{})
		first := s.live(0)
		require.Len(t, first.Past, 1)
		require.Equal(t, "0", first.Cells["enqueued"])
		enqueue(t, q, "a", "")
		enqueue(t, q, "b", "")
		time.Sleep(time.Second / 2)
		same := s.live(first.Past[0].At)
		require.Empty(t, same.Past, "they are taken once a second, for all pages")
		require.Equal(t, "0", same.Cells["enqueued"])
		time.Sleep(time.Second / 2)
		second := s.live(first.Past[0].At)
		require.Len(t, second.Past, 1)
		require.Equal(t, "2", second.Cells["enqueued"])
		require.Equal(t, first.Shape, second.Shape)
		queue(t, x, "late", nil, executor.QueueConfig[string]{})
		require.NoError(t, x.Start(t.Context()))
		time.Sleep(time.Second)
		third := s.live(second.Past[0].At)
		require.Equal(t, "2", third.Cells["processed"])
		require.NotEqual(t, first.Shape, third.Shape, "there is a row more")
		require.Len(t, s.live(0).Past, 3, "a page that comes later begins with what was")
		for range 300 {
			time.Sleep(time.Second)
			s.live(0)
		}
		require.Len(t, s.live(0).Past, 300)
		s.refused(http.StatusBadRequest, http.MethodGet, "live?after=x", nil)
		require.NoError(t, x.Stop(t.Context()))
		s.refused(http.StatusServiceUnavailable, http.MethodGet, "live", nil)
	})
}

// A rate is that of a second: what happened while nobody watched is in none.
func TestLiveRatesBehindAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		q := queue(t, x, "q", func(_ context.Context, job executor.Job[string]) error {
			if job.Payload == "fails" {
				return executor.Cancel(errBoom)
			}
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, x.Start(t.Context()))
		s := mount(t, x, dashboard.Config{})
		some := func(n int) {
			for i := range n {
				enqueue(t, q, fmt.Sprint("done-", i), "")
				enqueue(t, q, fmt.Sprint("dead-", i), "fails")
			}
			synctest.Wait()
		}
		newest := func() point {
			past := s.live(0).Past
			return past[len(past)-1]
		}
		some(100)
		for range 2 {
			time.AfterFunc(500*time.Millisecond, func() {
				for i := range 7 {
					_, err := q.Enqueue(context.Background(), fmt.Sprint(i), "")
					assert.NoError(t, err)
				}
			})
			require.Nil(t, newest().Rates, "it is unknown what came in the second before")
			time.Sleep(time.Second)
			p := newest()
			require.Equal(t, 7.0, p.Rates.Processed)
			require.Zero(t, p.Rates.Failed)
			time.Sleep(time.Second)
			require.Zero(t, newest().Rates.Processed)
			some(100)
			time.Sleep(time.Hour)
		}
		// Who comes back soon, from another page for example, sees the line go on.
		newest()
		some(8)
		time.Sleep(4 * time.Second)
		require.Equal(t, 2.0, newest().Rates.Processed)
		require.NoError(t, x.Stop(t.Context()))
	})
}
