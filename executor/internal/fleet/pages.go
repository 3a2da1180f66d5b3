package fleet

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/listing"
	"github.com/strandjobs/strand/executor/internal/look"
)

var errPositions = fmt.Errorf("%w: positions, and not of one id: each partition has its own; use SelectIDs with one id, and At", inspect.ErrInvalidQuery)

func (in *Inspector) Jobs(ctx context.Context, q inspect.JobQuery) (inspect.JobPage, error) {
	return in.page(ctx, "Jobs", q)
}
func (in *Inspector) Dead(ctx context.Context, q inspect.JobQuery) (inspect.JobPage, error) {
	return in.page(ctx, "Dead", q)
}

// page is a page of all partitions.
func (in *Inspector) page(ctx context.Context, do string, query inspect.JobQuery) (p inspect.JobPage, err error) {
	q := Question{Do: do, Which: inspect.SelectQueue(query.Queue), Query: query}
	if q.Query.Order != inspect.OrderNone {
		if err = in.refused(ctx, q); err == nil {
			p, err = in.inOrder(ctx, &q)
		}
		return p, err
	}
	number, cursor := 0, ""
	if q.Query.Cursor != "" {
		var text string
		text, cursor, _ = strings.Cut(q.Query.Cursor, ".")
		if number, err = strconv.Atoi(text); err != nil || number < 0 || number >= in.Partitions {
			return p, fmt.Errorf("%w: %q is of no partition", inspect.ErrInvalidCursor, q.Query.Cursor)
		}
	}
	q.Query.Cursor = ""
	if err = in.refused(ctx, q); err == nil {
		q.Query.Cursor = cursor
		p, err = in.asTheyCome(ctx, q, number)
	}
	return p, err
}

// asTheyCome goes on in a partition, and in those behind it until the page is full.
func (in *Inspector) asTheyCome(ctx context.Context, q Question, number int) (p inspect.JobPage, err error) {
	left := cmp.Or(q.Query.Limit, inspect.DefaultListLimit)
	for ; number < in.Partitions; number++ {
		q.Query.Limit = left
		a, err := in.Put(ctx, number, &q, true)
		if err != nil {
			return inspect.JobPage{}, part(number, err)
		}
		next := &a.Page
		p.Jobs, p.Dead, p.Examined = append(p.Jobs, next.Jobs...), append(p.Dead, next.Dead...), p.Examined+next.Examined
		left -= len(next.Jobs) + len(next.Dead)
		switch {
		case next.Next != "":
			p.Next, p.Truncated = fmt.Sprintf("%d.%s", number, next.Next), next.Truncated
			return p, nil
		case left == 0 && number < in.Partitions-1:
			p.Next = fmt.Sprintf("%d.", number+1)
			return p, nil
		}
		q.Query.Cursor = ""
	}
	return p, nil
}

// row is one of either list.
type row struct {
	job  inspect.JobInfo
	dead inspect.DeadPayload
}

// inOrder merges the first rows of all partitions behind a cursor, which is a place in the order.
func (in *Inspector) inOrder(ctx context.Context, q *Question) (p inspect.JobPage, err error) {
	answers, err := in.every(ctx, q)
	if err != nil {
		return p, err
	}
	query := &q.Query
	page, more := listing.NewPage[row](cmp.Or(query.Limit, inspect.DefaultListLimit), query.Descending, nil), false
	for _, a := range answers {
		p.Examined, p.Partial, more = p.Examined+a.Page.Examined, p.Partial || a.Page.Partial, more || a.Page.Next != ""
		for _, j := range a.Page.Jobs {
			page.Offer(look.JobKey(query.Order, &j), row{job: j})
		}
		for _, d := range a.Page.Dead {
			page.Offer(look.DeadKey(query.Order, d.ID, int64(d.Position), d.At.UnixNano()), row{dead: d})
		}
	}
	rows, last, cut := page.Rows()
	for _, r := range rows {
		if q.Do == "Jobs" {
			p.Jobs = append(p.Jobs, r.job)
		} else {
			p.Dead = append(p.Dead, r.dead)
		}
	}
	if (cut || more) && len(rows) > 0 {
		p.Next = listing.Cursor(look.ListName(strings.ToLower(q.Do), query), last)
	}
	return p, nil
}

// keys is one page of those of all partitions. A key may be there more than once, as it is one of each: a page has
// all of it, also beyond its limit, because the next one begins behind it.
func keys[S any](in *Inspector, q Question, of func(*Answer) []S, key func(S) string) (page []S, more int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err = in.refused(ctx, q); err != nil {
		return nil, 0, err
	}
	answers, err := in.every(ctx, &q)
	for _, a := range answers {
		page, more = append(page, of(a)...), more+a.More
	}
	slices.SortStableFunc(page, func(a, b S) int { return strings.Compare(key(a), key(b)) })
	n := min(len(page), cmp.Or(q.Limit, inspect.DefaultListLimit))
	for n < len(page) && key(page[n]) == key(page[n-1]) {
		n++
	}
	return page[:n], more + len(page) - n, err
}

func (in *Inspector) Slots(limit int) (held []inspect.SlotHeld, more int, err error) {
	return keys(in, Question{Do: "Slots", Limit: limit}, func(a *Answer) []inspect.SlotHeld { return a.Slots },
		func(s inspect.SlotHeld) string { return s.Slot + " " + s.By })
}

// Paused returns what was known last, if some partition does not answer.
func (in *Inspector) Paused() (all bool, queues []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answers, err := in.every(ctx, &Question{Do: "Paused"})
	if last := in.paused.Load(); err != nil && last != nil {
		return last.All, last.Names
	}
	for _, a := range answers {
		all, queues = all || a.All, append(queues, a.Names...)
	}
	slices.Sort(queues)
	queues = slices.Compact(queues)
	if err == nil {
		in.paused.Store(&Answer{All: all, Names: queues})
	}
	return all, queues
}

func (in *Inspector) PausedIDs(queue string) iter.Seq2[string, error] {
	return in.names("PausedIDs", queue)
}
func (in *Inspector) PausedPrefixes(queue string) iter.Seq2[string, error] {
	return in.names("PausedPrefixes", queue)
}

// names are those of all partitions, each once, in their order. A partition has more behind the
// last name of an answer that is full, so those behind the first of these come with the next round.
func (in *Inspector) names(do, queue string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for after, more := "", true; more; {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			answers, err := in.every(ctx, &Question{Do: do, Which: inspect.SelectQueue(queue), After: after})
			cancel()
			if err != nil {
				yield("", err)
				return
			}
			var names []string
			end := ""
			for _, a := range answers {
				names = append(names, a.Names...)
				if n := len(a.Names); n == namesPerPage && (end == "" || a.Names[n-1] < end) {
					end = a.Names[n-1]
				}
			}
			slices.Sort(names)
			for _, name := range slices.Compact(names) {
				if end != "" && name > end {
					break
				}
				if !yield(name, nil) {
					return
				}
			}
			after, more = end, end != ""
		}
	}
}
