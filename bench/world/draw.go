package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// write draws the script of a seed: a swarm of some features, a configuration, and steps.
func write(seed uint64, only ...string) script {
	return (&draw{Rand: rand.New(rand.NewPCG(seed, 24))}).script(seed, only)
}

// writeForFile is write for a world on a file.
func writeForFile(seed uint64, recorded bool, only ...string) script {
	return (&draw{Rand: rand.New(rand.NewPCG(seed, 16)), file: true, recorded: recorded}).script(seed, only)
}

// writeForCluster is write for a world of several nodes.
func writeForCluster(seed uint64, only ...string) script {
	return (&draw{Rand: rand.New(rand.NewPCG(seed, 77)), cluster: true}).script(seed, only)
}

// writeForMemory is write for a world without a journal that outlives it.
func writeForMemory(seed uint64, only ...string) script {
	return (&draw{Rand: rand.New(rand.NewPCG(seed, 55)), gone: true}).script(seed, only)
}

func (d *draw) script(seed uint64, only []string) script {
	d.gather(only)
	conf := newLine("world", "seed", seed, "swarm", strings.Join(d.names(), ","), "workers", 1+d.IntN(4))
	if d.gone {
		conf.set("gone", "yes")
	}
	if d.file {
		conf.set("wal", d.one("0", "8192", "32768", "-1", "changing"))
	}
	for _, f := range d.swarm {
		if f.world != nil {
			f.world(d, conf)
		}
	}
	s := script{conf}
	for i := range 1 + d.IntN(3) {
		q := newLine("queue", "name", fmt.Sprint("q", i+1), "shape", d.one("handle", "handle", "merged", "batch"),
			"shards", 1+d.IntN(3), "retries", d.IntN(3))
		for _, f := range d.swarm {
			if f.queue != nil {
				f.queue(d, q)
			}
		}
		d.queues = append(d.queues, q)
	}
	s = append(s, d.queues...)
	return append(s, d.steps(30+d.IntN(90))...).without(pending)
}

// gather draws the swarm: what each world has, and two to six others.
func (d *draw) gather(only []string) {
	var others []*feature
	for _, f := range features {
		switch {
		case (f.faults || f.apart) && d.cluster, f == clustering && !d.cluster, f.faults && (d.file || d.gone), f.lives && d.gone, f.recorded && !d.recorded:
		case f.always || slices.Contains(only, f.name):
			d.swarm = append(d.swarm, f)
		case len(only) == 0 && !(f.dear && (d.file || !d.chance(10))):
			others = append(others, f)
		}
	}
	d.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	d.swarm = append(d.swarm, others[:min(len(others), 2+d.IntN(5))]...)
}

func (d *draw) names() (names []string) {
	for _, f := range d.swarm {
		if !f.always {
			names = append(names, f.name)
		}
	}
	if len(names) == 0 {
		names = append(names, "none")
	}
	return names
}

func (d *draw) steps(n int) (s script) {
	var all []step
	sum := 0
	for _, f := range d.swarm {
		for _, st := range f.steps {
			all = append(all, st)
			sum += st.weight
		}
	}
	for range n {
		at := d.IntN(sum)
		for _, st := range all {
			if at -= st.weight; at >= 0 {
				continue
			}
			l := st.draw(d)
			if d.cluster {
				d.among(l)
			}
			l.with = st.call && d.chance(4)
			s = append(s, l)
			break
		}
	}
	return s
}

// plan draws what a handler does with a payload, call by call.
func (d *draw) plan() string {
	if d.chance(2) {
		return ""
	}
	acts := []string{"ok", "fail", "3s:ok", "1s:fail"}
	for _, f := range d.swarm {
		acts = append(acts, f.plan...)
	}
	var plan []string
	for range 1 + d.IntN(3) {
		plan = append(plan, d.one(acts...))
	}
	return strings.Join(plan, "/")
}

// stepOf finds the step of a verb.
func stepOf(verb string) (step, bool) {
	for _, f := range features {
		for _, st := range f.steps {
			if st.verb == verb {
				return st, true
			}
		}
	}
	return step{}, false
}
