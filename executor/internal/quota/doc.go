// Package quota divides what a limit allows among the processes of a cluster. It is plain data: no
// clock, no goroutine, no lock. For each key of a limit all processes have one [Row], which they read
// and change in turns, each for itself.
//
//	jobs ──▶ limit.Table ──ask──▶ Row.Agree ──answer──▶ permits, starts ──▶ jobs
//
// # What is promised
//
//   - The permits of all processes that live are no more than Concurrent, if each holds no more than
//     it was given, and begins no job above that.
//   - Each process that wants permits has its share of them: as many as it wants, or as the others
//     have that want more. What does not divide goes round, a [turn] at a time.
//   - No half-open window as long as Per + [Grace] has the times of more than Rate + Burst − 1 starts,
//     by the formula of package limit. A process begins no job before its time, and none later than
//     Grace after it, unless the answer took longer: so no window as long as Per sees more. The
//     price is a pace that is slower by Grace in Per.
//   - A row that says nothing is none.
//
// # What is not
//
// A start that was not used is lost, unless it was the last one that was given, and its return is heard of.
// Which process gets the next one is a matter of who asks. Census: none.
package quota
