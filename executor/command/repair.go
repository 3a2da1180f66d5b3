package command

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/executor/internal/statekey"
	"github.com/strandjobs/strand/journal"
)

// verdict is what is intact of a journal, and whether that is all.
type verdict struct {
	Sound  bool
	Damage string `wire:",omit"`
	journal.Salvaged
}

func check(_ context.Context, c *call) error {
	dir := c.Args().First()
	i, err := soundness(dir)
	if err == nil {
		sound := verdict{true, "", journal.Salvaged{Blocks: i.Blocks, Live: i.Live, Buried: i.Buried, Queues: i.Queues}}
		c.say("check", sound, "sound: %s, %s, %s, %d in the morgue\n", brief.Count(i.Queues, "queue", "queues"),
			brief.Count(i.Blocks, "block", "blocks"), brief.Count(i.Live, "live entry", "live entries"), i.Buried)
		return nil
	}
	if !errors.Is(err, journal.ErrCorrupt) && !errors.Is(err, journal.ErrNotJournal) {
		return err
	}
	s, lost := journal.Salvage(dir, "", statekey.NewCheck())
	switch {
	case lost == nil && len(s.Losses) == 0 && errors.Is(err, journal.ErrNotJournal):
		return err // something beside the log, which is whole
	case lost == nil:
	case errors.Is(err, journal.ErrCorrupt) && !errors.Is(lost, journal.ErrNotJournal):
		s = &journal.Salvaged{Losses: []journal.Loss{{Reason: lost.Error()}}} // of format 1
	case errors.Is(err, journal.ErrCorrupt):
		s = &journal.Salvaged{Losses: []journal.Loss{{Reason: "all of it: nothing can be read"}}}
	default:
		return err // nothing in it has ever been a journal's
	}
	// All that is wrong is listed, and not only what came first.
	c.say("check", verdict{false, err.Error(), *s}, "damaged: %s\n", tame(err.Error()))
	if losses(c.output, s); !c.json {
		c.printf("intact: ")
		intact(c.output, s)
		if s.Blocks+s.Buried+s.Queues+s.Keys > 0 {
			c.printf("strand salvage DIR NEWDIR writes that to a new journal.\n")
		}
	}
	return errDamaged
}

// soundness is [journal.Check], which has also looked for what an executor would refuse.
func soundness(dir string) (i journal.Info, err error) {
	v, err := journal.OpenSides(dir)
	if err != nil {
		return i, err
	}
	check := statekey.NewCheck()
	for s, broken := range v.Keys() {
		if err = broken; err != nil {
			break
		}
		if err = check(s); err != nil {
			err = fmt.Errorf("state key %q: %w", s.Key, err)
			break
		}
	}
	return v.Info(), errors.Join(err, v.Close())
}

func compact(ctx context.Context, c *call) (err error) {
	var did control.Compacted
	if c.client == nil {
		did.Before, did.After, err = journal.Compact(c.Args().First())
	} else {
		did, err = control.Call[control.Compacted](ctx, c.client, control.VerbCompact, control.None{})
	}
	if err == nil {
		c.say("compact", did, "%s before, %s now\n", brief.Bytes(did.Before), brief.Bytes(did.After))
	}
	return err
}

func salvage(_ context.Context, c *call) error {
	dir, to := c.Args().Get(0), c.Args().Get(1)
	s, err := journal.Salvage(dir, to, statekey.NewCheck())
	if err != nil {
		return err
	}
	if c.say("salvage", verdict{len(s.Losses) == 0, "", *s}, "written to %s: ", tame(to)); !c.json {
		intact(c.output, s)
	}
	losses(c.output, s)
	return nil
}

func intact(o *output, s *journal.Salvaged) {
	o.printf("%s from %s, %d in the morgue, %s, %s\n", brief.Count(s.Live, "live entry", "live entries"),
		brief.Count(s.Blocks, "intact block", "intact blocks"), s.Buried, brief.Count(s.Queues, "queue", "queues"), brief.Count(s.Keys, "state key", "state keys"))
}

// losses prints what was lost, and the jobs that seem to be in it.
func losses(o *output, s *journal.Salvaged) {
	for _, l := range s.Losses {
		at := ""
		if l.Block != 0 {
			at = fmt.Sprintf("block %d: ", l.Block)
		}
		if o.say("loss", l, "lost: %s%s\n", at, tame(l.Reason)); o.json || l.Block == 0 {
			continue
		}
		for _, j := range l.Jobs[:min(len(l.Jobs), defaultLimit)] {
			what := "payload"
			if j.State {
				what = "state"
			}
			o.printf("  perhaps a %s of %s %s, position %d\n", what, show([]byte(j.Queue)), show(j.ID), j.Position)
		}
		if more := len(l.Jobs) - defaultLimit; more > 0 {
			o.printf("  and %d more; -json lists all\n", more)
		}
	}
	if !o.json && len(s.Losses) == 0 {
		o.printf("nothing was lost\n")
	}
}

func copyJournal(ctx context.Context, c *call) (err error) {
	var request control.Copy
	to := c.Args().Get(1)
	if c.client == nil {
		err = journal.Clone(c.Args().First(), to)
	} else if request.To, err = filepath.Abs(to); err == nil {
		_, err = control.Call[control.None](ctx, c.client, control.VerbCopy, request)
	}
	if err == nil {
		c.say("copy", struct{ To string }{to}, "copied to %s\n", tame(to))
	}
	return err
}
