package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cluster"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal/internal/format"
)

const (
	// firstLook and longestLook are how long a caller waits before the next look for an answer, if no hint comes.
	firstLook   = 2 * time.Millisecond
	longestLook = time.Second
	// lookEach is how long nobody looks after a look, for each answer that it was for: what the server has with it,
	// and more. A hint that comes sooner waits, for hintEvery at most.
	lookEach = 20 * time.Microsecond
	// answerTime is how long an owner has to say what it has accepted. One that dies does not.
	answerTime  = time.Second
	recallTime  = 500 * time.Millisecond // that a call takes longer than its context to find out
	longestWait = 10 * time.Minute       // of an owner for a payload, before its caller has to ask again
	// withinKey is where a question says how long its caller waits, if that is known.
	withinKey = "within"
)

// answer is what the owner of a partition says of a call with conditions, or to a question.
type answer struct {
	First     uint64                 `json:",omitempty"` // the position of the first item; 0: not known
	Merged    []uint64               `json:",omitempty"` // MergedInto of each
	Duplicate bool                   `json:",omitempty"`
	Stale     *executor.StaleError   `json:",omitempty"`
	Waiting   *executor.WaitingError `json:",omitempty"`
	Full      *executor.FullError    `json:",omitempty"` // in place of its kind, for who knows it
	Refused   string                 `json:",omitempty"` // the text of any other error
	Kind      int                    `json:",omitempty"` // which of kinds it is, from 1; 0: none
	Buried    *executor.BuriedError  `json:",omitempty"`
	Name      []byte                 `json:",omitempty"` // the id, source or queue in one of these, which may be any bytes
	Result    []byte                 `json:",omitempty"` // of cluster.Answer
	Lost      bool                   `json:",omitempty"` // the owner had begun, and is none any longer
}

// kinds are the errors that go with an answer. New ones come last, and none goes: ErrInvalidItem was two.
var kinds = []error{executor.ErrInvalidKey, executor.ErrInvalidID, executor.ErrInvalidItem, executor.ErrInvalidItem,
	executor.ErrTooLarge, executor.ErrEncode, executor.ErrNotOwned, executor.ErrMiddleware, executor.ErrState,
	executor.ErrDiscarded, executor.ErrDeleted, inspect.ErrTooManyPaused, inspect.ErrInvalidQuery, executor.ErrFull, executor.ErrUnknownQueue,
	executor.ErrNoResult, executor.ErrDeadlock, inspect.ErrUnknownJob, inspect.ErrInvalidCursor, executor.ErrContext,
	executor.ErrUnknown, executor.ErrConfig}

func answerOf(receipts []executor.Receipt, err error) (a answer) {
	of := err
	if errors.Is(err, executor.ErrUnknown) {
		of = executor.ErrUnknown // whatever else it is: others say that nothing was accepted
	}
	switch {
	case errors.As(err, &a.Buried):
		a.Buried = new(*a.Buried)
		a.Buried.Err = nil // it is of this process
		a.Name = []byte(a.Buried.ID)
	case errors.As(of, &a.Stale):
		a.Name = []byte(a.Stale.Source)
	case errors.As(of, &a.Waiting):
		a.Name = []byte(a.Waiting.ID)
	case err != nil:
		a.Refused = err.Error()
		a.Kind = slices.IndexFunc(kinds, func(kind error) bool { return errors.Is(of, kind) }) + 1
		if errors.As(of, &a.Full) {
			a.Name = []byte(a.Full.Queue)
		}
	case len(receipts) > 0:
		a.First, a.Duplicate = receipts[0].Position, receipts[0].Duplicate
		for _, r := range receipts {
			a.Merged = append(a.Merged, r.MergedInto)
		}
	}
	return a
}

func (a answer) err() error {
	switch {
	case a.Buried != nil:
		if by := executor.ErrCanceledByOperator; strings.HasPrefix(a.Buried.Reason, by.Error()) {
			a.Buried.Err = fmt.Errorf("%w%s", by, strings.TrimPrefix(a.Buried.Reason, by.Error()))
		}
		a.Buried.ID = cmp.Or(string(a.Name), a.Buried.ID)
		return a.Buried
	case a.Stale != nil:
		a.Stale.Source = cmp.Or(string(a.Name), a.Stale.Source)
		return a.Stale
	case a.Waiting != nil:
		a.Waiting.ID = cmp.Or(string(a.Name), a.Waiting.ID)
		return a.Waiting
	case a.Kind > 0 && a.Kind <= len(kinds):
		kind := kinds[a.Kind-1]
		if a.Full != nil {
			a.Full.Queue = cmp.Or(string(a.Name), a.Full.Queue)
			kind = a.Full
		}
		if a.Refused == kind.Error() {
			return kind
		}
		return fmt.Errorf("%w: %s", kind, strings.TrimPrefix(a.Refused, kind.Error()+": "))
	case a.Refused != "":
		return errors.New(a.Refused)
	}
	return nil
}

