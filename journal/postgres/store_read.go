package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

// numberOf is what the rows of a bucket beside the log have.
func numberOf(name format.Bucket) int16 {
	i := slices.Index(format.SideBuckets, name)
	if i < 0 {
		panic(fmt.Sprintf("postgres: bug: nothing is kept in bucket %q", name))
	}
	return int16(i + 1)
}

// sumOf is what tells a row beside the log from all others, and from its older versions.
func sumOf(key, value []byte) int64 {
	var sum format.Sum
	sum.Add(key, value)
	return int64(sum.Hash)
}

// A page of a bucket, see store.Store.
const (
	pageCount = 256
	pageBytes = 1 << 20
)

// errStale is an answer from a server that does not have what was acknowledged: one that has
// been replaced, say. Another one may be asked.
var errStale = errors.New("postgres: the server is behind what was acknowledged")

// serverError is what the server says, or has, instead of what was to be read.
type serverError struct{ error }

func (e *serverError) Unwrap() error { return e.error }

// patient calls f until it gets an answer of the server, or the store ends. When that is no good
// one it is a serverError.
func (s *partitionStore) patient(f func(context.Context, *pgx.Conn) error) error {
	pause := firstPause
	for {
		err := s.with(s.patience, f)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, format.ErrCorrupt), errors.Is(err, ErrFenced), errors.Is(err, ErrBehind), refusedForGood(err), s.within != nil: // what has failed in a transaction has failed
			return &serverError{translated(err)}
		}
		if ended := retryAfter(s.ctx, &pause); ended != nil {
			if errors.Is(ended, format.ErrClosed) {
				return format.ErrClosed
			}
			return errors.Join(ended, err)
		}
	}
}

// ours checks the row of tail that came with an answer: what another owner has, or an older
// server, is no answer.
func (s *partitionStore) ours(epoch, number, before int64) error {
	if epoch != s.epoch {
		return s.foreign(epoch)
	}
	if number < before {
		return errStale
	}
	return nil
}

// check reads the header, and everything beside the log. It makes one attempt, as Scan does:
// opening is tried again by who opens.
func (s *partitionStore) check() error {
	return translated(s.with(s.patience, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, snapshot, func(tx pgx.Tx) error { return s.load(ctx, tx) })
	}))
}

func (s *partitionStore) load(ctx context.Context, q querier) (err error) {
	if s.first, err = s.header(ctx, q); err != nil {
		return err
	}
	s.number.Store(s.first.number)
	return s.checkSides(ctx, q)
}

// snapshot is a transaction that reads one moment.
var snapshot = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

// header reads the partition's row of tail.
func (s *partitionStore) header(ctx context.Context, q querier) (h header, err error) {
	err = q.QueryRow(ctx, s.texts["tail"], s.partition).Scan(&h.epoch, &h.number, &h.manifest, &h.uuid, &h.sides, &h.sum)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = format.Damaged("partition %d has no row in tail", s.partition)
	case err == nil && h.epoch != s.epoch:
		err = s.foreign(h.epoch)
	}
	return h, err
}

// checkSides checks each row beside the log, and that they are those of the last commit.
func (s *partitionStore) checkSides(ctx context.Context, q querier) error {
	s.dead = make(map[uint32]int)
	rows, _ := q.Query(ctx, s.texts["sides"], s.partition)
	var count, total, sum int64
	var bucket int16
	var key, sealed []byte
	_, err := pgx.ForEachRow(rows, []any{&bucket, &key, &sealed, &sum}, func() error {
		if bucket < 1 || int(bucket) > len(format.SideBuckets) {
			return format.Damaged("partition %d has a row in bucket %d", s.partition, bucket)
		}
		name := format.SideBuckets[bucket-1]
		count, total = count+1, total^sumOf(key, sealed)
		value, _, err := format.Unseal(name, key, sealed)
		if err != nil {
			return err
		}
		return store.CheckSide(name, key, value, s.dead)
	})
	switch {
	case err != nil:
		return err
	case count != s.first.sides:
		return format.Damaged("partition %d has %d rows beside its log, want %d", s.partition, count, s.first.sides)
	case total != s.first.sum:
		return format.Damaged("partition %d has an older version of some of its %d rows beside the log", s.partition, count)
	}
	return nil
}

func (s *partitionStore) Buried() map[uint32]int { return s.dead }

