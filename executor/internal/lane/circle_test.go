package lane

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// locked is a condition that is never met. Who asks stands in line behind a job, and then
// something else happens before it looks for a circle.
type locked struct {
	admit.Condition
	behind admit.Owner
	stands bool
	then   func()
}

func (l *locked) Enter(context.Context, *admit.Claim) (admit.Hold, error) {
	l.stands = true
	l.then()
	return nil, admit.ErrWaits
}

func (l *locked) Aside(_ admit.Owner, forget bool) { l.stands = l.stands && !forget }

func (l *locked) Waits(admit.Owner) []admit.Wait {
	if !l.stands {
		return nil
	}
	return []admit.Wait{{For: "k", On: []admit.Owner{l.behind}}}
}

// nowhere is a log of which nothing is read.
type nowhere struct{}

func (nowhere) Record(*journal.Change) {}

// The first job of a lane waits for the next one, and both stand in line before either has
// looked for a circle: one of them fails, and the other one waits until that asks again.
func TestACircleThroughALaneFailsOne(t *testing.T) {
	lists := map[string]*admit.List{}
	graph := &admit.Graph{Lists: func(queue string) *admit.List { return lists[queue] }}
	lanes := new(Lanes)
	join := func(number uint32, queue string) (ask func() error) {
		l := &admit.List{Queue: queue, Graph: graph, Ledger: &admit.Ledger{Log: nowhere{}}}
		l.Ask(&Condition{lanes, number})
		lists[queue] = l
		lanes.Join(number, queue)
		lanes.Add("42", journal.Position(number), number)
		return func() error {
			return l.Claim("42", &shard.Item{ID: "42", Payloads: make([]shard.Payload, 1)}).Enter(t.Context(), false)
		}
	}
	first, next := join(1, "first"), join(2, "next")
	var circle *lock.DeadlockError
	k := &locked{behind: admit.Owner{Queue: "next", ID: "42"}, then: func() { require.ErrorAs(t, next(), &circle) }}
	lists["first"].Ask(k)
	require.ErrorIs(t, first(), admit.ErrWaits)
	require.Equal(t, []lock.Hop{{Owner: "next/42", Key: "its turn", Holder: "first/42"}, {Owner: "first/42", Key: "k", Holder: "next/42"}}, circle.Cycle)

	require.ErrorAs(t, next(), &circle, "it asks again, and closes it again")
	k.then = func() {}
	require.ErrorIs(t, first(), admit.ErrWaits)
}

// What a job that was set aside leaves in a lane goes with it: a later payload of its queue waits there, as others see it,
// before it has asked.
func TestAJobThatWasSetAsideLeavesNothing(t *testing.T) {
	lanes := new(Lanes)
	for number, queue := range []string{"", "first", "next"} {
		lanes.Join(uint32(number), queue)
	}
	lanes.Add("42", 1, 1)
	lanes.Add("42", 2, 2)
	c, by := &Condition{lanes, 2}, admit.Owner{Queue: "next", ID: "42"}
	require.False(t, lanes.Enter("42", 2, 2, func() {}))
	c.Aside(by, true)
	require.Empty(t, c.Waits(by))
	lanes.Remove(2)
	lanes.Add("42", 3, 2)
	require.Len(t, c.Waits(by), 1)
}
