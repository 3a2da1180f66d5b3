// Package quarantine holds the jobs that may have killed a process: what was
// running when it died. It knows what the journal says of them, and neither queues
// nor workers.
//
// Nearly all of them run again at once, like any other, and are rid of the
// suspicion when they end. Those that were running at two deaths in a row are held;
// first the process lives without them for as long as [journal.Suspicion] says,
// then they run one after the other, beside all other jobs. One that lasts keeps
// the others waiting for ten seconds at most. One that is the cause of as many
// deaths as its limit says is given up.
package quarantine
