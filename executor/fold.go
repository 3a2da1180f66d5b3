package executor

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// What waits for an id is folded by the worker that runs it, just before the handler is
// called, and what waits for long also meanwhile, see folder. Both go through passes: one
// decodes payloads, calls the function of the queue for one after the other, and encodes
// the outcome. A pass that fails may have left anything in the values that it had, so
// another one begins from the bytes.

// errFoldExited is what a pass has come to whose user code called Goexit.
var errFoldExited = errors.New("executor: QueueConfig.Gather.Fold called runtime.Goexit")

// foldPass is what a pass has come to.
type foldPass struct {
	n       int    // payloads that went into it, or don't decode
	payload []byte // nil: no two of them became one
	bad     map[int]error
	err     error // why it ended before the last payload, or came to nothing
	reason  string
}

// mayFold refuses what makes no sense together with Fold.
func (t *Queue[T]) mayFold(single bool) error {
	c := &t.cfg
	var why string
	switch {
	case c.Gather.Fold == nil:
		return nil
	case single:
		why = "its handler gets one payload per call, each for itself; use HandleMerged or HandleBatch"
	case c.Merge != MergeKeepAll:
		why = fmt.Sprintf("Merge is %v, which leaves some out of what is folded; leave it at MergeKeepAll", c.Merge)
	case c.Gather.MaxPayloads > 0:
		why = fmt.Sprintf("Gather.MaxPayloads is %d, and all payloads become one; leave it out", c.Gather.MaxPayloads)
	case c.Conditions.Locks.OnEnqueue != nil || c.Conditions.Locks.OnRun != nil || c.Conditions.Locks.Unlock != nil:
		why = "Conditions.Locks has OnEnqueue, OnRun or Unlock: the keys of what became a part of another payload would be forgotten; use BlockedBy, Unique or Limits"
	default:
		return nil
	}
	return fmt.Errorf("%w: Gather.Fold: %s", ErrConfig, why)
}

// fold makes payloads one, as many from the first on as let it. Those that don't decode
// are passed over if skip says so, or else the last one is before them.
func (t *Queue[T]) fold(id string, data [][]byte, skip func(error) bool) foldPass {
	most := len(data)
	for failed := false; ; {
		p := t.pass(data[:most], skip)
		if p.err == nil || most == 1 {
			return p
		}
		t.q.logFold(id, &p)
		switch {
		case p.n == most: // what it became is no payload
			most = (most + 1) / 2
		case failed:
			most = 1
		default:
			most, failed = max(p.n, 1), true
		}
	}
}

// pass calls user code on a goroutine of its own, which it may end.
func (t *Queue[T]) pass(data [][]byte, skip func(error) bool) foldPass {
	p := &foldPass{err: errFoldExited, reason: errFoldExited.Error()}
	over := make(chan struct{})
	go func() {
		defer close(over)
		if p.err = guarded(func() error { return t.passOver(p, data, skip) }); p.err != nil {
			p.reason = text(p.err.Error)
		}
	}()
	<-over
	return *p
}

func (t *Queue[T]) passOver(p *foldPass, data [][]byte, skip func(error) bool) error {
	var waiting T
	folded, bytes := 0, 0
	look := t.q.x.cfg.Advanced.MaxPayloadBytes // so many bytes may have become one that is too large
	for ; p.n < len(data); p.n++ {
		next, err := t.decodeOne(data[p.n])
		switch {
		case err != nil && !skip(err):
			return err
		case err != nil:
			if p.bad == nil {
				p.bad = make(map[int]error)
			}
			p.bad[p.n] = err
			continue
		}
		bytes += len(data[p.n])
		if folded++; folded == 1 {
			waiting = next
			continue
		}
		if waiting, err = t.cfg.Gather.Fold(waiting, next); err != nil {
			return err
		}
		if bytes > look { // here, so that what is too large is not made of all that waits
			if _, err := t.encodeFolded(waiting, folded); err != nil {
				return err
			}
			look = 2 * bytes
		}
	}
	if folded < 2 {
		return nil
	}
	payload, err := t.encodeFolded(waiting, folded)
	if err == nil {
		_, err = t.decodeOne(payload)
	}
	if err != nil {
		return err
	}
	p.payload = payload
	if p.payload == nil {
		p.payload = []byte{}
	}
	return nil
}

// encodeFolded encodes what some payloads became, if it is not too large.
func (t *Queue[T]) encodeFolded(value T, folded int) ([]byte, error) {
	payload, err := t.encode(value)
	if most := t.q.x.cfg.Advanced.MaxPayloadBytes; err == nil && len(payload) > most {
		err = fmt.Errorf("%w: %d payloads became one of %d bytes, the limit is %d", ErrTooLarge, folded, len(payload), most)
	}
	return payload, err
}

// logFold tells why some payloads are not folded, of a panic as the bug that it is.
func (q *queue) logFold(id string, p *foldPass) {
	if panicked, ok := p.err.(*PanicError); ok {
		q.logPanic(id, p.reason, panicked.Stack)
		return
	}
	q.x.cfg.Logger.Debug("payloads were not folded", slog.String("queue", q.name), slog.String("id", id), slog.String("error", p.reason))
}

// foldItem makes the payloads of an item one, or those before the first that does not
// go together with them. If one can't be read, the first runs alone: what is wrong is
// found out when that is decoded, or by the next run.
func (t *Queue[T]) foldItem(it *shard.Item) {
	if len(it.Payloads) < 2 {
		return
	}
	data := make([][]byte, len(it.Payloads))
	for i, p := range it.Payloads {
		var e journal.Entry
		if p.Ref.Read(&e) != nil {
			it.Fold(1, nil)
			return
		}
		data[i] = e.Payload
	}
	p := t.fold(it.ID, data, func(err error) bool { return !(&undecodable{err}).mayPass(t.q, it) })
	for i := range p.n {
		if err := p.bad[i]; err != nil {
			it.Outcome.AddPart(shard.Part{Index: i, Verdict: shard.VerdictCanceled, Error: (&undecodable{err}).Error()})
		}
	}
	it.Fold(max(p.n, 1), p.payload)
}

// oneOf returns the first payload of the run of an item that is none of its parts.
func oneOf(it *shard.Item) (i int, found bool) {
	i = oldest(it.Outcome.Parts)
	return i, i < len(it.InRun())
}

// decodeFolded adds the one payload that the handler gets; none if nothing decodes.
func (t *Queue[T]) decodeFolded(it *shard.Item, job *Merged[T]) error {
	i, found := oneOf(it)
	if !found {
		return nil
	}
	p := it.Payloads[i]
	var e journal.Entry
	if err := p.Ref.Read(&e); err != nil {
		return &unreadError{err}
	}
	if it.Folded != nil {
		e.Payload = it.Folded
	}
	value, err := t.decodeOne(e.Payload)
	if err != nil && it.Folded != nil {
		return &undecodable{err} // a moment ago it did decode
	}
	if err != nil {
		return t.refuse(it, i, err)
	}
	job.Payloads = append(job.Payloads, payloadOf(value, p, &e))
	return nil
}

// ofTheOne returns what PayloadErrors say of the one payload of a job.
func ofTheOne(it *shard.Item, each PayloadErrors, whole error) error {
	i, found := oneOf(it)
	if !found || len(each) != 1 {
		return whole
	}
	if err, named := each[uint64(it.Payloads[i].Ref.Position())]; named {
		return err
	}
	return whole
}
