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
	Tabs   []tabLink
	Empty  string
	Paused []string // prefixes, the first of them

	inspect.JobPage // of the first Examined ones, of Of, if it is partial
	Dead            []inspect.DeadInfo
	Of              int
	Late            string // why there is no list
	Buttons         []button
	previews        payloads
}

// Previews reports whether the list has a begin of each payload: OfJob and OfDead.
func (p queuePage) Previews() bool { return p.previews.h.cfg.ShowPreview != nil }

func (p queuePage) OfJob(j inspect.JobInfo) string {
	return p.previews.preview(Payload{j.Queue, j.ID, inspect.PayloadInfo{Position: j.Position, Score: j.Score,
		EnqueuedAt: j.EnqueuedAt, Bytes: j.Bytes, Raw: j.Preview}})
}

func (p queuePage) OfDead(d inspect.DeadInfo) string {
	return p.previews.preview(Payload{d.Queue, d.ID, inspect.PayloadInfo{Position: d.Position, Score: d.Score,
		EnqueuedAt: d.EnqueuedAt, Bytes: d.Bytes, Raw: d.Preview}})
}

// Figures are those of the queue.
func (p queuePage) Figures() []figure {
	return queueFigures(p.Stats, "Lag", "Age", "Enqueued", "Payloads", "Fresh", "Processed", "Failed")
}

// tabLink is a tab with how many there are.
type tabLink struct {
	Name, Title string
	Count       int
	Place       string
}

// button is an action that the rows of a list offer.
type button struct {
	Verb   Verb
	Name   string
	Danger bool
}

// How many of each a page shows: the latest shards, and the first of the paused prefixes.
const mostShards, mostPrefixes = 16, 100

func (h *handler) queue(r *http.Request) (page, error) {
	l, err := listOf(r.URL.Query())
	if err != nil {
		return page{}, err
	}
	began := time.Now()
	info, err := h.info(r.Context(), l.Queue)
	if err != nil {
		return page{}, err
	}
	p := queuePage{list: l, Stats: info.QueueStats, Empty: l.tab().Empty, Of: info.Jobs, previews: payloads{h: h, r: r}}
	if l.Tab == morgue {
		p.Of = info.Dead
	}
	p.Shards = info.Shards
	slices.SortStableFunc(p.Shards, func(a, b inspect.ShardStats) int { return cmp.Compare(b.Lag, a.Lag) })
	p.More = max(len(p.Shards)-mostShards, 0)
	p.Shards = p.Shards[:len(p.Shards)-p.More]
	can, err := h.can(r, l.Queue, append([]Verb{Pause, Resume}, l.tab().verbs...)...) // while there is time for it
	if err != nil {
		return page{}, err
	}
	for prefix, err := range h.x.Inspect().PausedPrefixes(l.Queue) {
		if err != nil || len(p.Paused) == mostPrefixes {
			break // the figure says how many there are
		}
		p.Paused = append(p.Paused, prefix)
	}
	for _, t := range tabs {
		p.Tabs = append(p.Tabs, tabLink{t.Name, t.Title, t.count(p.Stats), place(l.Queue) + t.figure})
	}
	for _, v := range l.tab().verbs {
		if d := deeds[v]; can[v] {
			p.Buttons = append(p.Buttons, button{v, d.button, d.danger})
		}
	}
	status := http.StatusOK
	if err = h.fill(r.Context(), &p, began); errors.Is(err, context.DeadlineExceeded) && r.Context().Err() != nil {
		status, p.Late, err = http.StatusServiceUnavailable, lateList(err).Error(), nil
	}
	return page{Title: l.Queue, Content: p, Can: can, status: status}, err
}

// info returns the figures of a queue.
func (h *handler) info(ctx context.Context, name string) (inspect.QueueInfo, error) {
	all, err := h.x.Inspect().Queues(ctx)
	if err != nil {
		return inspect.QueueInfo{}, err
	}
	for _, q := range all {
		if q.Name == name && q.Registered {
			return q, nil
		}
	}
	return inspect.QueueInfo{}, problem{http.StatusNotFound,
		"there is no queue \"" + clip(name, 80) + "\" in this process"}
}

// fill makes the list of a page that was begun at a time.
func (h *handler) fill(ctx context.Context, p *queuePage, began time.Time) (err error) {
	if p.Tab != morgue {
		p.JobPage, err = h.x.Inspect().Jobs(ctx, p.query(began))
		return err
	}
	dead, err := h.x.Inspect().Dead(ctx, deadQuery(p.query(began)))
	p.Dead = dead.Dead
	p.JobPage = inspect.JobPage{Next: dead.Next, Examined: dead.Examined, Truncated: dead.Truncated, Partial: dead.Partial}
	return err
}
