package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// usage is what a case took from the machine. What the system does not tell
// is 0.
type usage struct {
	PeakMiB   float64 `json:"peak_mib"`   // most memory of the process, harness included
	ServerMiB float64 `json:"server_mib"` // proportional share of a server's memory at the end
	DiskBytes int64   `json:"disk_bytes"` // at the end, as allocated
	Written   int64   `json:"written"`    // bytes sent to the disk by all jobs, the server's included
}

func usageOf(dir string) usage {
	u := usage{DiskBytes: allocated(dir), Written: number("/proc/self/io", "write_bytes:")}
	u.PeakMiB = float64(number("/proc/self/status", "VmHWM:")) / 1024
	for _, pid := range descendants(os.Getpid()) {
		u.ServerMiB += float64(number(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")) / 1024
		u.Written += number(fmt.Sprintf("/proc/%d/io", pid), "write_bytes:")
	}
	return u
}

// processorTime is what this process and those below it have used of all cores.
func processorTime() time.Duration { return ownTime() + serverTime() }

func ownTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // zeros where it is not known
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverTime is that of the processes below this one.
func serverTime() (total time.Duration) {
	for _, pid := range descendants(os.Getpid()) {
		total += processorTimeOf(pid)
	}
	return total
}

// processorTimeOf reads it from /proc, in hundredths of a second, with that of its
// children that have ended; 0 where there is none.
func processorTimeOf(pid int) (total time.Duration) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ") // behind the name, which may be anything
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0
	}
	for _, field := range fields[11:15] { // user and system, of itself and of its children
		ticks, _ := strconv.Atoi(field) // 0 if it is no number
		total += time.Duration(ticks) * time.Second / 100
	}
	return total
}

// number reads the line of a /proc file that begins with a key.
func number(file, key string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, key); found {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64) // 0 if it is no number
			return n
		}
	}
	return 0
}

// descendants returns the processes below one.
func descendants(pid int) (all []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // none where there is no /proc
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // it may have ended
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}

// version returns that of a module in this program.
func version(module string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok || module == "" {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}

// allocated returns what the files below dir take on the disk.
func allocated(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				total += blocks(info)
			}
		}
		return nil // a file that goes away meanwhile counts nothing
	})
	return total
}
