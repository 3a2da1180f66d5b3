package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
)

func init() {
	if os.Getenv("STRAND_TEST_PROCESS") != "" {
		return // a test about processes started this one: it has a real disk
	}
	url := os.Getenv("STRAND_ROWS_URL")
	free := make(chan *worker, workers)
	for range workers {
		w := &worker{todo: make(chan func()), done: make(chan struct{})}
		go func() {
			for f := range w.todo {
				f()
				w.done <- struct{}{}
			}
		}()
		free <- w
	}
	s := &supply{outside: outside{free}, url: url}
	journal.NewDisk = func() (d journal.Disk, err error) {
		s.do(func() { d, err = s.disk() })
		return d, err
	}
}

// workers is how many calls of the server may be under way.
const workers = 16

// outside is where the server is: tests run in bubbles, in which time stands still while one
// waits for something from outside, and goroutines of a bubble may not be waited for by others.
// So all calls are made by goroutines that belong to none.
type outside struct{ free chan *worker }

type worker struct {
	todo chan func()
	done chan struct{}
}

func (o outside) do(f func()) {
	w := <-o.free
	w.todo <- f
	<-w.done
	o.free <- w
}

// supply has partitions that nobody has used.
type supply struct {
	outside
	url string

	mu     sync.Mutex
	pool   *pgxpool.Pool
	schema string
	made   int // schemas
	next   int // partition
}

func (s *supply) disk() (*rowsDisk, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx := context.Background()
	if s.pool == nil {
		pool, err := newPool(ctx, s.url, true, workers)
		if err != nil {
			return nil, err
		}
		s.pool = pool
	}
	if s.schema == "" || s.next == maxPartitions {
		s.made, s.next = s.made+1, 0
		s.schema = fmt.Sprintf("rows %d %d", os.Getpid(), s.made)
		if err := Migrate(ctx, s.url, Config{Schema: s.schema, Partitions: maxPartitions}); err != nil {
			return nil, err
		}
	}
	s.next++
	return &rowsDisk{s, s.schema, s.next - 1}, nil
}

// rowsDisk is a partition.
type rowsDisk struct {
	*supply
	schema    string
	partition int
}

func (d *rowsDisk) Open() (opened store.Store, err error) {
	d.do(func() {
		var epoch int64
		err = d.pool.QueryRow(context.Background(), in(d.schema, "SELECT {schema}.own($1)"), d.partition).Scan(&epoch)
		if err == nil {
			opened, err = openStore(context.Background(), d.pool, d.schema, d.partition, epoch)
		}
	})
	return hoisted{opened, d.outside}, err
}

func (d *rowsDisk) Copy() (c journal.Disk, err error) {
	d.do(func() {
		var to *rowsDisk
		if to, err = d.disk(); err != nil {
			return
		}
		c = to
		err = pgx.BeginFunc(context.Background(), d.pool, func(tx pgx.Tx) error {
			for _, sql := range []string{
				`UPDATE {schema}.tail c SET (number, manifest, uuid, sides, sum) = (SELECT number, manifest, uuid, sides, sum
					FROM {from}.tail WHERE partition = $1) WHERE c.partition = $2`,
				`INSERT INTO {schema}.block (partition, seq, part, data)
					SELECT $2, seq, part, data FROM {from}.block WHERE partition = $1`,
				`INSERT INTO {schema}.side (partition, bucket, key, value, sum)
					SELECT $2, bucket, key, value, sum FROM {from}.side WHERE partition = $1`,
			} {
				sql = strings.ReplaceAll(sql, "{from}", pgx.Identifier{d.schema}.Sanitize())
				if _, err := tx.Exec(context.Background(), in(to.schema, sql), d.partition, to.partition); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return c, err
}

// hoisted is a store whose calls are made outside.
type hoisted struct {
	store.Store
	outside
}

func (h hoisted) Commit(t *store.Transaction) (err error) {
	h.do(func() { err = h.Store.Commit(t) })
	return err
}

// Scan brings the blocks in before it hands them out.
func (h hoisted) Scan(block func(seq uint64, data []byte) error) (err error) {
	var blocks []func() error
	h.do(func() {
		err = h.Store.Scan(func(seq uint64, data []byte) error {
			data = append([]byte(nil), data...)
			blocks = append(blocks, func() error { return block(seq, data) })
			return nil
		})
	})
	for _, next := range blocks {
		err = errors.Join(err, next())
	}
	return err
}

func (h hoisted) Read(seq uint64, first, n int) (data []byte, err error) {
	h.do(func() { data, err = h.Store.Read(seq, first, n) })
	return data, err
}

func (h hoisted) Get(bucket format.Bucket, key []byte) (value []byte, err error) {
	h.do(func() { value, err = h.Store.Get(bucket, key) })
	return value, err
}

func (h hoisted) Page(bucket format.Bucket, from []byte) (page []format.Pair, err error) {
	h.do(func() { page, err = h.Store.Page(bucket, from) })
	return page, err
}

// CopyTo is not interrupted: over may belong to a bubble.
func (h hoisted) CopyTo(path string, _ <-chan struct{}) (err error) {
	h.do(func() { err = h.Store.CopyTo(path, nil) })
	return err
}

func (h hoisted) Close() (err error) {
	h.do(func() { err = h.Store.Close() })
	return err
}
