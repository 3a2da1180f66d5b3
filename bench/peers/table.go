package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/strandjobs/strand/bench/peers/chart"
)

// table prints the cases with the figures that people compare.
func table(out io.Writer, all []outcome) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "peer\tpromise\tcase\tjobs/s\tenqueued/s\torder broken\toverlaps\tidle p50\tp99\tCPU µs/job\tpeak MiB\tserver MiB\tdisk MiB")
	for _, o := range all {
		switch {
		case o.Skipped != "":
			fmt.Fprintf(w, "%s\t%s\t%s\tskipped: %s\n", o.Peer, o.Promise, o.Describe(), o.Skipped)
		case o.Failed != "":
			fmt.Fprintf(w, "%s\t%s\t%s\tFAILED: %.200q\n", o.Peer, o.Promise, o.Describe(), o.Failed)
		case o.Latency != nil:
			fmt.Fprintf(w, "%s\t%s\t%s\t\t\t\t\t%s\t%s\t\t%.0f\t%.0f\t%.1f\n", o.Peer, o.Promise, o.Describe(), micros(o.Latency.P50), known(o.Latency.P99),
				o.Usage.PeakMiB, o.Usage.ServerMiB, float64(o.Usage.DiskBytes)/(1<<20))
		default:
			fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\t%.0f\t%d\t%d\t\t\t%.1f\t%.0f\t%.0f\t%.1f\n", o.Peer, o.Promise, o.Describe(), o.Rate, o.Enqueue,
				o.Violations, o.Overlaps, o.Processor, o.Usage.PeakMiB, o.Usage.ServerMiB, float64(o.Usage.DiskBytes)/(1<<20))
		}
	}
	return w.Flush()
}

// ratios prints how Strand stands beside the others, round by round.
func ratios(out io.Writer, against []standing) error {
	for _, s := range against {
		goal := ""
		if s.Goal > 0 {
			goal = fmt.Sprintf(", goal %s", chart.Short(s.Goal))
		}
		if _, err := fmt.Fprintf(out, "%s over %s, %s: %.2f [%.2f … %.2f] in %d rounds%s\n", s.Of, s.Peer, s.Case, s.Ratio, s.RatioMin, s.RatioMax, s.Rounds, goal); err != nil {
			return err
		}
	}
	return nil
}

// Describe names a case.
func (t task) Describe() string {
	if t.Shape == idle {
		return t.Shape + t.standby()
	}
	text := fmt.Sprintf("%s, %d ids", t.Shape, t.IDs)
	if t.IDs == 1 {
		text = t.Shape + ", 1 id"
	}
	if t.Handler > 0 {
		text += fmt.Sprintf(", %v handler", t.Handler)
	}
	switch {
	case t.Tx:
		text += ", transactional"
	case t.Single:
		text += ", one per call"
	}
	switch {
	case t.Callers == 1:
		text += ", 1 caller"
	case t.Callers > 1:
		text += fmt.Sprintf(", %d callers", t.Callers)
	}
	return text + t.standby()
}

func (t task) standby() string {
	if t.Standby {
		return ", synchronous standby"
	}
	return ""
}

// known is a quantile, if there are enough samples to tell it.
func known(micro float64) string {
	if micro == 0 {
		return "–"
	}
	return micros(micro)
}

func micros(v float64) string {
	d := time.Duration(v * float64(time.Microsecond))
	switch {
	case d < 100*time.Microsecond:
		return d.Round(100 * time.Nanosecond).String()
	case d < 100*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
