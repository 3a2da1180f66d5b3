package lane

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/strandjobs/strand/journal"
)

// A lane without a payload and a job takes no memory.
func TestLanesAreForgotten(t *testing.T) {
	var l Lanes
	l.Add("a", 1, 7)
	require.True(t, l.Enter("a", 1, 7, nil))
	l.Remove(1)
	require.Len(t, l.byID, 1)
	l.Leave("a")
	require.Empty(t, l.byID)
	require.Empty(t, l.of)
}

// Random payloads of three queues come, run, end, fail and come back: only the queue
// of the earliest runs, never two at a time, and who waits is called when it is its
// turn, so that all of them end.
func TestLanesAreLikeTheirModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Lanes
		var model []payload // by position
		parked := make(map[uint32]bool)
		running := -1 // index of a queue
		var next journal.Position
		own := func(q uint32) []payload {
			return slices.DeleteFunc(slices.Clone(model), func(p payload) bool { return p.queue != q || p.away })
		}
		enter := func(q uint32) {
			mine := own(q)
			if len(mine) == 0 || parked[q] || running == int(q) {
				return
			}
			// Any of its own: scores may order them otherwise.
			p := mine[rapid.IntRange(0, len(mine)-1).Draw(t, "which")]
			first := &model[0]
			if p.position == first.position {
				first.anew = false
			}
			mayRun := running < 0 && first.queue == q && !first.away
			woken := false
			got := l.Enter("id", p.position, q, func() { woken = true; parked[q] = false })
			require.Equal(t, mayRun && !first.anew, got)
			require.Equal(t, mayRun && first.anew, woken, "its queue chooses again, now that it has the first")
			switch {
			case got:
				running = int(q)
			case woken:
				first.anew = false
			default:
				parked[q] = true
			}
		}
		end := func(fails bool) {
			if running < 0 {
				return
			}
			q := uint32(running)
			if mine := own(q); !fails && len(mine) > 0 {
				model = slices.DeleteFunc(model, func(p payload) bool { return p == mine[0] })
				l.Remove(mine[0].position)
			}
			running = -1
			l.Leave("id")
		}
		add := func(position journal.Position, q uint32, away bool) {
			i, found := slices.BinarySearchFunc(model, position, func(p payload, at journal.Position) int { return cmp.Compare(p.position, at) })
			if found {
				return
			}
			model = slices.Insert(model, i, payload{position: position, queue: q, away: away})
			if away {
				l.ComeBack([]string{"id"}, []journal.Position{position}, q)
			} else {
				l.Add("id", position, q)
			}
		}
		back := func() {
			for i := range model {
				if p := &model[i]; p.away {
					p.away, p.anew = false, true
					l.Back(p.position)
				}
			}
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			q := rapid.Uint32Range(0, 2).Draw(t, "queue")
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1:
				next += 2
				add(next, q, false)
			case 2:
				if next > 0 {
					add(journal.Position(rapid.Uint64Range(1, uint64(next)).Draw(t, "old")|1), q, rapid.Bool().Draw(t, "away")) // from the morgue
				}
			case 6:
				back()
			case 3:
				enter(q)
			case 4:
				end(rapid.Bool().Draw(t, "fails"))
			default:
				if mine := own(q); len(mine) > 0 && running != int(q) { // merged, or deleted
					model = slices.DeleteFunc(model, func(p payload) bool { return p == mine[len(mine)-1] })
					l.Remove(mine[len(mine)-1].position)
				}
			}
			for q, is := range parked { // nobody who may run is left waiting
				require.False(t, is && running < 0 && len(model) > 0 && model[0].queue == q && !model[0].away, "queue %d was not called", q)
			}
		}
		back()
		for len(model) > 0 {
			end(false)
			for q := range uint32(3) {
				enter(q)
			}
		}
		end(false)
		require.Empty(t, l.byID)
	})
}
