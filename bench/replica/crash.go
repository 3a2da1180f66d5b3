package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

// exitError is the exit status of the worker process, which has said why.
type exitError int

func (e exitError) Error() string { return "exit status " + strconv.Itoa(int(e)) }

// crash runs the program as a process of its own, kills it at random moments
// and starts it again until it comes to its end. What the process knows of its
// earlier lives is on disk; the parent tells it nothing.
func crash(ctx context.Context, o options, events int, out, complaints *os.File) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	w := &watcher{ledger: filepath.Join(o.journal, "ledger")}
	for kills := 0; ; kills++ {
		worker := exec.Command(program, "-repo", o.repo, "-target", o.target, "-journal", o.journal,
			"-workers", strconv.Itoa(o.workers), "-shards", strconv.Itoa(o.shards),
			"-fail", o.fail.String(), "-delay", o.delay.String())
		worker.Stdout, worker.Stderr = out, complaints
		killed, err := w.life(ctx, worker, w.choose(events, o.crash-kills))
		if killed {
			continue
		}
		w.look()
		fmt.Fprintf(out, "kills: %d of %d (%d so soon that the life is not on record)\n", kills, o.crash, kills+1-w.lives)
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exitError(exit.ExitCode())
		}
		return err
	}
}

// moment is when to kill: the first that comes. The zero moment never does.
type moment struct {
	after time.Duration // since the start
	ended int           // events that the ledger says have ended
}

// watcher kills the worker process, by what it sees in the ledger.
type watcher struct {
	ledger string
	offset int64 // what was read
	ended  int
	lives  int
}

// choose spreads the kills that are left over the work that is left, half of which stays
// for after the next one: a life may be over before it is killed. Every fourth one comes
// soon after the start, while the journal is read or the first events are enqueued.
func (w *watcher) choose(events, left int) moment {
	if left == 0 {
		return moment{}
	}
	rest := max(events-w.ended, 0)
	m := moment{after: time.Hour, ended: w.ended + 1 + rand.IntN(1+min(2*rest/(left+1), rest/2))}
	if rand.IntN(4) == 0 {
		m.after = rand.N(100 * time.Millisecond)
	}
	return m
}

// life runs the worker process to its end, or kills it. When ctx ends the
// process is asked to stop.
func (w *watcher) life(ctx context.Context, worker *exec.Cmd, m moment) (killed bool, err error) {
	if err := worker.Start(); err != nil {
		return false, err
	}
	exited := make(chan error, 1)
	go func() { exited <- worker.Wait() }()
	begin, tick := time.Now(), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	done := ctx.Done()
	for {
		select {
		case err := <-exited:
			return killed && err != nil, err
		case <-done:
			done, m = nil, moment{}
			interrupt(worker.Process)
		case <-tick.C:
			if m == (moment{}) || (time.Since(begin) < m.after && w.look() < m.ended) {
				continue
			}
			m = moment{}
			killed = worker.Process.Kill() == nil // SIGKILL, where there are signals
		}
	}
}

func interrupt(p *os.Process) {
	if runtime.GOOS == "windows" || p.Signal(os.Interrupt) != nil {
		_ = p.Kill()
	}
}

// look reads what is new in the ledger and returns how many events have ended.
// What ran again after a crash counts twice: it is only a moment to kill at.
func (w *watcher) look() int {
	f, err := os.Open(w.ledger)
	if err != nil {
		return w.ended // not there yet
	}
	defer f.Close()
	if _, err := f.Seek(w.offset, 0); err != nil {
		return w.ended
	}
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return w.ended // the rest is not a whole line yet
		}
		w.offset += int64(len(line))
		if line[0] == lifeBegins {
			w.lives++
		}
		fields := bytes.Fields(line)
		if n, err := strconv.Atoi(string(fields[len(fields)-1])); err == nil && line[0] == runDone {
			w.ended += n
		}
	}
}
