package lock_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/lock"
)

func TestLocksComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := lock.New()
		try(t, old, lock.Options{Owner: "short", TTL: time.Minute}, "a")
		try(t, old, lock.Options{Owner: "long", TTL: time.Hour}, "c", "b")
		try(t, old, lock.Options{Owner: "ever"}, "d")
		given := try(t, old, lock.Options{}, "e")
		require.NoError(t, given.Unlock())
		time.Sleep(30 * time.Second)
		text, err := json.Marshal(old.Snapshot())
		require.NoError(t, err)
		time.Sleep(30 * time.Second)

		var state lock.State
		require.NoError(t, json.Unmarshal(text, &state))
		table := lock.New()
		leases, err := table.Restore(state)
		require.NoError(t, err)
		require.Len(t, leases, 3)
		require.Zero(t, leases[0], "an expired lease is not resurrected")
		long, ok := leases[1].Record()
		require.True(t, ok)
		require.Equal(t, state.Held[1].Until.UTC(), long.Until.UTC())
		require.Equal(t, state.Held[1].Since.UTC(), long.Since.UTC())
		require.Equal(t, "long", long.Owner)
		require.Equal(t, []string{"b", "c"}, long.Keys)
		require.Equal(t, given.Token()+1, try(t, table, lock.Options{}, "a").Token(), "tokens go on growing")

		time.Sleep(59 * time.Minute)
		require.False(t, leases[1].Held(), "it ends when it would have ended")
		require.NoError(t, leases[2].Unlock())
	})
}

func TestALeaseIsNotLengthenedByTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, err := lock.New().Restore(lock.State{Held: []lock.Held{
			{Keys: []string{"k"}, Token: 1, TTL: time.Minute, Until: time.Now().Add(time.Hour)}, // set back by an hour
		}})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.False(t, leases[0].Held())
	})
}

func TestRestoreRefusesAsAWhole(t *testing.T) {
	one := lock.Held{Keys: []string{"a"}, Token: 1}
	for name, c := range map[string]struct {
		second lock.Held
		want   error
	}{
		"no key":         {lock.Held{Token: 2}, lock.ErrEmptyKey},
		"empty key":      {lock.Held{Keys: []string{""}, Token: 2}, lock.ErrEmptyKey},
		"negative TTL":   {lock.Held{Keys: []string{"b"}, Token: 2, TTL: -1}, lock.ErrDuration},
		"no token":       {lock.Held{Keys: []string{"b"}}, lock.ErrConfig},
		"same token":     {lock.Held{Keys: []string{"b"}, Token: 1}, lock.ErrConfig},
		"same key":       {lock.Held{Keys: []string{"b", "a"}, Token: 2}, lock.ErrConfig},
		"held already":   {lock.Held{Keys: []string{"held"}, Token: 2}, lock.ErrLocked},
		"promised to sb": {lock.Held{Keys: []string{"promised"}, Token: 2}, lock.ErrLocked},
	} {
		t.Run(name, func(t *testing.T) {
			table := lock.New()
			held := try(t, table, lock.Options{}, "held")
			_, err := table.Queue(lock.Options{}, nil, "held", "promised")
			require.NoError(t, err)
			before := table.Snapshot()
			leases, err := table.Restore(lock.State{Token: 99, Held: []lock.Held{one, c.second}})
			require.ErrorIs(t, err, c.want)
			require.Nil(t, leases)
			require.Equal(t, before.Token, table.Snapshot().Token)
			require.Len(t, table.Snapshot().Held, 1)
			require.True(t, held.Held())
		})
	}
}

func TestStatusForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := lock.New()
		start := time.Now().UTC()
		l := try(t, table, lock.Options{Owner: "import", TTL: time.Minute}, "orders")
		time.Sleep(10 * time.Second)
		_, err := table.Queue(lock.Options{Owner: "report"}, nil, "orders", "archive")
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		_, err = table.Queue(lock.Options{}, nil, "orders")
		require.NoError(t, err)

		s := table.Status("orders")
		require.Equal(t, "orders: held by import (token 1) for 15s, 45s left; waiting: report for 5s, anonymous for 0s", s.String())
		require.Equal(t, start, s.Holder.Since.UTC())
		require.Equal(t, start.Add(time.Minute), s.Holder.Until.UTC())
		require.Equal(t, []string{"archive", "orders"}, s.Waiters[0].Keys)
		require.Equal(t, start.Add(10*time.Second), s.Waiters[0].Since.UTC())

		list := table.List()
		require.Len(t, list, 2)
		require.Equal(t, "archive: free; waiting: report for 5s", list[0].String())
		require.NoError(t, l.Unlock())
		require.Equal(t, "orders: held by report (token 2) for 0s; waiting: anonymous for 0s", table.Status("orders").String())
		require.Equal(t, "nobody: free", table.Status("nobody").String())
	})
}
