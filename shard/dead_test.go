package shard

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// What is late is told as by one who remembers all that was done.
func TestLateIsLikeItsModel(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		var o outlived
		dead := make(map[journal.Position]bool) // late or not
		versions := make(map[journal.Position]version)
		for at := range journal.Position(60) {
			v := version{float64(r.IntN(8)), at + 1}
			switch {
			case r.IntN(2) == 0:
				o.died(v)
				dead[v.at], versions[v.at] = false, v
			case r.IntN(3) > 0:
				o.ended(v)
				for at := range dead {
					dead[at] = dead[at] || versions[at].before(v)
				}
			default:
				for at := range dead {
					o.forget(at)
					delete(dead, at)
					break
				}
				o.forget(1000)
			}
			if len(o.dead) != len(dead) {
				require.Len(t, o.dead, len(dead), "seed %d", seed)
			}
			for at, late := range dead {
				if i, found := o.find(at); !found || o.late(o.dead[i]) != late { // testify takes longer than all else here
					require.FailNow(t, "not like its model", "seed %d: %d is found: %t, late: %t", seed, at, found, late)
				}
			}
		}
	}
}

// An id with dead letters remembers no more of what was done than they can ask for, whatever comes after what.
func TestWhatWasDoneIsRememberedOnceForEachDeath(t *testing.T) {
	var o outlived
	at := journal.Position(0)
	next := func() version { at++; return version{-float64(at), at} }
	for deaths := range 5 {
		o.died(next())
		for range 1000 {
			o.ended(next())
		}
		require.LessOrEqual(t, len(o.done), deaths+1)
	}
}
