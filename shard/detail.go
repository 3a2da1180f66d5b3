package shard

import (
	"slices"

	"github.com/strandjobs/strand/journal"
)

// Detail is all that a shard knows of a job.
type Detail struct {
	View
	History journal.History // of failures; LastError is the last one
	InHand  []Payload       // those that run, as far as they did not end
	Waiting []Payload       // those that wait behind them, in their order
}

// detailLooks bounds how many payloads of a job are looked at for each that is shown:
// some are gone, and only wait to be swept up.
const detailLooks = 16

// Detail shows the job of an id, with n payloads of each kind at most.
func (c *looks) Detail(id string, now int64, n int) (d Detail, ok bool) {
	l := c.lanes.find([]byte(id))
	if l == nil {
		return d, false
	}
	c.show(Cursor(l.number), now, &d.View)
	d.ID = id
	if p := l.past(); p != nil {
		d.History = slices.Clone(p.failures())
		d.Waiting = append(d.Waiting, p.held[:min(len(p.held), n)]...)
	}
	if it := l.item(); it != nil {
		hand := it.Payloads[it.settled:]
		d.InHand = slices.Clone(hand[:min(len(hand), n)])
	}
	if b := l.bag(); b != nil {
		d.Waiting = append(d.Waiting, b.some(n-len(d.Waiting))...)
	} else if l.n() == 1 && len(d.Waiting) < n {
		d.Waiting = append(d.Waiting, l.one)
	}
	return d, true
}

// some returns the first n payloads, or a few less if most of those that are looked
// at are gone.
func (b *payloadSet) some(n int) (list []Payload) {
	looks := n * detailLooks
	take := func(h *hashed) bool {
		if !h.gone {
			list = append(list, h.Payload)
		}
		looks--
		return len(list) < n && looks > 0
	}
	b.order.inOrder.each(take)
	first := list
	list, looks = nil, n*detailLooks
	b.order.heap.each(take)
	list = append(first, list...)
	slices.SortFunc(list, func(p, q Payload) int {
		if p.before(q) {
			return -1
		}
		return 1
	})
	return list[:max(min(len(list), n), 0)]
}
