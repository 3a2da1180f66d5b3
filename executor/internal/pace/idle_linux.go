package pace

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// processorTimes returns how long this process has computed, and how long the
// processors of the machine have not, one after the other.
func processorTimes() (used, machine time.Duration, ok bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, 0, false
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	machine, ok = idleOf(stat[:min(len(stat), 256)])
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), machine, ok
}

// tick is the unit of /proc/stat.
const tick = 10 * time.Millisecond

// idleOf reads the first line of /proc/stat: "cpu", then the ticks of user, nice,
// system, idle and iowait. What waits for a disk counts as idle.
func idleOf(stat []byte) (idle time.Duration, ok bool) {
	fields := bytes.Fields(stat)
	if len(fields) < 6 || string(fields[0]) != "cpu" {
		return 0, false
	}
	for _, field := range fields[4:6] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, false
		}
		idle += time.Duration(n) * tick
	}
	return idle, true
}
