ALTER TABLE {schema}.inbox ADD COLUMN until timestamptz;

-- same fails for a program that has opened the schema that had this name before.
CREATE FUNCTION {schema}.same(m timestamptz, n integer, v integer) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
	own {schema}.version;
BEGIN
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
CREATE FUNCTION {schema}.put(ps integer[], queues text[], rows bytea[], tokens uuid[], e timestamptz) RETURNS timestamptz
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
CREATE FUNCTION {schema}.in_time() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
	IF clock_timestamp() > NEW.until THEN
		RAISE EXCEPTION 'strand: its deadline was % ago', clock_timestamp() - NEW.until USING ERRCODE = 'SD003';
	END IF;
	RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER in_time AFTER INSERT ON {schema}.inbox DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW WHEN (NEW.until IS NOT NULL) EXECUTE FUNCTION {schema}.in_time();

-- withdraw reports whether rows that were put are there, or were taken. Otherwise they will never
-- be: rows of no partition keep their tokens. It waits for what is under way, as put does.
CREATE FUNCTION {schema}.withdraw(tokens uuid[]) RETURNS boolean
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
UPDATE {schema}.version SET version = 2
