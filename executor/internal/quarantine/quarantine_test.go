package quarantine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// A suspect that waits for a lock lets the next one run, and is acquitted when it
// has run; so are several in one batch.
func TestASuspectStandsAside(t *testing.T) {
	var z Quarantine
	defer z.Close()
	suspect := func(id string) *Suspect {
		s := &Suspect{Suspicion: journal.Suspicion{Deaths: 2}, Owner: admit.Owner{Queue: "q", ID: id}, Limit: 3, Release: func() {}, Clear: func() {}}
		z.Admit(s)
		return s
	}
	var suspects []*Suspect
	for _, id := range []string{"a", "b", "c"} {
		suspects = append(suspects, suspect(id))
	}
	z.Start(func() {})
	z.since = time.Now().Add(-time.Hour)
	z.turn()
	require.Same(t, suspects[0], z.active)
	z.StandAside("q", "b") // not its turn
	require.Same(t, suspects[0], z.active)
	z.StandAside("q", "a")
	require.Same(t, suspects[1], z.active)
	z.Acquit("q", []*shard.Item{{ID: "a"}, {ID: "b"}}, false)
	require.Same(t, suspects[2], z.active)
	late := suspect("late") // its queue was registered after the start
	require.Same(t, suspects[2], z.active)
	z.StandAside("q", "c")
	require.Same(t, late, z.active)
	z.Acquit("q", []*shard.Item{{ID: "late"}}, false)
	require.Nil(t, z.active)
	require.True(t, z.open.Load(), "it has not run")
	z.Acquit("q", []*shard.Item{{ID: "c"}}, false)
	require.False(t, z.open.Load())
}

// A dead letter says itself whether it was given up. One that is too old to say it is taken
// at its word.
func TestGuilty(t *testing.T) {
	said := (&Suspect{Suspicion: journal.Suspicion{Deaths: 3}}).Reason()
	for _, c := range []struct {
		b      journal.Buried
		guilty bool
	}{
		{journal.Buried{Crashed: true, Reason: "any"}, true},
		{journal.Buried{Reason: said}, false},
		{journal.Buried{Reason: said, Untold: true}, true},
		{journal.Buried{Reason: "no luck: " + said, Untold: true}, false},
	} {
		require.Equal(t, c.guilty, Guilty(&c.b), "%+v", c.b)
	}
}

// What no handler was called for is as suspicious as before.
func TestASkippedSuspectIsNotAcquitted(t *testing.T) {
	var z Quarantine
	defer z.Close()
	cleared := 0
	z.Admit(&Suspect{Suspicion: journal.Suspicion{Deaths: 1}, Owner: admit.Owner{Queue: "q", ID: "a"}, Limit: 3, Clear: func() { cleared++ }})
	it := &shard.Item{ID: "a", Outcome: shard.Outcome{Verdict: shard.VerdictInterrupted, Unrun: true}}
	z.Acquit("q", []*shard.Item{it}, false)
	require.Zero(t, cleared)
	require.True(t, z.open.Load())
	it.Outcome.Unrun = false
	z.Acquit("q", []*shard.Item{it}, false)
	require.Equal(t, 1, cleared)
}

// What ends without a run is suspected no more, whether it was held or given up, and its id runs.
func TestASuspectThatHasEnded(t *testing.T) {
	for _, s := range []journal.Suspicion{{Deaths: 2}, {Deaths: 3, Odds: 1e9}} {
		var z Quarantine
		defer z.Close()
		var did []string
		z.Admit(&Suspect{
			Suspicion: s, Owner: admit.Owner{Queue: "q", ID: "a"}, Position: 7, Limit: 3,
			Clear: func() { did = append(did, "clear") }, Release: func() { did = append(did, "release") },
		})
		z.Ended("q", &shard.Change{Deleted: []journal.Position{8}})
		z.Ended("other", &shard.Change{Deleted: []journal.Position{7}})
		require.Empty(t, did)
		z.Ended("q", &shard.Change{Deleted: []journal.Position{7}})
		require.Equal(t, []string{"clear", "release"}, did)
		require.Nil(t, z.Holds("q", "a"))
		require.Empty(t, z.Named())
		require.False(t, z.open.Load())
	}
}

// One that is given up, and waits for room, is followed by what takes its place.
func TestWhatIsGivenUpIsInherited(t *testing.T) {
	var z Quarantine
	defer z.Close()
	s := &Suspect{Suspicion: journal.Suspicion{Deaths: 3, Odds: 1e9}, Owner: admit.Owner{Queue: "q", ID: "a"}, Position: 1, Limit: 3}
	z.Admit(s)
	require.Equal(t, []journal.Set{journal.Cleared(1), s.Set(2)}, z.Inherit("q", 1, 2))
	require.Equal(t, journal.Position(2), s.Position)
	s.Over.Store(true)
	require.Empty(t, z.Inherit("q", 2, 3), "it halted, and a person decides")
	z.Acquit("q", nil, false)
	require.False(t, z.open.Load())
}
