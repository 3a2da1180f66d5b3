package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/strandjobs/strand/bench/peers/chart"
	"github.com/strandjobs/strand/bench/peers/peer"
)

// What Strand on PostgreSQL stands beside.
const (
	river = "River, PostgreSQL, tuned"
	bolt  = "Strand" // on a disk of its own, in bbolt
)

// served has the same callers for all. With a standby it is about what waits for it.
var served = budget{
	target: 800 * time.Millisecond, most: 500_000, rounds: 3, atMost: 3, limit: 6 * time.Minute,
	list: []task{
		{Shape: together, IDs: 1000},
		{Shape: together, IDs: 1000, Single: true, Callers: 256},
		{Shape: together, IDs: 1000, Single: true, Callers: 1},
		{Shape: together, IDs: 1000, Single: true, Callers: 64, Tx: true},
		{Shape: idle, IDs: 1000},
		{Shape: together, IDs: 1000, Standby: true},
		{Shape: idle, IDs: 1000, Standby: true},
	},
}

// serverTable prints the cases one after the other, each with the ratios of single rounds.
func serverTable(out io.Writer, before, after machine, all []*series) error {
	fmt.Fprintf(out, "%s, %d cores, %.0f GiB, %s, %s, commit %s, load average %s before and %s after it, %.1f minutes\n",
		before.CPU, before.Cores, before.MemGiB, before.System, before.Go, before.Commit, before.Load, after.Load, after.At.Sub(before.At).Minutes())
	for _, p := range peer.OnPostgres() {
		fmt.Fprintf(out, "%s: %s\n", p.Name, p.Settings)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for i, s := range all {
		if len(s.rounds) == 0 {
			continue
		}
		o := s.merged()
		if i == 0 || !all[i-1].task.sameCase(s.task) {
			fmt.Fprintf(w, "\n%s\n", o.Describe())
			switch {
			case o.Shape == idle:
				fmt.Fprintln(w, "\tp50\tp99\ta commit: p50\tp99\tp50 in commits\tover River")
			default:
				fmt.Fprintln(w, "\tjobs/s\trounds\tover River\tover bbolt\torder broken\tper job: writes\tWAL B\tserver µs\tclient µs\tpackets\tsent B\treceived B")
			}
		}
		serverLine(w, s, &o, all)
	}
	return w.Flush()
}

func serverLine(w io.Writer, s *series, o *outcome, all []*series) {
	over := func(name string) string {
		ratio := spreadOf(nil)
		if theirs := ownSeries(name, s.task, all); theirs != nil && theirs != s {
			ratio = spreadOf(s.over(theirs))
		}
		if ratio.n == 0 {
			return "–"
		}
		return fmt.Sprintf("%.2f [%.2f … %.2f]", ratio.median, ratio.low, ratio.high)
	}
	fmt.Fprintf(w, "%s\t", o.Peer)
	defer fmt.Fprintln(w)
	switch {
	case o.Skipped != "":
		fmt.Fprintf(w, "skipped: %s", o.Skipped)
	case o.Failed != "":
		fmt.Fprintf(w, "FAILED: %.300q", o.Failed)
	case o.Latency != nil:
		fmt.Fprintf(w, "%s\t%s\t", micros(o.Latency.P50), known(o.Latency.P99))
		if o.Commit != nil {
			fmt.Fprintf(w, "%s\t%s\t%.2f\t%s", micros(o.Commit.P50), known(o.Commit.P99), o.Latency.P50/o.Commit.P50, over(river))
		}
	default:
		short := ""
		if o.CutShort {
			short = ", cut short"
		}
		fmt.Fprintf(w, "%.0f\t%d: [%s … %s%s]\t%s\t%s\t%d", o.Rate, o.Rounds, chart.Short(o.RateMin), chart.Short(o.RateMax), short, over(river), over(bolt), o.Violations)
		if c := costs(s); c != nil {
			fmt.Fprintf(w, "\t%.3f\t%.0f\t%.1f\t%.1f\t%.3f\t%.0f\t%.0f", c.Writes, c.WAL, c.Server, c.Client, c.Requests, c.Sent, c.Received)
		}
	}
}

// costs returns the medians of what the rounds say.
func costs(s *series) *cost {
	var all []cost
	for _, o := range s.worked() {
		if o.Cost != nil {
			all = append(all, *o.Cost)
		}
	}
	if len(all) == 0 {
		return nil
	}
	middle := func(of func(cost) float64) float64 {
		values := make([]float64, len(all))
		for i, c := range all {
			values[i] = of(c)
		}
		return spreadOf(values).median
	}
	return &cost{
		middle(func(c cost) float64 { return c.Writes }), middle(func(c cost) float64 { return c.WAL }),
		middle(func(c cost) float64 { return c.Server }), middle(func(c cost) float64 { return c.Client }),
		middle(func(c cost) float64 { return c.Requests }), middle(func(c cost) float64 { return c.Sent }),
		middle(func(c cost) float64 { return c.Received }),
	}
}
