package dashboard

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
)

// queuePage is a queue with one of its lists.
type queuePage struct {
	list
	Stats  inspect.QueueStats
	Shards []inspect.ShardStats
	More   int // shards that are not in Shards
	Empty  string
	Paused []string // prefixes, the first of them

	inspect.JobPage // of the first Examined ones, of Of, if it is partial
	Of              int
	Late            string                                         // why there is no list
	Buttons         []map[string]any                               // of actions that the rows offer
	Preview         func(id string, of inspect.PayloadInfo) string // the begin of each payload; nil: the list has none
}

// How many of each a page shows: the latest shards, and the first of the paused prefixes.
const mostShards, mostPrefixes = 16, 100

func (s *site) queue(r *http.Request) (page, error) {
	l, err := listOf(r.URL.Query())
	if err != nil {
		return page{}, err
	}
	began := time.Now()
	info, err := s.info(r.Context(), l.Queue)
	if err != nil {
		return page{}, err
	}
	p := queuePage{list: l, Stats: info, Shards: info.Shards, Empty: l.tab().Empty, Of: info.Jobs}
	if s.cfg.ShowPreview != nil {
		p.Preview = func(id string, of inspect.PayloadInfo) string { return s.preview(r, Payload{l.Queue, id, of}) }
	}
	if l.Tab == morgue {
		p.Of = info.Dead
	}
	slices.SortStableFunc(p.Shards, func(a, b inspect.ShardStats) int { return cmp.Compare(b.Lag, a.Lag) })
	p.Shards, p.More = p.Shards[:min(len(p.Shards), mostShards)], max(len(p.Shards)-mostShards, 0)
	can, err := s.can(r, l.Queue, append([]Verb{Pause, Resume}, l.tab().verbs...)...) // while there is time for it
	if err != nil {
		return page{}, err
	}
	for prefix, err := range s.x.Inspect().PausedPrefixes(l.Queue) {
		if err != nil || len(p.Paused) == mostPrefixes {
			break // the figure says how many there are
		}
		p.Paused = append(p.Paused, prefix)
	}
	for _, v := range l.tab().verbs {
		if d := deeds[v]; can[v] {
			p.Buttons = append(p.Buttons, dictOf("Verb", v, "Name", d.button, "Danger", d.danger))
		}
	}
	status := 0
	if err = s.fill(r.Context(), &p, began); errors.Is(err, context.DeadlineExceeded) && r.Context().Err() != nil {
		status, p.Late, err = http.StatusServiceUnavailable, lateList(err).Error(), nil
	}
	return page{Title: l.Queue, Content: p, Can: can, status: status}, err
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

const (
	// hotIDs is how many ids are shown of those with the most payloads.
	hotIDs = 10
	// hotFor is how long they are shown to all who ask: each page of a queue does.
	hotFor = 5 * time.Second
)

// hot shows the hot ids of a queue, as they were at a moment.
func (s *site) hot(r *http.Request) (page, error) {
	ctx, name := r.Context(), listedQueue(r)
	if _, err := s.info(ctx, name); err != nil {
		return page{}, err
	}
	known, _ := s.hots.LoadOrStore(name, newShared[inspect.JobPage]())
	hot, at, err := known.(*shared[inspect.JobPage]).get(ctx, hotFor, func() (inspect.JobPage, error) {
		return s.x.Inspect().Jobs(ctx, inspect.JobQuery{Queue: name, Order: inspect.OrderPayloads, Descending: true,
			Limit: hotIDs, Patience: listPatience})
	})
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
