package shard

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/strandjobs/strand/journal"
)

// laneView is a lane as a test compares it.
type laneView struct {
	id      string
	due     int64
	retry   int
	halted  bool
	out     []Payload // in a run
	held    []Payload
	waiting []Payload
	err     string

	failures []journal.Failure
}

func (v laneView) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: due %s, retry %d", v.id, seconds(v.due), v.retry)
	if v.err != "" {
		fmt.Fprintf(&b, ", error %q", v.err)
	}
	if v.halted {
		b.WriteString(", halted")
	}
	for _, part := range []struct {
		name     string
		payloads []Payload
	}{{"out", v.out}, {"held", v.held}, {"waiting", v.waiting}} {
		if len(part.payloads) > 0 {
			fmt.Fprintf(&b, ", %s %s", part.name, payloadsText(part.payloads))
		}
	}
	return b.String()
}

func seconds(ns int64) string {
	if ns == math.MaxInt64 {
		return "never"
	}
	return fmt.Sprint(float64(ns) / 1e9)
}

func payloadsText(ps []Payload) string {
	var out []string
	var e journal.Entry
	for _, p := range ps {
		mustRead(p.Ref, &e)
		out = append(out, fmt.Sprintf("%s#%d/%v", e.Payload, p.Ref.Position(), p.Score))
	}
	return "[" + strings.Join(out, " ") + "]"
}

// waiting lists the waiting payloads of a lane in order, and leaves them there.
func (l *lane) waiting() []Payload {
	if l.bag() == nil {
		return []Payload{l.one}[:l.n()]
	}
	var ps []Payload
	for h := range l.bag().order.all {
		if !h.gone {
			ps = append(ps, h.Payload)
		}
	}
	slices.SortFunc(ps, func(a, b Payload) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	return ps
}

func (c *Core) view(id string) (v laneView, ok bool) {
	l := c.lanes.find([]byte(id))
	if l == nil {
		return v, false
	}
	v = laneView{id: id, due: l.due, retry: l.retry(), halted: l.halted, waiting: l.waiting()}
	if p := l.past(); p != nil {
		v.held, v.err = p.held, p.err
	}
	last, failures := l.known().failures()
	v.failures = failures.Failures(last)
	if it := l.item(); it != nil {
		v.due, _ = c.undone(it)
		v.out = it.Payloads[it.settled:]
	}
	return v, true
}

// lanes shows every lane of every core, by id.
func (g *rig) lanes() (out []string) {
	for _, c := range g.cores {
		for id := range c.lanes.named() {
			v, _ := c.view(id)
			out = append(out, v.String())
		}
	}
	slices.Sort(out)
	return out
}
