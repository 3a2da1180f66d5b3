package shard

import "time"

// OnExhausted says what happens when a job has used up its retries.
type OnExhausted uint8

const (
	// OnExhaustedBuryOldest sends the failed payload with the lowest score to the morgue.
	// The others start again as if new, due now. The default.
	OnExhaustedBuryOldest OnExhausted = iota
	// OnExhaustedBuryAll sends every payload of the failed run to the morgue. Under
	// Config.Single that is one, too.
	OnExhaustedBuryAll
	// OnExhaustedHalt stops the id, with all its payloads, until RunNow is called
	// for it or a payload of it comes back from the morgue.
	OnExhaustedHalt
)

// Config says how the jobs of a queue behave. The zero Config has no retries; the
// executor fills in its defaults.
type Config struct {
	Merge       Merge
	OnExhausted OnExhausted
	FreshDue    FreshDue // FreshDueKeep with Debounce
	Debounce    Debounce
	Throttle    time.Duration // between the end of a run and the next of its id; 0: none. Neither with Debounce nor with FreshDue
	MaxRetries  int           // retries before a job is exhausted; 0: the first failure exhausts it
	Concurrency int           // runs at a time, at most; 0 means 1

	// Block: failed payloads run again alone until they are done or buried, and everything
	// else of the id waits behind them. Without it they go back among the waiting ones, and
	// the retry gets all of them, in score order.
	Block bool

	// Pull: a fresh payload makes a job that waits for a retry due when it is itself, if that
	// is earlier. The retry count stays.
	Pull bool

	// Single: a handler gets one payload at a time, and each has an outcome of its
	// own; see Outcome.Done. A run goes through the payloads of an id in their order
	// and ends with the first one that is not done. Retry count and last error are
	// those of the payload that failed: so Block is set, too, and what arrives
	// later with a lower score can't take its turn, and its count with it.
	Single bool

	// Weighed: the recorder is told Change.Surplus, by itself if need be.
	Weighed bool

	// Fold gets what waits for an id, to be folded, when a good deal does; see
	// [Core]. It must not block. Nil: payloads are not folded. With it Merge is
	// MergeKeepAll and MaxPayloads 0, and without Single; runs are in the order of
	// acceptance, whatever the scores.
	Fold     func(*Fold)
	foldEach int // 0: the constant

	BatchSize   int // ids that a handler gets in one call; 0 means 1. Under Single it is 1, too.
	MaxPayloads int // payloads of one id in a run; 0 means all, under Single a few

	// Slack is how late a job may start that was put off for a hundred times as
	// long, or longer; 0: jobs start on time.
	Slack time.Duration

	// Short reports whether the disk has hardly any room: then a run is one call of a
	// handler, so that payloads end about in the order in which they are on the disk,
	// and make room as they do, before many of them take some. Nil: it has room.
	Short func() bool
}

// Exhausts says whether the outcome of it is a failure that no retry follows.
func (c *Config) Exhausts(it *Item) bool {
	return it.Outcome.Verdict == VerdictFailed && c.LastTry(it)
}

// InHand returns the payloads that a handler gets at once, of a started item.
func (c *Config) InHand(it *Item) []Payload {
	if c.Single {
		return it.Payloads[it.Outcome.Done:][:1]
	}
	return it.inRun()
}

// LastTry says whether no retry follows if it fails.
func (c *Config) LastTry(it *Item) bool { return it.Retry+1 >= c.MaxRetries }
