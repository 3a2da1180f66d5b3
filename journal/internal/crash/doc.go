// Package crash finds out which job ended the process before this one.
//
//	Running (file RUNNING, mapped) ─ what ran ──┐
//	Report (file CRASH) ─ what Go said ─────────┼─► Death ─► judge ─► Suspicion, by position
//	the system ─ boots, kills for memory ───────┘                        │
//	state keys "suspect/…" ◄─────────────────────────────────────────────┘
//
// What is promised:
//
//   - What [Recorder] was told survives the death of the process, not that of the
//     machine, which no job can cause. A file that is cut or unreadable ends the
//     recorder, not the process.
//   - A death counts once, however often the process dies while it looks at it, and
//     one that came from outside counts against no job.
//   - One death convicts no job, unless Go's report names it. The rule stands at
//     [Suspicion].
//
// What is not promised: to tell a kill from outside from os.Exit. The odds do that,
// after several deaths.
//
// Census: a Running has a timer, which ends with Close, and one goroutine that tells of a
// recorder that was lost. [Report] has the Go runtime write; there is one in a process.
package crash
