-- What puts the old partitions aside, {aside} numbers lower, and {to} empty ones in their place, to which nobody who has
-- owned one commits. Who waits for the answer to a question that an owner has begun hears that he is none any longer.
UPDATE {schema}.tail SET partition = partition - {aside};
UPDATE {schema}.block SET partition = partition - {aside};
UPDATE {schema}.side SET partition = partition - {aside};
UPDATE {schema}.inbox SET partition = partition - {aside} WHERE partition >= 0;
INSERT INTO {schema}.tail (partition, epoch, uuid) SELECT p, (SELECT max(epoch) + 1 FROM {schema}.tail), '' FROM generate_series(0, {to} - 1) p;
DELETE FROM {schema}.lease;
INSERT INTO {schema}.lease (partition, epoch) SELECT partition, epoch FROM {schema}.tail WHERE partition >= 0;
UPDATE {schema}.taken SET answer = '{"Lost":true}' WHERE answer LIKE '{"Epoch"%';
UPDATE {schema}.version SET partitions = {to}, division = NULL, made = clock_timestamp();
