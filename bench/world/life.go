package world

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/strandjobs/strand/bench/child"
	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// lifeVariable tells a process that it is to live a life of a world, and where its
// files are.
const lifeVariable = "STRAND_WORLD_LIFE"

// What is in the directory of a world that is on a file.
const (
	scriptFile = "script"
	memoryFile = "memory" // of the process before; empty: this is the first one
)

// A line of a life begins with
//
//	w LENGTH MEMORY   what the next process has to know
//	x FAILURE         a promise is broken
//	z                 the script has come to its end

// guard is a mutex that tells of the end of each section.
type guard struct {
	sync.Mutex
	leaving func()
}

func (g *guard) Unlock() {
	if g.leaving != nil {
		g.leaving()
	}
	g.Mutex.Unlock()
}

// People act on an executor, and ask it, as inspect.Act and Inspector.Explain do; nil stands for these. They are
// called in the bubble of the world, by several goroutines at a time.
type People interface {
	Act(ctx context.Context, x *executor.Executor, name string, which inspect.Selection, reason string) (inspect.Requeued, error)
	Explain(ctx context.Context, x *executor.Executor, queue, id string) (inspect.Explanation, error)
}

// Life lives one life of a world, if this process is one that [Killed] has started, over
// the log that open opens: of the world in dir.
func Life(t *testing.T, open func(dir string, cfg journal.Config) (*journal.Log, error), people People) {
	t.Helper()
	dir := os.Getenv(lifeVariable)
	if dir == "" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the process that has started this one
		child.Die()
	}()
	if err := live(t, dir, open, people); err != nil {
		t.Fatal(err)
	}
}

// live reads what is in the directory of a world, and goes on with it.
func live(t *testing.T, dir string, open func(string, journal.Config) (*journal.Log, error), people People) error {
	text, err := os.ReadFile(filepath.Join(dir, scriptFile))
	if err != nil {
		return err
	}
	s, err := parse(string(text))
	if err != nil {
		return err
	}
	past, err := os.ReadFile(filepath.Join(dir, memoryFile))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	failure := performIn(t, nil, func(st *stage) *world {
		w := newWorld(st, s)
		w.people, w.dir = people, dir
		w.openLog = func(cfg journal.Config) (*journal.Log, error) {
			if cfg.WALBytes = w.conf.num("wal"); w.conf.str("wal") == "changing" {
				cfg.WALBytes = []int{8192, -1, 0, 32768}[w.life%4]
			}
			return open(dir, cfg)
		}
		if len(past) > 0 {
			w.wake(past)
		}
		w.mu.leaving = w.remember
		return w
	})
	if failure != "" {
		fmt.Printf("x %q\n", failure)
		return nil
	}
	fmt.Println("z")
	return nil
}

// wake goes on where another process was killed.
func (w *world) wake(past []byte) {
	m, err := unpack(past)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	time.Sleep(time.Until(m.now))
	w.next, w.life, w.epoch, w.conf, w.all, w.ledger, w.state = m.next, m.life, m.epoch, m.conf, m.all, m.ledger, m.state
	w.at = newLine("killed")
	if ahead, set := w.state["ahead"].(int); set {
		w.ahead.Store(int64(ahead))
	}
	w.queues = w.all // as far as hooks ask
	for _, i := range w.ledger.items {
		i.deaths++
	}
	for _, c := range m.calls {
		w.answered(c.queue, c.line, c.mine, nil, executor.ErrUnknown)
	}
	for _, r := range m.running {
		for _, f := range w.features {
			if f.died != nil {
				f.died(w, r)
			}
		}
	}
}

// remember says what the next process has to know, in a line on the standard output of
// this one. It is called with the lock.
func (w *world) remember() {
	m := memory{time.Now(), w.next, w.life, w.epoch, w.conf, w.all, w.ledger, w.running, w.calls, w.state}
	text := base64.StdEncoding.EncodeToString(m.packed())
	var line bytes.Buffer
	fmt.Fprintf(&line, "w %d %s\n", len(text), text)
	_, _ = os.Stdout.Write(line.Bytes()) // the reader may be gone: then there is no one to tell
	w.committed()
}
