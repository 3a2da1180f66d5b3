package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
	"github.com/strandjobs/strand/executor/inspect"
)

// What is ticked is an id with a position. Each partition has positions of its own: another payload of an id that is
// ticked, at a position that is ticked of another id, is not meant.
func TestTickedPayloadsAreMeantAsPairs(t *testing.T) {
	c := newTown(t, 1)
	q, err := executor.Handle(c.x, "q", func(context.Context, executor.Job[int]) error {
		return executor.Cancel(errors.New("no"))
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, c.x.Start(t.Context()))
	ids := []string{"a", "a"}
	for i, first := 0, must(partitionOf("a")); must(partitionOf(ids[1])) == first; i++ {
		ids[1] = fmt.Sprint("b", i)
	}
	for _, id := range ids {
		for at := range 2 {
			r, err := q.Enqueue(t.Context(), id, 0)
			require.NoError(t, err)
			require.EqualValues(t, at+1, r.Position, "each partition counts from 1")
		}
	}
	require.Eventually(t, func() bool { s, err := q.Stats(t.Context()); return err == nil && s.Dead == 4 }, time.Minute, time.Millisecond)

	for _, which := range []inspect.Selection{inspect.SelectIDs("q", ids...).At(1, 2), inspect.SelectIDs("q", ids...).At(1), inspect.SelectQueue("q").At(1)} {
		_, err := c.x.Inspect().Act(t.Context(), "delete-dead", which, "")
		require.ErrorIs(t, err, inspect.ErrInvalidQuery, "it does not say which")
	}
	pages := dashboard.Handler(c.x, dashboard.Config{Authorize: dashboard.Insecure})
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/do?"+url.Values{"verb": {"delete-dead"}, "scope": {"selected"}, "queue": {"q"}, "tab": {"morgue"},
		"sel": {"1:" + ids[0], "2:" + ids[1]}, "confirm": {"yes"}}.Encode(), nil)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	pages.ServeHTTP(w, r)
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body.String())
	left := make(map[string]uint64)
	for d, err := range q.Morgue() {
		require.NoError(t, err)
		left[d.ID] = uint64(d.Position)
	}
	require.Equal(t, map[string]uint64{ids[0]: 2, ids[1]: 1}, left)
}

func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
}
