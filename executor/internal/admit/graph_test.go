package admit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/lock"
)

// line is a condition whose jobs wait as a test says.
type line struct {
	Condition
	waits map[Owner][]Wait
	has   map[Owner]bool
	asked int
}

func (l *line) Waits(by Owner) []Wait {
	l.asked++
	return l.waits[by]
}

func (l *line) Has(by Owner) bool { return l.has[by] }

func (l *line) Aside(by Owner, _ bool) { delete(l.waits, by) }

// kept is a witness of a queue which is not asked before its jobs run.
type kept struct {
	Witness
	line
}

// A job that comes to wait for what very many have looks at none of them while nobody can wait for
// it; with a lock, or a call that waits for its end, it finds the circle that it closes.
func TestAJobThatHasNothingIsInNoCircle(t *testing.T) {
	by, other := Owner{"q", "by"}, Owner{"q", "other 7"}
	circle := func() []Wait {
		var on []Owner
		for i := range 10000 {
			on = append(on, Owner{"q", fmt.Sprint("other ", i)})
		}
		return []Wait{{For: "k", On: on}}
	}
	asked, witness := &line{waits: make(map[Owner][]Wait)}, new(kept)
	l := &List{Queue: "q"}
	l.Ask(asked)
	l.Keep(witness)
	graph := Graph{Lists: func(string) *List { return l }}
	for _, on := range circle()[0].On {
		asked.waits[on] = []Wait{{For: "l", On: []Owner{{"q", "runs"}}}}
	}
	for name, has := range map[string]func(bool){
		"asked":   func(has bool) { asked.has = map[Owner]bool{by: has} },
		"witness": func(has bool) { witness.has = map[Owner]bool{by: has} },
		"call": func(has bool) {
			graph.calls = nil
			if has {
				graph.calls = []*Call{{From: []Owner{other}, To: by}}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked.waits[by], asked.waits[other], asked.asked = circle(), []Wait{{For: "of by", On: []Owner{by}}}, 0
			if name == "call" {
				asked.waits[other] = nil
			}
			has(false)
			require.Nil(t, graph.Closed(by))
			require.Zero(t, asked.asked)
			has(true)
			found := graph.Closed(by)
			require.Len(t, found, 2)
			require.Equal(t, lock.Hop{Owner: "q/by", Key: "k", Holder: "q/other 7"}, found[0])
			require.Empty(t, asked.waits[by], "it has left its line")
			has(false)
		})
	}
}

// unsure is a condition that can't say what jobs have of it.
type unsure struct{ Condition }

func (unsure) Waits(Owner) []Wait { return nil }

func (unsure) Aside(Owner, bool) {}

// Where a condition does not say whether others may wait for a job, it is looked for.
func TestAJobOfWhichNothingIsKnownMayBeInACircle(t *testing.T) {
	by, other := Owner{"q", "by"}, Owner{"q", "other"}
	asked := &line{waits: map[Owner][]Wait{by: {{For: "k", On: []Owner{other}}}, other: {{For: "turn", On: []Owner{by}}}}}
	l := &List{Queue: "q"}
	l.Ask(asked)
	l.Ask(unsure{})
	graph := Graph{Lists: func(string) *List { return l }}
	require.Len(t, graph.Closed(by), 2)
}
