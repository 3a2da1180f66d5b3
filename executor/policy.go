package executor

import "github.com/strandjobs/strand/shard"

// Merge says what becomes of two payloads of one waiting id with equal bytes.
// Payloads with different bytes are never merged.
type Merge = shard.Merge

const (
	KeepAll   = shard.KeepAll   // both stay: for events, each of which counts; the default
	MinScore  = shard.MinScore  // the one with the lower score stays: Lowkiq's set
	KeepFirst = shard.KeepFirst // the one that was accepted first stays
	KeepLast  = shard.KeepLast  // the one that was accepted last stays: for state
)

// OnFailure says what a failed run means for payloads of its id that arrived
// meanwhile or arrive before the retry.
type OnFailure = shard.OnFailure

const (
	MergeFailed = shard.MergeFailed // the retry gets all of them, in score order; the default
	BlockFailed = shard.BlockFailed // the failed ones run alone until they are done or buried; what Handle does
)

// OnExhausted says what happens when a job has used up its retries.
type OnExhausted = shard.OnExhausted

const (
	BuryOldest = shard.BuryOldest // the failed payload with the lowest score goes to the morgue, the others start again; the default
	BuryAll    = shard.BuryAll    // all failed payloads go to the morgue; with Handle that is one
	Halt       = shard.Halt       // the id stops, with all its payloads, until RunNow
)

// OnFresh says what a fresh payload does to a job that waits for a retry.
type OnFresh = shard.OnFresh

const (
	WaitWithRetry = shard.WaitWithRetry // it waits for the retry; the default
	PullRetry     = shard.PullRetry     // the job becomes due when the fresh payload is, if that is earlier
)
