package journal

import (
	"context"
	"errors"
	"time"

	"github.com/strandjobs/strand/journal/internal/crash"
)

// Crash tells how the last process that had the journal open ended, nil after an orderly
// end, and what speaks against the positions that were running then, or at deaths before
// it. They are live.
func (l *Log) Crash() (*Death, map[Position]Suspicion) { return l.crash.Death, l.crash.Suspects }

// RecordCrashes starts the crash recorder with a number of places that have so many words
// each. Call it once, before anything runs. In memory, and on systems without memory-mapped
// files, what it notes ends with the process; so it does beside an error. On a disk that is
// full it has the room that [Open] has kept for it; it returns an error where there was
// none for that either, or within a second none for what is known of the last death.
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
// journal, too, for the next start: it names the goroutine. It is
// [debug.SetCrashOutput]: there is one such file in a process, the last caller's.
func (l *Log) ReportCrashes() error {
	if l.place == nil {
		return nil
	}
	return crash.Report(l.place, l.Stats().Epoch)
}
