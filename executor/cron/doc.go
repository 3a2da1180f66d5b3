// Package cron enqueues jobs by the clock: schedules with five fields, names or
// intervals, in any time zone, for the queues of an executor.
//
//	c, err := cron.New(x, cron.Config{})
//	err = cron.Add(ctx, c, cron.Schedule[Report]{
//		Name: "report", Spec: "CRON_TZ=Europe/Berlin 0 4 * * *", Queue: reports,
//		Missed:  cron.MissedOnce, // or a restart at four loses the day
//		Payload: func(tick time.Time) Report { return Report{Day: tick} },
//	})
//	err = c.Start()
//
// # What is promised
//
//   - A tick never fires twice. Its job and the offset that says so are in one
//     commit of the journal, see [executor.FromSource]: not after a crash, not when
//     the clock is set back, not with two Crons on one executor, and not with
//     several executors in a [Group].
//   - One member of a group fires: the leader of its election. When it stops, loses
//     the flag, or its executor can't go on, the next one is told, and goes on with
//     the next tick.
//   - Ticks that were missed are not made up, unless the schedule says so: then
//     none is lost across a crash, up to a thousand. What is not made up is logged,
//     in one line for those of a gap, with how many (a thousand, and more), the
//     oldest and the newest, which is Entry.Lost. So it is with those between two
//     processes. What a Pause drops is not.
//   - When the executor refuses a tick for want of room, it is tried again until
//     the next tick is due; under [MissedAll] for as long as it takes.
//   - A schedule hurts only itself: its payload function may panic, exit or never
//     return, its queue may be full; all others tick on.
//   - Daylight saving time has rules: see [Timetable].
//
// # What is not promised
//
//   - That a job runs once: it is a job like all others, and a crash while it runs
//     runs it again.
//   - That every tick fires. When it is not known whether a tick was enqueued, it
//     counts as fired.
//   - Ticks closer than a second.
//   - Leadership across processes: an election is a matter of one process, as
//     everything in package lock.
//
// # A tick
//
//	clock ──(due)──► claim ──► Payload(tick) ──► Enqueue(id, FromSource(tick)) ──► journal
//	  ▲ next tick, ≤ 1 min        in its group: handed out once                 │
//	  └──────────────── over: fired, missed, dropped, given up ◄────────────────┘
//
// A Cron looks at the clock when the next tick is due, and once a minute, because
// the system does not say when a clock is set. One that does not lead looks at
// nothing: it is woken when the leader goes.
//
// # Census
//
//   - the clock: 1, from Start to Stop
//   - a schedule that ticks: 1, until its tick is enqueued
//
// Payload functions are called on the latter, and never under a lock.
package cron
