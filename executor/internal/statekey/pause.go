package statekey

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/strandjobs/strand/journal"
)

// The state keys of what a person has paused; the value says since when. The length and the
// name of a queue come before an id, so that no two are one.
const (
	PausePrefix    = "pause/"
	PausedExecutor = PausePrefix + "executor"
	PausedQueues   = PausePrefix + "queue/" // the name follows

	pauseVersion = 1
)

// MaxPausedIDs is how many ids of a queue may be paused by themselves, of which each takes
// about 100 bytes, MaxPausedPrefixes how many prefixes, and MaxPausedBytes how long an id or
// a prefix is.
const (
	MaxPausedIDs      = 100_000
	MaxPausedPrefixes = 10_000
	MaxPausedBytes    = 512
)

// PausedIDs begins the keys of the ids of a queue; the id follows.
func PausedIDs(queue string) string {
	return fmt.Sprintf("%sid/%d/%s/", PausePrefix, len(queue), queue)
}

// PausedPrefixes begins the keys of the prefixes of ids of a queue; the prefix follows.
func PausedPrefixes(queue string) string {
	return fmt.Sprintf("%sprefix/%d/%s/", PausePrefix, len(queue), queue)
}

// Pause pauses what a key stands for, or lets it go on.
func Pause(key string, on bool) journal.Set {
	if !on {
		return journal.Set{Key: key}
	}
	return journal.Set{Key: key, Value: binary.AppendVarint([]byte{pauseVersion}, time.Now().UnixNano())}
}

// CheckPause returns an error for a value that no version so far has written.
func CheckPause(s journal.Set) error {
	switch {
	case len(s.Value) < 2:
		return damaged("a pause of %d bytes", len(s.Value))
	case s.Value[0] > pauseVersion:
		return fmt.Errorf("%w: a pause has version %d", journal.ErrTooNew, s.Value[0])
	}
	return nil
}
