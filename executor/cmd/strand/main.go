// Strand looks into a journal and takes care of it: what is in it, what its next
// start would run, whether it is sound, and what can be saved.
//
//	strand COMMAND DIR [ARGUMENT...] [-FLAG...]
//
// The journal's directory is always the first argument of a command, and the only
// one that most of them need; what import, copy and salvage make is a new one.
// Attempts are counted 1, 2, 3, as handlers see them: of a job that waits it is the
// one that comes next, of a payload in the morgue the one that failed last.
//
// What a command takes: check, morgue and import the same however much waits; export
// and job 24 bytes for each live entry; inspect, jobs and replay, which do what a
// start would, about 100 bytes for each job of the queue that they are at, and 40 for
// each further payload. All of them read the log as a start does.
//
// A command that only reads writes nothing to the journal's directory, not even a
// lock, and leaves a journal alone that a process has open. Exit status: 0 all is
// well, 1 the journal is damaged, 2 it could not be looked at or the call is wrong.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"time"
)

func main() {
	// A journal is as large as its backlog, and its machine may be short of memory when
	// somebody has to look at it: garbage is collected before it is as much again.
	debug.SetGCPercent(25)
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr, time.Now)
	cancel()
	os.Exit(status)
}
