package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/strandjobs/strand/executor/internal/control"
)

func allFlag() []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{Name: "all", Usage: "all jobs of the queue, without naming an id"}}
}

func removalFlags() []cli.Flag {
	return append(allFlag(), &cli.BoolFlag{Name: "failed", Usage: "only what waits for a retry, or is halted; what runs is left alone"})
}

func cancelFlags() []cli.Flag {
	return append(removalFlags(), &cli.StringFlag{Name: "reason", Usage: "`TEXT` that their last error will have; not with -failed"})
}

// acted is what was done.
type acted struct {
	Done string
	control.Affected
}

// acts does something with jobs.
func acts(verb string) func(context.Context, *live) error {
	return func(ctx context.Context, l *live) error {
		queue, ids := l.Args().Get(1), l.Args().Slice()[2:]
		act := control.Act{Do: verb, Queue: queue, All: l.Bool("all"), Reason: l.String("reason")}
		switch {
		case act.All == (len(ids) > 0):
			return usage("strand %s: name ids, or say -all for all jobs of queue %q", verb, queue)
		case l.Bool("failed") && act.Reason != "":
			return usage("-reason: what -failed takes away has its own last error")
		case l.Bool("failed") && verb == "cancel":
			act.Do = control.DoKillFailed
		case l.Bool("failed"):
			act.Do = control.DoDeleteFailed
		}
		if queue == "" {
			return errNoName
		}
		one, many, done := "payload", "payloads", map[string]string{"run": "made due", "retry": "made due", "cancel": "canceled", "delete": "deleted"}[verb]
		if verb == "run" || verb == "retry" {
			one, many = "job", "jobs"
		}
		n := 0
		for _, some := range inPieces(ids) {
			act.IDs = some
			did, err := l.act(ctx, act)
			if n += did; err != nil {
				return l.partly(ctx, n, one, done, queue, err)
			}
		}
		if l.json {
			return l.row(verb, acted{done, control.Affected{N: n}})
		}
		l.printf("%s %s\n", count(n, one, many), done)
		return nil
	}
}

// inPieces are some ids at a time; without an id, none once.
func inPieces(ids []string) [][]string {
	if len(ids) == 0 {
		return [][]string{nil}
	}
	return slices.Collect(slices.Chunk(ids, atOnce))
}

// act returns how many were affected, also with an error.
func (l *live) act(ctx context.Context, a control.Act) (int, error) {
	did, err := ask[control.Affected](ctx, l, control.VerbAct, a)
	l.back.Superseded, l.back.Late, l.back.Unsure = l.back.Superseded+did.Superseded, l.back.Late+did.Late, l.back.Unsure+did.Unsure
	if err == nil && did.Trouble != "" {
		err = errors.New(did.Trouble)
	}
	return did.N, err
}

// partly says what was done before it went wrong. Nothing is looked at before an action,
// which has its place on the socket also where others look; so it is now that an unknown
// queue is told from those that there are.
func (l *live) partly(ctx context.Context, n int, one, done, queue string, err error) error {
	if n > 0 {
		return fmt.Errorf("%s %s, and then: %w", count(n, one, one+"s"), done, err)
	}
	if queue == "" {
		return err
	}
	if _, failed := l.of(ctx, queue); errors.Is(failed, errUsage) {
		return failed
	}
	return err
}

// pauses pauses the executor, a queue or ids, or lets them go on.
func pauses(on bool) func(context.Context, *live) error {
	return func(ctx context.Context, l *live) error {
		queue := l.Args().Get(1)
		if err := l.pausable(); err != nil {
			return err
		}
		n := 0
		for _, some := range inPieces(l.Args().Slice()[min(l.Args().Len(), 2):]) {
			pause := control.Pause{On: on, All: queue == "", Queue: queue, IDs: some, Prefix: l.String("prefix")}
			did, err := ask[control.Affected](ctx, l, control.VerbPause, pause)
			if err == nil && did.Trouble != "" {
				err = errors.New(did.Trouble)
			}
			if n += did.N; err != nil {
				return l.partly(ctx, n, "id", "done", queue, err)
			}
		}
		return l.paused(n, on)
	}
}
