package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/strandjobs/strand/executor/cluster"
)

// What a node believes about a lease: it began, at the latest, when the statement that
// renewed it was sent, and so it lasts by the server's clock until after sent + Lease. No
// clocks are compared. When three quarters of that have gone by without a renewal, the
// partition is lost: its handlers have the last quarter to notice.
const (
	renewals   = 3 // in a lease
	safeQuarts = 3 // of 4
)

const (
	tellEvery      = 10 * time.Second // between two lines that leases can't be renewed; worse news are told at once
	longestFailure = 30 * time.Second // how long a partition that fails is left alone at most
	housekeeping   = time.Minute      // how often what nobody needs any longer is deleted
)

// view is who lives and who owns what, at one moment of the server.
type view struct {
	nodes  []pgtype.UUID // that live
	first  time.Duration // until the first of the others is over, unless it is renewed
	owners map[int]owner
	shares []pgtype.UUID // who should have each partition
	heads  map[int]head  // of partitions
}

// owner has a partition for a time; zero: nobody has.
type owner struct {
	id   pgtype.UUID
	left time.Duration
}

// shares returns which live node should have each of so many partitions. In the order of their
// numbers each goes to the node with the highest hash of both (rendezvous hashing, Thaler and
// Ravishankar 1998) that has room for it: the shares differ by one at most. So with a node more or
// less its own partitions move, and hardly any others.
func shares(nodes []pgtype.UUID, partitions int) []pgtype.UUID {
	all := make([]pgtype.UUID, partitions)
	if len(nodes) == 0 {
		return all
	}
	least, more := partitions/len(nodes), partitions%len(nodes) // so many have one more
	has := make([]int, len(nodes))
	for p := range all {
		best, most := -1, uint64(0)
		for i, id := range nodes {
			if v := rank(id, p); (best < 0 || v > most) && (has[i] < least || has[i] == least && more > 0) {
				best, most = i, v
			}
		}
		if has[best] == least {
			more--
		}
		has[best]++
		all[p] = nodes[best]
	}
	return all
}

// rank is the hash of a node and a partition.
func rank(id pgtype.UUID, partition int) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(id.Bytes[:]) // does not fail
	_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(partition)))
	// FNV mixes the last bytes too little: the end of splitmix64 does the rest.
	v := h.Sum64()
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// decide returns which free partitions node self should take, and which of those it holds it
// should step down from.
func decide(v view, self pgtype.UUID, held []int) (take, drop []int) {
	for p, o := range v.owners {
		mine := v.shares[p] == self
		switch {
		case slices.Contains(held, p):
			if !mine && slices.Contains(v.nodes, self) {
				drop = append(drop, p)
			}
		case mine && o.left <= 0:
			take = append(take, p)
		}
	}
	slices.Sort(take)
	slices.Sort(drop)
	return take, drop
}

// leases renews, and takes and gives away partitions, until the node has stopped.
func (n *Node) leases() {
	pause, told, toldAs, joined := time.Duration(0), time.Time{}, slog.LevelWarn, false
	for {
		select {
		case <-n.base.Done():
			return
		case <-n.wake:
		case <-time.After(pause):
		}
		began := time.Now()
		next, err := n.tend()
		n.leasing.note(began, err)
		pause = n.cfg.Lease / renewals
		switch {
		case err != nil && n.base.Err() == nil:
			if level := levelOf(err); level > toldAs || time.Since(told) >= tellEvery {
				n.lines.tell(level, "leases can't be renewed", nil, slog.String("node", n.id.String()), slog.Any("error", err))
				told, toldAs = time.Now(), level
			}
			pause /= 4
		case next > 0:
			pause = min(pause, next)
		}
		if err == nil && !joined {
			joined = true
			n.notifier.tell(hintLease) // others step down for it
		}
	}
}

