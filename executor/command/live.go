package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
)

// errAtRest is a command that needs a journal which no process has open.
var errAtRest = errors.New("it works only on a journal at rest")

// errNotRunning is a command that needs a process.
var errNotRunning = errors.New("no process has the journal open")

// answerTime is how long a process may take for an answer, and helloTime for the first.
const (
	answerTime = 2 * time.Minute
	helloTime  = 10 * time.Second
)

func aboveZero(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("it is %v, and must be above zero", d)
	}
	return nil
}

func notBelowZero(n int) error {
	if n < 0 {
		return fmt.Errorf("it is %d, and must not be below zero", n)
	}
	return nil
}

// call carries a command out: on the journal, or if a process has that open, in it.
func (v verb) call(ctx context.Context, c *call) error {
	err := v.do(ctx, c)
	locked, ok := errors.AsType[*journal.LockedError](err)
	if !ok || c.Buffered() > 0 { // it was opened while we were at it
		return err
	}
	dir := c.Args().First()
	patience := cmp.Or(c.Duration("timeout"), answerTime)
	first := control.Connect(dir, min(helloTime, patience))
	defer first.Close()
	hello, failed := control.Call[control.Hello](ctx, first, control.VerbHello, control.None{})
	switch {
	case errors.Is(failed, control.ErrNobody):
		return err
	case failed != nil && locked.PID == 0: // not with err, which says what to do when nobody answers
		return fmt.Errorf("another process has the journal open; asked over its socket: %w", failed)
	case failed != nil:
		return fmt.Errorf("process %d has the journal open; asked over its socket: %w", locked.PID, failed)
	case locked.PID != 0 && hello.PID != locked.PID:
		return fmt.Errorf("%w; process %d answers on the socket there, which is another one", err, hello.PID)
	case v.live == nil:
		return fmt.Errorf("%w: strand %s: %w", err, v.name, errAtRest)
	}
	c.client = control.Connect(dir, patience)
	defer c.client.Close()
	return v.live(ctx, c)
}

// onlyLive sends a command on to the process that has the journal open.
func onlyLive(_ context.Context, c *call) error {
	dir := c.Args().First()
	_, err := os.Stat(dir)
	if err == nil {
		err = journal.InUse(dir)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("strand %s asks a process, and this user may not see whether one has the journal open: %w; "+
			"call it as the user of that process, or as root", c.Name, err)
	case err != nil:
		return err
	}
	return fmt.Errorf("strand %s asks a process, and %w: %s", c.Name, errNotRunning, dir)
}

// of returns the queues with a name, or all if there is none.
func (c *call) of(ctx context.Context, queue string) (list []inspect.QueueStats, err error) {
	s, err := control.Call[control.Health](ctx, c.client, control.VerbStatus, control.None{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, q := range s.Queues {
		if names = append(names, q.Name); queue == "" || queue == q.Name {
			list = append(list, q)
		}
	}
	return list, known(names, queue)
}

// aside tells which queues the process has not registered: it knows only how much they
// have.
func (c *call) aside(queues []inspect.QueueStats) {
	for _, q := range queues {
		if q.Registered || q.Unclaimed == 0 {
			continue
		}
		c.say("unregistered", struct {
			Queue    string
			Payloads int
		}{q.Name, q.Unclaimed}, "The process has not registered the queue %s, which has %s.\n", show([]byte(q.Name)), brief.Count(q.Unclaimed, "payload", "payloads"))
	}
}
