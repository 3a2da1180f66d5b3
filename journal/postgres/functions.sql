-- The functions of version 2.5. Programs of versions 1 and 2 call those with the same names.

-- put_part writes a part of a block before the commit that it belongs to, in the same
-- transaction.
CREATE OR REPLACE FUNCTION {schema}.put_part(p integer, s bigint, i integer, d bytea) RETURNS void
LANGUAGE sql AS $$
	INSERT INTO {schema}.block (partition, seq, part, data) VALUES (p, s, i, d)
$$;

-- commit makes a block, what leaves the log with it, and what changes beside it durable.
-- It returns false, and has changed nothing, when the epoch is not e or the last commit not n.
CREATE OR REPLACE FUNCTION {schema}.commit(p integer, e bigint, n bigint, m bytea, s bigint, d bytea, drops bigint[],
	buckets smallint[], keys bytea[], vals bytea[], sums bigint[], done bigint[]) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
	t {schema}.tail; gone bigint; gone_sum bigint; come bigint; come_sum bigint;
BEGIN
	DELETE FROM {schema}.tail WHERE partition = p AND number = n AND epoch = e RETURNING * INTO t;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	IF d IS NOT NULL THEN
		INSERT INTO {schema}.block (partition, seq, part, data) VALUES (p, s, 0, d);
	END IF;
	IF drops IS NOT NULL THEN
		DELETE FROM {schema}.block WHERE partition = p AND seq = ANY (drops);
	END IF;
	IF keys IS NOT NULL THEN
		WITH old AS (
			DELETE FROM {schema}.side WHERE ctid = ANY (ARRAY (SELECT (SELECT s.ctid FROM {schema}.side s
				WHERE s.partition = p AND s.bucket = c.bucket AND s.key = c.key ORDER BY s.number DESC LIMIT 1)
				FROM unnest(buckets, keys) AS c (bucket, key))) RETURNING side.sum
		) SELECT count(*), coalesce(bit_xor(old.sum), 0) INTO gone, gone_sum FROM old;
		WITH new AS (
			INSERT INTO {schema}.side (partition, bucket, key, value, sum, number)
			SELECT p, c.bucket, c.key, c.value, c.sum, n + 1 FROM unnest(buckets, keys, vals, sums) AS c (bucket, key, value, sum)
			WHERE c.value IS NOT NULL RETURNING side.sum
		) SELECT count(*), coalesce(bit_xor(new.sum), 0) INTO come, come_sum FROM new;
		t.sides := t.sides + come - gone;
		t.sum := t.sum # gone_sum # come_sum;
	END IF;
	INSERT INTO {schema}.tail (partition, epoch, number, asked, manifest, uuid, sides, sum)
		VALUES (p, e, n + 1, t.asked, m, t.uuid, t.sides, t.sum);
	IF done IS NOT NULL THEN
		WITH rows AS (
			DELETE FROM {schema}.inbox WHERE partition = p AND number = ANY (done) RETURNING token
		), noted AS (
			INSERT INTO {schema}.taken (token) SELECT token FROM rows
		) SELECT count(*) INTO gone FROM rows;
		IF gone <> cardinality(done) THEN
			RAISE EXCEPTION 'strand: % of % rows of the inbox of partition % are gone', cardinality(done) - gone, cardinality(done), p
				USING ERRCODE = 'SD001', HINT = 'something but this program deletes rows of the inbox';
		END IF;
	END IF;
	RETURN true;
END
$$;

-- last locks the end of a log, once a transaction that was changing it has ended, and returns it. A
-- statement that has called it may not see that row: the next one does.
CREATE OR REPLACE FUNCTION {schema}.last(p integer) RETURNS {schema}.tail
LANGUAGE plpgsql AS $$
DECLARE
	t {schema}.tail;
BEGIN
	LOOP
		SELECT * INTO t FROM {schema}.tail WHERE partition = p ORDER BY number DESC LIMIT 1;
		EXIT WHEN NOT FOUND;
		SELECT * INTO t FROM {schema}.tail WHERE partition = p AND number = t.number FOR UPDATE;
		EXIT WHEN FOUND; -- otherwise a commit has put another one in its place
	END LOOP;
	RETURN t;
END
$$;

-- ask tells an owner whether its last commit is there, once a transaction of it that was
-- under way has ended. It writes, and so it is answered when what it has seen is where
-- commits have to be: on the standby, too.
CREATE OR REPLACE FUNCTION {schema}.ask(p integer, e bigint, OUT owner bigint, OUT last bigint)
LANGUAGE plpgsql AS $$
BEGIN
	SELECT t.epoch, t.number INTO owner, last FROM {schema}.last(p) t;
	UPDATE {schema}.tail SET asked = asked + 1 WHERE partition = p AND number = last AND epoch = e;
END
$$;

