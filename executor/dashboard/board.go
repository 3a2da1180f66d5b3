package dashboard

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/serving"
)

// board is what there is to see of an executor, to pages and to programs, and who may.
type board struct {
	*gate
	x       *executor.Executor
	stacks  *serving.Room    // of one request, while stacks are taken
	hots    sync.Map         // *shared[inspect.JobPage] by the name of its queue
	figures *shared[reading] // that move
}

// stats are the figures, with those queues that a request may look at.
func (b *board) stats(r *http.Request) (inspect.Stats, error) {
	s, err := b.x.Stats(r.Context())
	if err == nil {
		s.Queues, err = seen(b.gate, r, s.Queues, statsName)
	}
	return s, err
}

func (b *board) trouble() string {
	if err := b.x.Err(); err != nil {
		return err.Error()
	}
	return ""
}

// info returns the figures of a queue.
func (b *board) info(ctx context.Context, name string) (inspect.QueueStats, error) {
	all, err := b.x.Stats(ctx)
	if err != nil {
		return inspect.QueueStats{}, err
	}
	i := slices.IndexFunc(all.Queues, func(q inspect.QueueStats) bool { return q.Name == name && q.Registered })
	if i < 0 {
		return inspect.QueueStats{}, problem{http.StatusNotFound, "there is no queue \"" + clip(name, 80) + "\" in this process"}
	}
	return all.Queues[i], nil
}

// fill makes the list of a page that was begun at a time.
func (b *board) fill(ctx context.Context, p *queuePage, began time.Time) (err error) {
	look := b.x.Inspect().Jobs
	if p.Tab == morgue {
		look = b.x.Inspect().Dead
	}
	p.JobPage, err = look(ctx, p.query(began))
	return err
}

// inHand lists what workers have in hand, of the queues that a request may look at: More
// counts those of others, too, beyond the longest list. All goroutines of the process stand still
// while stacks are taken, so that is done for one request at a time.
func (b *board) inHand(r *http.Request, query inspect.RunningQuery) (inspect.RunningList, error) {
	ctx := r.Context()
	if query.Stacks {
		share, err := b.stacks.Enter(ctx, 1)
		if err != nil {
			return inspect.RunningList{}, err
		}
		defer share.Leave()
	}
	most := query.Limit
	query.Limit = inspect.MaxListLimit // some may not be seen
	list, err := b.x.Inspect().Running(ctx, query)
	if err == nil {
		list.Running, err = seen(b.gate, r, list.Running, func(r inspect.Running) string { return r.Queue })
	}
	if more := max(len(list.Running)-most, 0); more > 0 {
		list.Running, list.More = list.Running[:most], list.More+more
	}
	return list, err
}

// lookFor asks the queues that a request may look at for an id, and says which these are.
func (b *board) lookFor(r *http.Request, queue, id string) (all []inspect.Explanation, queues []string, late bool, err error) {
	ctx := r.Context()
	stats, err := b.x.Stats(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	some := slices.DeleteFunc(stats.Queues, func(s inspect.QueueStats) bool {
		return !s.Registered || queue != "" && queue != s.Name
	})
	if some, err = seen(b.gate, r, some, statsName); err != nil {
		return nil, nil, false, err
	}
	for _, s := range some {
		queues = append(queues, s.Name)
		if id == "" || len(id) > executor.MaxIDBytes {
			continue
		}
		e, err := b.x.Inspect().Explain(ctx, s.Name, id)
		if errors.Is(err, context.DeadlineExceeded) {
			return all, queues, true, nil
		}
		if err != nil {
			return nil, nil, false, err
		}
		if e.State != inspect.JobUnknown {
			all = append(all, e)
		}
	}
	return all, queues, false, nil
}

// scheduled is what ticks, and who leads.
type scheduled struct {
	Crons   []wireCron
	Leaders []wireLeader
}

type wireCron struct {
	Cron      int // in Config.Crons
	Leads     bool
	Schedules []cron.Entry
}

type wireLeader struct {
	Election     string
	Leader       string // "": there is none
	Epoch        uint64
	Since, Until time.Time
}

// Left is how long a reign goes on if it is not extended.
func (l wireLeader) Left(now time.Time) time.Duration { return max(l.Until.Sub(now), 0) }

func (b *board) scheduled() (s scheduled) {
	for i, c := range b.cfg.Crons {
		s.Crons = append(s.Crons, wireCron{i, c.Leads(), c.List()})
	}
	for _, e := range b.cfg.Elections {
		l, _ := e.Leader()
		s.Leaders = append(s.Leaders, wireLeader{e.Name, l.ID, l.Epoch, l.Since, l.Until})
	}
	return s
}

// wireJournal is how the journal is doing.
type wireJournal struct {
	Trouble  string
	InMemory bool
	inspect.JournalStats
	Backlog inspect.Backlog
}

// Share is how much of the log is alive, in percent.
func (j wireJournal) Share() int {
	if j.Bytes == 0 {
		return 100
	}
	return 100 * j.LiveBytes / j.Bytes
}

// PerCommit is how long the disk took for one, on average.
func (j wireJournal) PerCommit() time.Duration {
	return j.CommitTime / time.Duration(max(j.Commits, 1))
}

func (b *board) journaled(r *http.Request) (wireJournal, error) {
	s, err := b.x.Stats(r.Context())
	return wireJournal{b.trouble(), s.Journal.UUID == "", s.Journal, s.Backlog}, err
}
