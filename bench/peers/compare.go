package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// tolerance is how far two reports of one machine may be apart.
const tolerance = 0.15

// compare prints the ratios of two reports that are further apart, and how many
// are not.
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
	before, after := a.ratios(), b.ratios()
	both, apart := 0, 0
	for _, r := range before {
		for _, other := range after {
			if r.name != other.name {
				continue
			}
			both++
			if change := other.value/r.value - 1; math.Abs(change) > tolerance {
				apart++
				fmt.Fprintf(out, "%-72s %8.3g %8.3g %+5.0f %%\n", r.name, r.value, other.value, 100*change)
			}
		}
	}
	_, err = fmt.Fprintf(out, "%d of %d ratios differ by more than %.0f %%\n", apart, both, 100*tolerance)
	return err
}

type ratio struct {
	name  string
	value float64
}

func (r *report) ratios() (all []ratio) {
	for _, s := range r.Against {
		all = append(all, ratio{fmt.Sprintf("%s over %s, %s", s.Of, s.Peer, s.Case), s.Ratio})
	}
	for _, f := range r.Own {
		if f.Ratio > 0 {
			all = append(all, ratio{f.Name, f.Ratio})
		}
	}
	return all
}

func readReport(dir string) (*report, error) {
	data, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err != nil {
		return nil, fmt.Errorf("-compare: %w", err)
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("-compare: %s: %w", dir, err)
	}
	return &r, nil
}
