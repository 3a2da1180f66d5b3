
-- split puts the calls of a row of the inbox into rows of their own, in its place in the order,
-- unless the owner of epoch e is none any longer: the next one may have taken the row as it is.
-- Of a row that was split the first part is there, and that is not split again.
CREATE FUNCTION {schema}.split(p integer, e bigint, n bigint, parts bytea[]) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
	old {schema}.inbox;
BEGIN
	PERFORM FROM {schema}.tail WHERE partition = p AND epoch = e FOR SHARE;
	IF NOT FOUND THEN
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

-- acquire makes a node the owner of a partition that is free, for so many milliseconds. It
-- returns the epoch, or null when the partition has an owner. No lease is longer than an hour:
-- one that ends later than that was given before the clock was set back, and has ended.
CREATE FUNCTION {schema}.acquire(p integer, n uuid, ms bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
	e bigint;
BEGIN
	UPDATE {schema}.lease SET owner = n, expires = clock_timestamp() + ms * interval '1 millisecond'
		WHERE partition = p AND (owner IS NULL OR expires NOT BETWEEN clock_timestamp() AND clock_timestamp() + interval '61 minutes');
	IF NOT FOUND THEN
		RETURN NULL;
	END IF;
	UPDATE {schema}.tail SET epoch = epoch + 1 WHERE partition = p RETURNING epoch INTO e;
	UPDATE {schema}.lease SET epoch = e, expires = clock_timestamp() + ms * interval '1 millisecond' WHERE partition = p;
	RETURN e;
END
$$;
