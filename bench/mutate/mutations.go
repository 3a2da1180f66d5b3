package main

import "slices"

// The gates. Each is quick to fail and selects few tests.
var (
	power      = gate{"./bench/soak", "^TestProofs$/^image$"}
	kills      = gate{"./bench/soak", "^TestProofs$/^kill$"}
	poison     = gate{"./bench/soak", "^TestProofs$/^poison$"}
	flips      = gate{"./journal", "^(TestFlipsInBlocks|TestMissingAndSwappedBlocks|TestSideBuckets)$"}
	pages      = gate{"./journal", "^(TestPages|TestMetaPages|TestFlipsInFile)$"}
	stale      = gate{"./journal", "^TestStalePages$"}
	state      = gate{"./journal", "^(TestEveryReadOfStateIsChecked|TestFlipsBesideTheLog|TestMigration|TestPut|TestRename)$"}
	attempts   = gate{"./executor", "^(TestContext|TestDeadline)"}
	gaps       = gate{"./journal", "^TestRefusedWhile"}
	refused    = gate{"./journal", "^TestRefusedIsAsIf"}
	crashRoom  = gate{"./journal", "^TestRoomOfTheCrash"}
	heldBack   = gate{"./executor", "^TestSuspectsAreHeld"}
	wrecks     = gate{"./journal", "^TestSalvage"}
	forgeries  = gate{"./journal", "^TestHostileFiles$"}
	inTurn     = gate{"./journal", "^TestLogsTakeTurns$"}
	contract   = gate{"./journal", "^TestContractOnFile$/^(order|reopen|close)$"}
	faults     = gate{"./journal", "^TestContractInMemory$/^faults$"}
	model      = gate{"./journal", "^TestModel$"}
	opening    = gate{"./journal", "^(TestSecond|TestOpenContext|TestCrashInCreation|TestNewer|TestReleased|TestClose)"}
	unlocking  = gate{"./journal/internal/directory", "^TestUnlock"}
	places     = gate{"./journal", "^(TestNotAFile|TestReplacedDirectory|TestRunningCut)"}
	recorder   = gate{"./journal", "^(TestSuspects|TestWhatEndedIsNotSuspected|TestARecorder)"}
	guilt      = gate{"./journal/internal/crash", "^Test(TheCause|Several|ADeath|SlowCauses|DeathsThat|AStorm|Reports)"}
	deaths     = gate{"./journal", "^TestWhatTheSystem"}
	pieces     = gate{"./journal", "^(TestFullNow|TestCarriedAndEnded|TestReplacedState)"}
	keys       = gate{"./journal", "^(TestKeys|TestPostedEntries|TestPut)"}
	scripts    = gate{"./shard", "^TestScripts"}
	newest     = gate{"./shard", "^TestSupersede"}
	former     = gate{"./executor", "^TestFormerNames"}
	latests    = gate{"./executor", "^Test(Latest|RequeueSays)"}
	random     = gate{"./shard", "^TestRandomOperations$"}
	heirs      = gate{"./shard", "^TestTheHeir"}
	told       = gate{"./executor/command", "^TestExportSays"}
	removed    = gate{"./shard", "^TestRemoved"}
	unwritten  = gate{"./shard", "^Test(PausedAndOver|APlaceWithout|RestThatIsMoved)"}
	back       = gate{"./executor/internal/lane", "^TestLanesAreLike"}
	stead      = gate{"./executor", "^TestWaitForWhatWasMerged$"}
	clocks     = gate{"./shard", "^TestClock"}
	exempt     = gate{"./shard", "^TestExempt"}
	slacks     = gate{"./shard", "^Test(HowLate|Slack|NextWake)"}
	scores     = gate{"./executor", "^TestScore"}
	restarted  = gate{"./executor", "^TestTimerSlack"}
	shells     = gate{"./shard", "^(TestDueJobs|TestRunNow|TestNoTimer|TestSlowJobs|TestWorkers|TestPending|TestStop|TestWallClock)"}
	leases     = gate{"./lock", "^TestALeaseEndsAtItsEnd"}
	locks      = gate{"./lock", "^(TestALease|TestTokens|TestAFreeKey|TestExpir|TestQueue|TestOneHolder|TestSeveral|TestUnlock|TestTableIsLikeItsModel)"}
	lockEnds   = gate{"./executor", "^(TestLockTTL|TestLocksWithExtreme)"}
	keyLocks   = gate{"./executor/internal/keylock", "^TestKeyLocks"}
	circles    = gate{"./executor", "^TestDeadlock"}
	slots      = gate{"./lock", "^(TestLaralocker|TestWatchSlots|TestSlots)"}
	leaders    = gate{"./lock", "^(TestResqueScheduler|TestCampaign|TestLeader)"}
	sockets    = gate{"./executor/internal/control", "^Test(TheMode|WhatIsNotOurs|OnlyASocket)"}
	calling    = gate{"./executor/internal/control", "^Test(HostileClients|Answers|CallsAtATime)$"}
	serves     = gate{"./executor/internal/serving", "^Test"}
	acting     = gate{"./executor", "^TestActi(ng|ons)(Beside|Without)"}
	controls   = gate{"./executor", "^Test(HostileControlRequests|StopAndTheControlSocket|PagesOfTheMorgue)$"}
	refusals   = gate{"./executor/command", "^TestSalvagedStateKeysStart$"}
	lives      = gate{"./executor/command", "^Test(TheSameLive|NobodyOr|NoPermission|EventsEnd)"}
	actors     = gate{"./actor", "^Test(Stop|Trap|Late|Messages|Only|Idle)"}
	restored   = gate{"./executor", "^TestUnclaimed"}
	figures    = gate{"./executor/metrics", "^Test"}
	fatals     = gate{"./executor", "^TestLowkiq_L27"}
	freshes    = gate{"./executor", "^TestLowkiq_L22"}
	actions    = gate{"./executor", "^TestLowkiq_L20"}
	replays    = gate{"./bench/world", "^TestReplay$"}
	commands   = gate{"./executor/command", "^(TestReplayOf|TestGolden|TestWhatIsNotListed)"}
	abuse      = gate{"./executor", "^TestAbuse"}
	stops      = gate{"./executor", "^(TestStop|TestEnqueueRaces|TestNothingIsLeft|TestNothingBegins)"}
	timeouts   = gate{"./executor", "^(TestTimeout|TestStuck|TestSpare)"}
	tables     = gate{"./shard", "^TestTable"}
	crashes    = gate{"./executor", "^(TestWhatRanRuns|TestLowkiq_L12)"}
	suspects   = gate{"./executor", "^Test(StrongSuspects|ASuspect|WeakSuspects|WhoIsGivenUp|TheHeir|AStateThatKills)"}
	admission  = gate{"./executor", "^TestBacklog"}
	memory     = gate{"./journal", "^(TestBudget|TestUnreadable|TestCarryOf|TestModelWithout|TestFullNow|TestFullBy)"}
	beside     = gate{"./journal", "^TestReadBack"}
	broken     = gate{"./shard", "^TestUnreadable"}
	unread     = gate{"./executor", "^TestUnreadable"}
	lowkiq     = gate{"./executor", "^TestLowkiq"}
	events     = gate{"./executor", "^Test(BadEvent|EventsEnd|SlowEvent|OlderEvent|StopBetween|Payload|BatchIs)"}
	burials    = gate{"./executor", "^(TestBurial|TestMerging)"}
	services   = gate{"./executor", "^TestLockable_S06"}
	turns      = gate{"./executor", "^(TestCalled|TestUniqueKeeps|TestReplaced|TestCounted|TestLastErrorIs)"}
	exhausted  = gate{"./executor", "^TestLowkiq_L11"}
	crowds     = gate{"./executor", "^(TestSlowJob|TestSlowBatch|TestCrashBeside)"}
	renames    = gate{"./executor", "^TestRenamedAndBack"}
	kits       = gate{"./executor/executortest", "^Test(Assertions|WhatWaits|UntilIdle|Work|Crash|Kill|Slow|EveryCrash|Stuck)"}
	listings   = gate{"./executor/internal/listing", "."}
	paces      = gate{"./executor/internal/pace", "."}
	walks      = gate{"./shard", "^Test(Scan|Detail)"}
	patience   = gate{"./executor", "^TestPatience"}
	peeks      = gate{"./journal", "^TestPeek"}
	looks      = gate{"./executor", "^(TestLowkiq_L(19|21|24)|TestBadQueries|TestCursorsAfter|TestJob(With|Is)|TestExplainTells|TestRunningShows)"}
	unmanned   = gate{"./executor", "^Test(WhyNoWorker|WhyOthers)"}
	chains     = gate{"./executor", "^TestFollowUp"}
	behind     = gate{"./journal", "^TestFollowUp"}
	followed   = gate{"./journal", "^TestFullNow"}
	shares     = gate{"./executor", "^(TestFlood|TestWeights|TestNoCredit|TestMaxConcurrent)"}
	schedules  = gate{"./executor", "^TestInOrder"}
	oldest     = gate{"./executor", "^TestStatsLag"}
	beats      = gate{"./executor", "^TestLocket_R0[34]"}
	alone      = gate{"./executor", "^TestLocket_R02"}
	slotsKept  = gate{"./executor", "^TestLaralocker_A0[3-6]"}
	strangers  = gate{"./executor", "^TestBatchErrorsForAStranger$"}
	restarts   = gate{"./executor/cron", "^TestMissedInAGap$"}
	offices    = gate{"./executor/cron", "^TestScheduler_M0[24]"}
	reigns     = gate{"./executor/cron", "^TestScheduler_M03"}
	splits     = gate{"./executor/cron", "^TestSplitter"}
	hangs      = gate{"./bench/soak", "^TestProofs$/^slow$"}
	folds      = gate{"./shard", "^TestFold"}
	folding    = gate{"./executor", "^TestFold(That|InTheMorgue|AfterAFailure|WhatCant)"}
	tooLarge   = gate{"./executor", "^TestFoldTooLarge"}
	rewrites   = gate{"./journal", "^TestRewritten"}
	calls      = gate{"./bench/soak", "^TestProofs$/^syscall$"}
	lanes      = gate{"./executor", "^TestSharedLanes"}
	options    = gate{"./executor", "^TestTheLastOptionCounts$"}
	shortRuns  = gate{"./shard", "^TestShortOfRoom$"}
	fullChains = gate{"./executor", "^TestFollowUpsOnAFullDisk$"}
	fullDisks  = gate{"./executor", "^Test(AFullDiskDrains|SlotsOnAFullDisk)"}
	outages    = gate{"./executor", "^TestAnOutageThatFillsTheDisk$"}
	bigMorgue  = gate{"./executor", "^TestTheMorgueOnAFullDisk$"}
	fullMorgue = gate{"./executor", "^Test(BurialsAtOnce|GivenUp)OnAFullDisk$"}
	fullStart  = gate{"./journal", "^Test(QueuesOnAFullDisk|FullDisk)"}
	several    = gate{"./executor/internal/limit", "^Test(JobsWithSeveralKeys|ARateBeside)"}
	upkeep     = gate{"./journal", "^Test(Upkeep|CopyHas)"}
	hostile    = gate{"./executor", "^TestHostile"}
	badKeys    = gate{"./executor", "^Test(BadKeys|LocksThat)"}
	summaries  = gate{"./executor", "^Test(Summar|Recovery|BurialsThatWere|PanicsDo|HaltedIs)"}
	requeues   = gate{"./executor", "^TestRequeue(All|Ends)"}
	exhumes    = gate{"./executor", "^Test(ATurnAt|ACommitAfter|TakenMean|DeleteUnlocks|SharedLanesAndTwo)"}
	layered    = gate{"./executor", "^Test(Lowkiq_L16|HostileMiddleware|MiddlewareKeeps)"}
	feeds      = gate{"./executor", "^Test(Events|ASlowReader|ResumeEvents|EventFilter)"}
	rings      = gate{"./executor/internal/tell", "^Test"}
	signs      = gate{"./executor", "^Test(Progress|Heartbeat)"}
	pacing     = gate{"./executor/internal/limit", "^Test"}
	keeping    = gate{"./executor/internal/limit", "^TestA[^n]"}
	sharing    = gate{"./executor/internal/quota", "^Test"}
	limits     = gate{"./executor", "^Test(Limit|Throttled)"}
	forgets    = gate{"./executor", "^TestLimitForgets"}
	tunings    = gate{"./executor", "^Test(Priority|Tune)"}
	owners     = gate{"./executor", "^TestLowkiq_L14"}
	steering   = gate{"./executor", "^Test(Pause|Deleted)"}
	meant      = gate{"./executor", "^TestActionsMean"}
	counters   = gate{"./executor", "^TestLockable_S05"}
	retained   = gate{"./executor", "^TestRetention"}
	aging      = gate{"./executor", "^TestAge"}
	agesModel  = gate{"./shard", "^TestAges"}
	lateDead   = gate{"./executor", "^Test(TheDead|RequeueInLanes)"}
	awaits     = gate{"./executor", "^Test(Do($|[^o])|Wait|IfAbsent)"}
	promises   = gate{"./executor", "^Test(AsyncReturns|MaxPayloads|NotBlockedBy|HalvesHave|AContextEnds)"}
	boardBytes = gate{"./executor/dashboard", "^Test(AnswersUnderWay|AViewerWho|LiveAsks|LiveReaders)"}
	guards     = gate{"./executor/dashboard", "^TestH[1-4]"}
	boards     = gate{"./executor/dashboard", "^Test(WhatCant|Dashboard_L20)"}
	streams    = gate{"./executor/dashboard", "^TestLive"}
	keyPages   = gate{"./executor", "^TestLockedKeysInPages$"}
	exits      = gate{"./executor", "^TestGoexit"}
	nilWishes  = gate{"./executor", "^TestNilWishes$"}
	buriedFull = gate{"./executor", "^TestDeadLettersThatFill"}
	orders     = gate{"./executor/dashboard", "^TestH5_(Caps|What)"}
	meanings   = gate{"./executor/dashboard", "^Test(AnAction|EachButton)"}
	slips      = gate{"./executor/dashboard", "^TestH5_ASlip"}
	bounds     = gate{"./executor/dashboard", "^Test(Plain|Payloads)"}
	asks       = gate{"./executor/dashboard", "^TestAuthorizer"}
	said       = gate{"./executor/dashboard", "^TestNotice"}
	patiences  = gate{"./executor/dashboard", "^TestPatience"}
	elsewhere  = gate{"./executor", "^Test(OpenLog|Lookup)"}
)

