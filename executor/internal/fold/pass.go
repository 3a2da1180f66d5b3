package fold

import (
	"errors"
	"fmt"

	"github.com/strandjobs/strand/executor/internal/guard"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/shard"
)

// errExited is what a pass has come to whose user code called Goexit.
var errExited = errors.New("executor: QueueConfig.Gather.Fold called runtime.Goexit")

// Program is what the program has for the payloads of a queue.
type Program[T any] struct {
	Decode func([]byte) (T, error)
	Fold   func(waiting, next T) (T, error)
	Encode func(T) ([]byte, error)
}

// pass is what a pass has come to.
type pass struct {
	n       int    // payloads that went into it, or don't decode
	payload []byte // nil: no two of them became one
	bad     map[int]error
	err     error // why it ended before the last payload, or came to nothing
	reason  string
}

// fold makes payloads one, as many from the first on as let it. Those that don't decode are
// passed over if skip says so, or else the last one is before them.
func (f *Folder) fold(id string, data [][]byte, skip func(error) bool) pass {
	most := len(data)
	for failed := false; ; {
		p := f.pass(data[:most], skip)
		if p.err == nil || most == 1 {
			return p
		}
		f.c.Failed(id, p.err, p.reason)
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
func (f *Folder) pass(data [][]byte, skip func(error) bool) pass {
	p := &pass{err: errExited, reason: errExited.Error()}
	<-guard.Returned(func() {
		if p.err = guard.Call(func() error { return f.passOver(&f.c, p, data, skip) }); p.err != nil {
			p.reason = guard.Text(p.err.Error)
		}
	})
	return *p
}

func (of Program[T]) passOver(c *Config, p *pass, data [][]byte, skip func(error) bool) (err error) {
	var sum T
	folded, bytes := 0, 0
	look := c.MaxBytes // so many bytes may have become one that is too large
	for ; p.n < len(data); p.n++ {
		next, undecodable := of.Decode(data[p.n])
		switch {
		case undecodable != nil && !skip(undecodable):
			return undecodable
		case undecodable != nil:
			if p.bad == nil {
				p.bad = make(map[int]error)
			}
			p.bad[p.n] = undecodable
			continue
		case folded == 0:
			sum = next
		default:
			if sum, err = of.Fold(sum, next); err != nil {
				return err
			}
		}
		folded++
		if bytes += len(data[p.n]); folded > 1 && bytes > look {
			if _, err := of.encode(c, sum, folded); err != nil {
				return err
			}
			look = 2 * bytes
		}
	}
	if folded < 2 {
		return nil
	}
	payload, err := of.encode(c, sum, folded)
	if err == nil { // what does not decode is no outcome
		_, err = of.Decode(payload)
	}
	if err == nil {
		p.payload = append(make([]byte, 0, len(payload)), payload...) // not nil
	}
	return err
}

// encode encodes what some payloads became, if it is not too large.
func (of Program[T]) encode(c *Config, sum T, folded int) ([]byte, error) {
	payload, err := of.Encode(sum)
	if most := c.MaxBytes; err == nil && len(payload) > most {
		err = fmt.Errorf("%w: %d payloads became one of %d bytes, the limit is %d", c.TooLarge, folded, len(payload), most)
	}
	return payload, err
}

// Item makes the payloads of an item one, or those before the first that does not go together
// with them. If one can't be read, the first runs alone: what is wrong is found out when that
// is decoded, or by the next run.
func (f *Folder) Item(it *shard.Item) {
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
	p := f.fold(it.ID, data, func(err error) bool { return f.c.Skip(it, err) })
	for i := range p.n {
		if err := p.bad[i]; err != nil {
			it.Outcome.AddPart(shard.Part{Index: i, Verdict: shard.VerdictCanceled, Error: f.c.Refused(err)})
		}
	}
	it.Fold(max(p.n, 1), p.payload)
}
