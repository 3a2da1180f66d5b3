package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/strandjobs/strand/bench/peers/chart"
	"github.com/strandjobs/strand/bench/peers/peer"
)

// report is everything that was measured. Its JSON is in report.json.
type report struct {
	Machine  machine    `json:"machine"`
	Peers    []outcome  `json:"peers"` // medians of their rounds
	Own      []figure   `json:"strand"`
	Against  []standing `json:"against"`
	Problems []string   `json:"problems,omitempty"` // why something is missing
}

// standing is Strand's rate over that of a peer, in one case.
type standing struct {
	Of   string `json:"of"`
	Peer string `json:"peer"`
	Case string `json:"case"`
	// Ratio is the median of the ratios of single rounds.
	Ratio    float64 `json:"ratio"`
	RatioMin float64 `json:"ratio_min"`
	RatioMax float64 `json:"ratio_max"`
	Rounds   int     `json:"rounds"`
	Goal     float64 `json:"goal,omitempty"`
	Strand   float64 `json:"strand"` // medians
	Theirs   float64 `json:"theirs"`
}

// write makes a report in a directory, which need not exist. It is written
// again and again: whatever ends it, what has been measured is there.
func (o *options) write(ctx context.Context, dir string, progress io.Writer) error {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("-report: %w", err)
	}
	r := report{Machine: thisMachine(root)}
	r.Machine.Quick = o.quick
	r.Machine.Command = "go run ./bench -report DIR"
	if o.quick {
		r.Machine.Command += " -quick"
	}
	begun := time.Now()
	save := func(problem error) error {
		if problem != nil {
			r.Problems = append(r.Problems, problem.Error())
		}
		r.Machine.Minutes = math.Round(10*time.Since(begun).Minutes()) / 10
		return r.save(dir)
	}
	if err := save(nil); err != nil {
		return fmt.Errorf("-report: %w", err) // before anything is measured
	}
	err = o.measure(ctx, progress, func(sofar []*series) {
		r.Peers, r.Against = merge(sofar), standings(sofar)
		_ = save(nil) // the last one counts
	})
	if err == nil {
		scratch := cmp.Or(o.dir, os.TempDir())
		err = own(ctx, root, scratch, o.quick, progress, func(some []figure) {
			r.Own = append(r.Own, some...)
			_ = save(nil)
		})
	}
	return errors.Join(err, save(err))
}

// redraw writes the page and the charts of a report as the program draws them now.
func redraw(dir string) error {
	r, err := readReport(dir)
	if err != nil {
		return err
	}
	return r.save(dir)
}

// save writes the data, the charts and the page.
func (r *report) save(dir string) error {
	data, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	pictures, err := r.pictures()
	if err != nil {
		return err
	}
	errs := []error{os.WriteFile(filepath.Join(dir, "report.json"), append(data, '\n'), 0o644)}
	for _, p := range pictures {
		errs = append(errs, os.WriteFile(filepath.Join(dir, p.Name+".svg"), p.SVG, 0o644))
	}
	page, err := os.Create(filepath.Join(dir, "index.html"))
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	errs = append(errs, r.page(page, pictures), page.Close())
	return errors.Join(errs...)
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"short": chart.Short, "micros": micros, "known": known,
	"mib":  func(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) },
	"ours": ours,
	"between": func(low, high float64) string {
		if low == high {
			return ""
		}
		return "[" + chart.Short(low) + " … " + chart.Short(high) + "]"
	},
	"each": func(o outcome) string {
		if o.Jobs == 0 || o.Usage.Written == 0 || o.Total == 0 {
			return ""
		}
		return chart.Short(float64(o.Usage.Written) / float64(o.Total))
	},
}).Parse(pageText))

// page writes everything into one document, which needs no other file.
func (r *report) page(out io.Writer, pictures []picture) error {
	type drawing struct {
		Sentence string
		SVG      template.HTML
	}
	var drawings []drawing
	for _, p := range pictures {
		drawings = append(drawings, drawing{p.Sentence, template.HTML(inline(p.SVG))})
	}
	return pageTemplate.Execute(out, struct {
		*report
		Headlines []string
		Drawings  []drawing
		Settings  []peer.Peer
	}{r, r.headlines(), drawings, peer.All()})
}

// inline leaves out what stands before the svg element.
func inline(svg []byte) string {
	text := string(svg)
	for i := range text {
		if len(text)-i >= 4 && text[i:i+4] == "<svg" {
			return text[i:]
		}
	}
	return text
}

// standings compares Strand with every peer of the same promise, in every case,
// and with the fastest durable one, pond and ants as the project has set itself.
// Where handlers wait, Strand on disk stands beside pond, too.
func standings(all []*series) (against []standing) {
	for _, s := range all {
		if s.task.Shape == idle {
			continue
		}
		beside := []*series{standard(s, all)}
		if s.task.Peer == "pond" && s.task.asks(waiting) {
			beside = append(beside, ownSeries("Strand", s.task, all))
		}
		for _, mine := range beside {
			if mine == nil || mine == s {
				continue
			}
			if line := mine.beside(s); line.Rounds > 0 {
				against = append(against, line)
			}
		}
	}
	return against
}

// beside compares a series with that of a peer.
func (s *series) beside(other *series) standing {
	ratio, t := spreadOf(s.over(other)), other.task
	line := standing{
		Of: s.task.Peer, Peer: t.Peer, Case: t.Describe(), Ratio: ratio.median, RatioMin: ratio.low, RatioMax: ratio.high, Rounds: ratio.n,
	}
	if ratio.n > 0 {
		line.Strand, line.Theirs = s.merged().Rate, other.merged().Rate
	}
	switch {
	case t.asks(base):
		line.Goal = goalAgainst(t.Peer, other.promise)
	case t.asks(waiting) && t.Peer == "pond" && s.promise == peer.Memory:
		line.Goal = 0.9
	}
	return line
}

// goalAgainst is how many times as fast as a peer the project wants to be; 0
// where it has not said. bbolt by hand is no peer: it is what Strand is built on.
func goalAgainst(name string, promise peer.Promise) float64 {
	switch {
	case name == "pond":
		return 0.5
	case name == "ants":
		return 1.5
	case promise == peer.Synced && name != "bbolt by hand" && !ours(name):
		return 20
	}
	return 0
}
