package limit

import (
	"context"
	"strconv"
	"time"

	"github.com/strandjobs/strand/executor/internal/quota"
)

// Commonly has the limits that are made from now on with Config.Cluster be those of all processes of a cluster.
func (l *Limits) Commonly() {
	l.asks = make(chan struct{}, 1)
	l.Do(func(t *Table, _ int64) { t.common = true })
}

// Lapse says that the cluster may have taken this process, which runs no job then, for dead: what it had is others'.
func (l *Limits) Lapse() {
	l.Do(func(t *Table, now int64) {
		t.lapses++
		for _, of := range t.shared {
			for _, k := range of.keys {
				k.part.lapse()
				t.settle(now, k)
			}
		}
	})
}

// Keep agrees with the other processes on what jobs wait for, until ctx ends, if there is such a limit.
func (l *Limits) Keep(ctx context.Context, with quota.Processes) {
	shared := false
	l.Do(func(t *Table, _ int64) { shared = len(t.shared) > 0 })
	for shared && ctx.Err() == nil {
		var r round
		l.Do(r.begin)
		if len(r.parts) == 0 {
			l.idle(ctx, time.Duration(min(r.next-r.sent, askAnew)))
			continue
		}
		answers, err := r.agree(ctx, with)
		l.Do(func(t *Table, now int64) { r.end(t, now, answers, err == nil && r.lapses == t.lapses) })
	}
}

// round is one call for several keys.
type round struct {
	keys       []string
	asks       []quota.Ask
	parts      []*part
	sent, next int64 // when it was made, and when the next one is due
	lapses     int   // until then
}

func (r *round) begin(t *Table, now int64) {
	r.sent, r.next, r.lapses, r.parts = now, never, t.lapses, t.due(now)
	for _, p := range r.parts {
		of := p.key.limit.name
		r.keys, r.asks = append(r.keys, strconv.Itoa(len(of))+":"+of+p.key.name), append(r.asks, p.ask(now))
	}
	if len(t.asks) > 0 {
		r.next = t.asks[0].Turn
	}
	t.expects = r.next
}

// end takes in the answers; ok is false if none came in time.
func (r *round) end(t *Table, now int64, answers []quota.Answer, ok bool) {
	for i, p := range r.parts {
		var a quota.Answer
		if ok {
			a = answers[i]
		}
		p.hear(r.sent, now, r.asks[i], a, ok)
		t.settle(now, p.key)
	}
}

func (r *round) agree(ctx context.Context, with quota.Processes) (answers []quota.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(askAgain))
	defer cancel()
	err = with.Rows(ctx, r.keys, func(now time.Time, lives func(string) bool, rows []quota.Stored) ([]quota.Stored, error) {
		answers = answers[:0]
		for i, s := range rows {
			row, err := s.Read()
			if err != nil {
				return nil, err
			}
			answers = append(answers, row.Agree(now.UnixNano(), with.Self, lives, r.asks[i]))
			rows[i] = row.Stored(now)
		}
		return rows, nil
	})
	return answers, err
}

// idle waits for d, or until an ask is due before.
func (l *Limits) idle(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-l.asks:
	}
}
