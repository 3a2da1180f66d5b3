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
//
// # In a process that runs
//
// When a process has the journal open whose executor has Config.ControlSocket set, the
// command asks that, over the socket in the journal's directory: inspect, jobs, job and
// morgue print what they print of a journal at rest, and copy and compact do what they
// do. Besides there are status, running, explain, events, run, retry, cancel and delete; and
// pause and resume, which there are at rest, too. strand help says what each of them does.
//
// What differs: -merge and -on-failure have no meaning, because the process knows its
// queues; a job may be running or parked; halted jobs stand in the
// order of their due times; of an error jobs has the first KiB, and of a job with more
// than a thousand payloads job has the first thousand, of a MiB; the bytes of a queue are
// not counted; of queues that the process has not registered it knows how much they have.
// An id without a job is looked for in all of the morgue. -timeout bounds each answer.
//
// events ends with status 0 after -limit events or an interrupt, and with 2 when the
// process is gone, or has hung up because nobody read for five seconds. A call that finds
// too many others at it waits for eight seconds at most; pause, resume, run, cancel, delete
// and the morgue's verbs have room of their own. Who is neither the user of the process nor
// root may not ask, and is told so.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"github.com/strandjobs/strand/executor/command"
)

func main() {
	// A journal is as large as its backlog, and its machine may be short of memory when
	// somebody has to look at it: garbage is collected before it is as much again.
	debug.SetGCPercent(25)
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	status := command.Program{}.Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr, time.Now())
	cancel()
	os.Exit(status)
}
