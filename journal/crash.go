package journal

import (
	"context"
	"errors"
	"time"

	"github.com/strandjobs/strand/journal/internal/crash"
)

// Crash tells how the last process that recorded crashes ended, nil after an orderly
// end, and what speaks against the positions that were running then, or at deaths before
// it. They are live.
func (l *Log) Crash() (*Death, map[Position]Suspicion) { return l.crash.Death, l.crash.Suspects }

// RecordCrashes starts the crash recorder. places is how many workers note what they run, and words how many positions
// each may note at a time. Call it once, before anything runs. In memory, on systems without memory-mapped files, and
// if the call returns an error, what the recorder notes ends with the process. On a full disk it has the room that
// [Open] has kept for it. It returns an error if there is no room for the file, or if within a second there is none for
// what is known of the last death.
func (l *Log) RecordCrashes(places, words int) (*CrashRecorder, error) {
	// What the file says about the last run has to be durable before the file
	// is written over.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var r *CrashRecorder
	err := l.Settled(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = errors.New("journal: crash recorder: the disk has no room for what is known of the last crash, or is slow")
	case err == nil && l.place != nil:
		r, err = crash.Record(l.place, l.Stats().Epoch, places, words, l.cfg.Logger)
	}
	if r == nil {
		r = crash.NewRecorder(places, words)
	}
	return r, err
}

// ReportCrashes has Go write what it says about a fatal error to a file beside the
// journal, too, for the next start: it names the goroutine. It uses
// [debug.SetCrashOutput]: a process has one such file, that of the last caller. Call it after
// RecordCrashes has returned no error: what the last report says is on disk by then.
func (l *Log) ReportCrashes() error {
	if l.place == nil {
		return nil
	}
	return crash.Report(l.place, l.Stats().Epoch)
}
