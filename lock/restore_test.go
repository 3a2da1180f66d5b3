package lock_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/lock"
)

func TestLeasesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newSlots(t, lock.SlotsConfig[int]{})
		_, err := old.Reserve(t.Context(), lock.Options{Owner: "short", TTL: time.Minute})
		require.NoError(t, err)
		_, err = old.Reserve(t.Context(), lock.Options{Owner: "long", TTL: time.Hour})
		require.NoError(t, err)
		time.Sleep(30 * time.Second)
		text, err := json.Marshal(old.Snapshot())
		require.NoError(t, err)
		time.Sleep(30 * time.Second)

		var state lock.SlotsState[int]
		require.NoError(t, json.Unmarshal(text, &state))
		now := newSlots(t, lock.SlotsConfig[int]{})
		back, err := now.Restore(state)
		require.NoError(t, err)
		require.Nil(t, back[0], "an expired lease is not resurrected")
		long, ok := back[1].Record()
		require.True(t, ok)
		require.Equal(t, state.Open[1].Held.Until.UTC(), long.Until.UTC())
		require.Equal(t, state.Open[1].Held.Since.UTC(), long.Since.UTC())
		require.Equal(t, "long", long.Owner)
		require.Equal(t, long.Token+1, reserve(t, now, 1).Token(), "tokens go on growing")

		time.Sleep(59 * time.Minute)
		require.False(t, back[1].Held(), "it ends when it would have ended")
	})
}

func TestALeaseIsNotLengthenedByTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back, err := newSlots(t, lock.SlotsConfig[int]{}).Restore(lock.SlotsState[int]{Open: []lock.SlotHeld[int]{
			{Value: 1, Position: 1, Held: lock.Held{Token: 1, TTL: time.Minute, Until: time.Now().Add(time.Hour)}}, // set back by an hour
		}})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.False(t, back[0].Held())
	})
}

func TestRestoreRefusesAsAWhole(t *testing.T) {
	for name, c := range map[string]struct {
		value int
		held  lock.Held
		want  error
	}{
		"negative TTL":   {2, lock.Held{Token: 2, TTL: -1}, lock.ErrConfig},
		"no token":       {2, lock.Held{}, lock.ErrConfig},
		"same token":     {2, lock.Held{Token: 1}, lock.ErrConfig},
		"same value":     {1, lock.Held{Token: 2}, lock.ErrConfig},
		"held already":   {7, lock.Held{Token: 2}, lock.ErrLocked},
		"promised to sb": {8, lock.Held{Token: 2}, lock.ErrLocked},
	} {
		t.Run(name, func(t *testing.T) {
			table := new(lock.Table)
			held := try(t, table, lock.Options{}, "slots/7")
			_, err := table.Queue(lock.Options{}, nil, "slots/7", "slots/8")
			require.NoError(t, err)
			s := newSlots(t, lock.SlotsConfig[int]{Table: table})
			back, err := s.Restore(lock.SlotsState[int]{Known: true, Last: 5, Position: 5, Open: []lock.SlotHeld[int]{
				{Value: 1, Position: 1, Held: lock.Held{Token: 1}}, {Value: c.value, Position: 2, Held: c.held},
			}})
			require.ErrorIs(t, err, c.want)
			require.Nil(t, back)
			require.Len(t, table.List(), 2)
			require.True(t, held.Held())
			require.Equal(t, held.Token()+1, reserve(t, s, 1).Token())
		})
	}
}

// shown has all figures of a key in one line.
func shown(s lock.Status) string {
	var line strings.Builder
	line.WriteString(fmt.Sprintf("%s: %s, token %d, for %v, %v left", s.Key, s.Holder.Owner, s.Holder.Token, s.HeldFor, s.Remaining))
	for _, w := range s.Waiters {
		line.WriteString(fmt.Sprintf("; %s for %v", w.Owner, w.For))
	}
	return line.String()
}

func TestStatusForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := new(lock.Table)
		start := time.Now().UTC()
		l := try(t, table, lock.Options{Owner: "import", TTL: time.Minute}, "orders")
		time.Sleep(10 * time.Second)
		_, err := table.Queue(lock.Options{Owner: "report"}, nil, "orders", "archive")
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		_, err = table.Queue(lock.Options{}, nil, "orders")
		require.NoError(t, err)

		s := table.Status("orders")
		require.Equal(t, "orders: import, token 1, for 15s, 45s left; report for 5s;  for 0s", shown(s))
		require.Equal(t, start, s.Holder.Since.UTC())
		require.Equal(t, start.Add(time.Minute), s.Holder.Until.UTC())
		require.Equal(t, []string{"archive", "orders"}, s.Waiters[0].Keys)
		require.Equal(t, start.Add(10*time.Second), s.Waiters[0].Since.UTC())

		list := table.List()
		require.Len(t, list, 2)
		require.Equal(t, "archive: , token 0, for 0s, 0s left; report for 5s", shown(list[0]))
		require.NoError(t, l.Unlock())
		require.Equal(t, "orders: report, token 2, for 0s, 0s left;  for 0s", shown(table.Status("orders")))
		require.Equal(t, "nobody: , token 0, for 0s, 0s left", shown(table.Status("nobody")))
	})
}
