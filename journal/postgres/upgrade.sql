-- What brings the tables of earlier versions up to date. What others have for long comes before the leases.
LOCK TABLE {schema}.inbox, {schema}.taken, {schema}.lease IN ACCESS EXCLUSIVE MODE;
ALTER TABLE {schema}.lease ADD COLUMN IF NOT EXISTS since timestamptz;
ALTER TABLE {schema}.taken ADD COLUMN IF NOT EXISTS answer text;
CREATE TABLE IF NOT EXISTS {schema}.permit (key bytea PRIMARY KEY, state text NOT NULL, until timestamptz NOT NULL) WITH (fillfactor = 20);
DO $$ DECLARE r record; BEGIN
	-- Nodes have rights to a table that is new.
	FOR r IN SELECT c.oid::regclass AS what, c.relnamespace::regnamespace AS schema, coalesce(quote_ident(pg_get_userbyid(nullif(a.grantee, 0))), 'PUBLIC') AS who
		FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = (SELECT tableoid FROM {schema}.lease LIMIT 1) AND a.privilege_type = 'UPDATE'
	LOOP EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s.permit TO %s', r.schema, r.who); END LOOP;
	IF (SELECT to_jsonb(v) ? 'minor' FROM {schema}.version v) THEN -- versions 2.1 to 2.4
		UPDATE {schema}.version SET minor = 5;
		RETURN;
	END IF;
	-- Versions 1 and 2. Who could change the end of a log needs two rights more for that now.
	ALTER TABLE {schema}.inbox ADD COLUMN IF NOT EXISTS until timestamptz;
	ALTER TABLE {schema}.tail DROP CONSTRAINT tail_pkey, ADD PRIMARY KEY (partition, number), RESET (fillfactor);
	ALTER TABLE {schema}.side ADD COLUMN number bigint NOT NULL DEFAULT 0, DROP CONSTRAINT side_pkey, ADD PRIMARY KEY (partition, bucket, key, number);
	ALTER TABLE {schema}.version ADD COLUMN minor integer NOT NULL DEFAULT 5;
	UPDATE {schema}.version SET version = 2;
	FOR r IN SELECT c.oid::regclass AS what, coalesce(quote_ident(pg_get_userbyid(nullif(a.grantee, 0))), 'PUBLIC') AS who FROM pg_class c, aclexplode(c.relacl) a
		WHERE c.oid = (SELECT tableoid FROM {schema}.tail LIMIT 1) AND a.privilege_type = 'UPDATE'
	LOOP EXECUTE format('GRANT INSERT, DELETE ON %s TO %s', r.what, r.who); END LOOP;
END $$;
