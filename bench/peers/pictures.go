package main

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/bench/peers/chart"
	"github.com/strandjobs/strand/bench/peers/peer"
)

// picture is a chart with the sentence that says what it compares.
type picture struct {
	Name     string // of its file, without .svg
	Sentence string
	SVG      []byte
}

// pictures draws what a report has figures for.
func (r *report) pictures() (all []picture, err error) {
	add := func(name, sentence string, svg []byte, failed error) {
		switch {
		case failed != nil && err == nil:
			err = fmt.Errorf("%s: %w", name, failed)
		case svg != nil:
			all = append(all, picture{name, sentence, svg})
		}
	}
	bars := func(name, title, sentence string, want task) {
		svg, err := r.bars(title, want)
		add(name, sentence, svg, err)
	}
	with := func(change func(*task)) task { t := base; change(&t); return t }
	bars("throughput", "Jobs per second, producing while draining", "100-byte jobs of 1000 ids with a handler that does nothing, each system in its best way to enqueue: compare only bars of one promise, which stands behind each and has a colour of its own.", base)
	bars("single", "Jobs per second, one job per call", "The same, enqueued one job per call by as many callers as help the system most.", with(func(t *task) { t.Single = true }))
	bars("drain", "Jobs per second, draining a backlog", "Everything is enqueued before the first handler runs, and the rate is that of the draining, up to half a million jobs; systems that hold no backlog are left out.", with(func(t *task) { t.Shape = inTurn }))
	bars("sleeping", "Jobs per second, handlers that take 1 ms", "Handlers sleep for 1 ms per job, with 100 workers or the system's own number if that is higher: 100 workers can do at most about 94,000.", with(func(t *task) { t.Handler = time.Millisecond }))
	bars("one-id", "Jobs per second, all of one id", "All jobs have the same id: what keeps order can't run two of them at once, what does not may run them in any order.", with(func(t *task) { t.IDs = 1 }))
	bars("many-ids", "Jobs per second, 100,000 ids", "Producing while draining, as in the first chart, with 100,000 ids.", with(func(t *task) { t.IDs = 100_000 }))
	durable, memory := "Each curve says how long a single job takes from before it is enqueued until its handler begins, on an idle system, for the share of all jobs on the axis; a curve ends where too few samples are above it to tell.", "The same for systems that keep everything in memory."
	svg, failed := r.latencies("Idle latency, jobs that are on disk", func(p peer.Promise) bool { return p != peer.Memory })
	add("latency-durable", durable, svg, failed)
	svg, failed = r.latencies("Idle latency, in memory", func(p peer.Promise) bool { return p == peer.Memory })
	add("latency-memory", memory, svg, failed)
	for _, c := range []struct{ workload, title, x, y, sentence string }{
		{"scaling/shards", "Scaling with shards, in memory", "shards", "jobs/s", "Strand with more and more shards, a blank handler and 5 workers: what can be gained on these cores."},
		{"scaling/workers", "Scaling with workers, handlers that take 1 ms", "workers", "jobs/s", "Strand drains a durable backlog; with n workers at most n × 1000 jobs per second are possible."},
		{"scaling/producers", "Scaling with producers, durable, one job per call", "producers", "jobs/s", "Callers that wait for an fsync share it: more of them get more done, until something else is in the way."},
		{"cost/backlog", "Draining a backlog, by how many jobs wait", "jobs that wait", "jobs/s", "Strand drains durable backlogs of different sizes; a flat line means that a job costs the same however many wait."},
		{"cost/payload", "Throughput, by size of the payload", "bytes (0 stands at 1)", "jobs/s", "Strand with durable payloads of different sizes, in bulk, producing while draining."},
	} {
		svg, err := r.curve(c.workload, c.title, c.x, c.y)
		add(strings.ReplaceAll(c.workload, "/", "-"), c.sentence, svg, err)
	}
	return all, err
}

func ours(name string) bool { return strings.HasPrefix(name, "Strand") }

var promiseColors = map[peer.Promise]int{peer.Synced: 0, peer.Second: 3, peer.Buffered: 2, peer.Memory: 6}

// bars compares all peers in one case, the strongest promise on top, and the
// fastest of each. It returns nil if no peer took part.
func (r *report) bars(title string, want task) ([]byte, error) {
	order := []peer.Promise{peer.Synced, peer.Second, peer.Buffered, peer.Memory}
	var same []outcome
	for _, o := range r.Peers {
		// What has no call for many is enqueued one by one all the same.
		asked := o.task
		asked.Single = asked.Single || want.Single && byName(o.Peer).Bulk == 1
		if asked.asks(want) && o.Rate > 0 {
			same = append(same, o)
		}
	}
	slices.SortStableFunc(same, func(a, b outcome) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Promise), slices.Index(order, b.Promise)), cmp.Compare(b.Rate, a.Rate))
	})
	var bars []chart.Bar
	for _, o := range same {
		note := string(o.Promise)
		if o.Violations+o.Overlaps > 0 {
			note += ", order broken"
		}
		b := chart.Bar{Name: o.Peer, Value: o.Rate, Low: o.RateMin, High: o.RateMax, Note: note, Color: chart.Other(promiseColors[o.Promise])}
		if ours(o.Peer) {
			b.Color = chart.Ours
		}
		bars = append(bars, b)
	}
	if len(bars) == 0 {
		return nil, nil
	}
	return chart.Bars(title, "jobs per second", bars)
}

// latencies draws a distribution for each peer of some promises.
func (r *report) latencies(title string, which func(peer.Promise) bool) ([]byte, error) {
	var lines []chart.Line
	for _, o := range r.Peers {
		if o.Latency == nil || !which(o.Promise) {
			continue
		}
		l := chart.Line{Name: o.Peer, Color: chart.Other(len(lines))}
		if ours(o.Peer) {
			l.Color, l.Width = ourShade(o.Peer), 2.4
		}
		for _, s := range o.Latency.Steps {
			if s.Share <= 0.99 {
				l.X, l.Y = append(l.X, 100*s.Share), append(l.Y, s.Value)
			}
		}
		if l.X != nil {
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return nil, nil
	}
	return chart.Lines(chart.Axes{
		Title: title, X: "percent of jobs", Y: "time, logarithmic", LogY: true, XTicks: []float64{0, 10, 25, 50, 75, 90, 99}, Label: micros,
	}, lines)
}

func ourShade(name string) color.Color {
	if strings.Contains(name, "Async") {
		return color.RGBA{R: 0xe8, G: 0x9a, B: 0x6c, A: 0xff}
	}
	return chart.Ours
}

// curve draws the points of one of Strand's own workloads.
func (r *report) curve(workload, title, x, y string) ([]byte, error) {
	l := chart.Line{Name: "Strand", Color: chart.Ours, Width: 2}
	for _, f := range r.Own {
		if name, at, found := strings.Cut(f.Name, "@"); found && name == workload && f.Value > 0 {
			point, err := strconv.ParseFloat(at, 64)
			if err != nil {
				return nil, err
			}
			l.X, l.Y, l.Low, l.High = append(l.X, point), append(l.Y, f.Value), append(l.Low, cmp.Or(f.Min, f.Value)), append(l.High, cmp.Or(f.Max, f.Value))
		}
	}
	if l.X == nil {
		return nil, nil
	}
	return chart.Lines(chart.Axes{Title: title, X: x + ", logarithmic", Y: y + ", logarithmic", LogX: true, LogY: true, Points: true, XTicks: l.X}, []chart.Line{l})
}
