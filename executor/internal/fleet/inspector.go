package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/brief"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/executor/internal/engine"
	"github.com/strandjobs/strand/executor/internal/listing"
	"github.com/strandjobs/strand/executor/internal/look"
)

// Inspector is an [inspect.Inspector] of all partitions.
type Inspector struct {
	admin.Actor // its own Act
	Asker
	Probe  Part // of an executor with the same queues, and no jobs
	Decode func(ctx context.Context, d *inspect.JobDetail) error
	paused atomic.Pointer[Answer] // what was known to be paused last
}

// refused returns why a question makes no sense: what the probe says to it.
func (in *Inspector) refused(ctx context.Context, q Question) error {
	q.Do = strings.Replace(q.Do, "pause", "resume", 1) // what does nothing where nothing is
	_, err := Do(ctx, in.Probe, &q)
	return err
}

// Act has all partitions that are meant do something, and returns the sum of what they did.
func (in *Inspector) Act(ctx context.Context, name string, which inspect.Selection, reason string) (sum inspect.Requeued, err error) {
	q := Question{Do: name, Which: which, Reason: reason}
	if err = in.refused(ctx, q); err != nil {
		return sum, err
	}
	var answers []*Answer
	switch {
	case which.Positions != nil && len(which.Positions) == 0: // no payload is meant
	case which.Positions != nil && (which.IDs == nil || len(which.IDs) > 1):
		return sum, errPositions
	case which.IDs != nil:
		answers, err = in.divided(ctx, q)
	default:
		answers, err = in.every(ctx, &q)
	}
	for _, a := range answers {
		sum = sum.Plus(a.Did)
	}
	if (name == "pause" || name == "resume") && which.IDs == nil {
		sum.Back = min(sum.Back, 1)
	}
	return sum, err
}

var errPositions = fmt.Errorf("%w: positions, and not of one id: each partition has its own; use SelectIDs with one id, and At", inspect.ErrInvalidQuery)

func (in *Inspector) Explain(ctx context.Context, queue, id string) (inspect.Explanation, error) {
	q := Question{Do: "Explain", Which: inspect.SelectIDs(queue, id)}
	if err := in.refused(ctx, q); err != nil && !errors.Is(err, engine.ErrUnknownQueue) { // the owner may have it
		return inspect.Explanation{}, err
	}
	a, err := in.About(ctx, queue, id, q, true)
	return a.Why, err
}

func (in *Inspector) Job(ctx context.Context, queue, id string) (d inspect.JobDetail, err error) {
	q := Question{Do: "Job", Which: inspect.SelectIDs(queue, id)}
	if err := in.refused(ctx, q); !errors.Is(err, inspect.ErrUnknownJob) {
		return d, err
	}
	a, err := in.About(ctx, queue, id, q, true)
	if err == nil {
		d = a.Details[0]
		err = in.Decode(ctx, &d)
	}
	return d, err
}

func (in *Inspector) JobsByID(ctx context.Context, queue string, ids ...string) ([]inspect.JobDetail, error) {
	q := Question{Do: "JobsByID", Which: inspect.SelectIDs(queue, ids...)}
	if err := in.refused(ctx, q); err != nil {
		return nil, err
	}
	answers, err := in.divided(ctx, q)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]inspect.JobDetail)
	for _, a := range answers {
		for _, d := range a.Details {
			byID[d.ID] = d
		}
	}
	var found []inspect.JobDetail
	for _, id := range ids {
		d, ok := byID[id]
		if delete(byID, id); !ok {
			continue
		}
		if err := in.Decode(ctx, &d); err != nil {
			return nil, err
		}
		found = append(found, d)
	}
	return found, nil
}

func (in *Inspector) Running(ctx context.Context, query inspect.RunningQuery) (all inspect.RunningList, err error) {
	q := Question{Do: "Running", Running: query}
	if err = in.refused(ctx, q); err != nil {
		return all, err
	}
	answers, err := in.every(ctx, &q)
	for _, a := range answers {
		all.Running, all.More = append(all.Running, a.Running.Running...), all.More+a.Running.More
	}
	slices.SortStableFunc(all.Running, func(a, b inspect.Running) int { return a.Since.Compare(b.Since) })
	n := min(len(all.Running), cmp.Or(query.Limit, brief.PageRows))
	all.Running, all.More = all.Running[:n], all.More+len(all.Running)-n
	return all, err
}

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
	left := cmp.Or(q.Query.Limit, brief.PageRows)
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
	page, more := listing.NewPage[row](cmp.Or(query.Limit, brief.PageRows), query.Descending, nil), false
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
	n := min(len(page), cmp.Or(q.Limit, brief.PageRows))
	for n < len(page) && key(page[n]) == key(page[n-1]) {
		n++
	}
	return page[:n], more + len(page) - n, err
}

