// Package faultdisk lets the tests of the packages under executor open an executor
// on a disk in memory that has crashes and faults on demand. It is no part of the
// API: programs that want an executor in memory open it without a directory.
package faultdisk

// Open is a func(*journal.Memory, executor.Config) (*executor.Executor, error), set
// by executor, which this package can't import.
var Open any
