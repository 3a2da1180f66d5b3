//go:build unix

package shard

import (
	"syscall"
	"time"
)

// processorTime is what the process has computed since it began: unlike a clock it
// stands still while others have the machine.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
