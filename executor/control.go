package executor

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/strandjobs/strand/executor/internal/backdoor"
	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
)

// ErrControlSocket is returned by Open when Config.ControlSocket is set and there can't be
// one; the text says why, and what to do.
var ErrControlSocket = errors.New("executor: no control socket")

// openListening is open in a directory, with a socket in it if one is wanted.
func openListening(dir string, cfg Config, openLog func(journal.Config) (*journal.Log, error)) (*Executor, error) {
	x, err := open(dir, cfg, openLog)
	if err != nil || !cfg.ControlSocket {
		return x, err
	}
	l, err := control.Listen(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrControlSocket, err), x.log.Close())
	}
	c := &controls{x: x, i: x.Inspect()}
	x.control = &control.Server{
		Hello: control.Hello{PID: os.Getpid(), Dir: dir},
		Looks: map[string]control.Handler{
			control.VerbInspect: control.Verb(c.inspect),
			control.VerbStatus:  control.Verb(c.status),
			control.VerbJobs:    control.Verb(c.jobs),
			control.VerbJob:     control.Verb(c.job),
			control.VerbDead:    control.Verb(c.dead),
			control.VerbExplain: control.Verb(c.explain),
			control.VerbRunning: control.Verb(c.running),
		},
		Acts: map[string]control.Handler{
			control.VerbAct:   control.Verb(c.act),
			control.VerbPause: control.Verb(c.pause),
		},
		Chores: map[string]control.Handler{
			control.VerbCopy:    control.Verb(c.copy),
			control.VerbCompact: control.Verb(c.compact),
		},
		Streams: map[string]control.Stream{control.VerbEvents: c.events},
		Panicked: func(v any, stack []byte) {
			x.cfg.Logger.Error("a call over the control socket panicked", slog.Any("panic", v), slog.String("stack", string(stack)))
		},
	}
	x.control.Serve(l)
	return x, nil
}

// openElsewhere is open without a directory.
func openElsewhere(dir string, cfg Config, witness backdoor.Witness, openLog func(journal.Config) (*journal.Log, error)) (*Executor, error) {
	if cfg.ControlSocket {
		return nil, fmt.Errorf("%w: ControlSocket is set, and an executor in memory, or over a log of OpenLog, has no directory for it", ErrConfig)
	}
	return openWith(dir, cfg, witness, openLog)
}

// hangUp ends what goes on over the socket, and takes it away.
func (x *Executor) hangUp() {
	if x.control != nil {
		x.control.Close()
	}
}

// controls are what the strand command asks for. It shows and does nothing that the
// Inspector would not; some of it with more figures, so that the command prints what it
// prints of a journal at rest.
type controls struct {
	x *Executor
	i *Inspector
}

// texts are names or ids as the wire has them.
func texts(wire [][]byte) []string {
	list := make([]string, len(wire))
	for i, b := range wire {
		list[i] = string(b)
	}
	return list
}
