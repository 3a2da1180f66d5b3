-- The tables of version 2.5. {schema} is the name of the schema, quoted. Nothing here needs a superuser.

CREATE TABLE {schema}.version (
	one        boolean PRIMARY KEY DEFAULT true CHECK (one),
	version    integer NOT NULL,
	minor      integer NOT NULL DEFAULT 5, -- what programs with a smaller one can live with
	partitions integer NOT NULL CHECK (partitions > 0),
	division   integer[], -- the partitions of some ids, as the first to open the schema has it; -1: none
	divider    text,      -- his name
	made       timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- The end of each log: one row for each partition, which a commit deletes, and writes again with
-- the next number. What an old snapshot keeps of the rows before it is behind it in the index, and
-- so out of the way of those who look from the end. A commit has to find the row of the commit
-- before it, with the epoch of its owner, or it changes nothing.
CREATE TABLE {schema}.tail (
	partition integer NOT NULL,
	epoch     bigint NOT NULL DEFAULT 0,  -- of the owner that may commit
	number    bigint NOT NULL DEFAULT 0,  -- of the last commit
	asked     bigint NOT NULL DEFAULT 0,  -- how often an outcome was unknown
	manifest  bytea,                      -- where the log begins and ends; null: nothing was written
	uuid      bytea NOT NULL,
	sides     bigint NOT NULL DEFAULT 0,  -- rows of side
	sum       bigint NOT NULL DEFAULT 0,  -- xor of their sums
	PRIMARY KEY (partition, number)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

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

-- What stands beside the log: 1 names of queues, 2 the morgue, 3 state keys. A value that changes
-- gets the number of its commit, for the same reason as the end of a log.
CREATE TABLE {schema}.side (
	partition integer  NOT NULL,
	bucket    smallint NOT NULL,
	key       bytea    NOT NULL,
	value     bytea    NOT NULL,
	sum       bigint   NOT NULL,
	number    bigint   NOT NULL DEFAULT 0,
	PRIMARY KEY (partition, bucket, key, number)
);

-- Who may commit to a partition: apart from tail, so that to renew waits for no commit.
CREATE TABLE {schema}.lease (
	partition integer PRIMARY KEY,
	owner     uuid,
	epoch     bigint NOT NULL DEFAULT 0,
	expires   timestamptz NOT NULL DEFAULT '-infinity',
	since     timestamptz -- when the owner has acquired it
) WITH (fillfactor = 20);

CREATE TABLE {schema}.node (
	id      uuid PRIMARY KEY,
	name    text NOT NULL,
	expires timestamptz NOT NULL
);

-- What nodes have accepted for partitions that they may not own, and jobs have staged for them. An owner takes the rows
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

-- What nodes have of the limits of the cluster: a row for each key of a limit that is in use.
CREATE TABLE {schema}.permit (
	key   bytea PRIMARY KEY,
	state text NOT NULL,
	until timestamptz NOT NULL -- it says nothing any longer then
) WITH (fillfactor = 20);

-- The tokens of rows that were taken, for those whose outcome their node has not heard of, and what
-- the owner says of calls with conditions.
CREATE TABLE {schema}.taken (
	token  uuid PRIMARY KEY,
	at     timestamptz NOT NULL DEFAULT clock_timestamp(),
	answer text
);
