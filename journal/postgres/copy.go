package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/rest"
)

// Errors of [Import], [Export], [Repartition] and [Check].
var (
	// ErrInUse is returned while a node is up, or partitions have an owner whose lease has
	// not ended. The text says which; stop it, or wait for the lease of one that died.
	ErrInUse = errors.New("postgres: nodes are at work")
	// ErrNotEmpty is returned by Import for partitions that were used; by Import and Export for an inbox from which the
	// owners have not taken all; by Repartition for calls with conditions in it, where partitions are joined.
	ErrNotEmpty = errors.New("postgres: not empty")
	// ErrIndivisible is returned by Import and Repartition for what can't be divided among partitions, or joined.
	ErrIndivisible = errors.New("postgres: it can't be divided among partitions, or joined")
	// errDiffers is what was written and is not what was to be. It is taken back.
	errDiffers = errors.New("postgres: what was written differs")
)

const (
	atHand       = 32 << 20        // bytes of live entries that a mover has in memory, of all partitions
	lastPosition = 1 << 53         // what no union goes beyond: who reads JSON may take two larger numbers for one
	tellEach     = 5 * time.Second // how often the log is told how far a mover is
	outcomeTime  = time.Minute     // for mover.outcome

	// Blocks of what is moved are from the least to the largest of these, so that those under way
	// fit into memory together.
	leastBlock, largestBlock = 16 << 10, 1 << 20
)

// Moved says what was moved, or is there.
type Moved struct {
	Partitions int
	Queues     int // names; one that several partitions know counts once
	Live       int // entries: payloads, and states of jobs
	Buried     int // payloads in the morgue
	Keys       int // state keys, as the journals have them
}

// mover is a call of Import, Export, Repartition or Check, over one connection.
type mover struct {
	cfg        Config
	pool       *pgxpool.Pool
	conn       *pgxpool.Conn
	partitions int
	tally
	outcome time.Duration // how long to ask what became of a commit that got no answer
}

// withMover calls do with a mover, and returns what it has moved.
func withMover(ctx context.Context, url string, cfg Config, what string, commits bool, do func(*mover) error) (Moved, error) {
	m, err := newMover(ctx, url, cfg, commits)
	if err != nil {
		return Moved{}, err
	}
	defer m.close()
	if err := do(m); err != nil {
		return Moved{}, fmt.Errorf("postgres: %s: %w", what, because(ctx, err))
	}
	return m.moved, nil
}

// newMover connects. commits: something is to be written.
func newMover(ctx context.Context, url string, cfg Config, commits bool) (m *mover, err error) {
	if cfg, err = cfg.checked(ctx); err != nil {
		return nil, err
	}
	m = &mover{cfg: cfg, outcome: outcomeTime,
		tally: tally{log: cfg.Executor.Logger, queues: make(map[string]bool), told: time.Now()}}
	if m.pool, err = newPool(ctx, url, cfg.SingleServer || !commits, 2); err != nil {
		return nil, err
	}
	if m.conn, err = m.pool.Acquire(ctx); err == nil {
		m.partitions, err = cfg.guard(ctx, m.conn, m.pool, commits)
	}
	if err != nil {
		m.close()
		return nil, because(ctx, err)
	}
	m.moved.Partitions = m.partitions
	return m, nil
}

func (m *mover) close() {
	if m.conn != nil {
		m.conn.Release()
	}
	m.pool.Close()
}

