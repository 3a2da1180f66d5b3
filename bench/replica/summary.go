package main

import (
	"fmt"
	"io"
	"time"
)

// shownDifferences bounds what is printed of a target that is wrong.
const shownDifferences = 20

// summary prints the figures of all lives. It returns errShown if something is
// not as it should be.
func (r *replica) summary(out io.Writer, v verdict) error {
	t, took := r.ledger.counts()
	lost := len(r.history.events) - t.ended
	for i, d := range v.differences {
		if i == shownDifferences {
			fmt.Fprintf(out, "and %d more\n", len(v.differences)-i)
			break
		}
		fmt.Fprintln(out, "differs:", d)
	}
	matches := "yes"
	if len(v.differences) > 0 {
		matches = "no"
	}
	line := func(name string, value any, remark string) { fmt.Fprintf(out, "%s: %v%s\n", name, value, remark) }
	line("repository", r.repo.top, "")
	line("target", r.options.target, "")
	if r.repo.shallow {
		line("shallow clone", "yes", " (the oldest commit stands for all before it)")
	}
	line("commits", len(r.history.commits), "")
	line("events", len(r.history.events), "")
	line("paths", len(r.history.paths), "")
	line("merged away", t.merged, " (ran together with a newer event of their path)")
	line("runs", t.runs, fmt.Sprintf(" (%d waited for another path)", t.waits))
	line("retries", t.retries, "")
	line("lives", t.lives, fmt.Sprintf(" (%d ended in a crash)", t.crashes))
	line("submodules", v.submodules, " (recorded, not copied)")
	line("events lost", lost, "")
	line("order violations", t.violations, "")
	line("tree matches HEAD", matches, " ("+r.repo.head[:12]+")")
	line("jobs/s", int(float64(t.ended)/max(took, time.Millisecond).Seconds()), "")
	if lost != 0 || t.violations != 0 || matches == "no" {
		return errShown
	}
	return nil
}