// tend renews the leases once, and acts on what it sees. It returns when something may end.
func (n *Node) tend() (next time.Duration, err error) {
	ctx, cancel := context.WithTimeout(n.base, n.cfg.Lease/renewals)
	defer cancel()
	n.mu.Lock()
	var name *string // none: the node's row stays away
	if n.state == started && !n.behind {
		name = &n.cfg.Name
	}
	held := maps.Clone(n.held)
	n.mu.Unlock()

	var v view
	before := make([]head, len(n.seen))
	err = onConnection(ctx, n.control, n.cfg.Lease/renewals, func(ctx context.Context, conn *pgx.Conn) (err error) {
		if err = n.renew(ctx, conn, name, held); err != nil || name == nil {
			return err
		}
		for p := range before {
			before[p] = n.seen[p].head()
		}
		v, err = n.look(ctx, conn)
		return err
	})
	if errors.Is(err, errRemade) {
		for _, p := range held {
			p.lose(fmt.Errorf("%w: partition %d: %w", ErrLeaseLost, p.number, err))
		}
	}
	if err != nil || name == nil {
		return 0, err
	}
	for p, h := range v.heads {
		if err := behind(p, before[p], h); err != nil {
			n.condemn(p, err)
		} else {
			n.seen[p].note(h)
		}
	}
	take, drop := decide(v, n.id, slices.Collect(maps.Keys(held)))
	n.review(v)
	var left []int
	for number, p := range held {
		if p.move(p.ready.Load() && slices.Contains(drop, number)) {
			left = append(left, number)
		}
	}
	if len(left) > 0 {
		n.lines.tell(slog.LevelInfo, "steps down from partitions", left, slog.String("node", n.id.String()))
	}
	for _, p := range take {
		n.own(p)
	}
	return v.first, nil
}

// review notes partitions that nobody can own, and forgets failures of those that are another node's to serve.
func (n *Node) review(v view) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for number := range n.seen {
		_, there := v.owners[number]
		switch err := n.failed[number].err; {
		case !there && err == nil:
			n.failed[number] = failure{err: noLease(number)}
			n.lines.tell(slog.LevelError, "partitions can't be served", []int{number}, slog.Any("error", n.failed[number].err))
		case there && v.shares[number] != n.id && !errors.Is(err, ErrBehind):
			delete(n.failed, number)
		}
	}
}

// condemn keeps the node from serving a partition for as long as it lives.
func (n *Node) condemn(number int, err error) {
	n.mu.Lock()
	held, told := n.held[number], errors.Is(n.failed[number].err, ErrBehind)
	n.behind = true
	if held == nil && !told {
		n.failed[number] = failure{err: err, until: time.Now().Add(math.MaxInt64)}
	}
	n.mu.Unlock()
	switch {
	case held != nil:
		held.lose(err) // whose end is noted as this one
	case !told:
		n.lines.tell(slog.LevelError, "partitions will not be served", []int{number}, slog.Any("error", err))
	}
}

func (n *Node) renew(ctx context.Context, conn *pgx.Conn, name *string, held map[int]*partition) error {
	sent := time.Now()
	var numbers []int
	for number, p := range held {
		if p.epoch() != 0 && p.ctx.Err() == nil { // of what is lost there is no lease
			numbers = append(numbers, number)
		}
	}
	rows, _ := conn.Query(ctx, n.texts["renew"], n.id, name, n.cfg.Lease.Milliseconds(), numbers, n.division)
	var number int
	var epoch int64
	renewed := make(map[int]int64)
	if _, err := pgx.ForEachRow(rows, []any{&number, &epoch}, func() error { renewed[number] = epoch; return nil }); err != nil {
		return err
	}
	if err := warned(conn.PgConn()); err != nil {
		return err
	}
	lapsed := time.Since(n.renewed) > n.cfg.Lease*safeQuarts/4
	n.renewed = sent
	for _, number := range numbers {
		switch epoch, ok := renewed[number]; {
		case !ok || epoch != held[number].epoch():
			held[number].lose(fmt.Errorf("%w: partition %d has another owner", ErrLeaseLost, number))
		case lapsed: // its timer has not been heard of yet
			held[number].lose(fmt.Errorf("%w: partition %d was renewed too late", ErrLeaseLost, number))
		default:
			held[number].extend(sent)
		}
	}
	if lapsed {
		cluster.Lapsed(n.front)
	}
	return nil
}

