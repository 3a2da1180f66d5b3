package dashboard

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
)

const (
	// hotIDs is how many ids are shown of those with the most payloads.
	hotIDs = 10
	// hotFor is how long they are shown to all who ask: each page of a queue does.
	hotFor = 5 * time.Second
)

// hotList is what all who look at the hot ids of a queue share.
type hotList struct {
	turn chan struct{} // whoever has it may look anew; guards what follows
	at   time.Time     // when that was; zero: never
	inspect.JobPage
}

// hotLists are those of the queues, by name.
type hotLists struct {
	mu      sync.Mutex
	byQueue map[string]*hotList
}

func (h *hotLists) of(queue string) *hotList {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.byQueue[queue]
	if l == nil {
		l = &hotList{turn: make(chan struct{}, 1)}
		h.byQueue[queue] = l
	}
	return l
}

// forget has all look anew: something was done.
func (h *hotLists) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byQueue = make(map[string]*hotList)
}

// look returns the hot ids of a queue, as they were at a moment.
func (h *handler) look(ctx context.Context, queue string) (page inspect.JobPage, at time.Time, err error) {
	if _, err := h.info(ctx, queue); err != nil {
		return page, at, err
	}
	l := h.hots.of(queue)
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return page, at, context.Cause(ctx)
	}
	defer func() { <-l.turn }()
	if now := time.Now(); l.at.IsZero() || now.Sub(l.at) > hotFor {
		page, err := h.x.Inspect().Jobs(ctx, inspect.JobQuery{Queue: queue, Order: inspect.OrderPayloads, Descending: true,
			Limit: hotIDs, Patience: listPatience})
		if err != nil {
			return page, at, err
		}
		l.JobPage, l.at = page, now
	}
	return l.JobPage, l.at, nil
}

func (h *handler) hot(r *http.Request) (page, error) {
	name := listedQueue(r)
	hot, at, err := h.look(r.Context(), name)
	content := struct {
		inspect.JobPage
		Queue string
		Most  int
		At    time.Time
	}{hot, name, 1, at}
	for _, j := range hot.Jobs {
		content.Most = max(content.Most, j.Payloads)
	}
	return page{Title: "Hot ids of " + name, Content: content}, err
}