// transact calls do in the one transaction of a call that writes. uuid is then that of the first partition.
func (m *mover) transact(ctx context.Context, uuid []byte, do func() error) error {
	tx, err := m.begin(ctx, pgx.TxOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	if err = do(); err == nil {
		err = m.commit(ctx, tx, uuid)
	}
	return err
}

// exec runs a statement with the schema in it.
func (m *mover) exec(ctx context.Context, sql string, args ...any) error {
	_, err := m.conn.Exec(ctx, in(m.cfg.Schema, sql), args...)
	return err
}

// begin begins the one transaction of a call, which may take long.
func (m *mover) begin(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error) {
	tx, err := m.conn.BeginTx(ctx, options)
	if err == nil {
		_, err = tx.Exec(ctx, "SELECT pg_catalog.set_config('idle_in_transaction_session_timeout', '0', true)")
	}
	return tx, err
}

// atRest returns an error while nodes are at work.
func (m *mover) atRest(ctx context.Context) error {
	var partition *int
	var left int64
	var name string
	err := m.conn.QueryRow(ctx, in(m.cfg.Schema, `SELECT l.partition, coalesce(n.name, l.owner::text),
		(extract(epoch FROM l.expires - clock_timestamp()) * 1000)::bigint FROM {schema}.lease l LEFT JOIN {schema}.node n ON n.id = l.owner
		WHERE l.owner IS NOT NULL AND l.expires `+lives+`
		UNION ALL SELECT NULL, name, 0 FROM {schema}.node WHERE expires `+lives+` ORDER BY 1, 2 LIMIT 1`)).Scan(&partition, &name, &left)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err == nil && partition != nil:
		err = fmt.Errorf("%w: %s owns partition %d, for %v yet, unless it is renewed; stop it",
			ErrInUse, name, *partition, time.Duration(left)*time.Millisecond)
	case err == nil:
		err = fmt.Errorf("%w: %s is up and takes what is free; stop it", ErrInUse, name)
	}
	return err
}

// noInbox returns an error while something is in the inbox.
func (m *mover) noInbox(ctx context.Context, todo string) error {
	var rows, refused int
	err := m.conn.QueryRow(ctx, in(m.cfg.Schema, "SELECT count(*), count(refused) FROM {schema}.inbox WHERE partition >= 0")).Scan(&rows, &refused)
	if err == nil && rows > 0 {
		err = fmt.Errorf("%w: the inbox has %d rows, of which %d were refused; %s", ErrNotEmpty, rows, refused, todo)
	}
	return err
}

// still keeps nodes from taking partitions until the transaction ends, and waits for commits that are under way.
func (m *mover) still(ctx context.Context) error {
	if err := m.exec(ctx, "SELECT 1 FROM {schema}.lease ORDER BY partition FOR UPDATE NOWAIT"); err != nil {
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == lockTimeout {
			err = fmt.Errorf("%w: the lease of a partition is being changed, by a node, an import or a repartition", ErrInUse)
		}
		return err
	}
	return cmp.Or(m.atRest(ctx), m.exec(ctx, "SELECT {schema}.last(partition) FROM {schema}.lease"))
}

// claim is still for partitions that were not used, to which those who had them commit nothing from then on.
func (m *mover) claim(ctx context.Context, uuids [][]byte) ([]head, error) {
	var used int
	err := m.still(ctx)
	if err == nil {
		err = m.conn.QueryRow(ctx, in(m.cfg.Schema,
			"SELECT count(*) FROM {schema}.tail WHERE manifest IS NOT NULL OR number <> 0")).Scan(&used)
	}
	if err == nil && used > 0 {
		err = fmt.Errorf("%w: %d partitions of schema %q were used; migrate another schema and import into that",
			ErrNotEmpty, used, m.cfg.Schema)
	}
	if err == nil {
		err = m.noInbox(ctx, "migrate another schema and import into that")
	}
	if err == nil {
		err = m.exec(ctx, `WITH t AS (UPDATE {schema}.tail SET epoch = epoch + 1, uuid = ($1::bytea[])[partition + 1] RETURNING partition, epoch)
			UPDATE {schema}.lease l SET owner = NULL, expires = '-infinity', epoch = t.epoch FROM t WHERE t.partition = l.partition`, uuids)
	}
	if err != nil {
		return nil, err
	}
	return m.heads(ctx)
}

// head is a partition's last commit.
type head struct{ epoch, number int64 }

