package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Hints go by NOTIFY: "lease", "answer", or "in" and the numbers of partitions.
const (
	hintLease  = "lease"
	hintAnswer = "answer"
)

// hintOf is the hint of the inbox for partitions.
func hintOf(partitions ...int) string { return "in " + strings.Trim(fmt.Sprint(partitions), "[]") }

// hintEvery is how often a transaction of a user has a hint in it, at most, and how long after
// their calls there are hints for the others.
const hintEvery = 50 * time.Millisecond

// notifier tells nodes of what has changed, and hears of it: in statements of its own, which write nothing,
// because transactions that notify commit one after the other. When a transaction of a user
// commits only the server knows: one in hintEvery notifies itself, and for the others there
// are two hints, in the hope that it has been by then. If not, the owner finds it by looking.
type notifier struct {
	n    *Node
	wake chan struct{}

	mu    sync.Mutex
	due   map[string]bool
	last  time.Time   // that a transaction was to notify
	later map[int]int // hints that are to come for partitions
}

// transaction reports whether a transaction that puts a row into the inbox should notify.
func (h *notifier) transaction(partition int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := time.Now(); now.Sub(h.last) >= hintEvery {
		h.last = now
		return true
	}
	if len(h.later) == 0 {
		time.AfterFunc(hintEvery, h.transactions)
	}
	h.later[partition] = 2 // the first may come at once
	return false
}

// transactions hints at the partitions into which transactions of users have written lately: twice each, because
// nothing tells of their commits.
func (h *notifier) transactions() {
	h.mu.Lock()
	partitions := slices.Sorted(maps.Keys(h.later))
	for p := range h.later {
		h.later[p]--
	}
	maps.DeleteFunc(h.later, func(_, left int) bool { return left == 0 })
	if len(h.later) > 0 {
		time.AfterFunc(hintEvery, h.transactions)
	}
	h.mu.Unlock()
	h.hint(partitions)
}

// tell gives a hint before long.
func (h *notifier) tell(hint string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.due[hint] = true
	poke(h.wake)
}

// hint wakes the owners of partitions: here directly, elsewhere by NOTIFY.
func (h *notifier) hint(partitions []int) {
	var remote []int
	for _, number := range partitions {
		if p := h.n.owned(number); p != nil {
			poke(p.taker.wake)
		} else {
			remote = append(remote, number)
		}
	}
	for some := range slices.Chunk(remote, 1000) { // a notification has less than 8000 bytes
		h.tell(hintOf(some...))
	}
}

// poke puts a token into a channel that has room for one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run sends hints until the node has stopped, and then what has come until then: that the
// last partition is free, say.
func (h *notifier) run() {
	for ended := false; !ended; {
		select {
		case <-h.n.base.Done():
			ended = true
		case <-h.wake:
		}
		h.mu.Lock()
		due := slices.Collect(maps.Keys(h.due))
		clear(h.due)
		h.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(h.n.base), h.n.cfg.Lease/renewals)
		_, _ = h.n.pool.Exec(ctx, h.n.texts["notify"], h.n.texts["channel"], due) // one that is lost costs time
		cancel()
	}
}

// listen hears hints, over one connection after the other.
func (h *notifier) listen() {
	pause := firstPause
	for h.n.base.Err() == nil {
		began := time.Now()
		_ = h.listenOnce() // what is missed meanwhile is found by looking
		if time.Since(began) > longestPause {
			pause = firstPause
		}
		_ = retryAfter(h.n.base, &pause)
	}
}

func (h *notifier) listenOnce() error {
	conn, err := pgx.ConnectConfig(h.n.base, h.n.control.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(h.n.base)) }()
	if _, err := conn.Exec(h.n.base, "LISTEN "+h.n.texts["channel"]); err != nil {
		return err
	}
	poke(h.n.wake)
	for {
		hint, err := conn.WaitForNotification(h.n.base)
		if err != nil {
			return err
		}
		switch hint.Payload {
		case hintLease:
			poke(h.n.wake)
		case hintAnswer:
			poke(h.n.asking.wake)
		}
		for field := range strings.FieldsSeq(strings.TrimPrefix(hint.Payload, "in")) {
			number, err := strconv.Atoi(field)
			if p := h.n.owned(number); err == nil && p != nil {
				poke(p.taker.wake)
			}
		}
	}
}
