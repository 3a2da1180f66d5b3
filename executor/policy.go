package executor

import (
	"fmt"

	"github.com/strandjobs/strand/shard"
)

// Merge says what becomes of two payloads of one waiting id with equal bytes.
// Payloads with different bytes are never merged.
type Merge uint8

const (
	MergeKeepAll   Merge = iota // both stay: for events, each of which counts; the default
	MergeMinScore               // the one with the lower score stays, the earlier one when they are equal
	MergeKeepFirst              // the one that was accepted first stays
	MergeKeepLast               // the one that was accepted last stays: for state
)

// OnFailure says what a failed run means for payloads of its id that arrived
// meanwhile or arrive before the retry.
type OnFailure uint8

const (
	OnFailureMerge OnFailure = iota // the retry gets all of them, in score order; the default
	OnFailureBlock                  // the failed ones run alone until they are done or buried; what Handle does
)

// OnExhausted says what happens when a job has used up its retries.
type OnExhausted uint8

const (
	OnExhaustedBuryOldest OnExhausted = iota // the failed payload with the lowest score goes to the morgue, the others start again; the default
	OnExhaustedBuryAll                       // all failed payloads go to the morgue; with Handle that is one
	OnExhaustedHalt                          // the id stops, with all its payloads, until RunNow, or until one comes back from the morgue
)

// OnFresh says what a fresh payload does to a job that waits for a retry.
type OnFresh uint8

const (
	OnFreshWait OnFresh = iota // it waits for the retry; the default
	OnFreshPull                // the job becomes due when the fresh payload is, if that is earlier; its retry count stays
)

// Policies are handed down as they are: they have the numbers of the room below.
var _ = [1]struct{}{}[int(MergeKeepLast-Merge(shard.MergeKeepLast))+int(OnFailureBlock-OnFailure(shard.OnFailureBlock))+
	int(OnExhaustedHalt-OnExhausted(shard.OnExhaustedHalt))+int(OnFreshPull-OnFresh(shard.OnFreshPull))]

func (m Merge) String() string {
	return constantName(m, "KeepAll", "MinScore", "KeepFirst", "KeepLast")
}
func (f OnFailure) String() string   { return constantName(f, "MergeFailed", "BlockFailed") }
func (e OnExhausted) String() string { return constantName(e, "BuryOldest", "BuryAll", "Halt") }
func (f OnFresh) String() string     { return constantName(f, "WaitWithRetry", "PullRetry") }

func constantName[T ~uint8](v T, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%T(%d)", v, uint8(v))
}
