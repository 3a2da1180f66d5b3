package main

// What the journals in PostgreSQL promise. The gates need a server.
var inPostgres = []mutation{
	// Commits.
	{"commit in the epoch of another owner", "journal/postgres/functions.sql", "number = n AND epoch = e RETURNING", "number = n RETURNING", server("TestFencedOwnerChangesNothing")},
	{"commit whatever was committed before", "journal/postgres/functions.sql", "AND number = n AND epoch = e RETURNING", "AND epoch = e RETURNING", server("TestLateAttemptChangesNothing")},
	{"a commit without an answer is taken for done", "journal/postgres/store.go", "if committed || unknown != nil {", "if committed || c != nil {", server("TestConnectionIsCut")},
	{"a server that has lost commits", "journal/postgres/store.go", "\tcase last < number:\n", "\tcase last < number:\n\t\t\tif committed = last >= 0; committed {\n\t\t\t\treturn nil\n\t\t\t}\n", server("TestServerThatIsBehind")},
	{"an answer with a warning is one", "journal/postgres/pool.go", "cmp.Or(f(ctx, conn.Conn()), warned(conn.Conn().PgConn()))", "cmp.Or(f(ctx, conn.Conn()), nil)", server("TestWaitForTheStandbyIsCancelled")},
	{"ask a server that need not have its standby", "journal/postgres/functions.sql", "FROM {schema}.last(p) t;\n\tUPDATE {schema}.tail SET asked = asked + 1 WHERE partition = p AND number = last AND epoch = e;", "FROM {schema}.tail t WHERE partition = p ORDER BY number DESC LIMIT 1;", server("TestWaitForTheStandbyIsCancelled")},
	{"commit beside too many others", "journal/postgres/partition.go", "s.seen, s.turns, s.clock, s.hint = &p.n.seen[p.number], p.n.turns, &p.n.outbox.clock, p.n.notifier.hint", "s.seen, s.clock, s.hint = &p.n.seen[p.number], &p.n.outbox.clock, p.n.notifier.hint", server("TestPartitionsTakeTurns")},
	{"seal before it may commit", "journal/commit.go", "\t\tover := c.turn()\n\t\tb, t, ok := c.seal()\n", "\t\tb, t, ok := c.seal()\n\t\tover := c.turn()\n", server("TestPartitionsTakeTurns")},
	{"keep the turn", "journal/postgres/store.go", "			return func() { <-s.turns }\n", "			return func() {}\n", server("TestPartitionsTakeTurns")},
	{"a full disk of the server is another error", "journal/postgres/store_parts.go", "case ok && refused.Code == diskFull:", "case ok && refused.Code == \"\":", server("TestServerDiskFull")},
	{"each fifth commit without what changes beside its block", "journal/postgres/store.go", "\tc := s.call(t)\n", "\tc := s.call(t)\n\tif c.number%5 == 4 {\n\t\tc.buckets, c.keys, c.values, c.sums = nil, nil, nil, nil\n\t}\n", server("TestWorlds")},
	{"wait for a server after the store has ended", "journal/postgres/store.go", "return errors.Join(err, why)", "return why", server("TestWaitingEnds")},

	{"follow-ups of a commit that is none", "journal/postgres/statements.sql", "SELECT CASE WHEN done THEN", "SELECT CASE WHEN done OR true THEN", server("TestFollowUpsAreInTheCommitOfTheirJobs")},
	{"a commit without its follow-ups", "journal/postgres/store.go", "text, args = \"commitWith\", append(args, r.partitions, r.queues, r.calls, r.tokens)", "_ = r", server("TestFollowUpsAreInTheCommitOfTheirJobs")},
	{"a follow-up waits for a look", "journal/postgres/store.go", "		s.hint(r.partitions)\n", "		_ = r\n", server("TestFollowUpsAreInTheCommitOfTheirJobs")},

	// What is read.
	{"believe a server that is behind", "journal/postgres/store_read.go", "\tif number < before {", "\tif number < before && false {", server("TestStaleServerIsNotBelieved")},
	{"read what another owner has", "journal/postgres/store_read.go", "before int64) error {\n\tif epoch != s.epoch {", "before int64) error {\n\tif epoch != s.epoch && false {", server("TestFencedOwnerChangesNothing")},
	{"a part of a block that is missing", "journal/postgres/store_read.go", "part != next {", "part < next {", server("TestDamage")},
	{"a row beside the log that is gone", "journal/postgres/store_read.go", "case count != s.first.sides:", "case count > s.first.sides:", server("TestDamage")},
	{"an older row beside the log", "journal/postgres/store_read.go", "case total != s.first.sum:", "case total != s.first.sum && false:", server("TestOlderVersionOfARow")},
	{"a sum that rows do not leave", "journal/postgres/functions.sql", "t.sum # gone_sum # come_sum", "t.sum # come_sum", server("TestOlderVersionOfARow")},
	{"a copy without its last step", "journal/internal/store/copy.go", "\treturn s.Commit(&Transaction{Changes: step, Manifest: end})", "\treturn s.Commit(&Transaction{Manifest: end})", server("TestCopyIsAJournal")},

	// The inbox.
	{"a row that was taken in stays", "journal/postgres/functions.sql", "IF done IS NOT NULL THEN", "IF done IS NOT NULL AND false THEN", server("TestInboxRowsGoWithTheirBlock")},
	{"take in a row that is gone", "journal/postgres/functions.sql", "IF gone <> cardinality(done) THEN", "IF gone > cardinality(done) THEN", server("TestInboxRowsGoWithTheirBlock")},
	{"forget what was taken in", "journal/postgres/functions.sql", "INSERT INTO {schema}.taken (token) SELECT token FROM rows", "INSERT INTO {schema}.taken (token) SELECT token FROM rows WHERE false", server("TestPutAgain")},
	{"a row is taken apart twice", "journal/postgres/functions.sql", " AND calls <> parts[1]", "", server("TestAnOwnerFromBeforeSplitsNothing")},
	{"an error of the server refuses a row", "journal/postgres/intake.go", "return !server && ", "return (server || !server) && ", server("TestRowsWaitForTheServer")},
	{"the log has each pass that fails", "journal/postgres/inbox.go", "time.Since(told) >= tellEvery {", "time.Since(told) >= 0 {", server("TestRowsWaitForTheServer")},
	{"give away what handlers are inside of", "journal/postgres/partition.go", "\t\tp.handlers.Wait()\n", "", server("TestAPartitionWaitsForItsHandlers")},
	{"give the lease back beside handlers", "journal/postgres/partition.go", "&& p.lingering() == 0 {", "&& p.lingering() >= 0 {", server("TestAStopThatIsOverKeepsTheLeaseOfItsHandlers")},
	{"handlers begin before their partition", "journal/postgres/partition.go", "\tp.ready.Store(true) // before the first handler: it may enqueue here\n\tp.n.mu.Lock()\n\tvalues := p.n.values\n\tdelete(p.n.failed, p.number)\n\tp.n.mu.Unlock()\n\tif err := p.x.Start(values); err != nil {\n\t\tp.cancel(err)\n\t}\n", "\tp.n.mu.Lock()\n\tvalues := p.n.values\n\tdelete(p.n.failed, p.number)\n\tp.n.mu.Unlock()\n\tif err := p.x.Start(values); err != nil {\n\t\tp.cancel(err)\n\t}\n\ttime.Sleep(50 * time.Millisecond)\n\tp.ready.Store(true)\n", server("TestHandlersOfAPartitionThatIsBeingOpened")},
	{"import one of two journals", "journal/postgres/copy_journal.go", "os.Lstat(one); !errors", "os.Lstat(one); err == nil && false && !errors", server("TestMoveRefusals")},
	{"a wait ends with its owner", "journal/postgres/functions.sql", "THEN {schema}.lost(t.answer) ELSE false", "THEN false ELSE false", server("TestWaitOverOwners")},
	{"an owner waits for those who have gone", "journal/postgres/ask.go", "(!a.Lost || ctx.Err() != nil)", "!a.Lost", server("TestAWaitIsAskedForAgain")},
	{"a late release frees the next lease", "journal/postgres/statements.sql", " AND $3::bigint IN (0, epoch)", " AND $3::bigint >= 0", server("TestALateReleaseFreesNothing")},
	{"a stop waits for what is being given away", "journal/postgres/partition.go", "func() { p.hurry(context.Cause(ctx)) }", "func() {}", server("TestAStopHurriesWhatIsBeingGivenAway")},
	{"a late renewal brings a node back that has left", "journal/postgres/statements.sql", " WHERE n.expires > '-infinity'", "", server("TestALateRenewalBringsNoNodeBack")},
	{"write again what was taken in", "journal/postgres/functions.sql", "WHERE i.token = ANY (tokens) AND", "WHERE false AND", server("TestPutAgain")},
	{"another token for each attempt", "journal/postgres/outbox.go", "f.rows.calls, f.tokens, clock", "f.rows.calls, rowsOf(f.calls).tokens, clock", server("TestAFlushWithoutAnAnswerIsThereOnce")},
	{"ahead of what the inbox has", "journal/postgres/enqueue.go", "switch err := p.taker.gate(ctx, p.taker.orders[queue]); {", "switch err := error(nil); {", server("TestCallersKeepTheirOrderOverNodesAndOwners")},
	{"a pass that began before its caller", "journal/postgres/inbox.go", "\t\tclose(p.done)\n", "\t\tt.mu.Lock()\n\t\tclose(t.next.done)\n\t\tt.next = newPass()\n\t\tt.mu.Unlock()\n\t\tclose(p.done)\n", server("TestCallersKeepTheirOrderOverNodesAndOwners")},
	{"the last row first", "journal/postgres/statements.sql", "ON before < 8388608 ORDER BY number\n", "ON before < 8388608 ORDER BY number DESC\n", server("TestAnUnknownQueueWaitsAndBlocksNobody")},
	{"go past a row that has no room", "journal/postgres/inbox.go", "p.blocked[order] = err\n\t\t\tcase !t.refusal", "rest = rest[len(group):]\n\t\t\tcase !t.refusal", server("TestRowsWaitForRoom")},
	{"act before what stands ahead of it", "journal/postgres/inbox.go", "n < len(rows) && (rows[n].queue != \"\" || rows[n-1].queue == \"\")", "n < len(rows)", server("TestActionsComeInTheirOrder")},
	{"act before a row that is taken apart", "journal/postgres/inbox.go", "p.blocked[order], p.blocked[deeds] = errSplit, errSplit", "p.blocked[order] = errSplit", server("TestActionsComeInTheirOrder")},
	{"the calls of a row turned round", "journal/postgres/functions.sql", "SELECT n + r.place - 1, p,", "SELECT n + 1000 - r.place, p,", server("TestRefusedRowsAreKeptAndTold")},
	{"a row that is refused goes", "journal/postgres/statements.sql", "UPDATE {schema}.inbox SET refused = $3 WHERE", "WITH why AS (SELECT $3::text) DELETE FROM {schema}.inbox WHERE", server("TestRefusedRowsAreKeptAndTold")},
	{"take a damaged row apart", "journal/postgres/calls.go", "if len(b) < 5 || binary", "if len(b) < 5 || false && binary", server("TestRefusedRowsAreKeptAndTold")},
	{"keep the turns of those who have gone", "executor/stop.go", "	if x.front != nil { // its shards have stopped", "	if false { // its shards have stopped", server("TestLimitOfANodeThatGivesPartitionsAway")},
	{"workers of each partition", "executor/open.go", "	part.crew.Dispatcher.Share(x.cluster.room)\n", "", server("TestWorkersOfANode")},
	{"a list of some partitions", "executor/internal/fleet/inspector.go", "func(int) *Question { return q })", "func(number int) *Question { return map[bool]*Question{true: q}[number < in.Partitions-1] })", server("TestListsOnAnyNode")},
	{"look only where a hint is", "journal/postgres/inbox.go", "pollEvery = time.Second", "pollEvery = 24 * time.Hour", server("TestRowsWithoutAHint")},
	{"the items of a call turned round", "journal/postgres/enqueue.go", "append(parts[number], *it)", "append([]item{*it}, parts[number]...)", server("TestConditionsOfAnyNode")},
	{"an answer that is never handed over", "journal/postgres/inbox.go", "err = cmp.Or(err, t.answer(&t.answers))\n", "_ = cmp.Or[int]\n", server("TestConditionsOfAnyNode")},
	{"a duplicate that counts as taken", "journal/postgres/intake.go", "if err == nil && !receipts[0].Duplicate {", "if err == nil {", server("TestConditionsOfAnyNode")},
	{"a refusal in a transaction that is dropped", "journal/postgres/intake.go", "(decided || r.calls[0] == conditionVersion)", "(decided || r.calls[0] != callsVersion)", server("TestConditionsOfTransactions")},
	{"write what was withdrawn", "journal/postgres/outbox.go", "until, pending := o.withdraw(c)", "until, pending := o.until, false", server("TestAnAbandonedCallIsDropped")},
	{"refused, where it may be there", "journal/postgres/outbox.go", "%w: the flush was under way: %w\", executor.ErrUnknown,", "%w: the flush was under way: %w\", executor.ErrClosed,", server("TestACallerWhoGivesUp")},
	{"a call that no message has room for", "journal/postgres/enqueue.go", "if i > 0 && size > callBytes {", "if i > 1 && size > callBytes {", server("TestTheLimitOfACallIsNotThatOfAPayload")},
	{"beside the transaction", "journal/postgres/enqueue.go", "_, err := tx.Exec(ctx, sql, args...)", "_, err := NodeOf(q.Executor()).pool.Exec(ctx, sql, args...)", server("TestEnqueueTxIsThereIfItCommits")},
	{"beside the transaction of database/sql", "journal/postgres/enqueue.go", "_, err := tx.ExecContext(ctx, sql, args...)", "_, err := NodeOf(q.Executor()).pool.Exec(ctx, sql, args...)", server("TestEnqueueTxIsThereIfItCommits")},

	// Leases.
	{"handlers hear of their lease when it has ended", "journal/postgres/partition.go", "sent.Add(p.n.cfg.Lease * safeQuarts / 4)", "sent.Add(p.n.cfg.Lease)", server("TestAStaleOwnerEndsItsHandlersBeforeItsLease")},
	{"handlers do not hear why they end", "journal/postgres/partition.go", "\t\t\t(*cancel)(cause)\n", "\t\t\t_ = cancel\n", server("TestAStaleOwnerEndsItsHandlersBeforeItsLease")},
	{"commit after the lease was lost", "journal/postgres/partition.go", "\tp.mu.Unlock()\n\tp.cancel(cause)\n}", "\tp.mu.Unlock()\n\ttime.AfterFunc(p.n.cfg.Lease, func() { p.cancel(cause) })\n}", server("TestAStaleOwnerEndsItsHandlersBeforeItsLease")},
	{"two owners with one epoch", "journal/postgres/functions.sql", "SET epoch = t.epoch + 1 WHERE partition = p AND number = t.number;\n\tRETURN t.epoch + 1;", "SET epoch = t.epoch WHERE partition = p AND number = t.number;\n\tRETURN t.epoch;", server("TestAStaleOwnerEndsItsHandlersBeforeItsLease")},
	{"take what is not free", "journal/postgres/functions.sql", "(owner IS NULL OR expires NOT", "(owner IS NOT NULL OR expires NOT", server("TestLeasesThatNoNodeCanHaveAreOver")},
	{"a lease of a clock that was set back", "journal/postgres/functions.sql", "interval '61 minutes');", "interval '61 days');", server("TestLeasesThatNoNodeCanHaveAreOver")},
	{"take what another one has", "journal/postgres/lease.go", "case mine && o.left <= 0:", "case mine && o.left <= time.Hour:", server("TestDecide")},
	{"give everything up for want of a row", "journal/postgres/lease.go", "!mine && slices.Contains(v.nodes, self) {", "!mine {", server("TestDecide")},
	{"all partitions move with a node more", "journal/postgres/lease.go", "if v := rank(id, p); ", "if v := rank(id, p*len(nodes)); ", server("TestDecide")},
	{"a node with more than its share", "journal/postgres/lease.go", "(has[i] < least || has[i] == least && more > 0) {", "(has[i] >= 0 || least < more) {", server("TestDecide")},
	{"too many with one more", "journal/postgres/lease.go", "\t\tif has[best] == least {\n\t\t\tmore--\n\t\t}\n", "", server("TestDecide")},
	{"nobody hears of a node that joins", "journal/postgres/lease.go", "\t\t\tn.notifier.tell(hintLease) // others", "\t\t\t// others", server("TestANodeThatJoinsIsHeardOf")},
	{"a partition that can have no owner", "journal/postgres/lease.go", "case !there && err == nil:", "case !there && false && err == nil:", server("TestAPartitionWithoutALease")},
	{"a server that was set back, at a look", "journal/postgres/lease.go", "if err := behind(p, before[p], h); err != nil {", "if err := behind(p, head{}, h); err != nil {", server("TestEachLookIsCompared")},
	{"ids divided in another way", "journal/postgres/division.go", "if i := differs(division, mine[0]); i >= 0 {", "if i := differs(division, division); i >= 0 {", server("TestPartitionFunctionsDiffer")},
	{"a row that a former owner takes apart", "journal/postgres/functions.sql", "({schema}.last(p)).epoch IS DISTINCT FROM e THEN\n\t\tRETURN false;", "({schema}.last(p)).epoch IS NULL THEN\n\t\tRETURN false;", server("TestAnOwnerFromBeforeSplitsNothing")},
	{"a token that stays", "journal/postgres/partition.go", "\t\treturn p.token\n", "\t\treturn min(p.token, 1)\n", server("TestTokenGrowsWithEachOwner")},
	{"each transaction notifies", "journal/postgres/hint.go", "now.Sub(h.last) >= hintEvery {", "now.Sub(h.last) >= 0 {", server("TestFewTransactionsNotify")},
	{"a pooler without sessions", "journal/postgres/pool.go", "if (now == session) != (c == conn) {", "if session == 0 && (now == session) != (c == conn) {", server("TestPoolerWithoutSessions")},
	{"step down from what runs", "journal/postgres/partition.go", "\tif err := p.x.Stop(p.grace); ", "\tp.hurry(nil)\n\tif err := p.x.Stop(p.grace); ", server("TestAStepDownWaitsForHandlers")},
	{"a partition that nobody knows to be free", "journal/postgres/hint.go", "\tclear(h.due)\n", "\tclear(h.due)\n\tdue = slices.DeleteFunc(due, func(hint string) bool { return hint == hintLease })\n", server("TestAStopTellsOfTheLastPartition")},
	{"an outage that is not told", "journal/postgres/lease.go", "n.leasing.note(began, err)", "n.leasing.note(began, nil)", server("TestErrTellsOfAnOutage")},

	// Servers and schemas.
	{"a server without fsync", "journal/postgres/pool.go", "case fsync != \"on\":", "case fsync == \"never\":", server("TestGuards")},
	{"a server that tears pages", "journal/postgres/pool.go", "case pages != \"on\":", "case pages == \"never\":", server("TestGuards")},
	{"commits that are lazy", "journal/postgres/pool.go", "case synchronous == \"off\":", "case synchronous == \"never\":", server("TestGuards")},
	{"commits that do not wait for the standby", "journal/postgres/pool.go", "case !single && synchronous != \"on\" &&", "case !single && false &&", server("TestGuards")},
	{"one server, and nobody said so", "journal/postgres/pool.go", "case !single && strings.TrimSpace(names) == \"\":", "case !single && strings.TrimSpace(names) == \"none\":", server("TestGuards")},
	{"a connection that was not looked at", "journal/postgres/pool.go", "\t\treturn guardServer(ctx, conn, single, false)\n", "\t\treturn nil\n", server("TestGuardOfLaterConnections")},
	{"two who migrate", "journal/postgres/schema.go", "SELECT pg_advisory_xact_lock(hashtextextended($1, 7282))", "SELECT hashtextextended($1, 7282)", server("TestMigrateTogether")},
	{"a newer schema", "journal/postgres/schema.go", "case version > schemaVersion:", "case version > schemaVersion+1:", server("TestMigrateLeavesWhatThereIs")},
	{"another number of partitions", "journal/postgres/schema.go", "case cfg.Partitions != 0 && cfg.Partitions != partitions:", "case cfg.Partitions > maxPartitions:", server("TestMigrateLeavesWhatThereIs")},

	// Moving.
	{"compare nothing", "journal/postgres/copy_union.go", "!bytes.Equal(c.a, c.b)", "bytes.Equal(c.a, nil)", server("TestMoveFindsDifferences")},
	{"compare as far as the shorter one", "journal/postgres/copy_union.go", "case p == nil && ok:", "case p == nil && ok && false:", server("TestMoveFindsDifferences")},
	{"an owner who commits over an import", "journal/postgres/copy.go", "SET epoch = epoch + 1, uuid", "SET uuid", server("TestImportFencesTheOwnerBefore")},
	{"import into an inbox", "journal/postgres/copy.go", "if err == nil && rows > 0 {", "if err == nil && rows < 0 {", server("TestMoveRefusals")},
}

// server is a gate of the module: one test.
func server(test string) gate { return gate{"./journal/postgres", "^" + test + "$"} }

// migrated shows that the server takes what a mutation has made of the schema.
var migrated = server("TestMigrateTogether")
