// Package pausekey says how the journal keeps what a person has paused: the executor,
// queues, ids of queues and prefixes of ids, each under a state key whose value says since
// when. The executor writes these, and the strand command in a journal at rest.
package pausekey

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/strandjobs/strand/journal"
)

// The keys; the length and the name of a queue come before an id, so that no two are one.
const (
	Prefix      = "pause/"
	Executor    = Prefix + "executor"
	QueuePrefix = Prefix + "queue/"

	version = 1
)

// MaxIDs is how many ids of a queue may be paused by themselves, of which each takes about
// 100 bytes, MaxPrefixes how many prefixes, and MaxIDBytes how long an id or a prefix is.
const (
	MaxIDs      = 100_000
	MaxPrefixes = 10_000
	MaxIDBytes  = 512
)

// Queue is the key of a queue.
func Queue(name string) string { return QueuePrefix + name }

// IDs begins the keys of the ids of a queue; the id follows.
func IDs(queue string) string { return of("id", queue) }

// Prefixes begins the keys of the prefixes of ids of a queue; the prefix follows.
func Prefixes(queue string) string { return of("prefix", queue) }

func of(kind, queue string) string {
	return fmt.Sprintf("%s%s/%d/%s/", Prefix, kind, len(queue), queue)
}

// Set pauses what a key stands for, or lets it go on.
func Set(key string, on bool) journal.Set {
	if !on {
		return journal.Set{Key: key}
	}
	return journal.Set{Key: key, Value: binary.AppendVarint([]byte{version}, time.Now().UnixNano())}
}

// Check returns an error for a value that no version so far has written.
func Check(s journal.Set) error {
	switch {
	case len(s.Value) < 2:
		return &journal.CorruptError{Reason: fmt.Sprintf("a pause of %d bytes", len(s.Value))}
	case s.Value[0] > version:
		return fmt.Errorf("%w: a pause has version %d", journal.ErrTooNew, s.Value[0])
	}
	return nil
}