// heads returns that of each partition.
func (m *mover) heads(ctx context.Context) (all []head, err error) {
	rows, _ := m.conn.Query(ctx, in(m.cfg.Schema, `SELECT t.partition, t.epoch, t.number, l.partition IS NOT NULL
		FROM {schema}.tail t LEFT JOIN {schema}.lease l USING (partition) WHERE t.partition >= 0 ORDER BY t.partition`))
	var p int
	var h head
	var owned bool
	_, err = pgx.ForEachRow(rows, []any{&p, &h.epoch, &h.number, &owned}, func() error {
		switch {
		case p != len(all):
			return fmt.Errorf("postgres: schema %q: partition %d has no row in tail: %w", m.cfg.Schema, len(all), journal.ErrCorrupt)
		case !owned:
			return fmt.Errorf("postgres: schema %q: %w", m.cfg.Schema, noLease(p))
		}
		all = append(all, h)
		return nil
	})
	if err == nil && len(all) != m.partitions {
		err = fmt.Errorf("postgres: schema %q: tail has %d rows instead of %d: %w", m.cfg.Schema, len(all), m.partitions, journal.ErrCorrupt)
	}
	return all, err
}

// store is a partition as the mover's transaction has it.
func (m *mover) store(ctx context.Context, partition int, epoch int64) *partitionStore {
	return storeWithin(ctx, m.conn.Conn(), textsFor(m.cfg.Schema, time.Time{}, 0), partition, epoch)
}

// class are partitions whose ids go into the same others, and nowhere else.
type class struct {
	m      *mover
	number int
	to     *router
	read   origin
	from   []int // the partitions that are read
	stores []*partitionStore
	name   string
}

// origin calls do with the journal of a partition, which is open meanwhile together with some others.
type origin func(partition, together int, do func(*journal.View) error) error

// distribute writes journals to the partitions that have heads, and compares what is there then.
func (m *mover) distribute(ctx context.Context, name string, to *router, heads []head, read origin) error {
	for number := range to.by {
		c := &class{m: m, number: number, to: to, read: read, name: name}
		for p := number; p < to.from; p += to.by {
			c.from = append(c.from, p)
		}
		for p := number; p < to.to; p += to.by {
			c.stores = append(c.stores, m.store(ctx, p, heads[p].epoch))
		}
		if to.from > 1 {
			c.name = fmt.Sprintf("%s: partition %d and %d others", name, number, len(c.from)-1)
		}
		if err := c.distribute(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *class) distribute(ctx context.Context) error {
	for _, s := range c.stores {
		defer s.Close()
	}
	var next format.Position
	var epoch uint64
	err := c.union(c.from, func(u *union) error { next, epoch = u.next, u.epoch; return c.write(ctx, u) })
	if err != nil {
		return err
	}
	parts := make([]*journal.View, len(c.stores))
	for i, s := range c.stores {
		if parts[i], err = s.view(max(atHand/len(c.stores), leastBlock)); err != nil {
			return err
		}
	}
	return c.union(c.from, func(u *union) error {
		if u.next != next || u.epoch != epoch {
			return fmt.Errorf("%w: it was opened meanwhile", &journal.LockedError{Dir: c.name})
		}
		return c.m.compare(ctx, c.name, u, parts)
	})
}

// union calls do with the journals of partitions, and those that are open, as one.
func (c *class) union(from []int, do func(*union) error, open ...*journal.View) error {
	if len(from) > 0 {
		return c.read(from[0], len(c.from), func(v *journal.View) error { return c.union(from[1:], do, append(open, v)...) })
	}
	return do(newUnion(c.to, c.number, open...))
}

// write writes all that u has to the stores.
func (c *class) write(ctx context.Context, u *union) error {
	builders := make([]*rest.Builder, len(c.stores))
	for i, s := range c.stores {
		most := min(max(atHand/len(c.stores), leastBlock), largestBlock)
		builders[i] = rest.BuildOn(s.Commit, u.next, u.epoch, most)
	}
	err := c.m.each(ctx, "write "+c.name, u, func(p *piece) error {
		return c.to.route(p, func(i int) error { return p.add(builders[i]) })
	})
	for _, b := range builders {
		if err == nil {
			err = b.Finish()
		}
	}
	return err
}
