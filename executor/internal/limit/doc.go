// Package limit says which jobs may run now and which have to wait: so many at a
// time for a key, so many in a span of time, none while the key is paused. It is
// plain data: no clock, no goroutine, no lock. Times are nanoseconds on a clock that
// only goes forward. It knows jobs by their names only.
//
// # What is promised
//
//   - No key has more than Concurrent jobs running.
//   - No half-open window as long as Per has more than Rate + Burst − 1 starts of a
//     key, as long as the limit is not set: with the default Burst of 1 no more
//     than Rate. Over a restart that is not promised, because a limit is not
//     written down; but a new limit has no burst to give away until it has saved
//     one up.
//   - While jobs of a key wait, it starts no more than 1 % fewer than Rate, if they
//     come within Per/200 of being called and no other limit holds them up.
//   - A job gets all that it needs in one step, or nothing. One that waits holds
//     nothing, so jobs can't wait for each other in a circle.
//   - Jobs of one queue are called in the order in which they came. Queues that
//     wait for the same key take turns. A job that is called has its turn kept for
//     a moment, and one that comes later keeps its number.
//   - A job that needs several keys gets them. Others go ahead when it is called for
//     one and another is taken; but after mostTurns of these, jobs of all queues that
//     came later leave it a place in each of its keys, for as long as it has been called
//     so far, and longer each time, until all are free at once. Of two such jobs the one
//     that came first goes first. In a cluster this holds in each process, for the
//     permits that it has in its turns.
//   - Limits with Config.Cluster, of an executor that is a cluster's, let a job start with a
//     permit, or at a time, that Limits.Keep has got from all processes; see package quota. The
//     first job that waits for one of several keys has the permits of the others asked for, too.
//   - A key that is not in use is forgotten: nothing runs, nothing waits, it is not
//     paused, and its pace has caught up with the clock.
//
// # What is not promised
//
// A job with several limits needs all of them at one moment. In a cluster it needs the starts of all
// of them within quota.Grace: where jobs of other processes need the same ones, one of two or three
// starts comes to nothing.
//
// # Pace
//
// A rate is kept by the generic cell rate algorithm, as virtual scheduling (ITU-T
// I.371, Annex A; ATM Forum TM 4.0, 4.4.2). A key has one number, next: the time at
// which its next job would start if all were evenly spread. With
//
//	late     = Per / 200                    what is made up for of a late start
//	interval = ⌈(Per + late) / Rate⌉        between two starts at the pace
//	ahead    = (Burst − 1)·interval + late  how far starts may be before the pace
//
// a job may start at a time t when t ≥ next − ahead, and then next becomes max(next,
// t) + interval.
//
// Why no window has more: after a start at s the n-th one is not before s +
// n·interval − ahead. For n = Rate + Burst − 1 that is Rate·interval − late after s,
// which is Per or more. So n + 1 starts don't fit into a half-open window of Per.
//
// Why no more than 1 % is lost: a start that is late by no more than ahead does not
// move next, so the pace is that of interval: 0.5 % slower than Rate, and less than
// 0.1 % for rounding up, because an interval has 1 µs at least. Without late, each
// start that comes a millisecond after its timer would cost a tenth of 100 in a
// second. All of it is in integers: an hour of 100 in a second is exact.
//
// # Why not golang.org/x/time/rate
//
// It is well kept, and does not fit. A Limiter has a lock of its own, and takes 96 bytes
// where a key here needs 8. When its next token comes is said only by a reservation,
// which takes the token: but a job that waits must hold nothing. It begins with a full
// burst, which a restart gives away again, and counts in floats. Concurrency, lines,
// pauses and forgetting would be beside it anyway.
package limit
