// Package staging keeps what the handler of one attempt has staged until it is known
// what became of each job. It knows no queue and no journal: a job is a key, and what
// is staged a value with a weight.
//
//   - What is staged belongs to one job, and keeps its order there. Each job has a
//     limit of its own: so many, and so many bytes, but one of any size has room.
//   - An attempt may be several calls of the handler, one after the other: a batch
//     that is halved, a middleware that calls again. Once the next one has begun, or
//     the attempt is over, what is left of a former call stages nothing.
//   - What was staged in a call that did not count is forgotten. A job that was in
//     several calls has what was staged in the one that counted, which is its last.
//
// A Stage is plain data: its owner serialises all calls.
package staging
