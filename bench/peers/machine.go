package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// machine is where a report was made.
type machine struct {
	CPU     string    `json:"cpu"`
	Cores   int       `json:"cores"`
	MemGiB  float64   `json:"mem_gib"`
	System  string    `json:"system"`
	Go      string    `json:"go"`
	Commit  string    `json:"commit"` // of Strand; with "+" if files had been changed
	At      time.Time `json:"at"`
	Load    string    `json:"load"` // of the last minute, when it began: what else ran
	Quick   bool      `json:"quick"`
	Command string    `json:"command"`
	Minutes float64   `json:"minutes"` // that it took
}

func thisMachine(root string) machine {
	m := machine{
		Cores: runtime.NumCPU(), Go: runtime.Version(), At: time.Now().UTC().Truncate(time.Second),
		CPU: runtime.GOARCH, System: runtime.GOOS, MemGiB: float64(number("/proc/meminfo", "MemTotal:")) / (1 << 20),
	}
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	if release := strings.TrimSpace(read("/proc/sys/kernel/osrelease")); release != "" {
		m.System += " " + release
	}
	if fields := strings.Fields(read("/proc/loadavg")); len(fields) > 0 {
		m.Load = fields[0]
	}
	m.Commit = git(root, "rev-parse", "--short=10", "HEAD")
	if m.Commit != "" && git(root, "status", "--porcelain", "--untracked-files=no") != "" {
		m.Commit += "+"
	}
	return m
}

// git returns what git says, or nothing where it says nothing.
func git(dir string, args ...string) string {
	out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func read(file string) string {
	text, _ := os.ReadFile(filepath.FromSlash(file)) // empty without it
	return string(text)
}