func (in *Inspector) LockedKeys(after string, limit int) (page []inspect.KeyLockStatus, more int, err error) {
	return keys(in, Question{Do: "LockedKeys", After: after, Limit: limit}, func(a *Answer) []inspect.KeyLockStatus { return a.Locked },
		func(k inspect.KeyLockStatus) string { return k.Key })
}

func (in *Inspector) Leases(after string, limit int) (page []inspect.LeaseStatus, more int, err error) {
	return keys(in, Question{Do: "Leases", After: after, Limit: limit}, func(a *Answer) []inspect.LeaseStatus { return a.Leases },
		func(l inspect.LeaseStatus) string { return l.Key })
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

func (in *Inspector) Limits(keys ...string) []inspect.LimitStats { return in.Probe.Limits(keys...) }

// Stats are sums, with the longest Age, Lag and CommitAge. A prefix is paused in all partitions, and
// counts once. Shards are left out, and UUID says how many journals there are.
func (in *Inspector) Stats(ctx context.Context) (s inspect.Stats, err error) {
	answers, err := in.every(ctx, &Question{Do: "Stats"})
	if err != nil {
		return s, err
	}
	queues, homes := make(map[string]inspect.QueueStats), make(map[uint64]int)
	for _, a := range answers {
		p := &a.Stats
		homes[a.Home] = p.Workers
		s.Busy, s.Stuck, s.Paused, s.Age = s.Busy+p.Busy, s.Stuck+p.Stuck, s.Paused || p.Paused, max(s.Age, p.Age)
		s.Backlog, s.Journal = backlogs(s.Backlog, p.Backlog), journals(s.Journal, p.Journal)
		for _, q := range p.Queues {
			t := queues[q.Name]
			t.Name, t.Registered, t.Paused, t.Backlog = q.Name, t.Registered || q.Registered, t.Paused || q.Paused, backlogs(t.Backlog, q.Backlog)
			prefixes := max(t.PausedPrefixes, q.PausedPrefixes)
			t = t.Plus(q)
			t.PausedPrefixes = prefixes
			queues[q.Name] = t
		}
	}
	s.Journal.UUID = fmt.Sprintf("%d journals", in.Partitions)
	for _, workers := range homes {
		s.Workers += workers
	}
	s.Queues = each.Of(slices.Sorted(maps.Keys(queues)), func(name string) inspect.QueueStats { return queues[name] })
	return s, nil
}

// Figures are those of one queue; what no partition has is zero.
func (in *Inspector) Figures(ctx context.Context, queue string) (inspect.QueueStats, error) {
	all, err := in.Stats(ctx)
	i := slices.IndexFunc(all.Queues, func(q inspect.QueueStats) bool { return q.Name == queue })
	if i < 0 {
		return inspect.QueueStats{Name: queue}, err
	}
	return all.Queues[i], err
}

func backlogs(a, b inspect.Backlog) inspect.Backlog {
	return inspect.Backlog{Payloads: a.Payloads + b.Payloads, Bytes: a.Bytes + b.Bytes, Refused: a.Refused + b.Refused,
		Waiting: a.Waiting + b.Waiting, Stalled: max(a.Stalled, b.Stalled)}
}

func journals(a, b inspect.JournalStats) inspect.JournalStats {
	if b.LastCommit.After(a.LastCommit) {
		a.LastCommit = b.LastCommit
	}
	a.Epoch, a.Next, a.CommitAge = max(a.Epoch, b.Epoch), max(a.Next, b.Next), max(a.CommitAge, b.CommitAge)
	a.Bytes, a.LiveBytes, a.HeldBytes = a.Bytes+b.Bytes, a.LiveBytes+b.LiveBytes, a.HeldBytes+b.HeldBytes
	a.ReadBacks, a.Commits, a.CommitTime = a.ReadBacks+b.ReadBacks, a.Commits+b.Commits, a.CommitTime+b.CommitTime
	return a
}
