package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/bench/peers/chart"
	"github.com/strandjobs/strand/bench/peers/peer"
)

// base is the case that the report begins with.
var base = task{Shape: together, IDs: 1000}

// alone is like beside like: one job per call, by as many callers as the pools have.
var alone = task{Shape: together, IDs: 1000, Single: true, Callers: 2}

// waiting is the case of handlers that wait most of their time, as for a network.
// Then what a pool and Strand add to each job is what keeps the next from beginning.
var waiting = task{Shape: together, IDs: 1000, Handler: time.Millisecond}

// headlines say in a few sentences what the reader who has to decide wants to know.
func (r *report) headlines() (lines []string) {
	for _, of := range []struct {
		name, promise string
		what          peer.Promise
	}{{"Strand", "On disk, every job fsynced when Enqueue returns", peer.Synced}, {"Strand, in memory", "In memory", peer.Memory}} {
		i := slices.IndexFunc(r.Peers, func(o outcome) bool { return o.Peer == of.name && o.asks(base) && o.Rate > 0 })
		if i < 0 {
			continue
		}
		line := fmt.Sprintf("%s, Strand does %s jobs per second", of.promise, chart.Short(r.Peers[i].Rate))
		if against := r.against(of.name); against != "" {
			line += ": " + against
		}
		if like := r.singly(of.name, of.what); like != "" {
			line += ". One job per call, beside those that have no call for many, it does " + like
		}
		if at := r.latency(of.name); at != nil {
			line += fmt.Sprintf(". On an idle system, half of the jobs are in their handler within %s", micros(at.P50))
		}
		lines = append(lines, line+".")
	}
	return lines
}

// against lists what the base case yields beside peers of the same promise,
// the fastest one first.
func (r *report) against(name string) string {
	var parts []standing
	for _, s := range r.Against {
		if s.Of == name && s.Case == base.Describe() {
			parts = append(parts, s)
		}
	}
	slices.SortStableFunc(parts, func(a, b standing) int { return cmp.Compare(a.Ratio, b.Ratio) })
	var text []string
	for _, s := range parts {
		text = append(text, fmt.Sprintf("%s × %s", chart.Short(s.Ratio), s.Peer))
	}
	return strings.Join(text, "; ")
}

// singly sets a rate of one job per call beside those of peers of the same promise that
// have no call for many, with as many callers: it is a ratio of medians.
func (r *report) singly(name string, what peer.Promise) string {
	i := slices.IndexFunc(r.Peers, func(o outcome) bool { return o.Peer == name && o.asks(alone) && o.Rate > 0 })
	if i < 0 {
		return ""
	}
	mine := r.Peers[i].Rate
	var text []string
	for _, o := range r.Peers {
		if o.Promise == what && o.asks(alone) && o.Rate > 0 && byName(o.Peer).Bulk == 1 {
			text = append(text, fmt.Sprintf("%s × %s", chart.Short(mine/o.Rate), o.Peer))
		}
	}
	if len(text) == 0 {
		return ""
	}
	return chart.Short(mine) + " jobs per second: " + strings.Join(text, "; ")
}

func (r *report) latency(name string) *latency {
	for _, o := range r.Peers {
		if o.Peer == name && o.Latency != nil {
			return o.Latency
		}
	}
	return nil
}
