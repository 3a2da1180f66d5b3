package postgres

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/journal/internal/format"
)

// groupItems is how many items of several rows go into the log together.
const groupItems = 4096

// inRow is a row of the inbox.
type inRow struct {
	number int64
	queue  string
	calls  []byte
	token  pgtype.UUID
}

// group are rows that go into the log together: of one queue, all of them staged by jobs or none, and one alone if it
// has conditions.
type group struct {
	rows       []inRow
	items      []item
	conditions []executor.Option
	staged     bool
}

// together returns the first rows that may go together. With an error it is about the first one.
func (t *taker) together(rows []inRow) (g group, err error) {
	for i, r := range rows {
		of, err := r.read()
		switch {
		case err != nil && i == 0:
			return group{rows: rows[:1]}, err
		case err != nil, i > 0 && (of.conditions != nil || of.staged != g.staged || r.queue != rows[0].queue || len(g.items)+len(of.items) > groupItems):
			return g, nil
		}
		g = group{rows[:i+1], append(g.items, of.items...), of.conditions, of.staged}
		if g.conditions != nil {
			break
		}
	}
	return g, nil
}

// read returns what a row has.
func (r inRow) read() (g group, err error) {
	calls, carried, err := callsOf(r.calls)
	if err == nil {
		g.conditions, err = cluster.Carried(carried)
	}
	if err == nil && r.calls[0] > txVersion {
		g.conditions = []executor.Option{} // it is alone
	}
	for _, c := range calls {
		if err == nil {
			var of []item
			of, g.staged, err = itemsOf(c)
			g.items = append(g.items, of...)
		}
	}
	if err == nil && (len(g.items) == 0 || len(g.items) > 1 && r.calls[0] > txVersion) {
		err = &format.CorruptError{Reason: fmt.Sprintf("a row of the inbox has %d items", len(g.items))}
	}
	return g, err
}

// take appends the items of a group to the log, in the commit that deletes their rows. What has
// conditions is answered, and so is over whatever they come to.
func (t *taker) take(g group) error {
	if g.rows[0].calls[0] > txVersion {
		return t.hear(g.rows[0], g.items[0])
	}
	offset := t.offset + 1
	numbers := make([]int64, len(g.rows))
	for i, r := range g.rows {
		numbers[i] = r.number
		t.p.store.intake.expect(offset, r.number)
	}
	var receipts []executor.Receipt
	options := append(g.conditions, executor.FromSource(inboxSource, offset), cluster.Relayed(g.staged))
	q, err := t.p.x.Lookup(t.queues[g.rows[0].queue])
	if err == nil {
		err = guarded(func() (err error) {
			receipts, err = q.EnqueueMany(t.p.ctx, g.items, options...)
			return err
		})
	}
	exited := errors.Is(err, errExited) && t.passed(offset)
	if exited {
		t.offset, err = offset, fmt.Errorf("%w: %w", executor.ErrUnknown, err) // who waits for receipts gets none
	}
	if err == nil && !receipts[0].Duplicate {
		t.offset = offset
	} else if !t.unsettled(err) || t.p.log.Settled(t.p.ctx) == nil { // or it may come yet, with what is noted
		t.p.store.intake.over(numbers)
	}
	if stale, ok := errors.AsType[*executor.StaleError](err); ok && stale.Source == inboxSource { // somebody has set it
		t.offset = stale.Last
	}
	if g.conditions != nil && (err == nil || exited || t.answered(g.rows[0], err)) {
		t.answers.add(g.rows[0], answerOf(receipts, err))
	} else if !exited {
		return err
	}
	return nil
}

// passed reports whether the log has what was to set the offset of the inbox, whatever became of the call.
func (t *taker) passed(offset int64) bool {
	known := t.p.log.Settled(t.p.ctx) == nil
	last, found, _ := t.p.x.SourceOffset(inboxSource) // found: without an error
	return known && found && last >= offset
}

// answered reports whether an error is the answer to a call with conditions. Where nobody waits for
// that, what is not about its conditions is for a person to see.
func (t *taker) answered(r inRow, err error) bool {
	decided := errors.As(err, new(*executor.StaleError)) || errors.As(err, new(*executor.WaitingError))
	return t.refusal(err) && !waits(err) && (decided || r.calls[0] == conditionVersion)
}

// answers are what the owner says of rows with conditions, in their order.
type answers struct {
	numbers []int64
	tokens  []pgtype.UUID
	texts   []string
}

func (a *answers) add(r inRow, of answer) {
	text, _ := json.Marshal(of) // does not fail
	a.numbers, a.tokens, a.texts = append(a.numbers, r.number), append(a.tokens, r.token), append(a.texts, string(text))
}

