package world

// Time passes, and jobs run. What can run, runs: when nothing is left to do now, no job is
// ready that nothing keeps.
var passing = &feature{
	name: "time", always: true, claims: "Executor.Start Queue.Stats Executor.Stats Executor.Inspect Inspector.Jobs Inspector.JobsByID",
	steps: []step{
		{"idle", 12, false, func(*draw) line { return newLine("idle") }, func(w *world, _ line) { w.idle() }},
		{"advance", 12, false, func(d *draw) line {
			return newLine("advance", "d", d.one("1ms", "500ms", "2s", "10s", "1m"))
		}, func(w *world, l line) { w.x.Advance(l.dur("d")) }},
	},
}

func (w *world) idle() {
	w.x.UntilIdle()
	w.noneIsReady()
}