// asking are the calls of this node that wait for answers, for all of which one goroutine looks.
type asking struct {
	n    *Node
	wake chan struct{} // holds a token when there may be an answer

	mu      sync.Mutex
	waiting map[pgtype.UUID]*asked
	busy    bool
}

type asked struct {
	answer chan answer // holds one
	taken  time.Time   // when it was first seen to be accepted, without an answer
}

// receipts are those of the items of a call that the inbox has, with what their owner has said.
func (a answer) receipts(items []item) []executor.Receipt {
	all := make([]executor.Receipt, len(items))
	for i, it := range items {
		all[i] = executor.Receipt{ID: it.ID, Durable: true, Duplicate: a.Duplicate}
		if a.First != 0 {
			all[i].Position = a.First + uint64(i)
		}
		if i < len(a.Merged) {
			all[i].MergedInto = a.Merged[i]
		}
	}
	return all
}

// errOlder is the answer to a question as earlier versions had it.
var errOlder = errors.New("postgres: the node that asks is of an earlier version than the owner of the partition: deploy the new one there, too")

// hear has those who ask on other nodes hear of an answer, unless the ownership ends before. Who waits for a payload, or
// looks, may have gone: if not, he asks again after a while.
func (t *taker) hear(row inRow, question item) error {
	ours := false
	err := t.p.store.patient(scalar(&ours, t.p.n.texts["hear"], t.p.number, t.p.epoch(), row.number, row.token))
	if err != nil || !ours {
		return err
	}
	t.answering.Go(func() {
		longest := t.p.n.longestWait
		if d, err := time.ParseDuration(question.Metadata[withinKey]); err == nil && d > 0 {
			longest = min(longest, d)
		}
		ctx, cancel := context.WithTimeout(t.p.ctx, longest)
		defer cancel()
		result, err := []byte(nil), errOlder
		if row.calls[0] == questionVersion {
			err = guarded(func() (err error) {
				result, err = cluster.Answer(ctx, t.p.x, question.Payload)
				return err
			})
		}
		if errors.Is(err, errExited) { // perhaps after what was asked for
			err = fmt.Errorf("%w: %w", executor.ErrUnknown, err)
		}
		a := answerOf(nil, err)
		a.Result, a.Lost = result, err != nil && (t.p.gone(err) || ctx.Err() != nil)
		if t.p.ctx.Err() == nil && (!a.Lost || ctx.Err() != nil) {
			var own answers
			own.add(row, a)
			_ = t.answer(&own) // it is lost with the ownership
		}
	})
	return nil
}

// questionOf is the row of a question. With a deadline the owner is not at it for longer than its caller waits, unless it
// changes something, which is done to its end. A deadline that is over is by another clock than ctx.
func questionOf(ctx context.Context, question []byte, changes bool) []byte {
	it := item{Payload: question}
	if d, ok := ctx.Deadline(); ok && !changes {
		it.Metadata = map[string]string{withinKey: time.Until(d).String()}
	}
	return rowOf([]byte{questionVersion}, nil, encodeCall([]item{it}))
}

