package postgres

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/internal/format"
)

const (
	schemaVersion     = 2 // that all programs have to have
	schemaMinor       = 5 // that this one needs at least
	defaultSchema     = "strand"
	defaultPartitions = 16
	maxPartitions     = 4096
	maxSchemaName     = 63 // of PostgreSQL, which would cut it
)

//go:embed schema.sql
var schemaSQL string

//go:embed functions.sql
var functionsSQL string

//go:embed upgrade.sql
var upgradeSQL string

// Errors of schemas and servers.
var (
	// ErrNoSchema is returned when the schema is not there, or is older than this program.
	ErrNoSchema = errors.New("postgres: the schema is not there, or not up to date; run Migrate")
	// ErrPartitions is returned for another number of partitions than there is, for a
	// Config.Partition that has ids in other ones than they are in, and by Import for a number
	// that it can't make of that of the journals. Of an error that is executor.ErrUnknown, too, the
	// call may have been accepted.
	ErrPartitions = errors.New("postgres: which partition an id is in can't be changed")
)

// errOld is ErrNoSchema of a schema that Migrate brings up to date.
var errOld = fmt.Errorf("%w", ErrNoSchema)

// Migrate makes the tables of cfg, of which Schema and Partitions count, in the database at url, or brings them up to date, in
// one transaction: they are there as a whole or as they were. Any number of programs may
// call it at a time, and again; a schema that is as it should be is not touched. While another transaction
// has what is to be changed, as one with EnqueueTx or pg_dump, it waits, and keeps nobody from it for long. It needs
// a role that may create in the schema, or the schema in the database; nothing here calls
// it by itself.
//
// It returns executor.ErrConfig, ErrPartitions, journal.ErrTooNew, executor.ErrContext for a nil ctx, the
// cause of ctx, or what the server says.
func Migrate(ctx context.Context, url string, cfg Config) (err error) {
	if cfg, err = cfg.checked(ctx); err != nil {
		return err
	}
	defer func() { err = because(ctx, err) }()
	settings, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("%w: url: %w", executor.ErrConfig, err)
	}
	settings.DefaultQueryExecMode = unprepared // one transaction needs no session
	conn, err := pgx.ConnectConfig(ctx, settings)
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for pause := longestPause; ; {
		err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { return migrate(ctx, tx, cfg) })
		refused, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || refused.Code != lockTimeout && refused.Code != deadlock {
			return err
		}
		if ended := retryAfter(ctx, &pause); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// migrate is Migrate in one transaction, which sees what the one before it has made: whatever the role's isolation.
func migrate(ctx context.Context, tx pgx.Tx, cfg Config) error {
	// Serialises those who migrate, and nothing else. It ends with the transaction. What waits for another lock has
	// nodes wait behind it, which is to be over before a lease is.
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 7282))", "strand migrate "+cfg.Schema)
	if err == nil {
		_, err = tx.Exec(ctx, "SET LOCAL lock_timeout = '300ms'")
	}
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	_, err = cfg.readSchema(ctx, tx)
	if errors.Is(err, errOld) { // what nodes of that version call stays there, so that those which run go on
		if _, err = tx.Exec(ctx, in(cfg.Schema, upgradeSQL+functionsSQL)); err != nil {
			return fmt.Errorf("postgres: migrate: schema %q, to version %d.%d: %w", cfg.Schema, schemaVersion, schemaMinor, err)
		}
		_, err = cfg.readSchema(ctx, tx)
	}
	if errors.Is(err, ErrNoSchema) && !errors.Is(err, pgx.ErrNoRows) {
		err = create(ctx, tx, cfg)
	}
	if err == nil { // rows of lease that are not there; the epochs are in tail
		_, err = tx.Exec(ctx, in(cfg.Schema, "INSERT INTO {schema}.lease (partition) SELECT partition FROM {schema}.tail t WHERE NOT EXISTS "+
			"(SELECT FROM {schema}.lease l WHERE l.partition = t.partition) ON CONFLICT DO NOTHING"))
	}
	return err
}

// querier is a connection, a pool, or a transaction. The rows of Query tell its error, too.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// guard checks the server of a connection, what is between, and the schema, and returns its number of partitions.
func (cfg Config) guard(ctx context.Context, conn *pgxpool.Conn, others *pgxpool.Pool, commits bool) (partitions int, err error) {
	if commits {
		err = guardServer(ctx, conn.Conn(), cfg.SingleServer, true)
	}
	if err == nil {
		err = guardPooler(ctx, conn.Conn(), others)
	}
	if err == nil {
		partitions, err = cfg.readSchema(ctx, conn)
	}
	return partitions, err
}

