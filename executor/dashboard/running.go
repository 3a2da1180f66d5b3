package dashboard

import (
	"net/http"

	"github.com/strandjobs/strand/executor/inspect"
)

// runningPage is what workers have in hand.
type runningPage struct {
	inspect.RunningList
	Workers, Busy, Stuck int
	Stacks               bool
}

// inHand lists what workers have in hand, of the queues that a request may look at: More
// counts those of others, too, beyond the longest list. All goroutines of the process stand still
// while stacks are taken, so that is done for one request at a time.
func (h *handler) inHand(r *http.Request, query inspect.RunningQuery) (inspect.RunningList, error) {
	ctx := r.Context()
	if query.Stacks {
		select {
		case h.stacks <- struct{}{}:
			defer func() { <-h.stacks }()
		case <-ctx.Done():
			return inspect.RunningList{}, ctx.Err()
		}
	}
	most := query.Limit
	query.Limit = inspect.MaxListLimit // some may not be seen
	list, err := h.x.Inspect().Running(ctx, query)
	if err == nil {
		list.Running, err = seen(h, r, list.Running, func(r inspect.Running) string { return r.Queue })
	}
	if more := max(len(list.Running)-most, 0); more > 0 {
		list.Running, list.More = list.Running[:most], list.More+more
	}
	return list, err
}

// running shows what all workers do.
func (h *handler) running(w http.ResponseWriter, r *http.Request) error {
	p := runningPage{Stacks: r.URL.Query().Get("stacks") != ""}
	var err error
	p.RunningList, err = h.inHand(r, inspect.RunningQuery{Stacks: p.Stacks, Limit: maxRows})
	if err != nil {
		return err
	}
	// Running answers when shards are stuck, and so does this page: without the figures.
	if stats, err := h.x.Stats(r.Context()); err == nil {
		p.Workers, p.Busy, p.Stuck = stats.Workers, stats.Busy, stats.Stuck
	}
	return h.show(w, r, http.StatusOK, "running.html", page{Title: "Running", Here: "running", Content: p})
}
