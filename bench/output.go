package main

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonWriter prints one object per figure and line.
func jsonWriter(out io.Writer) func([]result) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return func(results []result) error {
		for _, r := range results {
			if err := encoder.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
}

var columns = []struct {
	title string
	width int
	left  bool
	cell  func(result) string
}{
	{"workload", 26, true, func(r result) string { return r.Name }},
	{"durability", 10, true, func(r result) string { return r.Durability }},
	{"n", 8, false, func(r result) string { return strconv.Itoa(r.N) }},
	{"median", 9, false, func(r result) string { return short(r.Value) }},
	{"unit", 8, true, func(r result) string { return r.Unit }},
	{"spread", 19, true, func(r result) string { return short(r.Min) + " … " + short(r.Max) }},
	{"baseline", 24, true, func(r result) string { return r.Baseline }},
	{"median", 9, false, func(r result) string { return short(r.BaselineValue) }},
	{"ratio", 7, false, func(r result) string { return short(r.Ratio) }},
	{"spread", 15, true, func(r result) string { return short(r.RatioMin) + " … " + short(r.RatioMax) }},
	{"goal", 0, true, reached},
}

// tableWriter prints lines as they come, below a heading.
func tableWriter(out io.Writer) func([]result) error {
	headed := false
	return func(results []result) error {
		var b strings.Builder
		if !headed {
			headed = true
			row(&b, func(i int) string { return columns[i].title })
		}
		for _, r := range results {
			row(&b, func(i int) string { return columns[i].cell(r) })
		}
		_, err := io.WriteString(out, b.String())
		return err
	}
}

func row(b *strings.Builder, cell func(i int) string) {
	var line strings.Builder
	for i, c := range columns {
		text := cell(i)
		padding := strings.Repeat(" ", max(0, c.width-utf8.RuneCountInString(text)))
		if c.left {
			line.WriteString(text + padding + "  ")
		} else {
			line.WriteString(padding + text + "  ")
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}

func reached(r result) string {
	switch {
	case r.Met == nil:
		return ""
	case *r.Met:
		return r.Goal + ": yes"
	}
	return r.Goal + ": NO"
}

// short writes a number with three digits that count, and K or M.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return digits(v/1e6) + "M"
	case a >= 1e4:
		return digits(v/1e3) + "K"
	}
	return digits(v)
}

func digits(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
