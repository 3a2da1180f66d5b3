//go:build unix

package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strandjobs/strand/executor"
)

// The tables that jobs write to, and bill, to which callers do. A gap is a number that came before the one ahead of it,
// a ghost one of a transaction that was rolled back.
//
// Triggers watch the commits of the nodes, from outside of them: who takes a partition, with which epoch, and by which
// name its connections go. A commit by another than who has taken the epoch of the moment is stale, and must not be.
// One that came late and has changed nothing is refused.
const tables = `
	DROP SCHEMA IF EXISTS cluster CASCADE;
	CREATE SCHEMA cluster;
	CREATE TABLE cluster.count (id text PRIMARY KEY, number bigint NOT NULL, token bigint NOT NULL, gaps bigint NOT NULL,
		ghosts bigint NOT NULL);
	CREATE TABLE cluster.bill (id text, number bigint);
	CREATE TABLE cluster.run (id text, number bigint, node text, token bigint, partition integer, position bigint,
		attempt integer, at timestamptz NOT NULL DEFAULT clock_timestamp());
	CREATE INDEX ON cluster.run (partition, at);
	CREATE TABLE cluster.span (began timestamptz, ended timestamptz);
	CREATE TABLE cluster.late (id text, number bigint, node text, token bigint);

	CREATE TABLE cluster.owner (partition integer, epoch bigint, node text, connection text,
		at timestamptz NOT NULL DEFAULT clock_timestamp(), committed timestamptz, PRIMARY KEY (partition, epoch));
	CREATE TABLE cluster.stale (partition integer, epoch bigint, connection text);
	CREATE TABLE cluster.refused (connection text);
	CREATE FUNCTION cluster.took() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO cluster.owner (partition, epoch, node, connection)
			SELECT partition, NEW.epoch, owner::text, current_setting('application_name')
			FROM strand.lease WHERE partition = NEW.partition;
		RETURN NULL;
	END $$;
	CREATE FUNCTION cluster.committed() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		UPDATE cluster.owner SET committed = clock_timestamp() WHERE partition = NEW.partition AND epoch = NEW.epoch
			AND connection = current_setting('application_name');
		IF NOT FOUND THEN
			INSERT INTO cluster.stale VALUES (NEW.partition, NEW.epoch, current_setting('application_name'));
		END IF;
		RETURN NULL;
	END $$;
	CREATE FUNCTION cluster.refused() RETURNS trigger LANGUAGE plpgsql AS $$
	DECLARE
		stack text;
	BEGIN
		IF NOT EXISTS (SELECT FROM replaced) THEN
			GET DIAGNOSTICS stack = PG_CONTEXT;
			IF stack LIKE '%.commit(%' THEN
				INSERT INTO cluster.refused VALUES (current_setting('application_name'));
			END IF;
		END IF;
		RETURN NULL;
	END $$;
	CREATE TRIGGER cluster_took AFTER UPDATE OF epoch ON strand.tail FOR EACH ROW EXECUTE FUNCTION cluster.took();
	CREATE TRIGGER cluster_committed AFTER INSERT ON strand.tail
		FOR EACH ROW EXECUTE FUNCTION cluster.committed();
	CREATE TRIGGER cluster_refused AFTER DELETE ON strand.tail REFERENCING OLD TABLE AS replaced
		FOR EACH STATEMENT EXECUTE FUNCTION cluster.refused()`

// unwatch takes the triggers off, and leaves the tables to be looked at.
const unwatch = "DROP FUNCTION IF EXISTS cluster.took, cluster.committed, cluster.refused CASCADE"

// counting is what jobs do.
type counting struct {
	db          *pgxpool.Pool
	node        string
	partitionOf func(id string) (int, error)
}

// errLate is returned to a job whose id another owner has run already. When this node has lost the partition, as it
// must have, nobody asks for the outcome any longer.
var errLate = errors.New("another owner has written: this job is late")

// run writes the number of a job down. Its node may have stood still, and another may own the partition by now, and be
// further: so the write is fenced. The token of the job's lease grows with each run of the id, over nodes too, and a
// smaller one than the last changes nothing.
func (c *counting) run(ctx context.Context, job executor.Job[int]) error {
	partition, err := c.partitionOf(job.ID)
	if err != nil {
		return err
	}
	token := job.Lease().Token()
	tag, err := c.db.Exec(ctx, `
		WITH kept AS (
			INSERT INTO cluster.count AS c (id, number, token, gaps, ghosts)
			VALUES ($1, $2::bigint, $3, ($2::bigint > 1)::integer, ($2::bigint < 0)::integer)
			ON CONFLICT (id) DO UPDATE SET number = greatest(c.number, excluded.number), token = excluded.token,
				gaps = c.gaps + (excluded.number > c.number + 1)::integer, ghosts = c.ghosts + excluded.ghosts
			WHERE c.token < excluded.token RETURNING c.id
		) INSERT INTO cluster.run (id, number, node, token, partition, position, attempt)
			SELECT $1, $2::bigint, $4, $3, $5, $6, $7 FROM kept`,
		job.ID, job.Payload, token, c.node, partition, job.Position, job.Attempt)
	if err != nil || tag.RowsAffected() == 1 {
		return err
	}
	_, err = c.db.Exec(ctx, "INSERT INTO cluster.late (id, number, node, token) VALUES ($1, $2, $3, $4)",
		job.ID, job.Payload, c.node, token)
	return errors.Join(errLate, err)
}
