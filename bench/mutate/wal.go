package main

// The gates of the log before the file.
var (
	walKills  = gate{"./journal", "^TestKilledWithALog$"}
	walDamage = gate{"./journal", "^Test(FlipsInTheLog|SectorsOfTheLog|LogThatIsGone)$"}
	walTorn   = gate{"./journal", "^TestTornRecords$"}
	walAlone  = gate{"./journal", "^Test(WhatEndsInTheLog|BulkIsNot|VersionWhile)"}
	walTouch  = gate{"./journal", "^TestTamperedLog"}
)

var inWAL = []mutation{
	// A record is what was written, where it was, when it was.
	{"wal: a record that may be anywhere", "journal/internal/wal/log.go", "PutUint64(at[:], uint64(place))", "PutUint64(at[:], 0*uint64(place))", walDamage},
	{"wal: a checksum without the generation", "journal/internal/wal/log.go", "format.Castagnoli, b[4:sectorSize])", "format.Castagnoli, append(b[4:8:8], b[16:sectorSize]...))", walDamage},
	{"wal: a checksum without the number", "journal/internal/wal/log.go", "format.Castagnoli, b[4:sectorSize])", "format.Castagnoli, b[8:sectorSize])", walDamage},
	{"wal: records of another generation count", "journal/internal/wal/read.go", "ours := s.sound && s.generation == r.generation", "ours := s.sound", gate{"./journal/internal/wal", "^TestMadeAgain$"}},
	{"wal: a file that is older than the log will do", "journal/internal/wal/read.go", "s.number >= r.number && !r.older:", "s.number >= r.number && !r.older && false:", gate{"./journal", "^TestOlderFileBesideTheLog$"}},
	{"wal: a record from its middle on", "journal/internal/wal/read.go", "s.first != r.inside:", "s.first != r.inside || !s.first:", walTorn},
	{"wal: what is torn is damage", "journal/internal/wal/read.go", "if !s.sound && !s.empty {", "if !s.sound && !s.empty || r.inside {", walTorn},
	{"wal: damage before records ends the log", "journal/internal/wal/read.go", "case ours && r.ended > 0 && s.number > r.number:", "case ours && r.ended > 0 && s.number > r.number && false:", walDamage},
	{"wal: damage of the last record ends the log", "journal/internal/wal/read.go", "if !s.sound && !s.empty {", "if !s.sound && !s.empty && false {", walDamage},
	{"wal: a log that is gone has nothing", "journal/internal/store/logged.go", "return format.Damaged(\"%s is missing; what was accepted last may be in it\", directory.WALFile)", "return nil", walDamage},
	{"wal: a log that was cut has less", "journal/internal/wal/read.go", "if !bytes.Equal(size, sizeOf(place)) {", "if !bytes.Equal(size, sizeOf(place)) && false {", walDamage},

	// It is on disk, and what waits in it is not forgotten.
	{"wal: acknowledge before the sync", "journal/internal/wal/log.go", "	if err := l.sync(l.f); err != nil {\n		return err\n	}\n", "", gate{"./journal/internal/wal", "^TestRecordsAreSynced$"}},
	{"wal: the name of the log is not synced", "journal/internal/store/logged.go", "	if err == nil {\n		err = directory.SyncNames(names)\n	}\n", "", power},
	{"wal: make the log before what was in it is elsewhere", "journal/internal/store/logged.go", "errors.Join(err, b.Close())\n	}\n	return l, nil\n", "errors.Join(err, b.Close())\n	}\n	return l, l.makeLog()\n", power},
	{"wal: give over without what waits", "journal/internal/store/logged.go", "	if len(l.waiting) > 0 {\n		t = l.merged(t)\n	}\n", "", walKills},
	{"wal: give over without the keys of what waits", "journal/internal/store/logged.go", "	for _, name := range format.SideBuckets {\n		for _, key", "	for _, name := range format.SideBuckets[:1] {\n		for _, key", walKills},
	{"wal: a block that has left the log is written after all", "journal/internal/store/bolt.go", "if b != t && b.Seq < last.Oldest {", "if b != t && b.Seq < 0*last.Oldest {", walKills},
	{"wal: a block stays that left the log while its drop waited", "journal/internal/store/logged.go", "if d.Seq < l.waiting[0].Seq { // bbolt has it", "if d.Seq < 0*l.waiting[0].Seq { // bbolt has it", walKills},
	{"wal: records go on under the old generation", "journal/internal/store/logged.go", "		l.log.Begin(v)\n", "		if !l.log.Fits(0) {\n			l.log.Begin(v)\n		}\n", walKills},
	{"wal: read keys below what waits", "journal/internal/store/logged_read.go", "	if waits {\n		return bytes.Clone(value), nil", "	if waits && name == format.BucketMeta {\n		return bytes.Clone(value), nil", walKills},
	{"wal: list keys below what waits", "journal/internal/store/logged_read.go", "	if len(beside) == 0 {\n", "	if len(beside) >= 0 {\n", walKills},
	{"wal: a deleted key is listed until it is given over", "journal/internal/store/logged_read.go", "if _, waits := beside[string(kv.Key)]; !waits {", "if v := beside[string(kv.Key)]; v == nil {", walKills},
	{"wal: copy without what waits", "journal/internal/store/logged_read.go", "waiting = slices.Clone(l.waiting)", "waiting = nil", walKills},
	{"wal: salvage without the log", "journal/internal/rest/salvage.go", "	if r.manifest.Log == 0 {\n", "	if r.manifest.Log != 0 {\n", walKills},
	{"wal: a log that is moved under its owner", "journal/internal/store/logged.go", "	if l.log != nil {\n		if err := inPlace", "	if false {\n		if err := inPlace", walTouch},

	// What it is for, and when it is not.
	{"wal: bulk goes through the log", "journal/internal/store/logged.go", "	largeBlock = 64 << 10\n", "	largeBlock = 64 << 20\n", walAlone},
	{"wal: a file that others take for all of it", "journal/internal/store/bolt.go", "last.Version, last.Log, last.Records = format.OpenVersion, s.log.ID", "_, last.Log, last.Records = format.OpenVersion, s.log.ID", walAlone},
	{"wal: a log that is left on the file", "journal/internal/store/logged.go", "	l.log = nil\n", "", walAlone},
	{"wal: acknowledge what bbolt refuses", "journal/internal/store/logged.go", "len(c.Key) == 0 || len(c.Key) > bbolt.MaxKeySize", "len(c.Key) > 2*bbolt.MaxKeySize", gate{"./journal/internal/store", "^TestWhatBoltRefuses"}},
	{"wal: what waits has no room promised", "journal/internal/store/logged.go", "	r, err := l.Bolt.Room(need+l.room, run)\n", "	r, err := l.Bolt.Room(need, run)\n", gate{"./journal/internal/store", "^TestRoomForWhatWaits$"}},
	{"wal: keys that wait share a page", "journal/internal/store/logged.go", "		l.room += l.pageSize\n", "		l.room += l.pageSize / 4\n", gate{"./journal/internal/store", "^TestRoomForKeysThatWait$"}},
	{"wal: write into a log that has failed", "journal/internal/wal/log.go", "	l.at = l.Size\n	if _, err", "	if _, err", gate{"./journal/internal/wal", "^TestAfterAFailedWrite$"}},
}
