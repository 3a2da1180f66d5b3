package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// tolerance is how far the ratios of two reports of one machine may be apart,
// of the smaller one.
const tolerance = 0.15

var errApart = errors.New("the reports don't agree")

// compare prints the ratios of two reports that are further apart, each with
// the spread of its rounds, and how many there are. It is an error if there is
// one. Figures that have a slack are near zero; a ratio of them says nothing,
// so it is they that are compared, and that is how far they may be apart.
func compare(out io.Writer, pair string) error {
	first, second, found := strings.Cut(pair, ",")
	if !found {
		return fmt.Errorf("-compare: %q is not two directories with a comma between them", pair)
	}
	a, err := readReport(first)
	if err != nil {
		return err
	}
	b, err := readReport(second)
	if err != nil {
		return err
	}
	before, after := a.measures(), b.measures()
	both, apart, slack := 0, 0, 0
	for _, m := range before {
		for _, other := range after {
			if m.name != other.name {
				continue
			}
			both++
			if m.slack > 0 {
				slack++
			}
			if difference := m.apart(other); difference != "" {
				apart++
				fmt.Fprintf(out, "%-90s %-26s %-26s %s\n", m.name, m, other, difference)
			}
		}
	}
	fmt.Fprintf(out, "%d of %d are further apart than %.0f %%, or than their slack, which %d have that are near zero\n", apart, both, 100*tolerance, slack)
	if alone := len(before) + len(after) - 2*both; alone > 0 {
		fmt.Fprintf(out, "%d are in one report only\n", alone)
	}
	if apart > 0 {
		return errApart
	}
	return nil
}

// measure is what two reports are compared by: a ratio, or a figure with slack.
type measure struct {
	name             string
	value, low, high float64
	slack            float64
	unit             string
}

func (m measure) String() string {
	text := fmt.Sprintf("%.3g", m.value)
	if m.low < m.high {
		text += fmt.Sprintf(" [%.3g … %.3g]", m.low, m.high)
	}
	return strings.TrimSpace(text + " " + m.unit)
}

// apart says by how much two measures are too far apart, or nothing.
func (m measure) apart(other measure) string {
	if m.slack > 0 {
		if by := other.value - m.value; math.Abs(by) > m.slack {
			return fmt.Sprintf("%+.3g, slack %.3g", by, m.slack)
		}
		return ""
	}
	if max(m.value, other.value) > (1+tolerance)*min(m.value, other.value) {
		return fmt.Sprintf("%+.0f %%", 100*(other.value/m.value-1))
	}
	return ""
}

func (r *report) measures() (all []measure) {
	for _, s := range r.Against {
		all = append(all, measure{name: fmt.Sprintf("%s over %s, %s", s.Of, s.Peer, s.Case), value: s.Ratio, low: s.RatioMin, high: s.RatioMax})
	}
	for _, f := range r.Own {
		switch {
		case f.Slack > 0:
			all = append(all, measure{f.Name, f.Value, f.Min, f.Max, f.Slack, f.Unit})
		case f.Ratio > 0:
			all = append(all, measure{name: f.Name, value: f.Ratio, low: f.RatioMin, high: f.RatioMax})
		}
	}
	return all
}

func readReport(dir string) (*report, error) {
	data, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		return nil, fmt.Errorf("a report: %w", err)
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("a report: %s: %w", dir, err)
	}
	return &r, nil
}