// ask has the owner of a partition answer a question behind what was enqueued before for a queue, or for all: here, or
// through the inbox. See cluster.Cluster.
func (s *asking) ask(ctx context.Context, number int, queue string, question []byte, again bool) ([]byte, error) {
	_, handler := ctx.Value(partitionKey{}).(*partition)
	asked := false
	unknown := func(err error) error {
		if asked && !errors.Is(err, executor.ErrUnknown) {
			err = fmt.Errorf("%w: an owner was asked, and is none any longer: %w", executor.ErrUnknown, err)
		}
		return err
	}
	for {
		p, err := s.n.outbox.gate(ctx, number, queue)
		if err != nil {
			return nil, unknown(err)
		}
		if p != nil {
			answer, err := cluster.Answer(ctx, p.x, question)
			switch {
			case !p.gone(err), handler, ctx.Err() != nil:
				return answer, err
			case !again:
				return answer, fmt.Errorf("%w: the partition is given away: %v", executor.ErrUnknown, err)
			}
			asked = true
		}
		row := questionOf(ctx, question, !again && queue == "") // a Do waits for what it enqueues
		token, err := s.n.outbox.put(ctx, map[place][]byte{{number, queue}: row}, true)
		if err != nil {
			return nil, unknown(err)
		}
		a, err := s.wait(ctx, token)
		switch {
		case err != nil && ctx.Err() != nil && !handler && s.recall(token): // a handler has lost its lease, perhaps
			return nil, unknown(s.n.outbox.cause(ctx))
		case err != nil:
			return nil, err
		case a.Lost && !again:
			return nil, fmt.Errorf("%w: before its owner has answered the partition was given away, or the time for that was over", executor.ErrUnknown)
		case !a.Lost:
			return a.Result, a.err()
		}
		asked = true
	}
}

// recall takes a question back, unless its owner has begun.
func (s *asking) recall(token pgtype.UUID) (gone bool) {
	err := onConnection(s.n.base, s.n.pool, recallTime, scalar(&gone, s.n.texts["recall"], token))
	return gone && err == nil
}

// wait waits for the answer to the call whose row in the inbox has a token. The error is
// executor.ErrUnknown when ctx ends before.
func (s *asking) wait(ctx context.Context, token pgtype.UUID) (answer, error) {
	mine := &asked{answer: make(chan answer, 1)}
	s.mu.Lock()
	s.waiting[token] = mine
	if !s.busy {
		s.busy = true
		go s.run()
	}
	s.mu.Unlock()
	poke(s.wake)
	defer func() {
		s.mu.Lock()
		delete(s.waiting, token)
		s.mu.Unlock()
	}()
	select {
	case a := <-mine.answer:
		return a, nil
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%w: it is in the inbox, and its owner has not answered: %w", executor.ErrUnknown, s.n.outbox.cause(ctx))
	case <-s.n.base.Done():
		return answer{}, fmt.Errorf("%w: it is in the inbox, and the node was stopped before its owner has answered", executor.ErrUnknown)
	}
}

// run looks for answers while somebody waits.
func (s *asking) run() {
	for pause, count := firstLook, s.look(); count > 0; pause, count = min(2*pause, longestLook), s.look() {
		if s.rest(pause, count) {
			pause = firstLook
		}
	}
}

// rest waits for a hint, no longer than most, and reports whether one came. After a look for many the next one waits
// also with a hint, so that it finds more.
func (s *asking) rest(most time.Duration, count int) (hint bool) {
	soonest := time.After(min(time.Duration(count)*lookEach, hintEvery))
	select {
	case <-s.wake:
		hint = true
	case <-time.After(most):
	case <-s.n.base.Done():
	}
	select {
	case <-soonest:
	case <-s.n.base.Done():
	}
	return hint
}

// look hands out the answers that are there, and returns for how many it has looked; 0: nobody waits. What a server in
// trouble does not say comes later.
func (s *asking) look() (count int) {
	s.mu.Lock()
	tokens := slices.Collect(maps.Keys(s.waiting))
	busy := len(tokens) > 0 && s.n.base.Err() == nil
	s.busy = busy
	s.mu.Unlock()
	if !busy {
		return 0
	}
	sent := time.Now()
	err := onConnection(s.n.base, s.n.pool, attemptTime, func(ctx context.Context, conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, s.n.texts["answers"], tokens)
		var token pgtype.UUID
		var text string
		_, err := pgx.ForEachRow(rows, []any{&token, &text}, func() error { return s.found(token, text) })
		return err
	})
	s.n.outbox.trouble.note(sent, err)
	return len(tokens)
}

// found is called with a call that was decided.
func (s *asking) found(token pgtype.UUID, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, a := s.waiting[token], answer{}
	switch {
	case w == nil: // its caller has gone
		return nil
	case text != "":
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			return fmt.Errorf("%w: the answer of an owner: %w", format.ErrTooNew, err)
		}
	case w.taken.IsZero():
		w.taken = time.Now()
		return nil
	case time.Since(w.taken) < answerTime:
		return nil
	}
	w.answer <- a
	delete(s.waiting, token) // it has room for one
	return nil
}
