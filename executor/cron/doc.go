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
//     several executors in a [Group]. But Resume, or Remove and a new Add, on a clock that
//     is behind begin at its time: what has fired since then fires again.
//   - One member of a group fires: the leader of its election. When it stops, loses
//     the flag, or its executor can't go on, the next one is told, and goes on with
//     the next tick. Leadership passes without the minimum of 3 minutes that
//     resque-scheduler has, because the offsets prevent doubles.
//   - Ticks that were missed are not made up, unless the schedule says so: then
//     none is lost across a crash, up to a thousand. What is not made up is logged,
//     in one line for those of a gap, with how many (a thousand, and more), the
//     oldest and the newest, which is Entry.Lost. So it is with those between two
//     processes. What a Pause drops is not.
//   - When the executor refuses a tick for want of room, it is tried again until
//     the next tick is due; under [MissedAll] for as long as it takes.
//   - A schedule hurts only itself: its payload function may panic, exit or never
//     return, its queue may be full; all others tick on.
//   - Daylight saving time has rules: see Spec of [Schedule].
//
// # Several processes
//
// With a [executor.Splitter], add a schedule in each process, and in each partition of
// a cluster of journal/postgres: a tick is fired by the one that its job's id belongs
// to, and does not concern the others, which do not ask for its payload, and list neither
// an error nor a loss. Under OverlapParallel the ids, and so the ticks, are divided; under the
// other two the name of the schedule is the id, and one process fires all. Added in one
// process only, a schedule loses the ticks of all others.
//
//   - Offsets, and so what was missed, are in the journal of each: who goes on with one
//     makes up for its ticks. [MissedOnce] fires the newest tick of all processes, and
//     not one in each. By default what is due while a partition moves is lost: set
//     MissedOnce or MissedAll.
//   - Pause, Resume and Remove are for one process. [Cron.TriggerNow] returns
//     [executor.ErrNotOwned] where its id belongs to another one.
//   - The members of a [Group] have to own the same ids.
//   - When Overlap changes to OverlapParallel, or from it, ticks have other owners: what was missed
//     before the first start with the new one is not made up for.
//   - When Nodes or Owner changes, a tick of before that belongs to another process now
//     may be fired there, too, if the schedule makes up for what was missed.
//
// # The end
//
// Stop a Cron before its executor, and it waits for what it enqueues. One that is not
// stopped ends by itself when its executor was stopped or has failed, with the next tick
// or within a minute: what is due from then on is refused, and was missed.
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
// A Cron looks at the clock once a minute, too, because the system does not say when a
// clock is set. One that does not lead looks whether its executor has ended, and is woken
// when the leader goes.
//
// # Census
//
//   - the clock: 1, from Start to Stop, or to the end of the executor
//   - a schedule that ticks: 1, until its tick is enqueued; a line for the log: 1, until it is written
package cron
