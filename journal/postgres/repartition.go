package postgres

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// Repartition gives a schema another number of partitions, from 1 to 4096, whatever it was. No node may be up. It is
// one transaction: the schema has the new partitions with all that the old ones have, or it is as it was, also when
// this process, the connection or the server dies meanwhile. Before it is committed, the old partitions are read again
// and compared with the new ones entry by entry. With the number that there is it only checks: so it may be called
// again, with 0 as cfg.Partitions. Programs that have the schema open get ErrPartitions until they open it again.
//
// What an id has goes with it, in its order, as with Import; so do calls in the inbox. Divided partitions keep their
// positions. Of partitions that are joined the first does: those of the others become larger, and nothing of an id
// gets one again that it had. The README says what becomes of the rest. highest says that of several offsets that a
// source of executor.FromSource has in partitions that are joined the highest counts; otherwise they have to be equal.
// It is right when no call with a lower one is under way, or is made again.
//
// Of cfg the same counts as for Import; Partitions is the old number. It takes the memory of Import, and 300 bytes for
// each state key of partitions that are joined; the server needs room for all of it twice. It returns the errors of
// Import; ErrNotEmpty for a call in the inbox with conditions, which only the owner of a partition that is joined can
// answer; and ErrIndivisible also for positions that would not stay below 2^53.
func Repartition(ctx context.Context, url string, cfg Config, to int, highest bool) (Moved, error) {
	if to < 1 || to > maxPartitions {
		return Moved{}, fmt.Errorf("%w: %d partitions, it must be from 1 to %d", executor.ErrConfig, to, maxPartitions)
	}
	return withMover(ctx, url, cfg, "repartition", true, func(m *mover) error {
		if m.partitions == to {
			return m.check(ctx)
		}
		uuids := newUUIDs(to)
		router := newRouter(m.cfg, m.partitions, to)
		router.highest = highest
		return m.transact(ctx, uuids[0], func() error { return m.repartition(ctx, router, uuids) })
	})
}

//go:embed repartition.sql
var repartitionSQL string

// aside is how many numbers lower the old partitions are while the new ones are made: -1 is that of rows of the inbox
// that were withdrawn.
const aside = maxPartitions + 1

func (m *mover) repartition(ctx context.Context, to *router, uuids [][]byte) error {
	// Those who write into the inbox, or acquire a lease, end first; who comes later waits, and sees what is made here.
	err := m.exec(ctx, "LOCK TABLE {schema}.inbox IN SHARE ROW EXCLUSIVE MODE")
	if err == nil {
		err = m.still(ctx)
	}
	if m.cfg.Partitions = to.from; err == nil { // another call may have been first
		_, err = m.cfg.readSchema(ctx, m.conn)
	}
	if err != nil {
		return err
	}
	division, _, err := m.cfg.settle(ctx, m.conn, m.cfg.divide(to.from), false)
	var old, heads []head
	if err == nil {
		old, err = m.heads(ctx)
	}
	if err == nil {
		err = m.exec(ctx, strings.NewReplacer("{aside}", fmt.Sprint(aside), "{to}", fmt.Sprint(to.to)).Replace(repartitionSQL))
	}
	if err == nil {
		err = m.exec(ctx, "UPDATE {schema}.tail SET uuid = ($1::bytea[])[partition + 1] WHERE partition >= 0", uuids)
	}
	for p := 0; p < to.from && err == nil; p++ {
		err = m.readdress(ctx, to, p)
	}
	if m.partitions, m.moved.Partitions = to.to, to.to; err == nil {
		heads, err = m.heads(ctx)
	}
	if err != nil {
		return err
	}
	err = m.distribute(ctx, "the schema", to, heads, func(p, together int, do func(*journal.View) error) error {
		s := m.store(ctx, p-aside, old[p].epoch)
		defer s.Close()
		v, err := s.view(max(atHand/together, leastBlock))
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		return do(v)
	})
	if err == nil {
		err = m.exec(ctx, "DELETE FROM {schema}.tail WHERE partition < 0; DELETE FROM {schema}.block WHERE partition < 0; DELETE FROM {schema}.side WHERE partition < 0")
	}
	if err == nil && division != nil {
		_, _, err = m.cfg.settle(ctx, m.conn, m.cfg.divide(to.to), true)
	}
	return err
}

// readdress has the calls in the inbox of a partition go to those that their ids belong to now, in their order.
func (m *mover) readdress(ctx context.Context, to *router, from int) error {
	for after := int64(0); ; {
		var queue string
		var calls []byte
		var token *pgtype.UUID
		var accepted pgtype.Timestamptz
		var refused *string
		err := m.conn.QueryRow(ctx, in(m.cfg.Schema, `DELETE FROM {schema}.inbox WHERE partition = $1 AND number = (SELECT min(number)
			FROM {schema}.inbox WHERE partition = $1 AND number > $2) RETURNING number, queue, calls, token, accepted, refused`),
			from-aside, after).Scan(&after, &queue, &calls, &token, &accepted, &refused)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		var rows map[int][]byte
		if err == nil {
			rows, err = to.divided(calls, from)
		}
		if err != nil {
			return fmt.Errorf("row %d of the inbox, for partition %d: %w", after, from, err)
		}
		if calls[0] > txVersion {
			err = m.exec(ctx, `INSERT INTO {schema}.taken (token, answer) VALUES ($1, '{"Lost":true}')`, token)
		}
		if calls[0] > callsVersion && len(rows) > 1 { // no owner has the answer
			token = nil
		}
		for p, calls := range rows {
			if err == nil {
				err = m.exec(ctx, `INSERT INTO {schema}.inbox (partition, queue, calls, token, accepted, refused)
					VALUES ($1, $2, $3, coalesce($4, gen_random_uuid()), $5, $6)`, p, queue, calls, token, accepted, refused)
			}
			token = nil
		}
		if err != nil {
			return err
		}
	}
}

// divided returns what a row of the inbox of a partition becomes: a row for each of those that its ids belong to. Of a
// question it is none.
func (r *router) divided(row []byte, from int) (map[int][]byte, error) {
	calls, conditions, err := callsOf(row)
	if err != nil || row[0] > txVersion {
		return nil, err
	}
	if row[0] > callsVersion && r.by < r.from {
		return nil, fmt.Errorf("%w: a call with IfAbsent, IdempotencyKey or FromSource waits for what partition %d alone knows; run a node until it is taken in", ErrNotEmpty, from)
	}
	version, parts, rows := row[0], make(map[int][][]byte), make(map[int][]byte)
	for _, call := range calls {
		items, staged, err := itemsOf(call)
		apart := make(map[int][]item)
		for _, it := range items {
			owner, to, failed := r.at(it.ID)
			if err = cmp.Or(err, failed); err == nil && owner != from {
				err = notOwned(it.ID, owner, from)
			}
			apart[to] = append(apart[to], it)
		}
		if err != nil {
			return nil, err
		}
		for to, items := range apart {
			if !staged { // that is one item
				call = encodeCall(items)
			}
			parts[to] = append(parts[to], call)
		}
	}
	if version == conditionVersion && len(parts) > 1 {
		version = txVersion // nobody waits for the answers
	}
	for to, calls := range parts {
		if version != callsVersion {
			calls = append([][]byte{conditions}, calls...)
		}
		rows[to] = rowOf([]byte{version}, calls...)
	}
	return rows, nil
}
