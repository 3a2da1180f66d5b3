package world

import (
	"errors"
	"time"
)

var errDisk = errors.New("planned failure of the disk")

// The disk is full, with room for results or without, at once or after a commit; it has
// room again; it is slow; a commit fails. What was refused was not accepted, and what was
// told is true.
var disk = &feature{
	name: "disk", faults: true,
	steps: []step{
		{"full", 5, false, func(d *draw) line {
			l := newLine("full", "bytes", d.one("0", "200", "2000"))
			if d.chance(2) {
				l.set("results", "no")
			}
			if d.chance(3) {
				l.set("commits", 1+d.IntN(4))
			}
			return l
		}, playFull},
		{"room", 7, false, func(*draw) line { return newLine("room") }, func(w *world, _ line) { w.room() }},
		{"slow", 3, false, func(d *draw) line { return newLine("slow", "d", d.one("0s", "10ms", "1s", "7s")) }, func(w *world, l line) {
			w.test.Disk.Slow(l.dur("d"))
			if w.slow && l.dur("d") == 0 {
				time.Sleep(30 * time.Second) // the commit that it is at
			}
			w.slow = l.dur("d") > 0
		}},
		{"failcommit", 1, false, func(d *draw) line { return newLine("failcommit", "commits", 1+d.IntN(4)) }, func(w *world, l line) {
			w.arm(l.num("commits"), func() { w.test.Disk.FailCommit(errDisk) })
		}},
	},
}

func playFull(w *world, l line) {
	begin := func() { w.test.Disk.Full(l.num("bytes")) }
	if l.has("results") {
		begin = w.test.Disk.NoRoom
	}
	full := func() {
		begin()
		time.AfterFunc(10*time.Minute, w.test.Disk.HasRoom) // what waits for the disk can't end before
	}
	w.full.Store(true)
	if l.has("commits") {
		w.arm(l.num("commits"), full)
		return
	}
	full()
}

func (w *world) room() {
	w.full.Store(false)
	w.disarm()
	w.test.Disk.HasRoom()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state["room"] = time.Now()
}
