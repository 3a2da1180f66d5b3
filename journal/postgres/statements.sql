-- What stores, nodes and callers ask of the schema that they have opened. {end} is the row of tail that counts, found
-- from the end of the index. {written} holds if the schema is the one that was opened still, and {same} if it is
-- divided as $1 says, too. No lease is longer than {longest}, as in acquire: one with more left is of before the
-- server's clock was set back, and {lives} does not hold for when it expires.

-- commit:
SELECT {schema}.commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)

-- commitWith: and what jobs that have ended have staged for other partitions, as follow
SELECT CASE WHEN done THEN {schema}.put($13, $14, $15, $16, NULL) IS NOT NULL ELSE false END
	FROM (SELECT {schema}.commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) AS done OFFSET 0) c

-- follow: more of that, in the transaction of a commit
SELECT {schema}.put($1, $2, $3, $4, NULL)

-- putPart:
SELECT {schema}.put_part($1, $2, $3, $4)

-- ask:
SELECT owner, last FROM {schema}.ask($1, $2)

-- tail:
SELECT epoch, number, manifest, uuid, sides, sum FROM {end} t

-- scan:
SELECT seq, part, data FROM {schema}.block WHERE partition = $1 ORDER BY seq, part

-- read:
SELECT t.epoch, t.number, (SELECT pg_catalog.substr(b.data, $4, $5)
	FROM {schema}.block b WHERE b.partition = $1 AND b.seq = $2 AND b.part = $3) FROM {end} t

-- get:
SELECT t.epoch, t.number, (SELECT v.value FROM {schema}.side v
	WHERE v.partition = $1 AND v.bucket = $2 AND v.key = $3 ORDER BY v.number DESC LIMIT 1) FROM {end} t

-- values:
SELECT t.epoch, t.number, v.key, v.value FROM {end} t LEFT JOIN LATERAL (SELECT key, value
	FROM {schema}.side WHERE partition = $1 AND bucket = $2 AND key >= $3 ORDER BY key LIMIT $4) v ON true ORDER BY v.key

-- sides:
SELECT bucket, key, value, sum FROM {schema}.side WHERE partition = $1 ORDER BY bucket, key

-- renew: $1 node, $2 name, $3 milliseconds, $4 partitions, $5 the division, as $1 of view
WITH me AS (INSERT INTO {schema}.node AS n (id, name, expires)
	SELECT $1, $2::text, clock_timestamp() + $3 * interval '1 millisecond' WHERE $2::text IS NOT NULL AND EXISTS (SELECT FROM {schema}.version WHERE {same5})
	ON CONFLICT (id) DO UPDATE SET expires = excluded.expires WHERE n.expires > '-infinity' RETURNING n.id)
	UPDATE {schema}.lease SET expires = clock_timestamp() + $3 * interval '1 millisecond'
	WHERE owner = $1 AND partition = ANY ($4) RETURNING partition, epoch

-- view: $1 the division that the node has opened the schema with
SELECT NULL::integer, n.id, (extract(epoch FROM n.expires - clock_timestamp()) * 1000)::bigint, 0, 0
	FROM {schema}.node n WHERE n.expires {lives}
	UNION ALL SELECT l.partition, l.owner, CASE WHEN l.owner IS NULL OR l.expires > clock_timestamp() + {longest} THEN 0
	ELSE (extract(epoch FROM l.expires - clock_timestamp()) * 1000)::bigint END, coalesce(t.epoch, 0), coalesce(t.number, 0)
	FROM {schema}.lease l LEFT JOIN LATERAL (SELECT epoch, number FROM {schema}.tail WHERE partition = l.partition ORDER BY number DESC LIMIT 1) t ON true
	UNION ALL SELECT -1, NULL, coalesce({same}::integer, 0), 0, 0 FROM {schema}.version

-- leave: a renewal may be under way on another connection: it finds the row and leaves it as it is. Sweep deletes it.
INSERT INTO {schema}.node (id, name, expires) VALUES ($1, '', '-infinity') ON CONFLICT (id) DO UPDATE SET expires = excluded.expires

-- acquire:
SELECT {schema}.acquire($1, $2, $3) WHERE {written}

-- release: $3 epoch; 0: the answer with it did not come
UPDATE {schema}.lease SET owner = NULL, expires = '-infinity'
	WHERE partition = $1 AND owner = $2 AND $3::bigint IN (0, epoch)

-- put:
SELECT {schema}.put($1, $2, $3, $4, $5) WHERE {written}

-- withdraw:
SELECT {schema}.withdraw($1) WHERE {written}

-- insert:
INSERT INTO {schema}.inbox (partition, queue, calls, token) SELECT $1::integer, $2::text, $3::bytea, gen_random_uuid() WHERE {written}