// Scan implements store.Store. It is called before the first commit.
func (s *partitionStore) Scan(block func(seq uint64, data []byte) error) error {
	return translated(s.with(s.patience, func(ctx context.Context, conn *pgx.Conn) error {
		rows, _ := conn.Query(ctx, s.texts["scan"], s.partition)
		var at, seq uint64
		var data []byte // the parts of a block, joined
		var part, next int
		var bytes pgtype.DriverBytes
		_, err := pgx.ForEachRow(rows, []any{&seq, &part, &bytes}, func() error {
			if seq != at && next > 0 {
				if err := block(at, data); err != nil {
					return err
				}
				data, next = data[:0], 0
			}
			if at = seq; part != next {
				return &format.CorruptError{Block: at, Offset: -1, Reason: fmt.Sprintf("part %d is missing", next)}
			}
			data = append(data, bytes...)
			next++
			return nil
		})
		if err != nil || next == 0 {
			return err
		}
		return block(at, data)
	}))
}

func (s *partitionStore) ChunkSize() int { return chunkBytes }

// Read implements store.Store. Chunks that are in two parts are read in two calls.
func (s *partitionStore) Read(seq uint64, first, n int) (data []byte, err error) {
	for from, rest := first*chunkBytes, n*chunkBytes; rest > 0; {
		part, at := from/s.part, from%s.part
		want := min(rest, s.part-at)
		var got []byte
		if err := s.one(&got, "read", s.partition, int64(seq), part, at+1, want); err != nil {
			return nil, err
		}
		data = append(data, got...)
		if from, rest = from+want, rest-want; len(got) < want {
			break // the end of the block
		}
	}
	if len(data) <= (n-1)*chunkBytes {
		return nil, &format.CorruptError{Block: seq, Offset: -1, Reason: fmt.Sprintf("chunk %d is missing", first+len(data)/chunkBytes)}
	}
	return data, nil
}

func (s *partitionStore) Get(name format.Bucket, key []byte) (value []byte, err error) {
	if name == format.BucketMeta { // asked for when the log is opened, before its first commit
		switch string(key) {
		case string(format.KeyManifest):
			return s.first.manifest, nil
		case string(format.KeyUUID):
			return s.first.uuid, nil
		}
		return nil, nil
	}
	if isIntake(name, key) {
		return s.intake.last(), nil
	}
	if err = s.one(&value, "get", s.partition, numberOf(name), key); err != nil {
		return nil, err
	}
	if value, _, err = format.Unseal(name, key, value); err != nil {
		err = &serverError{err}
	}
	return value, err
}

// one reads a value that comes with the end of the log.
func (s *partitionStore) one(value *[]byte, text string, args ...any) error {
	return s.patient(func(ctx context.Context, conn *pgx.Conn) error {
		before := s.number.Load()
		var epoch, number int64
		if err := conn.QueryRow(ctx, s.texts[text], args...).Scan(&epoch, &number, value); err != nil {
			return err
		}
		return s.ours(epoch, number, before)
	})
}

func (s *partitionStore) Page(name format.Bucket, from []byte) (page []format.Pair, err error) {
	if from == nil {
		from = []byte{}
	}
	err = s.patient(func(ctx context.Context, conn *pgx.Conn) error {
		page = nil
		before, size := s.number.Load(), 0
		rows, _ := conn.Query(ctx, s.texts["values"], s.partition, numberOf(name), from, pageCount)
		var epoch, number int64
		var kv format.Pair
		var sealed []byte
		_, err := pgx.ForEachRow(rows, []any{&epoch, &number, &kv.Key, &sealed}, func() (err error) {
			if err = s.ours(epoch, number, before); err != nil || kv.Key == nil || size >= pageBytes { // nil: there is none
				return err
			}
			kv.Value, _, err = format.Unseal(name, kv.Key, sealed)
			page, size = append(page, kv), size+len(kv.Value)
			return err
		})
		return err
	})
	return page, err
}

// Room implements store.Store: only a commit can tell how much room the server has.
func (s *partitionStore) Room(int, int) (store.Room, error) { return store.Endless, nil }

// Size, Used and Compact implement store.Store: there is no file, and the server does that by itself.
func (s *partitionStore) Size() int                                          { return 0 }
func (s *partitionStore) Used() (int, error)                                 { return 0, nil }
func (s *partitionStore) Compact(<-chan struct{}) (replaced bool, err error) { return false, nil }

// CopyTo implements store.Store: a bbolt file has what one moment of the server had, and
// the UUID of the partition.
func (s *partitionStore) CopyTo(path string, over <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-over:
			cancel(store.ErrGivenUp)
		case <-ctx.Done():
		}
	}()
	err := pgx.BeginTxFunc(ctx, s.pool, snapshot, func(tx pgx.Tx) (err error) {
		c := storeWithin(ctx, tx.Conn(), s.texts, s.partition, s.epoch)
		defer c.Close()
		if c.first, err = c.header(ctx, tx); err != nil {
			return err
		}
		return store.Copy(c, path)
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return err
}
