package main

import (
	"fmt"
	"os"
	"strings"
)

// peakMiB is the most memory this process has had, 0 if the system keeps it to
// itself.
func peakMiB() float64 { return memoryMiB("VmHWM:") }

// memoryMiB is what the system says about this process under some name.
func memoryMiB(name string) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, name); found {
			var kiB float64
			if _, err := fmt.Sscan(value, &kiB); err == nil {
				return kiB / 1024
			}
		}
	}
	return 0
}
