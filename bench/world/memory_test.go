package world

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What one process packs is what the next one unpacks, with what is the same in several
// places, and without what belongs to a process.
func TestMemory(t *testing.T) {
	now := time.Now()
	i := &item{
		n: 1, queue: "q1", id: "a", value: payload{N: 1, Plan: "fail/ok", Sum: []int{2, 3}}, state: acked, pos: 7, score: -1.5, sure: true,
		place: dead, hint: "done", told: "done", at: now, meta: map[string]string{}, life: -2,
	}
	q := &queue{name: "q1x", conf: newLine("queue", "name", "q1"), former: []string{"q1"}, absent: true}
	r := &run{queue: q, id: "a", items: []*item{i}, parts: []part{{pos: 7, score: 2, value: i.value}}}
	i.last, i.fruit = r, []*run{r}
	m := &memory{now: now, next: 3, life: 2, epoch: 4, conf: newLine("world", "workers", 2), all: []*queue{q}, ledger: newLedger(), running: []*run{r}}
	m.ledger.add(i)
	m.ledger.byPos[spot{"a", 7}] = i
	m.state = map[string]any{"keys": map[string]*item{"k": i}, "tuned": 4, "unlocked x": now, "stop": func() {}, "pauses": map[string]*pause{"all": {paused: true, epoch: 3}}}

	got, err := unpack(m.packed())
	require.NoError(t, err)
	its := got.ledger.items[0]
	require.Same(t, its, got.running[0].items[0])
	require.Same(t, its, got.ledger.byPos[spot{"a", 7}])
	require.Same(t, its, got.state["keys"].(map[string]*item)["k"])
	require.Same(t, got.running[0], its.last)
	require.Same(t, got.all[0], got.running[0].queue)
	require.NotNil(t, its.meta)
	require.True(t, its.at.Equal(now) && got.state["unlocked x"].(time.Time).Equal(now))
	require.Equal(t, &pause{paused: true, epoch: 3}, got.state["pauses"].(map[string]*pause)["all"])
	require.Nil(t, got.state["stop"])
	its.at, its.last, its.fruit, i.at, i.last, i.fruit = now, nil, nil, now, nil, nil
	require.Equal(t, i, its)

	_, err = unpack(m.packed()[:40])
	require.Error(t, err)
}
