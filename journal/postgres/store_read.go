package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

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

// reader reads the rows of one partition, for the owner that has an epoch. Who commits for that has the
// same one: it moves number on, and the intake.
type reader struct {
	pool      *pgxpool.Pool
	partition int
	epoch     int64
	texts     texts
	within    *pgx.Conn     // all is read in the transaction on it, by one goroutine; nil: with the pool
	part      int           // bytes; less only in tests
	patience  time.Duration // attemptTime; less only in tests

	ctx    context.Context // ends with the ownership, or with Close
	cancel context.CancelCauseFunc

	number atomic.Int64 // of the last commit
	first  header       // as open has found it
	dead   map[uint32]int
	intake intake

	trouble trouble // with the server
}

// header is a partition's row of tail.
type header struct {
	epoch, number int64
	manifest      []byte
	uuid          []byte
	sides, sum    int64
}

// with is [onConnection] until the store ends.
func (s *reader) with(silence time.Duration, f func(context.Context, *pgx.Conn) error) error {
	if s.within != nil {
		return f(s.ctx, s.within)
	}
	began := time.Now()
	err := onConnection(s.ctx, s.pool, silence, f)
	if s.ctx.Err() == nil {
		s.trouble.note(began, err)
	}
	return err
}

// patient calls f until it gets an answer of the server, or the store ends. When that is no good
// one it is a serverError.
func (s *reader) patient(f func(context.Context, *pgx.Conn) error) error {
	pause := firstPause
	for {
		err := s.with(s.patience, f)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, format.ErrCorrupt), errors.Is(err, errFenced), errors.Is(err, ErrBehind), refusedForGood(err), s.within != nil: // what has failed in a transaction has failed
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

// foreign is what an epoch means that is not this owner's: a later one is the next owner's. An
// earlier one is that of a server that does not have all; whether there is another one that has
// is not known here.
func (s *reader) foreign(epoch int64) error {
	if epoch < s.epoch {
		return errStale
	}
	return fmt.Errorf("%w %d: its epoch is %d, and this one's %d", errFenced, s.partition, epoch, s.epoch)
}

// ours checks the row of tail that came with an answer: what another owner has, or an older
// server, is no answer.
func (s *reader) ours(epoch, number, before int64) error {
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
func (s *reader) check() error {
	return translated(s.with(s.patience, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, snapshot, func(tx pgx.Tx) error { return s.load(ctx, tx) })
	}))
}

func (s *reader) load(ctx context.Context, q querier) (err error) {
	if s.first, err = s.header(ctx, q); err != nil {
		return err
	}
	s.number.Store(s.first.number)
	return s.checkSides(ctx, q)
}

// snapshot is a transaction that reads one moment.
var snapshot = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

// header reads the partition's row of tail.
func (s *reader) header(ctx context.Context, q querier) (h header, err error) {
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
func (s *reader) checkSides(ctx context.Context, q querier) error {
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

func (s *reader) Buried() map[uint32]int { return s.dead }

// Scan implements store.Store. It is called before the first commit.
func (s *reader) Scan(block func(seq uint64, data []byte) error) error {
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

func (s *reader) ChunkSize() int { return chunkBytes }

// Read implements store.Store. Chunks that are in two parts are read in two calls.
func (s *reader) Read(seq uint64, first, n int) (data []byte, err error) {
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

func (s *reader) Get(name format.Bucket, key []byte) (value []byte, err error) {
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
func (s *reader) one(value *[]byte, text string, args ...any) error {
	return s.patient(func(ctx context.Context, conn *pgx.Conn) error {
		before := s.number.Load()
		var epoch, number int64
		if err := conn.QueryRow(ctx, s.texts[text], args...).Scan(&epoch, &number, value); err != nil {
			return err
		}
		return s.ours(epoch, number, before)
	})
}

func (s *reader) Page(name format.Bucket, from []byte) (page []format.Pair, err error) {
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