// answer hands answers to the server. Those that it does not get are given anew by the next
// pass, but for those of what was accepted.
func (t *taker) answer(a *answers) error {
	if len(a.numbers) == 0 {
		return nil
	}
	hand := statement(t.p.n.texts["answer"], t.p.number, t.p.epoch(), a.numbers, a.tokens, a.texts)
	err := t.p.store.patient(hand)
	if err != nil && t.p.ctx.Err() == nil { // the executor has closed its store, and the partition is ours yet
		err = onConnection(t.p.ctx, t.p.n.pool, attemptTime, hand)
	}
	if err == nil {
		t.p.n.notifier.tell(hintAnswer)
	}
	return err
}

// waits reports whether rows stay where they are for an error, and those behind them, too.
func waits(err error) bool {
	return errors.Is(err, executor.ErrFull) || errors.Is(err, executor.ErrUnknownQueue)
}

// refusal reports whether an error is about the rows, and not about the executor or the server.
func (t *taker) refusal(err error) bool {
	_, server := errors.AsType[*serverError](err)
	stale, _ := errors.AsType[*executor.StaleError](err)
	return !server && !t.unsettled(err) && (stale == nil || stale.Source != inboxSource)
}

// unsettled reports whether what an error is about may come yet, or has to wait for another owner.
func (t *taker) unsettled(err error) bool { return errors.Is(err, executor.ErrUnknown) || t.ends(err) }

// ends reports whether an error is about the executor, which has ended then, or will: a middleware may say so of itself.
func (t *taker) ends(err error) bool {
	ends := []error{executor.ErrClosed, executor.ErrFailed, executor.ErrUnknown, executor.ErrContext, executor.ErrState, format.ErrClosed}
	says := slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) })
	return says && t.p.ended() || t.p.ctx.Err() != nil || isTakeover(err)
}

// refuse keeps a row out of the log: one of several calls is taken apart first, so that each stands for itself.
func (t *taker) refuse(r inRow, why error) (split bool, err error) {
	calls, _, err := callsOf(r.calls)
	if err == nil && len(calls) > 1 {
		parts := make([][]byte, len(calls))
		for i, c := range calls {
			parts[i] = row(c)
		}
		return true, t.p.store.patient(statement(t.p.n.texts["split"], t.p.number, t.p.epoch(), r.number, parts))
	}
	t.p.tell(slog.LevelError, "a row of the inbox is refused; it stays there",
		slog.Int64("number", r.number), slog.String("queue", r.queue), slog.Any("error", why))
	text := fmt.Sprintf("%+q", why.Error()) // as the server can have it
	return false, t.p.store.patient(statement(t.p.n.texts["refuse"], t.p.number, r.number, text[1:len(text)-1], t.p.epoch()))
}

// intake are rows of the inbox that are on their way into the log, each with what the log will
// have as the offset of its source then.
type intake struct {
	mu     sync.Mutex
	rows   map[int64]int64 // offsets by number
	offset []byte          // that this owner has set; nil: none
}

// inboxSource is the source of [executor.FromSource] that stands for the inbox. No program has one of that name
// by chance: what it accepted would delete rows that were not taken in.
const inboxSource = "\x00inbox"

// intakeKey is the state key of its offset.
var intakeKey = "mark/" + inboxSource

// expect says that the commit which sets the offset of the inbox to offset, or to a greater
// one, takes in the row of that number: the row goes in the same transaction.
func (n *intake) expect(offset, number int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rows[number] = offset
}

// isIntake reports whether a change is of the offset of the inbox. Which rows are taken in says the inbox itself, in
// which they are not any longer: so the offset counts for one owner only, and is not written.
func isIntake(name format.Bucket, key []byte) bool {
	return name == format.BucketState && string(key) == intakeKey
}

// taken returns the rows that a commit with these changes takes in.
func (n *intake) taken(changes []format.Edit) (rows []int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := int64(math.MinInt64)
	for _, e := range changes {
		if isIntake(e.Bucket, e.Key) && len(e.Value) == 8 {
			last = max(last, int64(binary.BigEndian.Uint64(e.Value)))
		}
	}
	for number, offset := range n.rows {
		if offset <= last {
			rows = append(rows, number)
		}
	}
	return rows
}

// note keeps the offset that a commit has set.
func (n *intake) note(changes []format.Edit) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range changes {
		if isIntake(e.Bucket, e.Key) {
			n.offset = bytes.Clone(e.Value)
		}
	}
}

// last returns the offset that was set, if one was.
func (n *intake) last() (offset []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return bytes.Clone(n.offset)
}

// over forgets rows that are taken in, or were not and are to be noted again.
func (n *intake) over(rows []int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, number := range rows {
		delete(n.rows, number)
	}
}