func (n *Node) look(ctx context.Context, conn querier) (v view, err error) {
	rows, _ := conn.Query(ctx, n.texts["view"], n.division)
	v.owners, v.heads = make(map[int]owner), make(map[int]head)
	var number *int
	var id pgtype.UUID
	var left int64
	var h head
	remade := errRemade
	_, err = pgx.ForEachRow(rows, []any{&number, &id, &left, &h.epoch, &h.number}, func() error {
		lasts := time.Duration(left) * time.Millisecond
		switch {
		case number == nil:
			v.nodes = append(v.nodes, id)
		case *number < 0 && left == 1:
			remade = nil
		case *number >= 0 && *number < len(n.seen): // or Migrate has not made it
			v.owners[*number], v.heads[*number] = owner{id, lasts}, h
		}
		rest := lasts + 5*time.Millisecond // it was rounded
		if id.Valid && id != n.id && left >= 0 && (v.first == 0 || rest < v.first) {
			v.first = rest
		}
		return nil
	})
	v.shares = shares(v.nodes, len(n.seen))
	return v, cmp.Or(err, remade)
}

// own begins the life of a partition, unless it has one, or has failed lately.
func (n *Node) own(number int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.state != started || n.held[number] != nil || time.Now().Before(n.failed[number].until) {
		return
	}
	p := newPartition(n, number)
	n.held[number] = p
	n.tasks.Go(p.live)
}

// disown forgets a partition whose life is over.
func (n *Node) disown(p *partition, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.held, p.number)
	switch {
	case err == nil || errors.Is(err, errTaken):
		delete(n.failed, p.number)
		return
	case errors.Is(err, ErrLeaseLost):
		n.lost++
		return
	}
	f := n.failed[p.number]
	if f.err = err; !unreached(err) {
		f.times = min(f.times+1, 8)
	}
	wait := min(n.cfg.Lease/renewals<<max(f.times-1, 0), longestFailure)
	if errors.Is(err, ErrBehind) {
		n.behind, wait = true, math.MaxInt64
	}
	f.until = time.Now().Add(wait)
	n.failed[p.number] = f
}

// unreached reports whether an error is that of a connection: it says nothing of the next one,
// and so nobody waits longer after more of them.
func unreached(err error) bool {
	if _, answered := errors.AsType[*pgconn.PgError](err); answered {
		return !refusedForGood(err)
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err) // what ran out of time, too
	return connecting || network || pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// leave ends the candidacy, as far as the server answers.
func (n *Node) leave(ctx context.Context) {
	if err := n.command(ctx, "leave", n.id); err != nil {
		n.lines.tell(levelOf(err), "the node is a candidate until its lease ends", nil, slog.Any("error", err))
		return
	}
	n.notifier.tell(hintLease)
}

// command has the server do something about nodes and leases.
func (n *Node) command(ctx context.Context, text string, args ...any) error {
	return onConnection(ctx, n.control, housekeeping, statement(n.texts[text], args...))
}

func (n *Node) keepHouse() {
	for {
		select {
		case <-n.base.Done():
			return
		case <-time.After(housekeeping):
		}
		ctx, cancel := context.WithTimeout(n.base, housekeeping)
		if err := n.command(ctx, "sweep"); err != nil && n.base.Err() == nil {
			n.lines.tell(levelOf(err), "old rows of nodes and tokens can't be deleted", nil, slog.Any("error", err))
		}
		_ = n.outbox.clock.read(ctx, n.control, readClock) // or a minute later
		n.tellOfStandby(ctx)
		n.tellOfSnapshots(ctx, oldSnapshot)
		cancel()
	}
}

// tellOfStandby warns while what is acknowledged is on one machine only, against what Config says.
// A server that was promoted may name no standby of its own; Open would refuse it.
func (n *Node) tellOfStandby(ctx context.Context) {
	var none bool
	if n.cfg.SingleServer || n.control.QueryRow(ctx, "SELECT btrim(current_setting('synchronous_standby_names')) = ''").Scan(&none) != nil || !none {
		return
	}
	n.lines.tell(slog.LevelWarn, "synchronous_standby_names is empty: what is acknowledged is on one machine; name a standby", nil)
}