-- insertHint: $4 channel, $5 hint
WITH i AS (INSERT INTO {schema}.inbox (partition, queue, calls, token) SELECT $1::integer, $2::text, $3::bytea, gen_random_uuid() WHERE {written}
	RETURNING 1) SELECT pg_catalog.pg_notify($4, $5) FROM i

-- notify: $1 channel, $2 hints
SELECT pg_catalog.pg_notify($1, h) FROM unnest($2::text[]) h

-- page: $1 partition, $2 number before the first, $3 last number or null, $4 queues; see page
SELECT t.ended, t.begun, coalesce(number, 0), coalesce(queue, ''), calls, token, last FROM (SELECT txid_snapshot_xmin(s) AS ended, txid_snapshot_xmax(s) AS begun
	FROM txid_current_snapshot() s) t LEFT JOIN (SELECT number, queue, calls, token,
	sum(octet_length(calls)) OVER (ORDER BY number) - octet_length(calls) AS before,
	(SELECT max(number) FROM {schema}.inbox WHERE partition = $1 AND number > $2) AS last
	FROM (SELECT number, queue, calls, token FROM {schema}.inbox WHERE partition = $1 AND number > $2
	AND number <= coalesce($3, 9223372036854775807) AND refused IS NULL AND queue = ANY ($4)
	ORDER BY number LIMIT 512) r) s ON before < 8388608 ORDER BY number

-- unknown:
SELECT queue, count(*) FROM {schema}.inbox WHERE partition = $1 AND refused IS NULL AND NOT queue = ANY ($2) GROUP BY queue

-- split:
SELECT {schema}.split($1, $2, $3, $4)

-- refuse:
UPDATE {schema}.inbox SET refused = $3 WHERE partition = $1 AND number = $2
	AND $4 = (SELECT epoch FROM {end} t)

-- answer:
SELECT {schema}.answer($1, $2, $3, $4, $5)

-- answers:
SELECT * FROM {schema}.answers($1)

-- hear:
SELECT {schema}.hear($1, $2, $3, $4)

-- recall:
WITH i AS (DELETE FROM {schema}.inbox WHERE token = $1 RETURNING 1) SELECT EXISTS (SELECT FROM i)

-- lock: keeps other nodes from keys
SELECT pg_catalog.pg_advisory_xact_lock(schema, lock) FROM (SELECT DISTINCT (v.tableoid::bigint % 2147483647)::integer AS schema,
	pg_catalog.hashtext(pg_catalog.encode(k, 'hex')) & 63 AS lock FROM {schema}.version v, unnest($1::bytea[]) k) l ORDER BY lock

-- alive: nodes that may run jobs
SELECT id::text FROM {schema}.node WHERE expires {lives}
	UNION SELECT owner::text FROM {schema}.lease WHERE owner IS NOT NULL AND expires {lives}

-- known:
SELECT clock_timestamp(), convert_to(coalesce(p.state, ''), 'UTF8'), coalesce(p.until, 'epoch') FROM unnest($1::bytea[]) WITH ORDINALITY k (key, n) LEFT JOIN {schema}.permit p USING (key) ORDER BY n

-- know: rows without a state go
WITH c AS (SELECT * FROM unnest($1::bytea[], $2::text[], $3::timestamptz[]) c (key, state, until)),
	gone AS (DELETE FROM {schema}.permit WHERE key IN (SELECT key FROM c WHERE state = ''))
	INSERT INTO {schema}.permit (key, state, until) SELECT * FROM c WHERE state <> ''
	ON CONFLICT (key) DO UPDATE SET state = excluded.state, until = excluded.until

-- sweep:
WITH p AS (DELETE FROM {schema}.permit WHERE until < clock_timestamp()), t AS (DELETE FROM {schema}.taken WHERE at < clock_timestamp() - interval '1 hour'),
	i AS (DELETE FROM {schema}.inbox WHERE partition = -1 AND accepted < clock_timestamp() - interval '1 hour')
	DELETE FROM {schema}.node WHERE expires NOT BETWEEN clock_timestamp() - interval '1 hour' AND clock_timestamp() + {longest}

-- nodes:
SELECT id::text, name FROM {schema}.node WHERE expires {lives}

-- held:
SELECT age, holder FROM {schema}.held($1)

-- stats:
SELECT partition, coalesce(o.owner::text, ''), coalesce(n.name, ''), coalesce(l.epoch, 0), o.since,
	count(i.number) FILTER (WHERE i.refused IS NULL), count(i.refused)
	FROM (SELECT generate_series(0, partitions - 1) AS partition FROM {schema}.version) all_of_them LEFT JOIN {schema}.lease l USING (partition)
	LEFT JOIN LATERAL (SELECT l.owner, l.since WHERE l.expires {lives}) o ON true
	LEFT JOIN {schema}.node n ON n.id = o.owner LEFT JOIN {schema}.inbox i USING (partition)
	GROUP BY partition, l.epoch, o.owner, o.since, n.name ORDER BY 1