-- own makes the caller the owner who may commit, and returns his epoch.
CREATE OR REPLACE FUNCTION {schema}.own(p integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
	t {schema}.tail := {schema}.last(p);
BEGIN
	UPDATE {schema}.tail SET epoch = t.epoch + 1 WHERE partition = p AND number = t.number;
	RETURN t.epoch + 1;
END
$$;

-- held returns the oldest transaction of the database that is held for so many seconds, or longer, and
-- who has it; a zero and an empty text: there is none. The sessions of other roles are shown to those
-- with pg_read_all_stats.
CREATE OR REPLACE FUNCTION {schema}.held(seconds bigint, OUT age bigint, OUT holder text)
LANGUAGE plpgsql AS $$
BEGIN
	SELECT extract(epoch FROM clock_timestamp() - since)::bigint, who INTO age, holder FROM (
		SELECT xact_start, format('session %s of %s (%s, %s): pg_terminate_backend(%s) ends it, and idle_in_transaction_session_timeout the next one',
			pid, usename, application_name, state, pid) FROM pg_catalog.pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND coalesce(backend_xid, backend_xmin) IS NOT NULL
		UNION ALL SELECT prepared, format('prepared transaction %s: COMMIT PREPARED or ROLLBACK PREPARED ends it', gid)
		FROM pg_catalog.pg_prepared_xacts WHERE database = current_database()) s (since, who)
	WHERE since < clock_timestamp() - seconds * interval '1 second' ORDER BY since LIMIT 1;
	age := coalesce(age, 0);
	holder := coalesce(holder, '');
END
$$;

-- same fails for a program that has opened the schema that had this name before. Who writes a row
-- of the inbox, or acquires a lease, asks it first: then the transaction has its number before the row has one, and so an
-- owner can tell which rows may come yet. Repartition locks the inbox before it changes what is asked for
-- here: who comes later waits for it, and sees what it has changed. A transaction that goes on with what it saw
-- before fails to lock that. It is the owner's function, because a role that only writes may not lock.
CREATE OR REPLACE FUNCTION {schema}.same(m timestamptz, n integer, v integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	own {schema}.version;
BEGIN
	PERFORM pg_catalog.pg_current_xact_id();
	LOCK TABLE {schema}.inbox IN ROW EXCLUSIVE MODE;
	IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
		PERFORM 1 FROM {schema}.version FOR SHARE;
	END IF;
	SELECT * INTO own FROM {schema}.version;
	IF (own.made, own.partitions, own.version) IS DISTINCT FROM (m, n, v) THEN
		RAISE EXCEPTION 'strand: the schema has % partitions, and version %, and was made at %; this program has opened one with %, and %, made at %',
			own.partitions, own.version, own.made, n, v, m USING ERRCODE = 'SD002', HINT = 'open it again';
	END IF;
	RETURN true;
END
$$;

-- put writes rows into the inbox, all or none: those that are there already, or were taken,
-- are not written again. So a call without an answer is made once more. The tokens are looked
-- for after the rows are written: until this ends no earlier call can bring one of them. What
-- is there is written again, so that the answer comes when it is on the standby, too. It returns
-- the time of the server, by which the rows have to be committed until e.
CREATE OR REPLACE FUNCTION {schema}.put(ps integer[], queues text[], rows bytea[], tokens uuid[], e timestamptz) RETURNS timestamptz
LANGUAGE plpgsql AS $$
DECLARE
	new integer;
BEGIN
	INSERT INTO {schema}.inbox (partition, queue, calls, token, until)
		SELECT r.partition, r.queue, r.calls, r.token, e
		FROM unnest(ps, queues, rows, tokens) WITH ORDINALITY AS r (partition, queue, calls, token, place) ORDER BY r.place
		ON CONFLICT (token) DO NOTHING;
	GET DIAGNOSTICS new = ROW_COUNT;
	IF new < cardinality(tokens) THEN
		UPDATE {schema}.inbox SET accepted = accepted WHERE token = ANY (tokens);
	END IF;
	IF EXISTS (SELECT FROM {schema}.taken WHERE token = ANY (tokens)) THEN
		UPDATE {schema}.taken SET at = at WHERE token = ANY (tokens);
		DELETE FROM {schema}.inbox i USING {schema}.taken t WHERE i.token = ANY (tokens) AND t.token = i.token;
	END IF;
	RETURN clock_timestamp();
END
$$;

-- in_time refuses a row that is late: its caller has gone, and his next call may be there. It is
-- asked when the row is committed, however long it has waited for locks, or for the end of its message.
CREATE OR REPLACE FUNCTION {schema}.in_time() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
	IF clock_timestamp() > NEW.until THEN
		RAISE EXCEPTION 'strand: its deadline was % ago', clock_timestamp() - NEW.until USING ERRCODE = 'SD003';
	END IF;
	RETURN NULL;
END
$$;
DROP TRIGGER IF EXISTS in_time ON {schema}.inbox;
CREATE CONSTRAINT TRIGGER in_time AFTER INSERT ON {schema}.inbox DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW WHEN (NEW.until IS NOT NULL) EXECUTE FUNCTION {schema}.in_time();

-- withdraw reports whether rows that were put are there, or were taken. Otherwise they will never
-- be: rows of no partition keep their tokens. It waits for what is under way, as put does.
CREATE OR REPLACE FUNCTION {schema}.withdraw(tokens uuid[]) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO {schema}.inbox (partition, queue, calls, token) SELECT -1, '', '', t FROM unnest(tokens) t ON CONFLICT (token) DO NOTHING;
	IF EXISTS (SELECT FROM {schema}.taken WHERE token = ANY (tokens)) THEN
		UPDATE {schema}.taken SET at = at WHERE token = ANY (tokens);
		DELETE FROM {schema}.inbox WHERE partition = -1 AND token = ANY (tokens);
		RETURN true;
	END IF;
	UPDATE {schema}.inbox SET accepted = accepted WHERE partition >= 0 AND token = ANY (tokens);
	RETURN FOUND;
END
$$;

-- split puts the calls of a row of the inbox into rows of their own, in its place in the order,
-- unless the owner of epoch e is none any longer: the next one may have taken the row as it is.
-- Of a row that was split the first part is there, and that is not split again.
CREATE OR REPLACE FUNCTION {schema}.split(p integer, e bigint, n bigint, parts bytea[]) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
	old {schema}.inbox;
BEGIN
	IF ({schema}.last(p)).epoch IS DISTINCT FROM e THEN
		RETURN false;
	END IF;
	DELETE FROM {schema}.inbox WHERE partition = p AND number = n AND calls <> parts[1] RETURNING * INTO old;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	INSERT INTO {schema}.inbox (number, partition, queue, calls, token, accepted) OVERRIDING SYSTEM VALUE
		SELECT n + r.place - 1, p, old.queue, r.calls, CASE r.place WHEN 1 THEN old.token ELSE gen_random_uuid() END, old.accepted
		FROM unnest(parts) WITH ORDINALITY AS r (calls, place);
	RETURN true;
END
$$;

-- answer notes what the owner of epoch e says of calls with conditions, and deletes their rows: those
-- that were accepted have left the inbox with their commits.
CREATE OR REPLACE FUNCTION {schema}.answer(p integer, e bigint, numbers bigint[], tokens uuid[], answers text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	IF ({schema}.last(p)).epoch IS DISTINCT FROM e THEN
		RETURN;
	END IF;
	DELETE FROM {schema}.inbox WHERE partition = p AND number = ANY (numbers);
	INSERT INTO {schema}.taken (token, answer) SELECT * FROM unnest(tokens, answers)
		ON CONFLICT (token) DO UPDATE SET answer = excluded.answer;
END
$$;

-- hear begins with a question: it is to be answered by the owner of epoch e, who calls this again if he gets
-- no answer, or not at all.
CREATE OR REPLACE FUNCTION {schema}.hear(p integer, e bigint, n bigint, t uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
	says text := format('{"Epoch":%s,"Partition":%s}', e, p);
BEGIN
	IF e IS DISTINCT FROM ({schema}.last(p)).epoch THEN
		RETURN false;
	END IF;
	DELETE FROM {schema}.inbox WHERE partition = p AND number = n AND token = t;
	IF FOUND THEN
		INSERT INTO {schema}.taken (token, answer) VALUES (t, says);
		RETURN true;
	END IF;
	RETURN EXISTS (SELECT FROM {schema}.taken WHERE token = t AND answer = says);
END
$$;

-- lost tells whether the owner who is at a question is none any longer. What he has answered stands before that.
CREATE OR REPLACE FUNCTION {schema}.lost(answer text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN EXISTS (SELECT FROM {schema}.lease WHERE partition = (answer::jsonb ->> 'Partition')::integer AND epoch > (answer::jsonb ->> 'Epoch')::bigint);
END
$$;

-- answers returns what there is of answers. What is found is written again, so that it is on the standby, too.
CREATE OR REPLACE FUNCTION {schema}.answers(tokens uuid[]) RETURNS TABLE (of uuid, says text)
LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY UPDATE {schema}.taken t SET at = t.at WHERE t.token = ANY (tokens) AND coalesce(t.answer, '') NOT LIKE '{"Epoch"%'
		RETURNING t.token, coalesce(t.answer, '');
	RETURN QUERY SELECT t.token, '{"Lost":true}' FROM {schema}.taken t
		WHERE t.token = ANY (tokens) AND CASE WHEN t.answer LIKE '{"Epoch"%' THEN {schema}.lost(t.answer) ELSE false END;
END
$$;

-- acquire makes a node the owner of a partition that is free, for so many milliseconds. It
-- returns the epoch, or null when the partition has an owner. No lease is longer than an hour:
-- one that ends later than that was given before the clock was set back, and has ended.
CREATE OR REPLACE FUNCTION {schema}.acquire(p integer, n uuid, ms bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
	e bigint;
BEGIN
	UPDATE {schema}.lease SET owner = n, expires = clock_timestamp() + ms * interval '1 millisecond'
		WHERE partition = p AND (owner IS NULL OR expires NOT BETWEEN clock_timestamp() AND clock_timestamp() + interval '61 minutes');
	IF NOT FOUND THEN
		RETURN NULL;
	END IF;
	e := {schema}.own(p);
	UPDATE {schema}.lease SET epoch = e, since = clock_timestamp(), expires = clock_timestamp() + ms * interval '1 millisecond' WHERE partition = p;
	RETURN e;
END
$$;
