// Package tally bounds the lines of a log. When what all jobs depend on is down, a
// line for each of them would fill the disk: so many are logged, and the next one
// says how many were left out.
package tally
