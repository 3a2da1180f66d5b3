package command

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// start is the moment that a replay is about.
type start struct {
	Epoch  uint64 // that the next start will have
	Block  uint64
	Newest journal.Position
	At     time.Time
	// Shape is that of all queues when the call did not say which they have: the
	// journal does not know it.
	Shape string `wire:"assumed_shape,omit"`
}

// sum ends a replay.
type sum struct {
	Runs    int // without those of jobs that are halted or paused
	Due     int
	Delayed int
	Halted  int
	Paused  int // runs, and of no halted job
	Merged  int // payloads that are over at once, equal to others
}

func replay(ctx context.Context, c *call) error {
	const maxPayloads = 1000 // the default of the executor
	return c.folds(ctx, c.String("queue"), maxPayloads, func(folds *folds) error {
		v := folds.parts[0].View
		s := start{Epoch: v.Info().Epoch + 1, Newest: v.Info().Next - 1}
		if blocks := v.Blocks(); len(blocks) > 0 {
			last := blocks[len(blocks)-1]
			s.Block, s.At = last.Seq, last.At
		}
		unknown := ""
		if !c.IsSet("shape") {
			s.Shape = "merged"
			unknown = "The journal does not know which queues have one payload a run: -shape QUEUE=events, or state, or '*=events', says so.\n"
		}
		c.say("start", s, "The next start is number %d. The newest position is %d.\n%s\n", s.Epoch, s.Newest, unknown)
		c.tasks("run", c.limit()).fill(folds)
		return nil
	})
}

func (s *sum) add(t *control.Job, now int64) {
	switch {
	case t.State == inspect.JobHalted:
		s.Halted++
		return
	case t.State == inspect.JobPaused:
		s.Paused++
		return
	case t.Due.UnixNano() <= now:
		s.Due++
	default:
		s.Delayed++
	}
	s.Runs++
}

// sum says how many runs there are.
func (o *output) sum(s *sum) {
	paused, merged := "", ""
	if s.Paused > 0 {
		paused = fmt.Sprintf("; %s paused", brief.Count(s.Paused, "run is", "runs are"))
	}
	if s.Merged > 0 {
		merged = fmt.Sprintf("; %s merged into an equal one", brief.Count(s.Merged, "payload is", "payloads are"))
	}
	o.say("summary", s, "%s: %d due now, %d later; %s%s%s\n", brief.Count(s.Runs, "run", "runs"), s.Due, s.Delayed,
		brief.Count(s.Halted, "halted job", "halted jobs"), paused, merged)
}

// configs are what the flags say about queues; "*" is for all others.
type configs map[string]shard.Config

// readConfigs reads the flags; limit is the most payloads of a run.
func readConfigs(c *call, limit int) (configs, error) {
	got := configs{"*": {}}
	for _, p := range policies {
		for queue := range c.StringMap(p.flag) {
			got[queue] = shard.Config{}
		}
	}
	for queue := range got {
		cfg := shard.Config{MaxPayloads: limit}
		for _, p := range policies {
			values, of := c.StringMap(p.flag), queue
			if _, said := values[of]; !said {
				of = "*"
			}
			if v, said := values[of]; said && !p.set(&cfg, v) {
				return nil, usage("-%s %s=%s: no such value; it may be %s", p.flag, of, v, p.values)
			}
		}
		got[queue] = cfg
	}
	return got, nil
}

// policy is a flag that says how a queue behaves.
type policy struct {
	flag, values string
	set          func(cfg *shard.Config, v string) bool
}

// policies are all of them. The shape comes first, for it brings defaults of its own.
var policies = []policy{
	{"shape", "events, state or merged", func(cfg *shard.Config, v string) bool {
		switch v {
		case "events": // as Handle has it
			cfg.Single, cfg.Block, cfg.MaxPayloads = true, true, 0
		case "state": // as HandleLatest has it
			cfg.Single, cfg.Merge, cfg.MaxPayloads = true, shard.MergeSupersede, 0
		}
		return v == "events" || v == "state" || v == "merged"
	}},
	choice("merge", func(cfg *shard.Config, i int) { cfg.Merge = shard.Merge(i) }, "KeepAll", "MinScore", "KeepFirst", "KeepLast", "Supersede"),
	choice("on-failure", func(cfg *shard.Config, i int) { cfg.Block = i == 1 }, "Merge", "Block"),
	{"max-payloads", "a number, 0 is all", func(cfg *shard.Config, v string) bool {
		n, err := strconv.Atoi(v)
		cfg.MaxPayloads = max(n, 0)
		return err == nil
	}},
}

// choice is a policy that has a name for each of its values.
func choice(flag string, set func(cfg *shard.Config, i int), names ...string) policy {
	last := len(names) - 1
	return policy{flag, strings.Join(names[:last], ", ") + " or " + names[last], func(cfg *shard.Config, v string) bool {
		i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, v) })
		if i >= 0 {
			set(cfg, i)
		}
		return i >= 0
	}}
}
