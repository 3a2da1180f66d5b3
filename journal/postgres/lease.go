package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What a node believes about a lease: it began, at the latest, when the statement that
// renewed it was sent, and so it lasts by the server's clock until after sent + Lease. No
// clocks are compared. When three quarters of that have gone by without a renewal, the
// partition is lost: its handlers have the last quarter to notice.
const (
	renewals   = 3 // in a lease
	safeQuarts = 3 // of 4
)

// tellEvery is how often the log has that leases can't be renewed, at most.
const tellEvery = 10 * time.Second

// safe is how long a partition is held after a renewal was sent.
func (n *Node) safe() time.Duration { return n.cfg.Lease * safeQuarts / 4 }

// view is who lives and who owns what, at one moment of the server.
type view struct {
	nodes  []pgtype.UUID // that live
	first  time.Duration // until the first of the others is over, unless it is renewed
	owners map[int]owner
}

// owner has a partition for a time; zero: nobody has.
type owner struct {
	id   pgtype.UUID
	left time.Duration
}

// wanted returns which live node should have a partition: that with the highest hash of both
// (rendezvous hashing), so that with a node more or less only its own partitions move.
func wanted(nodes []pgtype.UUID, partition int) (best pgtype.UUID) {
	var most uint64
	for _, id := range nodes {
		h := fnv.New64a()
		_, _ = h.Write(id.Bytes[:]) // does not fail
		_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(partition)))
		// FNV mixes the last bytes too little: the end of splitmix64 does the rest.
		v := h.Sum64()
		v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
		v = (v ^ v>>27) * 0x94d049bb133111eb
		if v ^= v >> 31; v >= most || !best.Valid {
			best, most = id, v
		}
	}
	return best
}

// decide returns which free partitions node self should take, and which of those it holds it
// should step down from.
func decide(v view, self pgtype.UUID, held []int) (take, drop []int) {
	for p, o := range v.owners {
		mine := wanted(v.nodes, p) == self
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
	pause, told := time.Duration(0), time.Time{}
	for {
		t := time.NewTimer(pause)
		select {
		case <-n.base.Done():
			t.Stop()
			return
		case <-n.wake:
			t.Stop()
		case <-t.C:
		}
		began := time.Now()
		next, err := n.tend()
		n.noteTended(began, err)
		pause = n.cfg.Lease / renewals
		switch {
		case err != nil && n.base.Err() == nil:
			if time.Since(told) >= tellEvery {
				n.log.Warn("leases can't be renewed", slog.String("node", n.id.String()), slog.Any("error", err))
				told = time.Now()
			}
			pause /= 4
		case next > 0:
			pause = min(pause, next)
		}
	}
}

// tend renews the leases once, and acts on what it sees. It returns when something may end.
func (n *Node) tend() (next time.Duration, err error) {
	ctx, cancel := context.WithTimeout(n.base, n.cfg.Lease/renewals)
	defer cancel()
	n.mu.Lock()
	var name *string // none: the node's row stays away
	if n.state == started {
		name = &n.cfg.Name
	}
	held := maps.Clone(n.held)
	n.mu.Unlock()

	conn, err := n.control.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release()
	if err := n.renew(ctx, conn, name, held); err != nil {
		return 0, err
	}
	if name == nil {
		return 0, nil
	}
	v, err := n.look(ctx, conn)
	if err != nil {
		return 0, err
	}
	take, drop := decide(v, n.id, slices.Collect(maps.Keys(held)))
	n.forget(v)
	for _, p := range drop {
		if held[p].serving() {
			n.log.Info("steps down from a partition", slog.Int("partition", p), slog.String("node", n.id.String()))
			held[p].giveAway()
		}
	}
	for _, p := range take {
		n.own(p)
	}
	return v.first, nil
}

// forget forgets failures of partitions that are another node's to serve.
func (n *Node) forget(v view) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.failed, func(p int, _ failure) bool { return wanted(v.nodes, p) != n.id })
}

func (n *Node) renew(ctx context.Context, conn *pgxpool.Conn, name *string, held map[int]*partition) error {
	sent := time.Now()
	var numbers []int
	for number, p := range held {
		if p.renewable() {
			numbers = append(numbers, number)
		}
	}
	forgetWarning(conn.Conn().PgConn())
	rows, err := conn.Query(ctx, n.texts.renew, n.id, name, n.cfg.Lease.Milliseconds(), numbers)
	if err != nil {
		return err
	}
	var number int
	var epoch int64
	renewed := make(map[int]int64)
	if _, err := pgx.ForEachRow(rows, []any{&number, &epoch}, func() error { renewed[number] = epoch; return nil }); err != nil {
		return err
	}
	if text := warningOf(conn.Conn().PgConn()); text != "" {
		return fmt.Errorf("%w: %s", errWarned, text) // perhaps it is not on the standby
	}
	for _, number := range numbers {
		switch epoch, ok := renewed[number]; {
		case ok && epoch == held[number].epoch():
			held[number].extend(sent)
		default:
			held[number].lose(fmt.Errorf("%w: partition %d has another owner", ErrLeaseLost, number))
		}
	}
	return nil
}

func (n *Node) look(ctx context.Context, conn *pgxpool.Conn) (v view, err error) {
	rows, err := conn.Query(ctx, n.texts.view)
	if err != nil {
		return v, err
	}
	v.owners = make(map[int]owner)
	var number *int
	var id pgtype.UUID
	var left int64
	_, err = pgx.ForEachRow(rows, []any{&number, &id, &left}, func() error {
		rest := time.Duration(left)*time.Millisecond + 5*time.Millisecond // it was rounded
		if number != nil {
			v.owners[*number] = owner{id, time.Duration(left) * time.Millisecond}
		} else {
			v.nodes = append(v.nodes, id)
		}
		if id.Valid && id != n.id && left >= 0 && (v.first == 0 || rest < v.first) {
			v.first = rest
		}
		return nil
	})
	return v, err
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
	if err == nil || errors.Is(err, errTaken) {
		delete(n.failed, p.number)
		return
	}
	if errors.Is(err, ErrLeaseLost) {
		n.lost++
		return
	}
	f := n.failed[p.number]
	if f.err = err; !unreached(err) {
		f.times = min(f.times+1, 8)
	}
	f.until = time.Now().Add(min(n.cfg.Lease/renewals<<max(f.times-1, 0), longestFailure))
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

// longestFailure is how long a partition that fails is left alone at most.
const longestFailure = 30 * time.Second

// healthy forgets why a partition was not served.
func (n *Node) healthy(number int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.failed, number)
}

// leave ends the candidacy, as far as the server answers.
func (n *Node) leave(ctx context.Context) {
	if _, err := n.control.Exec(ctx, n.texts.leave, n.id); err != nil {
		n.log.Warn("the node is a candidate until its lease ends", slog.Any("error", err))
		return
	}
	n.notifier.leases()
}

// housekeeping is how often what nobody needs any longer is deleted.
const housekeeping = time.Minute

func (n *Node) keepHouse() {
	t := time.NewTicker(housekeeping)
	defer t.Stop()
	for {
		select {
		case <-n.base.Done():
			return
		case <-t.C:
		}
		ctx, cancel := context.WithTimeout(n.base, housekeeping)
		if _, err := n.control.Exec(ctx, n.texts.sweep); err != nil && n.base.Err() == nil {
			n.log.Warn("old rows of nodes and tokens can't be deleted", slog.Any("error", err))
		}
		cancel()
	}
}
