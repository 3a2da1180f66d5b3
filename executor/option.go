package executor

import (
	"fmt"
	"time"
)

// Option of one call. Of several of a kind the last one counts.
type Option struct {
	kind   optionKind
	due    time.Time
	score  float64
	name   string // of an offset, or a key
	offset int64

	metadata map[string]string
}

type optionKind uint8

// The numbers are what is carried: new kinds come last.
const (
	optionAt optionKind = iota + 1
	optionIn
	optionScore
	optionSource
	optionIdempotency
	optionMetadata
	optionAbsent
)

// isCondition reports whether the call may be refused, or answered, because of what
// came before. Such a call goes another way, at no cost to the others.
func (o Option) isCondition() bool {
	return o.kind == optionSource || o.kind == optionIdempotency || o.kind == optionAbsent
}

// condition names a condition.
func (o Option) condition() string {
	switch o.kind {
	case optionSource:
		return fmt.Sprintf("FromSource(%q, %d)", o.name, o.offset)
	case optionIdempotency:
		return fmt.Sprintf("IdempotencyKey(%q)", o.name)
	default:
		return "IfAbsent()"
	}
}

// At makes the job due at t. A time in the past makes it due now, and the oldest
// due job of a shard runs first. It never starts before t; it may start late by
// Config.Advanced.TimerSlack. It has no effect on a job of the same id that waits already:
// that one's due time stays, unless FreshDue or Debounce of [Gather] says otherwise.
func At(t time.Time) Option { return Option{kind: optionAt, due: t} }

// In makes the job due d from now, as [At] does. Below zero means now.
func In(d time.Duration) Option {
	return Option{kind: optionIn, due: time.Now().Add(max(d, 0))}
}

// Score gives the payload its place among the payloads of its id: lower runs first. It
// tells whole numbers apart up to 2^53; beyond, neighbours may be equal.
// Without it the score is the time of its acceptance, in Unix seconds, and never below
// an earlier one of its queue: what comes without a score runs in the order of
// [Receipt].Position, also what is enqueued from many goroutines at a time, waited for
// room, or is a follow-up, and although the clock was set back meanwhile, or is behind
// in this process. After a restart the floor is the highest such score among the
// payloads that wait; see Time in the package comment for one that can't be told.
func Score(v float64) Option { return Option{kind: optionScore, score: v} }

// Metadata goes with the payload, as strings by key: a trace context, a tenant, the
// request it came from. The handler finds it beside the payload, and it survives
// retries, restarts, dead-lettering and Requeue. It is not a part of the payload:
// payloads with equal bytes merge whatever their metadata, and the one that stays
// keeps its own. The map has at most 16 pairs, with keys that are not empty, and
// 1 KiB of keys and values together, or the call returns [ErrInvalidMetadata]. Of
// several such options the last one counts. Without metadata a payload takes no
// room for it. A [Queue.FollowUp] inherits those of its job.
func Metadata(pairs map[string]string) Option {
	return Option{kind: optionMetadata, metadata: pairs}
}
