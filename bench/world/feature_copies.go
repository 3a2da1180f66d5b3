package world

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// The journal is copied, and made smaller, while jobs run and calls are made. A copy that is complete opens, and
// has what was accepted before; the original goes on. The executor is stopped beside calls, too: what they are
// told is true in the next life.
var copying = &feature{
	name: "copy", lives: true, apart: true, claims: "Executor.Copy Executor.Compact",
	steps: []step{
		{"copy", 5, true, func(d *draw) line { return d.cut(newLine("copy")) }, playCopy},
		{"compact", 5, true, func(d *draw) line { return d.cut(newLine("compact")) }, playCompact},
		{"stop", 3, true, drawStop, playStop},
	},
	begin: func(w *world, _ *executor.Executor) {
		all, _ := filepath.Glob(filepath.Join(w.dir, copies, "whole"))
		for _, dir := range all { // of processes that were killed
			w.checked(dir)
		}
	},
}

func drawStop(d *draw) line {
	if d.has("watch") { // a handler that is deaf does not hear of a stop
		return newLine("stop", "d", "30s")
	}
	return newLine("stop", "d", d.one("1ms", "2s", "30s"))
}

// copies are in the directory of a world, each in one of its own.
const copies = "strand-copy-*"

// cut has a call end early, perhaps.
func (d *draw) cut(l line) line {
	if d.chance(3) {
		l.set("ctx", d.one("1ms", "50ms"))
		l.set("spins", 1+d.IntN(30))
	}
	return l
}

// within reports whether an error of a call on the journal may be: its context has ended, the executor has, or the disk is full.
func (w *world) within(l line, err error) bool {
	over := errors.Is(err, executor.ErrClosed) || errors.Is(err, executor.ErrFailed) || errors.Is(err, executor.ErrFull)
	return err == nil || l.has("ctx") || over && (l.with || !w.calm())
}

func playCompact(w *world, l line) {
	ctx, cancel := w.context(l)
	defer cancel()
	if err := w.x.Compact(ctx); !w.within(l, err) {
		w.fail("compact: %v", err)
	}
}

// playCopy copies the journal. What was there before and after, and was not touched, is in the copy; what had
// ended before is not.
func playCopy(w *world, l line) {
	home, err := os.MkdirTemp(w.dir, copies)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	defer os.RemoveAll(home)
	var over, there []*item
	w.mu.Lock()
	for _, i := range w.ledger.items {
		switch {
		case i.told != "":
			over = append(over, i)
		case i.place != nowhere && i.seen == w.epoch-1 && i.sure:
			there = append(there, i)
		}
	}
	dir, queues := filepath.Join(home, "whole"), w.queues
	w.mu.Unlock()
	ctx, cancel := w.context(l)
	defer cancel()
	err = w.x.Copy(ctx, dir)
	if !w.within(l, err) {
		w.fail("copy: %v", err)
	}
	if _, missing := os.Stat(dir); (err == nil) != (missing == nil) {
		w.fail("copy: it said %v, and of the directory there is %v", err, missing)
	}
	if err != nil || !w.checked(dir) {
		return
	}
	has := w.copied(dir, queues)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range over {
		if has[spot{i.queue + "/" + i.id, i.pos}] && i.pos != 0 && i.hintLife != 0 {
			w.fail("over and copied: %v", i)
		}
	}
	for _, i := range there {
		if !has[spot{i.queue + "/" + i.id, i.pos}] && i.pos != 0 && i.moved < w.epoch && !w.behind(i) && !w.queueOf(i.queue).gathers() && !w.queueOf(i.queue).conf.has("keep") {
			w.fail("not copied: %v", i)
		}
	}
}

// checked reports whether a copy is sound.
func (w *world) checked(dir string) bool {
	_, err := journal.Check(dir)
	if err != nil {
		w.fail("copy: %v", err)
	}
	return err == nil
}

// copied is what a copy has, when an executor opens it.
func (w *world) copied(dir string, queues []*queue) map[spot]bool {
	has := make(map[spot]bool)
	x, err := executor.Open(dir, executor.Config{})
	if err != nil {
		w.fail("copy: %v", err)
		return has
	}
	ctx := context.Background()
	defer x.Stop(ctx)
	for _, q := range queues {
		if _, err := executor.HandleMerged(x, q.name, func(context.Context, executor.Merged[payload]) error { return nil }, executor.QueueConfig[payload]{}); err != nil {
			w.fail("copy: %s: %v", q.name, err)
			continue
		}
		w.mu.Lock()
		ids := w.ledger.ids(q.name)
		w.mu.Unlock()
		for some := range slices.Chunk(ids, idsAtOnce) {
			jobs, err := x.Inspect().JobsByID(ctx, q.name, some...)
			if err != nil {
				w.fail("copy: %v", err)
			}
			for _, job := range jobs {
				for _, p := range job.Waiting {
					has[spot{q.name + "/" + job.ID, p.Position}] = true
				}
				for _, p := range job.Dead {
					has[spot{q.name + "/" + job.ID, p.Position}] = true
				}
			}
		}
	}
	return has
}

// playStop stops the executor. What was accepted before is on disk.
func playStop(w *world, l line) {
	if w.full.Load() {
		return // a stop that finds no room fails the executor
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.dur("d"))
	defer cancel()
	w.mu.Lock()
	var accepted []*item
	for _, i := range w.ledger.items {
		if i.state == acked && i.life == w.life {
			accepted = append(accepted, i)
		}
	}
	w.mu.Unlock()
	if w.x.Stop(ctx) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range accepted {
		i.sure = true
	}
}
