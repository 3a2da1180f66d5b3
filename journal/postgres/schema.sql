-- Version 1. {schema} is the name of the schema, quoted. Nothing here needs a superuser.

CREATE TABLE {schema}.version (
	one        boolean PRIMARY KEY DEFAULT true CHECK (one),
	version    integer NOT NULL,
	partitions integer NOT NULL CHECK (partitions > 0),
	division   integer[], -- the partitions of some ids, as the first to open the schema has it; -1: none
	divider    text,      -- his name
	made       timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The end of each log. Its row lock puts commits in order: a commit has to find the epoch
-- of its owner and the number of the commit before it, or it changes nothing.
CREATE TABLE {schema}.tail (
	partition integer PRIMARY KEY,
	epoch     bigint NOT NULL DEFAULT 0,  -- of the owner that may commit
	number    bigint NOT NULL DEFAULT 0,  -- of the last commit
	asked     bigint NOT NULL DEFAULT 0,  -- how often an outcome was unknown
	manifest  bytea,                      -- where the log begins and ends; null: nothing was written
	uuid      bytea NOT NULL,
	sides     bigint NOT NULL DEFAULT 0,  -- rows of side
	sum       bigint NOT NULL DEFAULT 0   -- xor of their sums
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The blocks of the logs. They are not compressed, so that a part of one is read alone.
CREATE TABLE {schema}.block (
	partition integer NOT NULL,
	seq       bigint  NOT NULL,
	part      integer NOT NULL,
	data      bytea   NOT NULL,
	PRIMARY KEY (partition, seq, part)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
	toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 20000);
ALTER TABLE {schema}.block ALTER COLUMN data SET STORAGE EXTERNAL;

-- What stands beside the log: 1 names of queues, 2 the morgue, 3 state keys.
CREATE TABLE {schema}.side (
	partition integer  NOT NULL,
	bucket    smallint NOT NULL,
	key       bytea    NOT NULL,
	value     bytea    NOT NULL,
	sum       bigint   NOT NULL,
	PRIMARY KEY (partition, bucket, key)
);

-- Who may commit to a partition: apart from tail, so that to renew waits for no commit.
CREATE TABLE {schema}.lease (
	partition integer PRIMARY KEY,
	owner     uuid,
	epoch     bigint NOT NULL DEFAULT 0,
	expires   timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 20);

CREATE TABLE {schema}.node (
	id      uuid PRIMARY KEY,
	name    text NOT NULL,
	expires timestamptz NOT NULL
);

-- What nodes have accepted for partitions that they may not own. An owner takes the rows
-- of its partition in the order of their numbers.
CREATE TABLE {schema}.inbox (
	number    bigint GENERATED ALWAYS AS IDENTITY (INCREMENT BY 1024), -- room for the calls of a row apart
	partition integer NOT NULL,
	queue     text  NOT NULL,
	calls     bytea NOT NULL,
	token     uuid  NOT NULL UNIQUE,
	accepted  timestamptz NOT NULL DEFAULT clock_timestamp(),
	refused   text,
	until     timestamptz, -- it has to be committed by then; null: nobody waits for that
	PRIMARY KEY (partition, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
ALTER TABLE {schema}.inbox ALTER COLUMN calls SET STORAGE EXTERNAL;

-- The tokens of rows that were taken, for those whose outcome their node has not heard of.
CREATE TABLE {schema}.taken (
	token uuid PRIMARY KEY,
	at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- put_part writes a part of a block before the commit that it belongs to, in the same
-- transaction.
CREATE FUNCTION {schema}.put_part(p integer, s bigint, i integer, d bytea) RETURNS void
LANGUAGE sql AS $$
	INSERT INTO {schema}.block (partition, seq, part, data) VALUES (p, s, i, d)
$$;

-- commit makes a block, what leaves the log with it, and what changes beside it durable.
-- It returns false, and has changed nothing, when the epoch is not e or the last commit not n.
CREATE FUNCTION {schema}.commit(p integer, e bigint, n bigint, m bytea, s bigint, d bytea, drops bigint[],
	buckets smallint[], keys bytea[], vals bytea[], sums bigint[], done bigint[]) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
	gone bigint; gone_sum bigint; come bigint; come_sum bigint;
BEGIN
	UPDATE {schema}.tail SET number = n + 1, manifest = m WHERE partition = p AND epoch = e AND number = n;
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
			DELETE FROM {schema}.side o USING unnest(buckets, keys) AS c (bucket, key)
			WHERE o.partition = p AND o.bucket = c.bucket AND o.key = c.key RETURNING o.sum
		) SELECT count(*), coalesce(bit_xor(old.sum), 0) INTO gone, gone_sum FROM old;
		WITH new AS (
			INSERT INTO {schema}.side (partition, bucket, key, value, sum)
			SELECT p, c.bucket, c.key, c.value, c.sum FROM unnest(buckets, keys, vals, sums) AS c (bucket, key, value, sum)
			WHERE c.value IS NOT NULL RETURNING side.sum
		) SELECT count(*), coalesce(bit_xor(new.sum), 0) INTO come, come_sum FROM new;
		UPDATE {schema}.tail SET sides = sides + come - gone, sum = sum # gone_sum # come_sum WHERE partition = p;
	END IF;
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

-- ask tells an owner whether its last commit is there, once a transaction of it that was
-- under way has ended. It writes, and so it is answered when what it has seen is where
-- commits have to be: on the standby, too.
CREATE FUNCTION {schema}.ask(p integer, e bigint, OUT owner bigint, OUT last bigint)
LANGUAGE plpgsql AS $$
BEGIN
	UPDATE {schema}.tail SET asked = asked + 1 WHERE partition = p AND epoch = e RETURNING epoch, number INTO owner, last;
	IF NOT FOUND THEN
		SELECT epoch, number INTO owner, last FROM {schema}.tail WHERE partition = p;
	END IF;
END
$$;
