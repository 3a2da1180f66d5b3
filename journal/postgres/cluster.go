package postgres

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	"unicode/utf8"
)

// longest is more than a lease has, as in acquire: one with more left is of before the server's
// clock was set back.
const longest = "interval '61 minutes'"

// clusterTexts are the statements of a node, with the name of the schema in them.
type clusterTexts struct {
	channel                              string
	renew, view, leave, acquire, release string
	put, withdraw                        string
	insert, insertHint, notify           string
	page, unknown, split, refuse, sweep  string
	nodes, stats, held                   string
}

// clusterTextsFor returns them for the schema that the node has opened: it was made at that time, with so many partitions.
func clusterTextsFor(schema string, made time.Time, partitions int) clusterTexts {
	at := "timestamptz '" + made.Format("2006-01-02 15:04:05.999999-07:00") + "'"
	written := fmt.Sprintf(" WHERE {schema}.same(%s, %d, %d)", at, partitions, schemaVersion)
	insert := in(schema, "INSERT INTO {schema}.inbox (partition, queue, calls, token) SELECT $1::integer, $2::text, $3::bytea, gen_random_uuid()"+written)
	// $1 is the division, by which it is that schema, too.
	same := fmt.Sprintf("(made = %s AND division = $1 AND version = %d)", at, schemaVersion)
	return clusterTexts{
		channel: channelOf(schema),
		// $1 node, $2 name, $3 milliseconds, $4 partitions, $5 the division that the node has opened the schema with, as $1 of view
		renew: in(schema, `WITH me AS (INSERT INTO {schema}.node AS n (id, name, expires)
			SELECT $1, $2::text, clock_timestamp() + $3 * interval '1 millisecond' WHERE $2::text IS NOT NULL AND EXISTS (SELECT FROM {schema}.version WHERE `+strings.Replace(same, "$1", "$5", 1)+`)
			ON CONFLICT (id) DO UPDATE SET expires = excluded.expires WHERE n.expires > '-infinity' RETURNING n.id)
			UPDATE {schema}.lease SET expires = clock_timestamp() + $3 * interval '1 millisecond'
			WHERE owner = $1 AND partition = ANY ($4) RETURNING partition, epoch`),
		view: in(schema, `SELECT NULL::integer, n.id, (extract(epoch FROM n.expires - clock_timestamp()) * 1000)::bigint, 0, 0
			FROM {schema}.node n WHERE n.expires BETWEEN clock_timestamp() AND clock_timestamp() + `+longest+`
			UNION ALL SELECT l.partition, l.owner, CASE WHEN l.owner IS NULL OR l.expires > clock_timestamp() + `+longest+` THEN 0
			ELSE (extract(epoch FROM l.expires - clock_timestamp()) * 1000)::bigint END, coalesce(t.epoch, 0), coalesce(t.number, 0)
			FROM {schema}.lease l LEFT JOIN LATERAL (SELECT epoch, number FROM {schema}.tail WHERE partition = l.partition ORDER BY number DESC LIMIT 1) t ON true
			UNION ALL SELECT -1, NULL, coalesce(`+same+`::integer, 0), 0, 0 FROM {schema}.version`),
		// A renewal may be under way on another connection: it finds the row and leaves it as it is. Sweep deletes it.
		leave:   in(schema, `INSERT INTO {schema}.node (id, name, expires) VALUES ($1, '', '-infinity') ON CONFLICT (id) DO UPDATE SET expires = excluded.expires`),
		acquire: in(schema, "SELECT {schema}.acquire($1, $2, $3)"),
		// $3 epoch; 0: the answer with it did not come
		release: in(schema, `UPDATE {schema}.lease SET owner = NULL, expires = '-infinity'
			WHERE partition = $1 AND owner = $2 AND $3::bigint IN (0, epoch)`),
		put:      in(schema, "SELECT {schema}.put($1, $2, $3, $4, $5)"+written),
		withdraw: in(schema, "SELECT {schema}.withdraw($1)"+written),
		insert:   insert,
		// $4 channel, $5 hint
		insertHint: "WITH i AS (" + insert + " RETURNING 1) SELECT pg_catalog.pg_notify($4, $5) FROM i",
		notify:     "SELECT pg_catalog.pg_notify($1, $2)",
		// $1 partition, $2 number before the first, $3 last number or null, $4 queues; see page
		page: in(schema, `SELECT t.ended, t.begun, coalesce(number, 0), coalesce(queue, ''), calls, token, last FROM (SELECT txid_snapshot_xmin(s) AS ended, txid_snapshot_xmax(s) AS begun
			FROM txid_current_snapshot() s) t LEFT JOIN (SELECT number, queue, calls, token,
			sum(octet_length(calls)) OVER (ORDER BY number) - octet_length(calls) AS before,
			(SELECT max(number) FROM {schema}.inbox WHERE partition = $1 AND number > $2) AS last
			FROM (SELECT number, queue, calls, token FROM {schema}.inbox WHERE partition = $1 AND number > $2
			AND number <= coalesce($3, 9223372036854775807) AND refused IS NULL AND queue = ANY ($4)
			ORDER BY number LIMIT 512) r) s ON before < 8388608 ORDER BY number`),
		unknown: in(schema, `SELECT queue, count(*) FROM {schema}.inbox
			WHERE partition = $1 AND refused IS NULL AND NOT queue = ANY ($2) GROUP BY queue`),
		split: in(schema, "SELECT {schema}.split($1, $2, $3, $4)"),
		refuse: in(schema, `UPDATE {schema}.inbox SET refused = $3 WHERE partition = $1 AND number = $2
			AND $4 = (SELECT epoch FROM `+end+" t)"),
		sweep: in(schema, `WITH t AS (DELETE FROM {schema}.taken WHERE at < clock_timestamp() - interval '1 hour'),
			i AS (DELETE FROM {schema}.inbox WHERE partition = -1 AND accepted < clock_timestamp() - interval '1 hour')
			DELETE FROM {schema}.node WHERE expires NOT BETWEEN clock_timestamp() - interval '1 hour' AND clock_timestamp() + `+longest),
		nodes: in(schema, `SELECT id::text, name FROM {schema}.node WHERE expires BETWEEN clock_timestamp() AND clock_timestamp() + `+longest),
		held:  in(schema, "SELECT age, holder FROM {schema}.held($1)"),
		stats: in(schema, `SELECT partition, coalesce(o.owner::text, ''), coalesce(n.name, ''), coalesce(l.epoch, 0), o.since,
			count(i.number) FILTER (WHERE i.refused IS NULL), count(i.refused)
			FROM (SELECT generate_series(0, partitions - 1) AS partition FROM {schema}.version) all_of_them LEFT JOIN {schema}.lease l USING (partition)
			LEFT JOIN LATERAL (SELECT l.owner, l.since WHERE l.expires BETWEEN clock_timestamp() AND clock_timestamp() + `+longest+`) o ON true
			LEFT JOIN {schema}.node n ON n.id = o.owner LEFT JOIN {schema}.inbox i USING (partition)
			GROUP BY partition, l.epoch, o.owner, o.since, n.name ORDER BY 1`),
	}
}

// channelOf is what the nodes of a schema listen on. The name of a schema may be as long as
// a name can be.
func channelOf(schema string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(schema)) // does not fail
	return fmt.Sprintf("strand_%016x", h.Sum64())
}

// validText reports whether the server can have s in a text.
func validText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