// readSchema returns the number of partitions of the schema that cfg wants, if this program can use it.
func (cfg Config) readSchema(ctx context.Context, q querier) (partitions int, err error) {
	var there bool
	name := cfg.Schema
	if err := q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = 'version')`, name).Scan(&there); err != nil {
		return 0, fmt.Errorf("postgres: schema %q: %w", name, err)
	}
	if !there {
		return 0, fmt.Errorf("%w: %q", ErrNoSchema, name)
	}
	var version, minor int
	err = q.QueryRow(ctx, in(name, "SELECT version, partitions, coalesce((to_jsonb(v) ->> 'minor')::integer, 0) FROM {schema}.version v")).
		Scan(&version, &partitions, &minor)
	refused, _ := errors.AsType[*pgconn.PgError](err)
	_, otherTypes := errors.AsType[pgx.ScanArgError](err)
	switch {
	case refused != nil && refused.Code == undefinedColumn, otherTypes:
		return 0, fmt.Errorf("%w: schema %q is another program's, whose table version Migrate has not made; give another name: %w", executor.ErrConfig, name, err)
	case errors.Is(err, pgx.ErrNoRows):
		if q.QueryRow(ctx, in(name, "SELECT count(*) FROM {schema}.tail")).Scan(&partitions) != nil {
			return 0, fmt.Errorf("%w: schema %q is another program's, whose table version is empty; give another name: %w", executor.ErrConfig, name, err)
		}
		return 0, fmt.Errorf("%w: the table version of schema %q has lost its row, which Migrate does not write again: "+
			"insert one with version %d and partitions %d, or drop the schema first: %w", ErrNoSchema, name, schemaVersion, partitions, err)
	case err != nil:
		return 0, fmt.Errorf("postgres: schema %q: %w", name, err)
	case version > schemaVersion:
		return 0, fmt.Errorf("%w: schema %q has version %d, this is version %d", format.ErrTooNew, name, version, schemaVersion)
	case version < schemaVersion, minor < schemaMinor:
		return 0, fmt.Errorf("%w: schema %q has version %d.%d, this is version %d.%d", errOld, name, version, minor, schemaVersion, schemaMinor)
	case cfg.Partitions != 0 && cfg.Partitions != partitions:
		return 0, fmt.Errorf("%w: schema %q has %d partitions, and Config.Partitions is %d; set it to 0 or %d, or give another Schema",
			ErrPartitions, name, partitions, cfg.Partitions, partitions)
	}
	return partitions, nil
}

func create(ctx context.Context, tx pgx.Tx, cfg Config) error {
	cfg.Partitions = cmp.Or(cfg.Partitions, defaultPartitions)
	var there bool
	err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)", cfg.Schema).Scan(&there)
	if err == nil && !there { // IF NOT EXISTS would ask for the right to make one first
		_, err = tx.Exec(ctx, in(cfg.Schema, "CREATE SCHEMA {schema}"))
	}
	if err == nil {
		version := fmt.Sprintf("INSERT INTO {schema}.version (version, partitions) VALUES (%d, %d)", schemaVersion, cfg.Partitions)
		_, err = tx.Exec(ctx, in(cfg.Schema, schemaSQL+functionsSQL+version))
	}
	if err == nil {
		_, err = tx.Exec(ctx, in(cfg.Schema, "INSERT INTO {schema}.tail (partition, uuid) SELECT n - 1, id FROM unnest($1::bytea[]) WITH ORDINALITY AS u (id, n)"),
			newUUIDs(cfg.Partitions))
	}
	if err != nil {
		return fmt.Errorf("postgres: migrate: schema %q: %w", cfg.Schema, err)
	}
	return nil
}

// newUUIDs returns those of so many new journals.
func newUUIDs(partitions int) [][]byte {
	all := make([][]byte, partitions)
	for p := range all {
		all[p] = format.NewUUID()
	}
	return all
}

// noLease is what is said of a partition that can have no owner.
func noLease(partition int) error {
	return format.Damaged("partition %d has no row in the table lease, and so no owner; Migrate writes it again", partition)
}

// in puts the name of the schema, quoted, into a statement.
func in(schema, sql string) string {
	return strings.ReplaceAll(sql, "{schema}", pgx.Identifier{schema}.Sanitize())
}

//go:embed statements.sql
var statementsSQL string

// texts are statements by their names, with that of the schema in them, and the channel that its nodes listen on.
type texts map[string]string

// Leases and nodes whose time is in the next 61 minutes: no lease is longer, see statements.sql.
const (
	longest = "interval '61 minutes'"
	lives   = "BETWEEN clock_timestamp() AND clock_timestamp() + " + longest
)

// textsFor returns them for a schema that was made at that time, with so many partitions: who does not know does
// without those of callers, and without view and renew.
func textsFor(schema string, made time.Time, partitions int) texts {
	at := "timestamptz '" + made.Format("2006-01-02 15:04:05.999999-07:00") + "'"
	same := fmt.Sprintf("(made = %s AND version = %d AND division = ", at, schemaVersion)
	words := strings.NewReplacer("{written}", fmt.Sprintf("{schema}.same(%s, %d, %d)", at, partitions, schemaVersion),
		"{same}", same+"$1)", "{same5}", same+"$5)", "{longest}", longest, "{lives}", lives, "{end}", "(SELECT * FROM {schema}.tail WHERE partition = $1 ORDER BY number DESC LIMIT 1)")
	h := fnv.New64a()              // the name of a schema may be as long as that of a channel can be
	_, _ = h.Write([]byte(schema)) // does not fail
	all := texts{"channel": fmt.Sprintf("strand_%016x", h.Sum64())}
	for _, statement := range strings.Split(statementsSQL, "\n\n-- ")[1:] {
		head, text, _ := strings.Cut(statement, "\n")
		name, _, _ := strings.Cut(head, ":")
		all[name] = in(schema, words.Replace(text))
	}
	return all
}

// validText reports whether the server can have s in a text.
func validText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
