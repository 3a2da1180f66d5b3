// Package baseline holds what the figures of bench are compared with: raw
// bbolt, channels by hand, and a plain map. Each does the least that could be
// called the same work, without order, merging, retries or a schedule.
//
// Functions return how long the work itself took, without setting it up, and an
// error when its result is not what it should be.
package baseline