// worlds are a hundred, each with some features.
func worlds(features string) gate {
	return gate{"./bench/world", "^TestWorld$ -seeds=100 -shrink=0 -swarm=" + features}
}

// mutations are what programmers really do: a step left out, an order turned round,
// a comparison off by one.
var mutations = slices.Concat(inRoot, inWAL, inPostgres)

var inRoot = []mutation{
	// What was accepted is on disk.
	{"acknowledge before the fsync", "journal/internal/store/bolt_open.go", "NoFreelistSync: true,\n", "NoFreelistSync: true, NoSync: true,\n", power},
	{"wait for a turn with nothing to commit", "journal/commit.go", "	if need, _, _ := c.demand(); need > 0 {\n", "	if need, _, _ := c.demand(); need >= 0 {\n", inTurn},
	{"acknowledge before the commit", "journal/commit.go", "		ok = c.write(b, t)\n		over()\n		if !ok {\n			return false\n		}\n		took, callers := time.Since(began), b.calls\n		since := c.publish(b)\n", "		took, callers := time.Since(began), b.calls\n		since := c.publish(b)\n		ok = c.write(b, t)\n		over()\n		if !ok {\n			return false\n		}\n", contract},
	{"lose what came last before Close", "journal/commit.go", "closing, idle = true, false // nothing", "return // nothing", opening},
	{"a log of others that is in memory", "executor/lifecycle.go", "openElsewhere(name, cfg, nil, func(c journal.Config) (log", "openElsewhere(\"\", cfg, nil, func(c journal.Config) (log", elsewhere},
	{"what items of bytes say", "executor/queue.go", "return t.q.Fill(e, &filled, now)", "return t.q.Fill(e, &submit.Item{ID: it.ID, Payload: filled.Payload}, now)", elsewhere},
	{"go on after a failed commit", "journal/commit.go", "	c.err = latched\n", "", faults},
	{"accept what a failed commit had", "journal/commit.go", "		o.commit.err = fmt.Errorf(\"%w: %w\", ErrUnknown, cause)\n", "		_ = o\n", calls},
	{"forget what was refused while a block was on its way", "journal/commit.go", "	b.Reach(c.manifest.Next)\n", "", gaps},
	{"end a position where none was refused", "journal/internal/block/writer.go", "	if b.next != next {\n", "	if b.next <= next {\n", refused},
	{"let the room of the crash recorder go", "journal/internal/crash/recorder.go", "if (r.gone.Load() || !inFile) && p", "if p", crashRoom},
	{"keep no room for the crash recorder", "journal/internal/crash/recorder.go", "info.Size() < reserved", "info.Size() < 0", crashRoom},
	{"release suspects without a recorder", "executor/internal/life/life.go", "	if unrecorded == nil { //", "	if true { //", heldBack},
	{"give a place in shared lanes when a worker comes", "executor/internal/submit/submit.go", "for i := range o.Entries {\n				o.to.Lanes.Stand", "for i := range o.Entries[:0] {\n				o.to.Lanes.Stand", lanes},
	{"forget the places in shared lanes at a restart", "executor/internal/work/work.go", "				if q.Lanes != nil {\n", "				if false {\n", lanes},
	{"run two kinds of a shared lane at a time", "executor/internal/lane/lane.go", "!n.busy && first.queue", "first.queue", lanes},
	{"what was merged counts as done", "executor/await.go", "cmp.Or(r.MergedInto, r.Position)", "cmp.Or(0, r.Position)", stead},
	{"a later payload in the turn of one that is not back yet", "executor/internal/lane/lane.go", "first.queue == queue && !first.away {", "first.queue == queue {", back},
	{"a job that was taken up before an earlier one came back", "executor/internal/lane/lane.go", "at.away, at.anew = false, true", "at.away = false", back},
	{"run ahead of a disk that is short of room", "executor/internal/work/worker.go", "	if !w.crew.Log.Short() {\n", "	if true {\n", fullDisks},
	{"carry as much as fits on a full disk", "journal/internal/block/chain.go", "		return s.little()\n", "		return (s.Room.Bytes - s.Weight) / 2\n", gate{"./executor", "^TestTheMorgueOnAFullDisk$"}},
	{"carry a block into less room than it takes", "journal/internal/block/chain.go", "bytes <= s.Room.Spare ||", "!s.tight() ||", gate{"./journal", "^TestALargeBlockIsNotCarried"}},
	{"carry what takes half of the room, and not more", "journal/internal/block/chain.go", "(s.Room.Bytes-s.Weight)/4*3", "(s.Room.Bytes-s.Weight)/2", gate{"./executor", "^TestManyAtOnceOnAFullDisk$"}},
	{"keep no room to carry the largest block", "journal/internal/block/chain.go", "return max(largest-Small, 0) / 2 * 3", "return 0", gate{"./executor", "^TestALargeCallOnAFullDisk$"}},
	{"a smaller file with the pages of another system", "journal/internal/store/bolt_compact.go", "	options.PageSize = s.pageSize\n", "", gate{"./journal/internal/store", "^TestPagesOfAnotherSystem$"}},
	{"look for room where there is half of what it takes", "journal/internal/block/chain.go", "return s.bears(old.Bytes, 0, true) &&", "return old.Bytes < r.Bytes/2 &&", gate{"./journal", "^TestAFullDiskWithoutResults"}},
	{"what is in pieces is as large as the whole", "journal/internal/block/chain.go", "	if b.Live > 0 {\n		c.sized(b, b.Size)\n	}\n	c.Size +=", "	c.Size +=", gate{"./journal", "^TestABlockInPieces"}},
	{"leave an eighth of a full disk to what has ended", "journal/internal/block/chain.go", "size-live > s.Reserve()/16+2*format.HeaderSize*(1+live/max(s.little(), 1))", "8*size > 9*live", outages},
	{"bury into the room in which a person deletes", "executor/internal/verdict/judge.go", "		return false\n	}\n	it.Outcome.Room", "		return true\n	}\n	it.Outcome.Room", outages},
	{"room for burials that is taken for good", "shard/ends.go", "	c.Spend(it.Outcome.Room)\n", "", fullMorgue},
	{"cancel what the morgue has no room for", "executor/internal/act/act.go", "!o.Log.TryRoom(letters)", "false", fullMorgue},
	{"give up what the morgue has no room for", "executor/internal/suspect/suspect.go", "!q.Log.TryRoom(letters)", "false", fullMorgue},
	{"letters that find no pages in one piece", "journal/room.go", "	return leafLetters * largest\n", "	return 0\n", bigMorgue},
	{"write down a slot only when there is room", "executor/internal/work/enter.go", "a.crew.Log.Settled(a.crew.Starting)", "a.crew.Log.Flush(a.crew.Starting)", fullDisks},
	{"run many payloads on a disk that is short of room", "shard/hands.go", "		most = c.cfg.BatchSize\n", "", shortRuns},
	{"forget too soon that the disk was short of room", "journal/fulldisk.go", " || d.short.Load() && !r.Gives && r.Spare < live", "", gate{"./journal", "^TestFullDiskIsShort"}},
	{"let the first option count", "executor/internal/submit/option.go", "range slices.Backward(options) {", "range slices.Clone(options) {", options},
	{"a full disk that is not logged", "journal/fulldisk.go", "	if !d.told {\n", "	if false {\n", fullStart},
	{"tell of room that does not last", "journal/fulldisk.go", "d.told && !d.full && !d.over", "d.told && !d.over", fullStart},
	{"refuse a known queue on a full disk", "journal/queues.go", " && !(known && errors.Is(err, ErrFull))", " && !(false && known && errors.Is(err, ErrFull))", fullStart},
	{"copy what is on disk by now", "journal/upkeep.go", "	err := u.c.Flush(ctx)\n", "	var err error\n", upkeep},
	{"compact when no call appends", "journal/commit.go", "		case asked := <-c.upkeep.calls:\n			c.upkeep.run(asked)\n		default:\n", "		default:\n", upkeep},
	{"append without asking the context", "journal/head.go", "	if err := cause(ctx); err != nil {\n		return err\n	}\n	for {\n", "	for {\n", hostile},
	{"delete a job and leave its keys locked", "executor/internal/keylock/condition.go", "	c.DropAll(change.Deleted)\n", "", steering},
	{"let a paused job keep its turn", "executor/internal/admit/list.go", "		l.Aside(Owner{Queue: l.Queue, ID: id}, true)\n", "", steering},
	{"a prefix that pauses what was there", "executor/internal/pause/queue.go", "			c.Reconsider(id)\n", "", steering},
	{"a prefix that is one length", "shard/agenda.go", "for n := 1; len(c.prefixes) > 0 && n <= len(id); n++ {", "for n := len(id); len(c.prefixes) > 0 && n <= len(id); n++ {", steering},
	{"a prefix that is not told", "executor/internal/pause/queue.go", "c.PausePrefix(prefix, on)", "c.PausePrefix(prefix, false)", steering},
	{"a prefix that keeps its former name", "executor/internal/pause/board.go", "{statekey.PausedIDs, statekey.PausedPrefixes}", "{statekey.PausedIDs}", steering},
	{"a prefix that a restart forgets", "executor/internal/pause/board.go", "c.PausePrefix(prefix, true)", "c.PausePrefix(prefix, false)", steering},
	{"a prefix whose jobs wait for a caller who has gone", "executor/internal/pause/queue.go", "context.WithoutCancel(ctx)", "ctx", steering},
	{"a prefix that blocks its turn", "executor/internal/pause/queue.go", "			q.Admission.StepAside(c, id)\n		})", "		})", steering},
	{"let an unlock wake a paused id", "shard/agenda.go", "c.held[id]&^why) }", "c.held[id]&^(why|HoldPause)) }", steering},
	{"call a handler for what is deleted", "executor/internal/work/worker.go", "if w.heed() || w", "if w.heed() && w.crew == nil || w", steering},
	{"call a handler for what was paused meanwhile", "executor/internal/work/worker.go", "if w.heed() || w.paused() {", "if w.heed() {", gate{"./executor", "^TestPauseMeansWhatHasNoHandlerYet$"}},
	{"forget a due time with the payload that it came from", "shard/remove.go", "	c.writeState(l) // the due time may have come from one that is gone\n", "", removed},
	{"write about a job that is over", "shard/written.go", "		c.unwrite(p)\n", "", unwritten},
	{"lose the state of a rest that moves", "shard/written.go", "c.stateOf[at], c.change.States[at] = c.stateOf[last], c.change", "c.change.States[at] = c.change", unwritten},
	{"what dies during a sweep is not timed", "executor/internal/dead/retention.go", "			if l.c.Age > 0 && look == nil {\n", "				if false {\n", retained},
	{"positions that narrow nothing", "executor/internal/pick/pick.go", "(found || s.Of == nil) &&", "(found || s.Of == nil || true) &&", gate{"./executor", "^TestSelectionAtPositions$"}},
	{"a total without what has expired", "executor/inspect/stats.go", "t.Expired+q.Expired", "t.Expired", gate{"./executor/inspect", "^TestTotalHasAllFigures$"}},
	{"mean what was accepted after the call", "executor/internal/act/act.go", "s.Of, o.Log.Stats().Next\n", "s.Of, 0\n", meant},
	{"keep the dead", "executor/internal/dead/retention.go", "tooOld := died <= ", "tooOld := false && died <= ", retained},
	{"count the dead that are on their way", "journal/morgue.go", "m.c.dead[queue] - m.c.dying[queue]", "m.c.dead[queue]", retained},
	{"requeue all in one commit", "executor/internal/dead/letters.go", "bytesAtOnce = 4 << 20", "bytesAtOnce = 1 << 40", requeues},
	{"requeue on when the caller has gone", "executor/internal/dead/letters.go", "cmp.Or(err, context.Cause(ctx)); err", "err; err", requeues},
	{"what a job knows is one of its payloads", "journal/internal/block/reading.go", "if kept = append(kept, ref); !state {", "if kept = append(kept, ref); len(kept) > 0 {", restored},
	{"what performs now takes the retries", "executor/internal/act/act.go", "o.hasten(ctx, q, s, name == \"run\")", "o.hasten(ctx, q, s, true)", actions},
	{"a hook for the last retry hears of what lives on", "executor/handle.go", "job.Payloads = job.Payloads[:1:1]", "_ = job", exhausted},
	{"a fatal error that ends nothing", "executor/internal/work/settle.go", "		w.crew.End(w.judge.Fatal)\n", "", fatals},
	{"OnFatal before the others have ended", "executor/internal/life/life.go", "	_ = l.Stop(ctx) // says it to those who ask\n", "	_ = ctx\n", fatals},
	{"halve a batch that ends the executor", "executor/batch.go", "names = each || wish.Fatal != nil ||", "names = each ||", fatals},
	{"the dead are deleted in silence", "executor/internal/dead/letters.go", "		deleted.Add(uint64(len(some.positions)))\n", "", actions},
	{"what is deleted is locked for ever", "executor/internal/dead/letters.go", "l.c.Keys.DropAll(some.positions)", "l.c.Keys.DropAll(nil)", worlds("locks,operators")},
	{"each payload that is done leaves a lock", "executor/internal/keylock/condition.go", "		c.leaveToJobs(change.Ended)\n", "", exhumes},
	{"overtake what is put back late", "executor/internal/dead/letters.go", "		case !errors.Is(err, journal.ErrUnknown):\n", "		default:\n", lateDead},
	{"count what lives among the dead", "journal/commit.go", "range b.restored { // they live", "range b.restored[:0] { // they live", lateDead},
	{"leave the dead that are on their way", "executor/internal/dead/letters.go", "	if err = l.c.Log.Settled(ctx); err != nil {\n		return 0, cmp.Or", "	if err = l.c.Log.Flush(ctx); err != nil && !errors.Is(err, journal.ErrFull) {\n		return 0, cmp.Or", lateDead},
	{"the oldest first by default", "executor/config.go", "cmp.Or(c.Scheduler, Fair())", "cmp.Or(c.Scheduler, OldestFirst())", lowkiq},
	{"a list of fresh jobs with others", "executor/internal/pick/pick.go", "v.Retry < 0 && slices", "v.Retry < 1 && slices", freshes},
	{"no fresh jobs where some have failed", "executor/internal/pick/pick.go", "return c.Jobs > c.Retrying", "return c.Retrying == 0", freshes},
	{"wait for a turn at the morgue when the caller has gone", "executor/internal/dead/turn.go", "	case <-ctx.Done():\n", "	case <-make(chan int):\n", exhumes},
	{"take a place in the lanes from what is back", "executor/internal/dead/turn.go", "alone := l.turns.Load() == *some.since", "alone := true", exhumes},
	{"end a turn whose outcome is open", "executor/internal/dead/turn.go", "			defer l.endTurn()\n			l.learn(some, late)\n", "			l.learn(some, late)\n		}()\n		func() {\n			l.endTurn()\n", lateDead},
	{"put each back in a commit of its own", "executor/internal/dead/letters.go", "len(some.positions) == atOnce ||", "len(some.positions) == 1 ||", exhumes},
	{"wait for a disk that hangs", "journal/ticket.go", "	case <-done(ctx):\n", "	case <-make(chan int):\n", hangs},
	{"settle without a mark", "journal/record.go", "		h.open.MarkEnded(r.Position())\n", "		h.open.MarkEnded(over[0].Position()); _ = r\n", model},
	{"create under the final name", "journal/internal/store/bolt_open.go", `tmp := directory.NewName`, `tmp := directory.FileName`, power},
	{"open what another one has open", "journal/internal/directory/lockdir.go", "if err = lockFile(l.F); err == nil {", "if _ = lockFile; err == nil {", opening},
	{"leave the lock to a child that begins", "journal/internal/directory/lockdir.go", "errors.Join(UnlockFile(l.F), l.F.Close(), ", "errors.Join(l.F.Close(), ", unlocking},
	{"look seldom whether the owner has gone", "journal/open.go", "lockPoll = 5 * time.Millisecond", "lockPoll = time.Second", opening},
	{"wait for the first owner only", "journal/open.go", "locked.PID != 0 && *locked != told", "false", opening},
	{"begin before saying what was recovered", "executor/internal/life/life.go", "	l.logStart()\n	unreported, unrecorded, err := l.startWorkers()\n", "	unreported, unrecorded, err := l.startWorkers()\n	l.logStart()\n", summaries},
	{"keep quiet about burials that were left out", "executor/internal/life/stop.go", "said.LeftOut += q.Lines.Unsaid()", "_ = q", summaries},
	{"keep quiet about handlers that were left behind", "executor/internal/tally/life.go", "if l.LeftOut > 0 || l.Stuck != nil || l.Err != nil {", "if l.LeftOut > 0 || l.Err != nil {", summaries},
	{"compute some keys too late", "executor/internal/keylock/condition.go", "	_, err3 := c.Unlock.of(id, value)\n	keys, err4", "	var err3 error\n	keys, err4", badKeys},
	{"take a TTL that ends nothing", "executor/locking.go", "c.TTL != 0, locks,", "c.TTL != 0, true,", badKeys},
	{"follow a link", "journal/internal/directory/directory.go", "	case !before.Mode().IsRegular():\n", "	case before.Mode().IsDir():\n", places},
	{"remove another's recorder", "journal/internal/crash/recorder.go", "p.Has(RunningName, ours) {", "ours != nil {", places},
	{"die with a file that was cut", "journal/internal/crash/recorder.go", "	defer r.survive(debug.SetPanicOnFault(true))\n	word", "	word", places},
	{"unlock although told not to", "journal/log.go", "func() error { return nil })\n}", "l.unlock)\n}", opening},

	{"accept follow-ups in a commit of their own", "executor/internal/work/settle.go", "		q.Log.Record(&c.Change)\n", "		f := c.FollowUps\n		c.FollowUps = nil\n		q.Log.Record(&c.Change)\n		_ = q.Log.Flush(q.Crew.Handlers)\n		_, _ = q.Log.Post(q.Crew.Handlers, f, c.With)\n", chains},
	{"follow-ups that forget their trace", "executor/internal/followup/followup.go", "	if len(inherited) > 0 && (own", "	if len(inherited) < 0 && (own", chains},
	{"keep what was staged in a batch that is halved", "executor/internal/halve/halve.go", "	if r.Calls > r.First { // what", "	if false { // what", chains},
	{"keep what was staged in a call before next was called again", "executor/middleware.go", "		again.attempt.Again(again.call)\n", "		again.attempt.Begin(again.call)\n", chains},
	{"keep what a batch has staged before next was called again", "executor/batch.go", "	case b.Calls > b.First: // a middleware", "	case false: // a middleware", chains},
	{"a full disk refuses to delete the dead", "executor/internal/dead/letters.go", "err != nil && !errors.Is(err, journal.ErrFull) {\n			return err", "err != nil {\n			return err", buriedFull},
	{"a nil wish drops the payload", "executor/outcome.go", "switch e, _ := errors.AsType[*WishError](err); {\n	case e == nil:", "switch e, ok := errors.AsType[*WishError](err); {\n	case !ok:", nilWishes},
	{"what was done before Goexit is lost with it", "executor/batch.go", "		b.Settle(ErrHandlerExited)\n", "", exits},
	{"jobs of a batch are not concluded after Goexit", "executor/internal/work/worker.go", "		w.admission.engaged(func() { w.finish(w.rest) })\n", "		w.finish(w.rest)\n", exits},
	{"the job that has ended the goroutine takes its batch along", "executor/internal/work/worker.go", "	case w.admission.asking: // for one job, which has failed\n		w.engage()\n", "", exits},
	{"a discard that is not concluded", "executor/internal/verdict/judge.go", "failed := admit.ClaimOf(it.Claim).Conclude(j.Handlers, v); failed", "failed := error(nil); failed", gate{"./executor", "^TestLockable_S04"}},
	{"stage when the handler has returned", "executor/internal/attempt/attempt.go", "s, m.staged = m.staged, nothingMore", "s = m.staged", chains},
	{"accept at the time of the call", "executor/followup.go", "t.q.Fill(&f.Entry, &it, followup.Unstamped)", "t.q.Fill(&f.Entry, &it, t.q.Crew.Now())", chains},
	{"a middleware is called for what was staged", "executor/internal/submit/option.go", "return o.staged", "return false", gate{"./executor/cluster", "^TestOneProgram$"}},
	{"follow-ups lock nothing", "executor/internal/followup/followup.go", "		f.Keys = keys[0]\n", "		_ = keys\n", chains},
	{"follow-ups are not counted", "executor/internal/followup/followup.go", "			b.Exceed(shard.Announced(&f.Entry))\n", "			_ = b\n", chains},
	{"follow-ups of a run that was taken apart wait for its end", "shard/ends.go", "	c.takeStaged(it, n)\n", "	if !it.recalled.Load() {\n		c.takeStaged(it, n)\n	}\n", chains},
	{"refuse follow-ups on a full disk", "journal/fulldisk.go", "			if b.stays(off) {\n", "			if false {\n", followed},
	{"deliver a follow-up before what waits for room in its block", "journal/fulldisk.go", "p := c.disk.behind(b, route, off); p != nil", "p := c.disk.behind(b, route, off); false", behind},
	{"deliver a follow-up before what has waited for room", "journal/record.go", "p != nil {", "false {", behind},
	{"have a follow-up twice", "journal/fulldisk.go", "				chain.End(p.written, &b.Writer)\n", "", behind},
	{"forget a follow-up that is written again", "journal/fulldisk.go", "+len(b.recorded)+", "+", behind},
	{"write a result without its follow-ups", "journal/remainder.go", " || b.stays(uint32(off)):", ":", followed},

	{"keys are not written", "executor/internal/submit/once.go", "	if c.Key != \"\" {\n		sets", "	if c.Key == \"-\" {\n		sets", kills},
	{"marks are not written", "executor/internal/submit/once.go", "range c.Sources {\n\t\tsets", "range c.Sources[:0] {\n\t\tsets", kills},

	// What is damaged is noticed.
	{"skip the checksum", "journal/internal/format/header.go", "; got != want {\n		return Header{}, DamagedBlock(seq, \"checksum", "; got != want && false {\n		return Header{}, DamagedBlock(seq, \"checksum", flips},
	{"accept an older value beside the log", "journal/internal/store/bolt_sides.go", "case t.Version > 1 && got.Hash != want.Hash:", "case false:", stale},
	{"return state unchecked", "journal/internal/format/bucket.go", " != sealOf(name, key, v[:n+8]) {", " != sealOf(name, key, v[:n+8]) && false {", state},
	{"leave what is deleted in the sum", "journal/internal/store/bolt_sides.go", "			total.Remove(k, old)\n", "", state},
	{"salvage without a word", "journal/internal/rest/wreck.go", "		if w.txid != 0 && !w.isLast(t) {", "		if false {", gate{"./journal", "^TestSalvageOfAnOlderCommit$"}},
	{"keep what a check refuses", "journal/internal/rest/salvage_side.go", "		if err := check(s); err != nil {", "		if err := check(s); err != nil && false {", wrecks},
	{"salvage what no executor reads", "executor/command/repair.go", "journal.Salvage(dir, to, statekey.NewCheck())", "journal.Salvage(dir, to)", refusals},
	{"call a journal sound that no executor opens", "executor/command/repair.go", "		if err = check(s); err != nil {", "		if err = check(s); err != nil && false {", refusals},
	{"reserve a value twice", "executor/internal/statekey/statekey.go", "	if c.taken[byToken] || c.taken[byValue] {", "	if false {", refusals},
	{"give a queue its former name", "journal/internal/rest/salvage_side.go", "		if order > 0 {", "		if order < 0 {", wrecks},
	{"let values lie on top of each other", "journal/internal/pages/pages.go", "; *r < 0 {", "; *r < 0 && false {", forgeries},
	{"accept a log without its end", "journal/internal/block/survey.go", "case s.Newest != t.Seq:", "case false:", flips},
	{"accept a log without its beginning", "journal/internal/block/survey.go", "case s.oldest != t.Oldest:", "case false:", flips},
	{"accept an older page", "journal/internal/store/bolt_open.go", "if t.Tx != uint64(tx.ID()) {", "if false {", pages},

	// The log keeps its accounts.
	{"carry what has ended", "journal/internal/block/chain.go", "if !old.Ended(off) {", "if off > 0 {", model},
	{"trim what still lives", "journal/internal/block/chain.go", "carry := old.Live > 0\n", "carry := old.Live > 1\n", model},
	{"replay carried entries where they stand", "journal/internal/block/reading.go", "	if !sorted {\n", "	if !sorted && len(pages) == 0 {\n", model},
	{"share an epoch", "journal/open.go", "	t.Epoch++\n", "", contract},
	{"count a crash once only", "journal/internal/crash/suspicion.go", "s.Deaths, s.Age, s.epoch = s.Deaths+1,", "s.Deaths, s.Age, s.epoch = 1,", recorder},
	{"say that held jobs run at once", "executor/internal/suspect/suspect.go", "s.ID == id && (s.Held() || s.GivenUp())", "s.ID == id && s.GivenUp()", summaries},
	{"count only suspects as running again", "executor/internal/suspect/suspect.go", "atOnce := death.WasRunning(ref.Position())", "atOnce := ok && death.WasRunning(ref.Position())", summaries},
	{"hold what ran at one death", "journal/internal/crash/suspicion.go", "s.Deaths >= 2 && !s.Guilty()", "s.Deaths >= 1 && !s.Guilty()", guilt},
	{"condemn the first payload, whichever it was", "shard/core.go", "Of: []journal.Position{at}", "Of: []journal.Position{l.upNext().Ref.Position()}", gate{"./shard", "^TestCondemned"}},
	{"let the heir of a condemned state run", "shard/dead.go", "	if c.exhume(id, v) {", "	if c.exhume(id, v) && false {", heirs},
	{"let the heir of a halted state run", "shard/supersede.go", "		if l.halted && l.past().crashed {", "		if false {", heirs},
	{"bury without the guilt", "shard/dead.go", ", Crashed: it.Outcome.Crashed}", "}", suspects},
	{"take what is not told for innocence", "journal/internal/format/buried.go", "	} else if !b.Untold {", "	} else {", told},
	{"export no guilt of what is halted", "executor/command/export.go", " = journal.KindState, *l.Retry, l.Halted, l.Failed, l.Crashed != nil && *l.Crashed", " = journal.KindState, *l.Retry, l.Halted, l.Failed, false", told},
	{"convict without a proof", "journal/internal/crash/suspicion.go", "max(float64(min(r.began, longestHold))/float64(max(r.age, former)), leastOdds)", "max(0*float64(max(r.age, former)), beyondDoubt)", guilt},
	{"suspect who was held", "journal/internal/crash/suspicion.go", "if len(known) == 0 && d.lived", "if len(known) > len(before) && d.lived", guilt},
	{"let causes acquit each other", "journal/internal/crash/suspicion.go", "_, was := before[p]; return !was", "_, was := before[p]; return was || !was", guilt},
	{"forget what speaks against a state that was superseded at the start", "shard/core.go", "	if to != at {", "	if to == 0 {", suspects},
	{"forget what speaks against a payload that was merged at the start", "shard/load.go", "		l.cores[i].loaded()\n", "", gate{"./shard", "^TestSuccessorOf"}},
	{"suspect jobs of a restart", "journal/internal/crash/death.go", "booted != Boot() && booted != 0", "booted != Boot() && booted == 1", deaths},
	{"lock again what was unlocked since", "journal/fulldisk.go", "		late.Key = nil\n", "		_ = late\n", keys},
	{"leave out what ended while its block had no room", "journal/remainder.go", "		case off >= b.carried,", "		case b.Block.Ended(uint32(off)):\n		case off >= b.carried,", pieces},
	{"delete a block before its ends are written", "journal/remainder.go", "d.Carried || d.Marks > to.marks && d.Entries > to.entries", "d.Carried", pieces},
	{"keep the state of what was refused", "journal/open_block.go", "if c.Owner == 0 {\n			kept", "if c.Owner >= 0 {\n			kept", keys},

	// What has left memory comes back as it was.
	{"trust what is read back", "journal/internal/block/cold.go", "; got != c.sums[i] {", "; got != c.sums[i] && false {", memory},
	{"a window that is one chunk off", "journal/internal/block/cold.go", "w := &window{cold: c, from: first * size, data: data}", "w := &window{cold: c, from: (first + 1) * size, data: data}", memory},
	{"carry another block", "journal/internal/block/cold.go", "	return c.pagedIn[b]\n", "	for _, data := range c.pagedIn {\n		return data\n	}\n	return c.pagedIn[b]\n", memory},
	{"thaw too little", "journal/internal/block/cold.go", "			list = append(list, b)\n			budget -= b.Bytes\n", "			list = append(list[:0], b)\n			budget -= b.Bytes\n", memory},
	{"let go of what is in pieces", "journal/internal/block/cold.go", " && b.parts == nil {", " {", memory},
	{"keep everything in memory", "journal/internal/block/cold.go", "c.Held > c.budget && ", "c.Held > c.budget<<40 && ", memory},
	{"look where a block was", "journal/internal/block/block.go", "		if again == h {\n			return rest, err", "		if again == h || err != nil {\n			return rest, err", beside},
	{"go on after what can't be read", "journal/internal/block/cold.go", "	r.failed(err)\n", "", memory},
	{"record a decision on nothing", "shard/written.go", "if c.broken() || c.change", "if c.change", broken},
	{"lose the worker of a broken shard", "shard/shard.go", "			w.Return() // an entry", "			// an entry", broken},
	{"run a job that can't be read", "executor/job.go", "			return &verdict.Unread{Err: err}\n", "\t\t\t_ = verdict.Unread{}\n\t\t\tbreak\n", unread},

	// Order.
	{"equal scores, last one first", "shard/lane.go", "p.Ref.Position() < q.Ref.Position())", "p.Ref.Position() > q.Ref.Position())", random},
	{"run an id twice at a time", "shard/hands.go", "	l.more().item = it\n", "	l.more()\n", random},
	{"a retry lets later payloads pass", "shard/hands.go", "if it.held || c.cfg.Block &&", "if it.held && c.cfg.Block &&", scripts},
	{"one retry too many", "shard/ends.go", "if !c.cfg.Exhausts(it) {", "if !c.cfg.Exhausts(it) || count == c.cfg.MaxRetries {", scripts},
	{"one run too many", "shard/hands.go", "len(c.runs)-c.exempt >= c.cfg.Concurrency", "len(c.runs)-c.exempt > c.cfg.Concurrency", scripts},
	{"merge different payloads", "shard/bag.go", "&& bytes.Equal(e.Payload, data)", "&& bytes.Equal(e.Payload[:0], data[:0])", random},
	{"forget a retry at replay", "shard/load.go", "	c.setRetry(l, e.Retry)\n", "", scripts},
	{"tell of an end that is not on disk", "executor/internal/await/call.go", "	if c.Async {\n", "	if c.Async || true {\n", awaits},
	{"take what is not on disk for done", "executor/internal/await/call.go", "	if held, err := c.X.Log.Arrived(c.Context, c.At); err != nil || held {\n", "	if err := c.X.Log.Flush(c.Context); err != nil && !errors.Is(err, journal.ErrFull) {\n", awaits},
	{"take what waits for room for done", "journal/head.go", "		if h.disk.holds(p) {\n", "		if false {\n", awaits},
	{"take what is replaced just now for done", "executor/internal/await/call.go", "		at := c.Book.At(c.Waiter)\n", "		at := c.At\n", awaits},
	{"wait for oneself", "executor/internal/admit/graph.go", "	for _, by := range c.From {\n", "	for _, by := range c.From[:0] {\n", awaits},
	{"miss the end of a payload that is merged", "executor/internal/await/await.go", "range c.Merged {", "range c.Merged[:0] {", awaits},
	{"let two in that find none", "executor/internal/submit/once.go", "c.stateKey, c.Alone)", "c.stateKey)", awaits},
	{"put off for ever by fresh payloads", "shard/timing.go", "return min(max(at, later(due, c.cfg.Quiet)), limit)", "return max(at, later(due, c.cfg.Quiet))", scripts},
	{"a limit lost with its payload", "shard/load.go", "		c.bound(l, int64(e.Failed[1]))\n", "", scripts},
	{"a rest that a restart forgets", "shard/load.go", "			c.restOn(l)\n", "", scripts},
	{"a due time that is moved while it runs", "shard/timing.go", "		l.due = c.moved(l.due, c.limitOf(l), e.Due)\n", "", scripts},
	{"a run that comes to nothing forgets what came", "shard/gather.go", "		it.undone, it.moved = it.undone+to-due, true\n", "", scripts},
	{"a run in hand loses what a gone payload moved", "shard/written.go", "(it.moved || !l.known().pinned() && (c.moves()", "(!l.known().pinned() && (it.moved || c.moves()", scripts},
	{"a payload from the morgue disturbs the run in hand", "shard/gather.go", "		c.writeStateOut(l, it) // a replay has it in its old place\n", "", scripts},
	{"a payload from the morgue put off once more", "shard/ends.go", "c.open(l, due, e.Restored)", "c.open(l, due, false)", scripts},
	{"a retry put off by a second crash", "shard/load.go", "			c.writeState(l)\n		case l.unpinned", "		case l.unpinned", scripts},
	{"the rest of a job put off by a restart", "shard/lane.go", "return b != nil && b.due <= now", "return b != nil", scripts},
	{"a due time lost with its payload", "shard/gather.go", "	c.pinDueOut(l, ended.Position())\n", "", scripts},
	{"a place in the morgue, and among the live", "shard/dead.go", "c.change.Buried = append(c.change.Buried, b)", "_ = append(c.change.Buried, b)", random},
	{"bury the newest", "shard/ends.go", "c.bury(now, it, judged[:1], out.Error)\n		if rest := judged[1:]; len(rest) > 0 {", "c.bury(now, it, judged[len(judged)-1:], out.Error)\n		if rest := judged[:len(judged)-1]; len(rest) > 0 {", scripts},

	// Each event is judged by itself.
	{"run again what was done before an event that failed", "shard/ends.go", "	if it.Outcome.Verdict != VerdictDone {\n		c.endDone(it, n)\n", "	if it.Outcome.Verdict != VerdictDone {\n		it.settled = n\n", kills},
	{"judge all events for one", "shard/ends.go", "return it.Payloads[it.settled : n+1], it.Payloads[n+1:]", "return it.Payloads[it.settled:], nil", scripts},
	{"blame an older event", "shard/core.go", "cfg.BatchSize, cfg.Block = 1, true", "cfg.BatchSize = 1", scripts},
	{"hold what was before a slow event", "shard/ends.go", "			over, hand = it.before, it\n", "			over = it.before\n", events},
	{"begin an event that was called back", "shard/run.go", "	if it.recalled.Load() {\n		return false\n	}\n", "", scripts},
	{"say that an event is done, and not which", "executor/internal/work/worker.go", "	if w.more = it.Pass(); w.more && w.queue.Events.Watched() {\n", "	w.more = it.Pass()\n	it.Outcome.Done = 0\n	if w.more && w.queue.Events.Watched() {\n", events},
	{"halve a batch once", "executor/internal/halve/halve.go", "	r.halvings--\n", "	r.halvings = 0\n", events},
	{"lose the payloads that are done", "shard/dead.go", "	c.endAll(payloads)\n", "", scripts},

	// What can run, runs.
	{"a timer that is not set again", "shard/shard.go", "	case wakeUp:\n		s.timerAt = math.MaxInt64\n", "	case wakeUp:\n", shells},
	{"a timer for a run that is over", "shard/shard.go", " && !(idle && s.forRun)", "", shells},
	{"a slack after a short pause", "shard/agenda.go", "due <= c.prompt || ", "", slacks},
	{"two slacks", "shard/agenda.go", "/ slack * slack\n", "/ slack * slack + slack\n", slacks},
	{"a slack for what a restart finds", "executor/internal/work/work.go", "		cores[i].Tick(q.Crew.Now())\n", "", restarted},
	{"wait for a clock that went back", "shard/clock.go", "case l.due <= before ||", "case", clocks},
	{"what came back waits for a clock", "shard/agenda.go", "e.Restored || ", "", clocks},
	{"a turn that a clock has pinned", "shard/clock.go", "				l.unpinned = true\n", "", clocks},
	{"a run that a clock leaves behind", "shard/clock.go", "				c.writeStateOut(l, it)\n", "				_ = it\n", clocks},
	{"score by a clock that was set back", "journal/internal/format/floor.go", "	if e.Score = f.score; ScoreOf(*now) < f.score {\n		return\n	}\n", "", scores},
	{"score by a clock that is behind what waits", "executor/internal/work/work.go", "Raise(&q.Scores, newest)", "Raise(&q.Scores, 0*newest)", scores},
	{"tell that what a person ends runs again", "executor/internal/tell/run.go", "	r := it.RemovalOf(p)\n	if r == nil {\n", "	r := it.RemovalOf(p)\n	if r != nil {\n", feeds},
	{"tell that what was not started was interrupted", "executor/internal/tell/run.go", " && !started {", " && !started && false {", feeds},
	{"forget the failure of what is killed", "shard/dead.go", "r.Failed && it.LastError != \"\"", "r.Failed && it.LastError == \"\"", gate{"./executor", "^TestKillFailedKeeps"}},
	{"score by the time of the call alone", "journal/internal/format/floor.go", "f.Clock == nil || e.Score >= f.score {", "f.Clock == nil || e.Score >= 0*f.score {", scores},
	{"a follow-up overtakes what was accepted before", "journal/record.go", "		off := h.admit(e, &now)\n", "		e.Floor = nil\n		off := h.admit(e, &now)\n", scores},
	{"take any score for a time", "executor/internal/work/work.go", "s == journal.ScoreOf(e.Due) || s", "s > 0 || s", scores},
	{"a pause that is lost with the clock", "shard/clock.go", "l.retry() >= 0 && l.item()", "l.retry() > 9 && l.item()", clocks},
	{"a rest that cuts a moment short", "shard/clock.go", "		if p.own <= before {\n", "		if true {\n", clocks},
	{"a quiet time that the clock skips", "shard/clock.go", "	return max(end, later(before+step, length))\n", "	return end\n", clocks},
	{"a rest that a crash makes longer", "shard/timing.go", "at.until <= min(before, before+step)", "at.until <= before", clocks},
	{"a timer that goes by the clock of before", "shard/clock.go", "		s.timerAt = shifted(s.timerAt, int64(step)) // it can't be set\n", "", clocks},
	{"a state about what a newer one ends", "shard/written.go", "	if c.supersedes() && l.n() > 0 {\n", "	if false {\n", clocks},
	{"hold what waits behind a slow job", "shard/ends.go", "; next > now {", "; next > 0 {", shells},
	{"lose a worker that found nothing", "shard/shard.go", "		if !s.assign(now, m) {\n			m.Return()\n		}\n", "		s.assign(now, m)\n", shells},
	{"settle when all have ended", "shard/ends.go", "		if it := &r.Items[i]; it.state.Load() == started && it.Outcome", "		if it := &r.Items[i]; it.state.Load() == revoked && it.Outcome", crowds},
	{"a queue that had nothing to do claims time", "executor/internal/dispatch/dispatcher.go", "		q.used = max(q.used, q.tier.floor)\n", "", shares},
	{"shares without weights", "executor/internal/dispatch/queue.go", " / q.weight", "", shares},
	{"a pace with no time for what is late", "executor/internal/limit/limit.go", "(per + late +", "(per +", pacing},
	{"a pace that counts from a late start", "executor/internal/limit/key.go", "k.next = max(k.next, now) + k.limit.law.interval", "k.next = now + k.limit.law.interval", pacing},
	{"a job ahead of one that was called", "executor/internal/limit/key.go", "		if w.Turn < number {", "		if w.Turn > number {", pacing},
	{"a queue at a limit without its turn", "executor/internal/limit/key.go", "	k.lines = append(slices.Delete(k.lines, line, line+1), l)\n", "", pacing},
	{"a turn that never ends", "executor/internal/quota/quota.go", "uint64(now/turn)))", "uint64(0)))", several},
	{"places that are kept for no job of several keys", "executor/internal/limit/table.go", "w.turns < mostTurns ||", "true ||", gate{"./executor/internal/limit", "^Test(AJobOfSeveral|BusyKeys)"}},
	{"places that outlive the number of their job", "executor/internal/limit/table.go", "				t.settle(now, t.stepOut(w)...)\n", "				delete(t.asides, w)\n", gate{"./executor/internal/limit", "^TestAPlaceIsForgotten"}},
	{"times of a rate that are kept for who waits for a permit", "executor/internal/limit/table.go", "place{w, now + now - w.since, start}", "place{w, now + now - w.since, true}", gate{"./executor/internal/limit", "^TestAPlaceInARate"}},
	{"a kept slot that a retry loses while it waits", "executor/internal/slots/condition.go", "v == shard.VerdictUnstarted && h.kept", "false && h.kept", gate{"./executor", "^TestLaralocker_A03"}},
	{"a job that is parked where it stands in no line", "executor/internal/admit/claim.go", " || c.again != c.list.again.Load()", "", gate{"./executor", "^TestDeadlockThatCloses"}},
	{"a rest that goes with what a person removes", "shard/remove.go", "			c.writeRest(now, id, rest{until: until})\n", "", gate{"./shard", "^TestRemovedPayloadsLeaveTheRest"}},
	{"names of a queue that may not be seen, with all else", "executor/dashboard/jobpage.go", "		return of // its name", "		_ = of // its name", gate{"./executor/dashboard", "^TestWhyNames"}},
	{"keys of a job that was paused before it ran", "executor/internal/work/hand.go", "		admit.ClaimOf(it.Claim).Withdraw() // or a dead letter would keep it\n", "", gate{"./executor", "^TestPauseBeforeTheHandler"}},
	{"permits of several keys that are asked for one by one", "executor/internal/limit/table.go", "k.waiting > 0 && k.running == 0 &&", "k.waiting < 0 &&", several},
	{"starts of several keys that all ask for at the same moment", "executor/internal/limit/part.go", "p.retry += rand.Int64N(int64(quota.Grace))", "_ = rand.Int64N", gate{"./executor/internal/limit", "^TestStartsOfTheSameKeys$"}},
	{"permits that nobody uses beyond the turn", "executor/internal/limit/part.go", "max(min(p.anew, p.asked+askAgain), p.failed)", "p.Turn", several},
	{"permits that nobody else wanted at first and that wait for others", "executor/internal/limit/part.go", "max(min(p.anew, p.asked+askAgain), p.failed)", "max(p.anew, p.failed)", gate{"./executor/internal/limit", "^TestAPermitThatWaitsForAnother$"}},
	{"a limit that is faster stands still", "executor/internal/quota/quota.go", "\tr.Next = min(r.Next, now+ahead+a.Ahead+a.Interval)\n", "", sharing},
	{"a start for who has no permit", "executor/internal/quota/quota.go", "if a.Concurrent > 0 { // a start", "if false { // a start", several},
	{"permits that others have", "executor/internal/quota/quota.go", "		free -= s.Permits\n", "", sharing},
	{"permits that are not given back to others", "executor/internal/limit/part.go", "p.permits > p.share {", "p.permits > p.share && false {", keeping},
	{"permits of a process that was taken for dead", "executor/internal/limit/part.go", "p.permits, p.share, p.starts, p.known, p.begun = 0, 0, nil, false, true", "p.begun = true", keeping},
	{"a start that is used after its time", "executor/internal/limit/part.go", "s.from <= now && now <= s.until", "s.from <= now", keeping},
	{"a burst after each start", "executor/internal/limit/limit.go", "next: l.born + l.law.saved", "next: l.born", pacing},
	{"keys that are not forgotten", "executor/internal/limit/table.go", "			delete(k.limit.keys, k.name)\n", "			_ = k\n", pacing},
	{"throttle every limit", "executor/limit.go", "		return l.limit\n", "		return nil\n", limits},
	{"a job stands in two lines", "executor/internal/admit/claim.go", "			other.Aside(c.By, false)\n", "			_ = other\n", turns},
	{"priority without waiting for the shard", "executor/internal/dispatch/dispatcher.go", "d.policy.fair && inUse > 1", "d.policy.fair && inUse > 9", tunings},
	{"any queue before one of a higher priority", "executor/internal/dispatch/policy.go", "mine.tier.priority > its.tier.priority", "mine.tier.priority < its.tier.priority", tunings},
	{"wake nothing when a limit goes up", "executor/internal/dispatch/queue.go", "			grants[seat] = c.shard\n", "			_ = seat\n", tunings},
	{"run more when a limit comes down", "executor/internal/dispatch/queue.go", "	if q.running--; q.full() {\n		return // the limit has come down\n	}\n", "	q.running--\n", tunings},
	{"take the id of another process", "executor/splitter.go", "err == nil && owner != s.Self", "err == nil && owner < 0", owners},
	{"one more than MaxConcurrent", "executor/internal/dispatch/queue.go", "q.running >= q.limit", "q.running > q.limit", shares},
	{"forget what the limit held back", "executor/internal/dispatch/queue.go", "		d.ready = append(d.ready, q.held...)\n", "", shares},
	{"one worker for two shards", "executor/internal/dispatch/queue.go", "	d.idle = d.idle[:last]\n", "", lowkiq},
	{"a shard that is never granted", "executor/internal/dispatch/dispatcher.go", "	picked.waiting = false\n", "", lowkiq},

	// What stands around handlers, and what is told of them.
	{"the queue's middlewares outermost", "executor/handle.go", "layersOf(x.cfg.Middleware, t.cfg.Middleware)", "layersOf(t.cfg.Middleware, x.cfg.Middleware)", layered},
	{"leave a handler behind that a middleware left behind", "executor/internal/nest/nest.go", "	defer func() { turn <- struct{}{} }()", "	defer func() {\n		select {\n		case turn <- struct{}{}:\n		default:\n		}\n	}()", layered},
	{"let two calls of next in", "executor/internal/nest/nest.go", "make(chan struct{}, 1)", "make(chan struct{}, 2)", layered},
	{"let next in when the middleware is over", "executor/internal/nest/nest.go", "{ turn <- struct{}{} }", "{ turn <- struct{}{}; <-turn }", layered},
	{"accept twice for one call", "executor/middleware.go", "	if a.tried && (a.err == nil || guard.Is(a.err, ErrUnknown)) {\n		return a.err\n	}\n", "", layered},
	{"believe a middleware that says it was accepted", "executor/middleware.go", "	case a.tried:\n		return a.o, fmt", "	case a.tried:\n		return a.o, nil\n	case false:\n		return a.o, fmt", layered},
	{"tell what was accepted when it has run", "executor/internal/roster/roster.go", "	if to.Queue.Events.Watched() {\n		to.Queue.Events.Accepted(d)\n	}\n	to.Shard.Deliver(d)\n", "	copied := *d\n	to.Shard.Deliver(d)\n	if to.Queue.Events.Watched() {\n		to.Queue.Events.Accepted(&copied)\n	}\n", feeds},
	{"keep quiet about events that were overwritten", "executor/internal/tell/reader.go", "Events: f.first - min(r.next, f.first), ", "", rings},
	{"keep quiet about events that were not counted", "executor/internal/tell/reader.go", "since > r.next && ", "since > r.next && false && ", rings},
	{"keep the ring for ever", "executor/internal/tell/feed.go", "	if len(f.readers) == 0 && f.next >= f.until {", "	if false {", rings},
	{"take the token of another life", "executor/internal/tell/reader.go", "	case life != f.life:", "	case life == 0:", feeds},
	{"an event for each report", "executor/internal/attempt/attempt.go", " && now.Sub(m.told) >= reported", "", signs},
	{"hear a handler that has returned", "executor/internal/attempt/attempt.go", "	if m.ended != nil {\n		return\n	}\n", "", signs},
	{"go without a heartbeat", "executor/internal/attempt/watchdog.go", "		a.End(ErrNoHeartbeat)\n", "		_ = a\n", signs},
	{"a heartbeat that does not count", "executor/internal/attempt/watchdog.go", "	if heard.Before(h.since) {", "	if true {", signs},

	// Handlers.
	{"a panic is a success", "executor/internal/work/worker.go", "	if err != nil {\n		w.errs = slices.Repeat([]error{err}, len(w.batch))\n	}\n	if s", "	_ = err\n	if s", abuse},
	{"a worker lost to Goexit", "executor/internal/work/worker.go", "			w.crew.working.Go(w.main)\n", "", abuse},
	{"a stop spends a retry", "executor/internal/verdict/judge.go", "if overdue == nil && j.interrupted(it, err) {", "if false {", stops},
	{"a time limit for all jobs together", "executor/internal/attempt/watchdog.go", "	h.number++\n", "", timeouts},
	{"a context that does not end", "executor/internal/attempt/attempt.go", "	if cancel != nil {\n		cancel(cause)\n	}\n", "	_ = cancel\n", attempts},
	{"a deadline that nothing ends at", "executor/internal/attempt/attempt.go", "		} else if !m.deadline.IsZero() {\n", "		} else if m.deadline.IsZero() && false {\n", attempts},
	{"an alibi for those who kill at once", "journal/internal/crash/suspicion.go", " && d.lived >= alibi", "", guilt},
	{"two workers stay for one", "executor/internal/attempt/watchdog.go", "	h.replaced = true\n", "", timeouts},
	{"a hole in a table", "shard/table.go", "			s.slots[i] = s.slots[j]\n", "", tables},
	{"a lane out of line", "shard/agenda.go", "case last.due <= l.due:", "case true:", random},
	{"a shard that stays exempt", "shard/ends.go", "		c.exempt--\n", "", exempt},
	{"give up the lock too early", "executor/internal/life/stop.go", "	if unlocked {\n		err = errors.Join(err, unlock())", "	if true {\n		err = errors.Join(err, unlock())", stops},
	{"suspect a job that is over", "executor/internal/work/worker.go", "w.crew.Recorder.Clear(w.place*w.words + i)", "_ = i", crashes},
	{"hold an id for the first suspect of it", "executor/internal/suspect/suspect.go", "case suspicion.Exceeds(found[i].Suspicion):", "case false:", gate{"./executor", "^TestPoisonBehind"}},
	{"one context for all halves", "executor/batch.go", "	defer cancel(ErrReturned)\n", "	_ = cancel\n", promises},
	{"rights that do not end", "executor/internal/attempt/attempt.go", "		if a.seen().staged == nothingMore {\n			return nil", "		if false {\n			return nil", promises},
	{"a full disk spends retries", "executor/internal/verdict/judge.go", "	case FullDisk:\n", "	case FullDisk + 100:\n", gate{"./executor", "^TestFullDiskSpends"}},
	{"forget who is held for want of room", "executor/internal/quarantine/quarantine.go", "slices.Concat(z.held, z.givenUp)", "z.held", gate{"./executor", "^TestGivenUp"}},
	{"let all suspects run at once", "executor/internal/quarantine/quarantine.go", "	z.wake(maxTurn)", "	z.wake(0)", suspects},
	{"let a late suspect run beside another", "executor/internal/quarantine/quarantine.go", "	if z.active != nil || len(z.held) == 0 ||", "	if len(z.held) == 0 ||", gate{"./executor/internal/quarantine", "^TestASuspect"}},
	{"never let a poison go", "executor/internal/quarantine/quarantine.go", "s.Deaths >= s.Limit && s.Guilty()", "s.Deaths > s.Limit+9 && s.Guilty()", poison},
	{"tell the hook of the error before", "executor/handle.go", "it.Outcome.Parts = it.Outcome.Error, it.F", "it.Outcome.Parts = it.LastError, it.F", exhausted},
	{"the newest due job of a queue first", "executor/internal/dispatch/policy.go", "a.Queue == b.Queue && a.Due < b.Due", "a.Queue == b.Queue && a.Due > b.Due", schedules},
	{"the age of the last shard", "executor/internal/look/look.go", "s.Age = max(s.Age, ageOf(oldest[at], now))", "s.Age = ageOf(oldest[at], now)", aging},
	{"what is put back is as old as it was", "shard/ages.go", "			at = e.Due // which is when it was put back\n", "", aging},
	{"one second for all that come", "shard/ages.go", "at >= s.at && at < s.at+int64(time.Second)", "at >= s.at && at < s.at+int64(time.Hour)", agesModel},
	{"keep what has ended among the ages", "shard/ages.go", "a.empty > 64 && a.empty > len(a.spans)/2", "a.empty < 0", agesModel},
	{"a buried payload goes on to age", "shard/dead.go", "		c.went(p.Ref)\n", "		c.counts.Payloads--\n", aging},
	{"the lag of the last shard", "executor/internal/look/look.go", "s.Lag = max(s.Lag, lag)", "s.Lag = lag", oldest},

	{"a page that begins with the last row of the one before", "executor/internal/listing/key.go", "p.sign*k.Compare(*p.after) <= 0", "p.sign*k.Compare(*p.after) < 0", listings},
	{"a cursor of any list", "executor/internal/listing/key.go", "	h.Write([]byte(list))\n", "", listings},
	{"readers without a pause", "executor/internal/pace/pace.go", "works := busy()", "works := busy() && false", paces},
	{"a walk that passes jobs by", "shard/looks.go", "last = at | slabLanes\n", "last = at | slabLanes + 64\n", walks},
	{"payloads of a job in the order of their heap", "shard/bag.go", "b.order.heap.inOrder}", "slices.Values(b.order.heap)}", walks},
	{"a log that fails for who only looks", "journal/internal/block/block.go", "d.Entry(e, b.First, b.Base) })\n", "d.Entry(e, b.First, b.Base) })\n	if err != nil {\n		err = h.Cold.reader.fail(err)\n	}\n", peeks},
	{"pass over the jobs of paused ids", "executor/internal/pick/pick.go", "c.Parked+c.Paused+c.Prefixes > 0", "c.Parked+c.Prefixes > 0", gate{"./executor", "^TestJobsOfPausedIDs"}},
	{"pass over the jobs of paused prefixes", "executor/internal/pick/pick.go", "c.Parked+c.Paused+c.Prefixes > 0", "c.Parked+c.Paused > 0", steering},
	{"a part that passes for all", "executor/internal/look/jobs.go", "Partial: w.late}", "Partial: false}", patience},
	{"a page that knows no patience", "executor/internal/look/walk.go", "cmp.Or(w.patience, ctx)", "cmp.Or(ctx, w.patience)", patience},
	{"dead letters that know no patience", "executor/internal/look/dead.go", "	p.Next, p.Truncated, err = listing.Cursor(l.name, last), len(p.Dead) < l.Limit, nil", "	err = nil", patience},
	{"a walk back that passes jobs by", "shard/looks.go", "bits.Len64(used) - 1)", "bits.Len64(used) - 1) &^ 1", walks},
	{"all of what lies idle for those who look", "executor/internal/pace/pace.go", "p.idle()/2, 1", "p.idle(), 1", paces},
	{"hot ids of long ago", "executor/dashboard/action.go", "	s.hots.Clear() // and they are looked for anew\n", "", gate{"./executor/dashboard", "^TestHotIDs"}},
	{"a cursor of no queue", "executor/internal/look/jobs.go", "query.Order, query.Descending, query.Queue)", "query.Order, query.Descending, \"\")", looks},
	{"a page that ends with its first step", "executor/internal/look/jobs.go", "if len(p.Jobs) == l.Limit || w.late {", "if w.late {", looks},
	{"the attempt before the one in hand", "shard/run.go", "it.tried = int32(it.Retry)\n", "it.tried = int32(it.Retry) - 1\n", looks},
	{"the called as the holder", "executor/internal/unique/unique.go", "s.Holder.TTL == 0 && l.Kept(s.Holder)", "false", looks},
	{"a full queue that says nothing", "executor/internal/dispatch/dispatcher.go", "	case q.full():\n		return &inspect.Turn", "	case q.full() && d.held:\n		return &inspect.Turn", unmanned},
	{"queues that come first, and have had more", "executor/internal/dispatch/dispatcher.go", "its.used < q.used:", "its.used > q.used:", unmanned},
	{"a codec on the goroutine of the caller", "executor/internal/look/job.go", "		go q.decode(", "		q.decode(", looks},
	{"all bytes of a job", "executor/internal/look/job.go", "if p.Clipped = r.used && p.Bytes > r.Left; p.Clipped {", "if p.Clipped {", looks},
	{"an error for a stranger is lost", "executor/middleware.go", "if !each || len(own) > n-len(unnamed) {", "if !each {", strangers},
	{"look before the shard has offered", "executor/internal/dispatch/dispatcher.go", "d.strict.Store(d.policy.strict || ", "d.strict.Store(", schedules},
	{"forget those who wait for room", "executor/internal/backlog/full.go", "		w.account.add(w.weight)\n		close(w.Ready)\n", "		w.account.add(w.weight)\n", admission},
	{"forget those behind one who goes away", "executor/internal/backlog/full.go", "	b.serve(c) // smaller ones may have waited behind it\n", "", admission},
	{"keep the room of one who came too late", "executor/internal/backlog/full.go", "			w.account.subtract(w.weight) // its room came too late\n", "", admission},
	{"let the next one in before those who wait", "executor/internal/backlog/backlog.go", "!c.fits(more) || len(c.line) > 0 &&", "!c.fits(more) || false && len(c.line) > 0 &&", admission},
	{"refuse what a handler enqueues", "executor/internal/submit/submit.go", "		if o.to.Exempt(ctx) {\n", "		if false && o.to.Exempt(ctx) {\n", admission},
	{"count a job's state, too", "shard/load.go", "		if e.Kind == journal.KindEnqueued {\n", "		if true {\n", admission},
	{"a retry ends a payload that goes on", "shard/written.go", "		c.end(p.state)\n", "		c.change.Over = c.change.Over.Plus(weightOf(p.state))\n		c.end(p.state)\n", admission},
	{"keep the room of what the disk refuses late", "executor/internal/submit/submit.go", "	if errors.Is(o.Ticket.Wait(context.Background()), journal.ErrFull) {\n		o.withdraw()\n	}\n", "", admission},

	// Locks.
	{"a receipt that does not know it is on disk", "executor/enqueue.go", "	case o.Posted():", "	case q.durability == DurabilityAsync:", promises},
	{"all payloads in one call", "executor/queueconfig.go", "max(cmp.Or(c.Gather.MaxPayloads, 1000), 0),", "0,", promises},
	{"an id is blocked by itself", "executor/internal/keylock/waiter.go", "return len(e.by) > 1 || (len(e.by) == 1 && e.by[by] == 0)", "return len(e.by) > 0", promises},
	{"bury a payload, keep its keys", "executor/internal/keylock/condition.go", "h.set = append(h.set, setting{Key: key, Position: journal.Position(p.Position)})", "h.set = append(h.set, setting{Key: key})", burials},
	{"an equal payload loses the keys", "executor/internal/keylock/lock.go", "|| !l.OnRun || k.has(", "|| l.OnRun || k.has(", burials},
	{"lock for each, unlock for all", "executor/internal/keylock/condition.go", "	if !c.Counted && c.Service == nil {", "	if !c.Counted {", services},
	{"an outage that is not logged", "executor/internal/work/settle.go", "	w.tellFailed()\n", "", summaries},
	{"a flood of stacks", "executor/internal/tally/tally.go", "&q.panicked, tenASecond", "new(Lines), tenASecond", summaries},
	{"a burial that is not logged", "executor/internal/work/settle.go", "	w.tellBuried()\n", "", burials},
	{"overtake a job that was called", "executor/internal/keylock/waiter.go", "	k.keep(&w.request, 1)\n", "", keyLocks},
	{"a turn that no job takes up", "executor/internal/keylock/lock.go", "	k.callNextAt(left)\n	return fresh", "	_ = left\n	return fresh", keyLocks},
	{"a place at the end of the line", "executor/internal/keylock/lock.go", "		number, left = w.Turn, k.stepOut(w)\n", "		left = k.stepOut(w)\n		k.arrived++\n		w.Turn = k.arrived\n", keyLocks},
	{"a job that failed keeps its turn", "executor/internal/keylock/condition.go", "	h.c.Leave(h.by, !h.aside)\n", "", turns},
	{"a lease that runs while workers are busy", "executor/internal/unique/unique.go", "lock.Options{Owner: cl.By.String()}", "lock.Options{Owner: cl.By.String(), TTL: c.TTL}", turns},
	{"unlock the oldest before one's own", "executor/internal/keylock/lock.go", "	if e.by[by] > 0 {\n		for at", "	if false && e.by[by] > 0 {\n		for at", counters},
	{"unlock for a payload what is another's", "executor/internal/keylock/condition.go", "			case !u.own:", "			default:", turns},
	{"a payload that is replaced twice", "executor/internal/keylock/keys.go", "		k.with[into] = append(k.with[into], h)\n", "", turns},
	{"a payload replaced in silence", "shard/ledger.go", "	c.counts.Replaced++\n", "	c.counts.Replaced = 0\n", turns},
	{"a heartbeat with the default TTL", "executor/internal/unique/unique.go", "h.lease.Extend(h.c.TTL)", "h.lease.Extend(35 * time.Second)", beats},
	{"decide about a job that is not seen", "executor/internal/admit/claim.go", "job.Payloads = each.Of(payloads", "_ = each.Of(payloads", services},
	{"tell of one locked key only", "executor/internal/keylock/service.go", "			if is {\n", "			if is && len(locked) == 0 {\n", services},
	{"keep the slot of a buried job", "executor/internal/slots/condition.go", "if !over && (keeps", "if (keeps", slotsKept},
	{"give a later payload the slot of a buried job", "executor/internal/slots/condition.go", "	if over && s.cfg.KeepOnBurial && (", "	if false && s.cfg.KeepOnBurial && (", slotsKept},
	{"ask no job for its TTL", "executor/internal/slots/condition.go", "	if s.cfg.TTLOf != nil {\n", "	if false {\n", slotsKept},
	{"a reset that does not last", "executor/internal/slots/slots.go", "		change.Sets = s.sets(s.lastSet())\n", "", slotsKept},
	{"go on from before the reset", "lock/slots.go", "		r.step.position = 0\n", "		_ = r\n", slotsKept},
	{"begin where the sequence was before the reset", "lock/slots.go", "at.resets != s.last.resets || ", "", slots},
	{"the key of all for a queue that has its own", "executor/locking.go", "u.Key == nil && all.Key != nil", "all.Key != nil", alone},
	{"the heartbeat of all beside a TTL of one's own", "executor/locking.go", "	u.Heartbeat = cmp.Or(u.Heartbeat, u.TTL/7*6)\n", "	u.Heartbeat = cmp.Or(u.Heartbeat, all.Heartbeat, u.TTL/7*6)\n", alone},
	{"a heart that beats too fast", "executor/locking.go", "u.TTL/7*6", "u.TTL/7*2", beats},
	{"a slot's heartbeat in memory only", "executor/internal/slots/condition.go", "				change.Sets = s.sets(s.open(h.by, h.r))\n", "", slotsKept},
	{"no limit for who has slots", "executor/internal/work/enter.go", "	}\n	a.enterAll()\n", "	}\n", gate{"./executor", "^TestStartsAreCountedBehindSlots$"}},
	{"a slot that is older than its run", "executor/internal/admit/claim.go", "	case late && slices.ContainsFunc(c.holds, over):", "	case late && false && slices.ContainsFunc(c.holds, over):", gate{"./executor", "^TestASlotLastsFromTheStart$"}},
	{"a success with a lost slot", "executor/internal/slots/condition.go", "	if v == shard.VerdictDone && !h.Renew() {\n		return lock.ErrLockLost", "	if false {\n		return lock.ErrLockLost", slotsKept},
	{"a lease that is a moment too long", "lock/entry.go", "r.at <= o.now() {", "r.at < o.now() {", leases},
	{"overtake those who wait", "lock/entry.go", "return e.lease == nil && e.line.n == 0", "return e.lease == nil", locks},
	{"use a token again", "lock/entry.go", "	g.token++\n	now", "	g.token = max(g.token, 1)\n	now", locks},
	{"lose a wake-up", "lock/entry.go", "		g.callNext(e, o)\n", "		_ = e\n", locks},
	{"lead under the name of another", "lock/election.go", " && at.lease != nil && at.lease.owner == c.id\n", " && at.lease != nil\n", leaders},
	{"wait in one line for two keys", "lock/place.go", "		t.stand(p, keys...)\n", "		t.stand(p, keys[0])\n", locks},
	{"look for circles of leases only", "executor/internal/admit/graph.go", "	for _, c := range g.Lists(by.Queue).All() {\n", "	for _, c := range g.Lists(by.Queue).All()[:0] {\n", circles},
	{"fail both jobs of a circle through a lane", "executor/internal/lane/lane.go", "		n.wakers[c.Number] = nil\n", "", gate{"./executor/internal/lane", "^TestACircle"}},
	{"fail a job that waits for one of several", "executor/internal/admit/graph.go", "	if w.Any {\n", "	if false {\n", circles},
	{"a lock that lasts for ever", "executor/internal/keylock/keys.go", "	k.alarm.Set(k.base, at, ok && !k.ledger.Closed(), func() {", "	k.alarm.Set(k.base, at, false && ok, func() {", lockEnds},
	{"a lock that ends with another one", "executor/internal/admit/list.go", "	case a.rings > 0 && a.rings <= at:", "	case a.rings > 0:", lockEnds},
	{"a lock that ends with the clock", "executor/internal/keylock/keys.go", "until = zero + min(", "until = min(", lockEnds},
	{"a stale lease unlocks", "lock/lease.go", "return l.record.token == l.token && l.record.end == nil", "return l.record.end == nil", locks},
	{"sell a ticket twice", "lock/slots.go", " || at.position <= s.last.position {", " {", slots},

	// Schedules.
	{"an old leader fires what it has", "executor/cron/fire.go", "a.enqueue(term)", "a.enqueue(a.ctx)", offices},
	{"a tick is lost in silence", "executor/cron/fire.go", "			if !giveBack() { // another", "			if !giveBack() && a.send == nil { // another", offices},
	{"a restart that loses ticks in silence", "executor/cron/fire.go", "			t.reportMissed(handled, lost)\n", "", restarts},
	{"forget when a schedule began", "executor/cron/control.go", "	if !found {\n		// Nothing has", "	if !found && s.missed != MissedSkip {\n		// Nothing has", restarts},
	{"make up for a tick beside another", "executor/cron/schedule.go", "late = max(1-len(ticks), 0)", "late = 1", offices},

	// Figures.
	{"a trace that ends at the journal", "executor/metrics/middleware.go", "		m.inject(ctx, call.Items[i].Metadata)\n", "		_ = i\n", figures},
	{"a trace where there is no room", "executor/metrics/middleware.go", "len(together) <= maxPairs && bytes <= maxBytes", "true", figures},
	{"an executor that has stopped is asked", "executor/metrics/metrics.go", "if errors.Is(err, executor.ErrClosed) {", "if false {", figures},
	{"a job that fails because its figures do", "executor/metrics/metrics.go", "	if err := guard.Call(func() error { f(); return nil }); err", "	f()\n	if err := error(nil); err", figures},
	{"what was accepted before is accepted again", "executor/metrics/middleware.go", "if !r.Duplicate {", "if r.ID != \"\" {", figures},
	{"names of queues become one", "executor/internal/brief/brief.go", "fmt.Fprintf(&b, `\\x%02x`, s[i])", "b.WriteRune(r)", figures},
	{"commits for who did not ask", "executor/internal/tell/reader.go", "^commits\n", "^kinds(0)\n", feeds},

	// Actors.
	{"stop before the last message", "actor/gate.go", "if g.state.Add(-1) == shutBit {", "if g.state.Add(-1) >= shutBit {", actors},
	{"a mailbox wedged by Goexit", "actor/cell.go", "			go c.loop()\n			return\n", "			return\n", actors},
	{"a goroutine that outlives its actor", "actor/cell.go", "	if !c.stopped {\n		c.process", "	if true {\n		c.process", actors},
	{"handle messages after a failure", "actor/cell.go", "	if c.failure != nil {\n		c.lost++", "	if c.failure != nil && c.lost < 0 {\n		c.lost++", actors},
	{"a start that protoactor-go tells of", "actor/system.go", "return level >= slog.LevelWarn && ", "return ", actors},

	// Command line.
	{"a run that is due before its retry", "executor/command/fold.go", "		due = f.reached\n", "", commands},
	{"what is not listed is counted as due", "executor/command/fold.go", "		o.Due, o.Delayed = 0, o.Due+o.Delayed\n", "", commands},
	{"a socket that anyone may use", "executor/internal/control/socket_unix.go", "os.Chmod(at, 0o600)", "os.Chmod(at, 0o666)", sockets},
	{"take the socket of one who answers", "executor/internal/control/socket_unix.go", "	if err == nil {\n		_ = conn.Close()", "	if err == nil && conn == nil {\n		_ = conn.Close()", sockets},
	{"take away what another one has put there", "executor/internal/control/socket_unix.go", "		if e.Name() != born {", "		if false && e.Name() != born {", sockets},
	{"half a request that keeps others out", "executor/internal/control/server.go", "			_ = c.quiet[0].Close() // it may have gone by itself\n			c.quiet = c.quiet[1:]\n", "			_ = conn.Close()\n", calling},
	{"overlook what a request says", "executor/internal/admin/decode.go", "			return fmt.Errorf(\"there is no field %.40q\", name)", "			return nil", calling},
	{"take what nobody has said for no", "executor/internal/admin/decode.go", "f.must && !has[f.name]", "f.must && false && !has[f.name]", acting},
	{"act in the room of those who look", "executor/internal/control/server.go", "err = s.act(ctx, w, text, s.acts, s.Acts[verb])", "err = s.act(ctx, w, text, s.looks, s.Acts[verb])", calling},
	{"a client that reads nothing and stays", "executor/internal/serving/answer.go", "time.Now().Add(Stall)", "time.Now().Add(Whole)", serves},
	{"small ones before a large one", "executor/internal/serving/answer.go", "r.line = append(r.line, s)", "r.line = append([]*Share{s}, r.line...)", serves},
	{"answers that nobody counts", "executor/internal/serving/answer.go", "		l.share.Resize(int64(len(body)))", "		l.share.Leave()", boardBytes},
	{"pages beside the room for them", "executor/dashboard/handler.go", "s.looking(s.paged(name, look)), s.cfg", "s.paged(name, look), s.cfg", boardBytes},
	{"a viewer who hangs up in the log", "executor/dashboard/handler.go", "err != nil && !gone(r, err) {", "err != nil {", boardBytes},
	{"a schedule of the first cron for want of a word", "executor/dashboard/verbs.go", "!o.has(\"cron\") && len", "false && len", gate{"./executor/dashboard", "^TestAnActionWithout"}},
	{"a scenario outside of its bubble", "executor/executortest/run.go", "			synctest.Test(t, func(t *testing.T) {\n				s := scenario(t)\n", "			s := scenario(t)\n			synctest.Test(t, func(t *testing.T) {\n", gate{"./executor/executortest", "^TestEveryCrashOfAScenario"}},
	{"delete all when no id is left", "executor/internal/admin/act.go", "	case said == 0:", "	case false:", controls},
	{"a stop that hangs up first", "executor/internal/life/stop.go", "		s.drain()\n", "		if s.Unlisten != nil {\n			s.Unlisten()\n			s.Unlisten = nil\n		}\n		s.drain()\n", controls},
	{"ask for a socket once", "executor/internal/remote/remote.go", "later.Go(func() { listenLater(ctx, cfg) })", "later.Go(func() { <-ctx.Done() })", gate{"./executor", "^TestAControlSocketOnAFull"}},
	{"a page of the morgue that loses one", "executor/internal/remote/remote.go", "		if d.Raw == nil { // it is the first of the next page\n			a.Next = uint64(b.Entry.Position)", "		if d.Raw == nil { // it is the first of the next page\n			a.Next = uint64(b.Entry.Position) + 1", controls},
	{"a process that is not the owner", "executor/command/live.go", "hello.PID != locked.PID:", "hello.PID == 0:", lives},
	{"nobody, for who may not ask", "executor/internal/control/client.go", "case errors.Is(err, fs.ErrPermission):", "case errors.Is(err, fs.ErrInvalid):", lives},
	{"a stream that ends in silence", "executor/internal/control/client.go", "	return told(ctx, err)\n}\n\n// post", "	return told(ctx, nil)\n}\n\n// post", lives},
	{"halted jobs that are not listed", "executor/command/jobs.go", ", {inspect.JobHalted},\n", ",\n", lives},
	{"events that run together", "executor/command/replay.go", "cfg.Single, cfg.Block, cfg.MaxPayloads = true", "cfg.Single, cfg.Block, cfg.MaxPayloads = false", commands},

	// The test kit.
	{"jobs that run before the test says so", "executor/internal/dispatch/queue.go", "case len(d.idle) > 0 && !d.held && d.place():", "case len(d.idle) > 0 && d.place():", kits},
	{"a worker that goes on after the step", "executor/internal/dispatch/dispatcher.go", "none := d.closed || d.held || len(d.ready) == 0", "none := d.closed || len(d.ready) == 0", kits},
	{"a killed process that still writes", "journal/internal/store/memory.go", "	if m.dead != nil {\n		return m.dead\n	}\n", "", kits},
	{"idle before the disk is", "executor/executortest/step.go", "			x.flush()\n", "", kits},
	{"an assertion that can't fail", "executor/executortest/require.go", "len(payloads) == 0 && len(mine) > 0 || len(payloads) > 0 && same", "same || len(mine) > 0", kits},
	{"merged into anything", "executor/executortest/require.go", "e.Position == payload.Position && e.Into == into.Position", "e.Position == payload.Position || e.Into > 0", kits},
	{"a next life beside the last", "executor/executortest/executor.go", "errors.Is(stuck, executor.ErrStuck) && x.life", "errors.Is(stuck, errKilled) && x.life", kits},
	{"what the last commit has accepted is not told", "executor/executortest/record.go", "	if e.Restored {", "	if e.Restored || w.dead.Load() {", kits},
	{"a kill that does not come", "executor/executortest/run.go", "done.Add(1) == int64(commits) {", "done.Add(1) == int64(commits)+1000 {", kits},
	{"any order", "executor/executortest/require.go", "return r.Queue+\"/\"+r.ID == name }", "return true }", kits},

	// Folding.
	{"lose what was folded on a full disk", "journal/remainder.go", "		case off >= b.carried, e.Position < b.Block.First && b.stays(uint32(off)):", "		case e.Position < b.Block.First && b.stays(uint32(off)):\n		case off >= b.carried:", rewrites},
	{"an entry that is rewritten and stays", "journal/internal/block/chain.go", "	case r.Block.ahead != 0:\n		r.Block.Home.Store(nil)\n		r.Block, r.Off = open.Block, r.Block.ahead\n", "", rewrites},
	{"fold what has run", "shard/gather.go", " || fold.bag.folding.fold != fold {", " {", folds},
	{"fold what stands before a run with what is behind it", "shard/gather.go", "!h.gone && h.Ref.Position() > after {", "!h.gone {", folds},
	{"fold what was deleted", "shard/bag.go", "		b.folding.fold = nil //", "		//", folds},
	{"drop what does not go together", "executor/internal/fold/pass.go", "it.Fold(max(p.n, 1), p.payload)", "it.Fold(len(it.Payloads), p.payload)", folding},
	{"a limit counts one who is paused", "executor/internal/admit/list.go", "		l.Aside(Owner{Queue: l.Queue, ID: id}, true)\n		c.Let(id, shard.HoldWait)\n", "		c.Let(id, shard.HoldWait)\n", forgets},
	{"a limit counts one who is gone", "executor/internal/admit/claim.go", "		c.list.Aside(c.By, over || c.Item != nil)\n", "		_ = over\n", forgets},
	{"fold all that waits to find it too large", "executor/internal/fold/pass.go", "folded > 1 && bytes > look {", "folded > 1 && bytes > look && false {", tooLarge},
	{"a run of what can't be read", "executor/internal/fold/pass.go", "			it.Fold(1, nil)\n", "", folding},
	{"bury a part of what was folded", "shard/ends.go", "	case c.cfg.BuryAll, c.cfg.Fold != nil: // they are one", "	case c.cfg.BuryAll: // they are one", folding},

	// Dashboard.
	{"offer actions to everyone", "executor/dashboard/config.go", "	if a.Verb == View {\n", "	if true {\n", guards},
	{"obey a page of another site", "executor/dashboard/handler.go", "s.foreign(r); err != nil {", "s.foreign(r); err != nil && false {", guards},
	{"answer an image of another site", "executor/dashboard/guard.go", "	strict.Method = http.MethodPost", "	// strict.Method = http.MethodPost", guards},
	{"show payloads that were not asked for", "executor/dashboard/show.go", "	case g.cfg.ShowPayload == nil || ", "	case g.cfg.ShowPayload == nil:\n		p.Raw = all.Raw\n		return left\n	case ", guards},
	{"answer to any name", "executor/dashboard/guard.go", "return err == nil //", "return err == nil || true //", guards},
	{"show a text that turns the others round", "executor/dashboard/show.go", "return strconv.IsPrint(r) || ", "return r > 0x1fff || strconv.IsPrint(r) || ", guards},
	{"delete for good without asking", "executor/dashboard/action.go", "(d.danger || slices", "(slices", boards},
	{"act on all instead of what matches", "executor/dashboard/action.go", "o.list.filter(), o.states", "inspect.JobFilter{}, o.states", boards},
	{"figures that each page takes anew", "executor/dashboard/board.go", "	if time.Since(s.at) >= ago {", "	if true {", streams},
	{"samples of queues that may not be seen", "executor/dashboard/board.go", "		m.past = []sample{m.sample()}\n", "", guards},
	{"a rate over what nobody watched", "executor/dashboard/board.go", " || passed > gap {", " {", streams},
	{"act for a client that may only look", "executor/dashboard/action.go", "s.permit(r, &o); err != nil {\n		return err\n	}\n	if d :=", "s.permit(r, &o); err != nil && false {\n		return err\n	}\n	if d :=", guards},
	{"take what stands for other bytes for an id", "executor/internal/admin/decode.go", "if strings.Count(said, replaced) > ", "if false && strings.Count(said, replaced) > ", guards},
	{"say an id without its bytes", "executor/internal/admin/encode.go", "	if !utf8.ValidString(s) {", "	if false && !utf8.ValidString(s) {", guards},
	{"act although a field means nothing here", "executor/dashboard/verbs.go", "		if !slices.Contains(f.needs, name)", "		if false && !slices.Contains(f.needs, name)", orders},
	{"list as if an unknown parameter were not there", "executor/dashboard/api.go", "case !slices.Contains(names, name):", "case false:", orders},
	{"act on another list than the verb is about", "executor/dashboard/verbs.go", "o.has(\"tab\") && (d.list", "false && (d.list", meanings},
	{"act on all in spite of a filter", "executor/dashboard/verbs.go", "{needs: []string{\"queue\"}, beside: []string{\"tab\", ", "{needs: []string{\"queue\"}, beside: []string{\"prefix\", \"error\", \"tab\", ", meanings},
	{"a client that has said all and is late", "executor/dashboard/handler.go", "SetReadDeadline(time.Time{})", "SetReadDeadline(time.Now().Add(10 * time.Second))", patiences},
	{"dead letters of a list with their payloads", "executor/dashboard/api.go", "			admin.Hide(&page.Dead[i].PayloadInfo)\n", "			_ = i\n", guards},
	{"jobs of a list with their payloads", "executor/dashboard/api.go", "			admin.Hide(&page.Jobs[i].PayloadInfo)\n", "			_ = i\n", guards},
	{"show more of payloads than an answer has room for", "executor/dashboard/show.go", "	return left - len(p.Raw)\n", "	return left\n", bounds},
	{"all indents of a payload", "executor/dashboard/show.go", "		if b.Len() >= most {", "		if false && b.Len() >= most {", bounds},
	{"ask the authorizer twice", "executor/dashboard/guard.go", "	v.given[a] = err\n", "", asks},
	{"ask the authorizer for ever", "executor/dashboard/guard.go", "	if v.left <= 0 {", "	if false && v.left <= 0 {", asks},
	{"say what was done again", "executor/dashboard/action.go", "return kept.name == name", "return false", said},
	{"keep what will be said for ever", "executor/dashboard/action.go", "	n.kept = n.kept[max(len(n.kept)-mostNotices, 0):]\n", "", said},
	{"a hook for lists that takes the handler with it", "executor/dashboard/guard.go", "		g.cfg.Logger.Error(what", "		defer panic(p.Value)\n		g.cfg.Logger.Error(what", bounds},
	{"a page that has said all and is late", "executor/dashboard/action.go", "	o, err := read(r)\n	if err != nil {\n		return err\n	}\n	heard(w)\n", "	o, err := read(r)\n	if err != nil {\n		return err\n	}\n	if program {\n		heard(w)\n	}\n", patiences},
	{"a program that has said all and is late", "executor/dashboard/action.go", "	o, err := read(r)\n	if err != nil {\n		return err\n	}\n	heard(w)\n", "	o, err := read(r)\n	if err != nil {\n		return err\n	}\n	if !program {\n		heard(w)\n	}\n", patiences},
	{"do not say which queue is looked at", "executor/dashboard/handler.go", "Queue: rt.about(r)}", "Queue: rt.about(r)[:0]}", guards},
	{"list queues that may not be seen", "executor/dashboard/guard.go", "		case err == nil:\n			some", "		case true:\n			some", guards},
	{"take a field that says nothing for none", "executor/dashboard/order.go", "case slices.Contains(values, \"\"):", "case false:", slips},
	{"take the last of two", "executor/dashboard/order.go", "name != \"state\" && len(values) > 1:", "false:", slips},
	{"a page of keys that begins with the last one", "executor/internal/listing/key.go", "if key <= after {", "if key < after {", keyPages},
	{"a shorter lease that is extended as late as before", "executor/cron/group.go", "	c.poke() // a shorter", "	// a shorter", reigns},
	{"another process's tick is an error", "executor/cron/fire.go", "	if errors.Is(err, executor.ErrNotOwned) {\n", "	if false {\n", splits},
	{"ask for the payload of another process's tick", "executor/cron/fire.go", "a.refuse(a.tick); err != nil {", "a.refuse(a.tick); err != nil && false {", splits},
	{"report another process's ticks as missed", "executor/cron/fire.go", "after, upTo, maxCatchUp), others)", "after, upTo, maxCatchUp), func(time.Time) bool { return false })", splits},
	{"a clock that outlives its executor", "executor/cron/cron.go", "		if c.gone() != nil { // nothing", "		if false { // nothing", splits},
	{"a dead letter beside a newer state", "shard/supersede.go", "	c.succeed(string(e.ID), v)\n", "", newest},
	{"an older state is tried again before a newer one", "shard/ends.go", "if c.supersedes() && c.overtaken(now, it) {", "if false {", newest},
	{"a state of what was superseded", "shard/supersede.go", "return c.supersedes() && l != nil && l.n()", "return false && l != nil && l.n()", newest},
	{"run while a dead letter is on its way", "shard/core.go", "	c.Hold(id, holdDead)\n", "", newest},
	{"supersede what a person puts back", "shard/dead.go", "!dead || g.leaving || ", "!dead || ", newest},
	{"take a time for a version", "shard/supersede.go", "if !Scored(e) {", "if false {", newest},
	{"forget which version has run", "shard/supersede.go", "c.ran(now, it, p)", "c.ran(now, it, version{})", newest},
	{"lose a state for one that a person ends", "shard/supersede.go", "it != nil && it.RemovalOf(it.Payloads[0]) == nil &&", "it != nil &&", newest},
	{"no rest after a state that gave way", "shard/supersede.go", "	default:\n		c.ran(now, it, version{})\n", "", newest},
	{"a deleted id has no border", "shard/supersede.go", "r.ran = version{math.Inf(-1), next}", "r.ran = version{}", gate{"./executor", "^TestLatestRowMadeAnew$"}},
	{"a border that a crash ignores", "shard/supersede.go", " && !w.before(ran)", "", gate{"./executor", "^TestLatestRowMadeAnew$"}},
	{"an id that changes all the time", "shard/supersede.go", "if e.Due <= c.now && !c.debounces() {", "if false {", newest},
	{"put back without asking the shard", "executor/internal/dead/turn.go", "if err == nil && l.c.Supersedes {", "if err == nil && false {", latests},
	{"leave what has run under the former name", "executor/internal/roster/roster.go", "if known { // with no", "if known && entries+dead > 0 { // with no", former},
	{"dead letters of an earlier process", "executor/internal/work/work.go", "&q.Pauses, cores), q.Dead.Load(cores))", "&q.Pauses, cores))", latests},
	{"say of none that it is late", "shard/dead.go", "return late || o.late", "return late && o.late", latests},
	{"late by what was done before it died", "shard/dead.go", "return o.done[i].when > died.when", "return o.done[i].when > 0", latests},
	{"late by what comes before it", "shard/dead.go", "i < len(o.done) && died.before(o.done[i].version)", "i < len(o.done)", gate{"./shard", "^TestLateIsLikeItsModel$"}},
	{"delete an id, and keep its version", "executor/internal/act/act.go", "Version: which.IDs != nil && which.Positions == nil", "Version: which.IDs == nil", latests},
	{"raise the scores of states", "executor/internal/roster/roster.go", "	if !q.Supersedes {", "	if true {", latests},
	{"a score that is the time", "executor/internal/submit/submit.go", "e.Accepted += 2000", "e.Accepted += 0", latests},

	// What waits, and what it has.
	{"a waiting job keeps what it had taken", "executor/internal/admit/claim.go", "	c.Withdraw()\n	if err != ErrWaits {", "	if err != ErrWaits {", gate{"./executor", "^TestLimitsAndLocks$"}},
	{"a job that is woken for nothing goes to the end of the line", "executor/internal/unique/unique.go", "slices.Equal(p.Keys(), keys) && (", "slices.Equal(p.Keys(), keys) && granted && (", turns},
	{"a job that is set aside keeps its place", "executor/internal/unique/unique.go", "	if p != nil {\n		p.Cancel()\n	}\n", "", gate{"./executor", "^TestCalledJobThatWaits"}},
	{"the old pace after a limit is raised", "executor/internal/limit/limit.go", "		k.next = min(k.next, now+l.law.ahead+l.law.interval)\n", "", pacing},
	{"a free place under a limit that nobody hears of", "executor/internal/limit/table.go", "		k.limit.running--\n		t.settle(now, k)\n", "		k.limit.running--\n", pacing},
	{"a pause that ends with a shorter one", "executor/internal/limit/table.go", "k.pause(now, max(k.paused, until), true)", "k.pause(now, until, true)", pacing},
	{"a turn in shared lanes that nobody hears of", "executor/internal/lane/lane.go", "		n.busy = false\n		l.next(n)\n", "		n.busy = false\n", lanes},
	{"a place in a lane by the time of the call", "executor/internal/lane/lane.go", "slices.Insert(n.payloads, n.find(position), payload{position: position, queue: queue})", "append(n.payloads, payload{position: position, queue: queue})", lanes},
	{"who waits for both of two equal payloads hears of one", "executor/internal/await/await.go", "		other.waiters = append(other.waiters, a.waiters...)\n", "", awaits},
	{"what a person deletes was done", "executor/internal/await/await.go", "			a.end.Fate = Deleted\n", "			_ = a\n", awaits},
	{"a pause of the executor that ends with the pause of a queue", "executor/internal/pause/board.go", "q.tell(b.all || b.queues[q.Name])", "q.tell(b.queues[q.Name])", steering},

	// Keys, and how their locks end.
	{"delete a waiting job, and keep what its runs have locked", "executor/internal/admit/claim.go", "(Keeper); ok && h == nil {", "(Keeper); ok && v != shard.VerdictDeleted {", gate{"./executor", "^TestDeletedJobsLetGo$"}},
	{"a state that is superseded keeps its keys", "executor/internal/keylock/condition.go", "			c.Drop(c.comingWith(m.Position)...)\n			continue\n", "			continue\n", worlds("locks,latest")},
	{"a dead letter that is superseded keeps its keys", "executor/internal/keylock/condition.go", "	c.DropAll(change.Exhumed)\n", "", worlds("locks,latest")},
	{"a payload that is discarded unlocks nothing", "executor/internal/keylock/condition.go", "if v == shard.VerdictDone || v == shard.VerdictDiscarded {\n", "if v == shard.VerdictDone {\n", gate{"./executor", "^TestLockable_S04"}},
	{"a restart forgets when a lock ends", "executor/internal/keylock/keys.go", "	if w.Until != 0 {\n", "	if w.Until < 0 {\n", lockEnds},
	{"a queue that is renamed leaves its locks behind", "executor/internal/keylock/keys.go", "{ k.ledger.Do(nil, func() { k.rename(former, name) }) }", "{}", worlds("locks,names")},
	{"the later of two versions under two names", "shard/supersede.go", "	if r.ran.before(before.ran) {\n", "	if false {\n", renames},
	{"a rest in the place of a retry, under another name", "shard/load.go", " || rests(e) && l != nil && l.known().hasState()", "", renames},
	{"a rest that comes behind the payload after it", "shard/load.go", " || rests(e) && l != nil && l.known().hasState()", " || rests(e) && l != nil && l.n() > 0", replays},
	{"a rest behind a part that ends with a set clock", "shard/ends.go", "			l.remember().dueAfter(now, l.due)\n", "", replays},
	{"the shorter rest of two names", "shard/supersede.go", "	if before.until <= r.until {", "	if true {", replays},
	{"begin jobs while it stops", "executor/internal/life/stop.go", "		l.Crew.Draining.Store(true) // before Err says so\n", "", stops},
	{"a key that is locked while the disk writes", "executor/internal/keylock/condition.go", "free = h.c.Service != nil || !h.c.Blocks(h.blockedBy, h.by)", "free = true", replays},
	{"a slot of each name of a queue", "executor/internal/slots/slots.go", "if s.mine[heir] != nil {", "if false {", renames},
	{"a start does not see what it has taken over", "journal/queues.go", "	q.pending.Join(to, joined, payloads)\n", "	_ = payloads\n", gate{"./journal", "^TestRename"}},
	{"a rename leaves what was done behind", "journal/queues.go", "	if err := q.h.Settled(ctx); err != nil || !both {\n", "	if err := q.h.Settled(ctx); err != nil || both || !both {\n", renames},
	{"a newer state waits for the key of the older one", "shard/supersede.go", "	if len(c.held) > 0 && l.item() == nil && c.unhold(string(e.ID), HoldWait) {\n		c.enqueue(l, l.due)\n	}\n", "", latests},
	{"a retry locks its keys once more", "executor/internal/keylock/lock.go", "		if !k.has(r.By, s.Key, s.Position) {\n", "		if s.Key != \"\" {\n", keyLocks},
	{"a job that leaves the line calls nobody", "executor/internal/keylock/waiter.go", "			delete(k.waiting, by)\n		}\n		k.callNextAt(left)\n", "			delete(k.waiting, by)\n		}\n		_ = left\n", keyLocks},
	{"a number that a lock on disk has", "executor/internal/keylock/lock.go", "		k.number = max(k.number, l.Number)\n", "", keyLocks},

	// Numbers.
	{"a heart that is stopped in the middle of a beat beats on", "executor/internal/admit/claim.go", "!h.stopped.Load() && ", "", gate{"./executor/internal/admit", "^TestAHeart"}},
	{"what an error asks for is lost with its text", "executor/internal/verdict/judge.go", "known := &it.Outcome, j.failing == it\n", "known := &it.Outcome, false\n", gate{"./executor/internal/verdict", "^TestAHookExits"}},
	{"what a hook exits for takes the others along", "executor/internal/verdict/judge.go", "		if errs[i] == nil { // before", "		if false { // before", gate{"./executor/internal/verdict", "^TestAHookExits"}},
	{"a journal that fails as it opens ends the process", "executor/lifecycle.go", "	x.crew.Backlog = x.backlog // the", "	defer func() { x.crew.Backlog = x.backlog }() // the", gate{"./executor", "^TestTheJournalFailsAsItOpens$"}},
	{"a copy does not know what the log does", "journal/upkeep.go", "if errors.Is(err, ErrUnknown) {", "if false {", gate{"./journal", "^TestCopyOfALogThatFails$"}},
	{"what is left with OnEnd runs on a shard", "executor/lifecycle.go", "go guard.Hook(cfg.Logger", "guard.Hook(cfg.Logger", gate{"./executor", "^TestOnEndOfALease$"}},
	{"a slot that is cleared by hand ends the run", "executor/internal/admit/claim.go", "if !errors.Is(reason, lock.ErrUnlocked) {", "if !errors.Is(reason, lock.ErrExpired) {", slotsKept},
	{"a job that fails keeps its slot", "executor/internal/slots/condition.go", "	if v != shard.VerdictDone {\n		_ = h.r.Unlock() // it may have expired\n", "	if v != shard.VerdictDone {\n", slotsKept},
	{"a slot on disk that no job has", "executor/internal/slots/condition.go", "	return s.sets(gone, s.lastSet())\n", "	return s.sets(s.lastSet())\n", slotsKept},

	// What becomes of a job.
	{"retries that outlive a success", "shard/ends.go", "	c.endState(l)\n	c.setRetry(l, -1)\n	switch {\n	case it.held:", "	c.endState(l)\n	switch {\n	case it.held:", scripts},
	{"a due time that moved behind a run is lost", "shard/hands.go", "	if ran && changed && !gaveWay {\n		c.writeState(l)\n	}\n", "	_ = ran && changed && !gaveWay\n", scripts},
	{"a throttle that ends with the payload", "shard/timing.go", "	if e.Restored || r.until <= c.now {", "	if e.Restored || r.until >= c.now {", scripts},
	{"a snooze spends a retry", "shard/ends.go", "c.again(l, it, judged, behind, it.Retry, later(now", "c.again(l, it, judged, behind, it.Retry+1, later(now", scripts},
	{"a fresh payload that wakes no failed job", "shard/timing.go", "		if c.cfg.Pull {\n", "		if c.cfg.Pull && due > at {\n", scripts},
	{"a pause that begins what is handed out", "shard/core.go", "		c.takeApart(now, r)\n", "		_ = r\n", random},
	{"delete what is done by then", "shard/remove.go", "r != nil && !ended {", "r != nil {", gate{"./executor", "^TestRemoveWhatRuns$"}},
	{"run jobs now that have none of the payloads", "executor/internal/act/act.go", "if s.Of != nil && !c.HasAny(id, s.Of) || !c.RunNow", "if s.Of != nil && false || !c.RunNow", gate{"./executor", "^TestRunNowOfPayloads$"}},
	{"an idempotency key that is every queue's", "executor/internal/submit/once.go", "statekey.IdempotencyKey(queue, key)", "statekey.IdempotencyKey(\"\", key)", gate{"./executor", "^TestKey$"}},

	// Ticks, events, actors and the log.
	{"a tick for each of two schedulers", "executor/cron/fire.go", "a.send(ctx, id, executor.FromSource(tickMark(a.name), a.tick.Unix()),\n		executor.At", "a.send(ctx, id, executor.At", gate{"./executor/cron", "^TestClockSetBack"}},
	{"catch up on one of many ticks", "executor/cron/schedule.go", "late = max(maxCatchUp-len(ticks), 0)", "late = max(1-len(ticks), 0)", offices},
	{"fire what is paused", "executor/cron/fire.go", " || t.removed || t.progress.paused || t.progress.held > 0 {", " || t.removed || t.progress.held > 0 {", gate{"./executor/cron", "^TestStopAmong"}},
	{"an event that is told once more after a reconnection", "executor/internal/tell/reader.go", "r.next = number + 1\n", "r.next = number\n", rings},
	{"what comes while a caller works for its actor waits for ever", "actor/cell.go", "		if c.turn.Add(-1) > 0 {\n			c.begin()\n		}\n", "		c.turn.Add(-1)\n", gate{"./actor", "^TestSendHere"}},
	{"put back twice what is listed twice", "journal/morgue.go", "slices.Compact(ps))", "ps)", gate{"./journal", "^TestContractInMemory$"}},
	{"room for follow-ups that is taken for good", "journal/record.go", "	h.disk.promised.Add(-int64(c.Room)) //", "	//", fullChains},
	{"pages that a disk has given are forgotten", "journal/internal/store/bolt_file.go", "step /= 2 {", "step = 0 {", gate{"./executor", "^TestTheMorgueOnAFullDisk$"}},
	{"a disk that was full is short of room for what is live", "journal/fulldisk.go", " && !r.Gives", "", gate{"./executor", "^TestTheMorgueOnAFullDisk$"}},
	{"free pages count behind the last one in use alone", "journal/internal/store/bolt_file.go", "r.Run < run && s", "r.Run < 0 && s", gate{"./executor", "^TestTheMorgueOnAFullDisk$"}},
	{"who asks for room in one piece has the disk be full", "journal/room.go", " && (int64(d.questions[0].Bytes) > d.allowance.Load() || d.questions[0].whole() > d.whole.Load())", "", gate{"./executor", "^TestTheMorgueOnAFullDisk$"}},
	{"pauses of ids take the room of results", "executor/internal/pause/queue.go", "	if on {\n		if !q", "	if false {\n		if !q", gate{"./executor", "^TestPausesOfIDsOnAFullDisk$"}},
	{"who waits for room no longer still asks", "journal/room.go", "		case <-over:\n		case <-time", "		case <-over:\n			return true\n		case <-time", gate{"./journal", "^TestAQuestionEndsWithItsCaller$"}},
	{"a small dead letter takes no page", "journal/room.go", "leafRoom = 256, 5 << 10", "leafRoom = 256, 0", gate{"./executor", "^TestTheMorgueOnAFullDisk$"}},
	{"who waits for a smaller block waits for ever", "journal/commit.go", "	c.wakeWaiters()\n	return b, t, true\n", "	return b, t, true\n", gate{"./journal", "^TestNobodyWaitsForTheCommitter"}},
}
