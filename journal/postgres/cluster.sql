
-- put writes rows into the inbox, all or none: those that are there already, or were taken,
-- are not written again. So a call without an answer is made once more. The tokens are looked
-- for after the rows are written: until this ends no earlier call can bring one of them. What
-- is there is written again, so that the answer comes when it is on the standby, too.
CREATE FUNCTION {schema}.put(ps integer[], queues text[], rows bytea[], tokens uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	new integer;
BEGIN
	INSERT INTO {schema}.inbox (partition, queue, calls, token)
		SELECT r.partition, r.queue, r.calls, r.token
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
END
$$;

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
