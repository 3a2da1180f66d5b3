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
const tables = `
	DROP SCHEMA IF EXISTS cluster CASCADE;
	CREATE SCHEMA cluster;
	CREATE TABLE cluster.count (id text PRIMARY KEY, number bigint NOT NULL, token bigint NOT NULL, gaps bigint NOT NULL,
		ghosts bigint NOT NULL);
	CREATE TABLE cluster.bill (id text, number bigint);
	CREATE TABLE cluster.run (id text, number bigint, node text, token bigint, partition integer, position bigint,
		at timestamptz NOT NULL DEFAULT clock_timestamp());
	CREATE INDEX ON cluster.run (partition, at);
	CREATE TABLE cluster.late (id text, number bigint, node text, token bigint)`

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
		) INSERT INTO cluster.run (id, number, node, token, partition, position)
			SELECT $1, $2::bigint, $4, $3, $5, $6 FROM kept`,
		job.ID, job.Payload, token, c.node, partition, job.Position)
	if err != nil || tag.RowsAffected() == 1 {
		return err
	}
	_, err = c.db.Exec(ctx, "INSERT INTO cluster.late (id, number, node, token) VALUES ($1, $2, $3, $4)",
		job.ID, job.Payload, c.node, token)
	return errors.Join(errLate, err)
}
