package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/wal"
	"go.etcd.io/bbolt"
)

// Logged is a bbolt file behind a small log. A small commit is one record in the log, and
// waits in memory. Many of them become one commit to bbolt: what has left the journal
// meanwhile is never written there, and a key that was set again only once.
//
//   - What waits is given over with a commit for which the log has no room, that is large,
//     deletes much or buries something; before the file is compacted; and when the disk gives no more.
//     Room has been promised for it until then.
//   - The first commit after an opening is bbolt's, and so voids what was in the log. The
//     log stands on the first one after that.
//   - [Logged.Rest] takes the log away from under the last commit.
type Logged struct {
	*Bolt

	// Only the goroutine that commits uses these.
	size  int64    // of the log, bytes; below zero: there is to be none
	after int      // commits that are made before it is; below zero: whether there is room was asked
	file  *os.File // of the log; nil: there is none
	short bool     // the disk gave no more when it was asked last
	bulk  int      // so many commits more go to bbolt; below zero: none for that
	most  int      // bytes that the next commit to bbolt can write, when that was asked for last

	// mu guards what follows, which only the goroutine that commits changes.
	mu      sync.RWMutex
	given   uint64         // newest block of the last commit to bbolt
	waiting []*Transaction // what it has not got yet
	weight  int            // of these: more of them wait where they have little
	room    int            // that is promised to them there: they may change a page for each key
	newest  format.Manifest
	beside  map[format.Bucket]map[string][]byte // last values of what they change; nil: deleted
}

const (
	// largeBlock goes to bbolt at once: to write it twice takes longer than to sync twice.
	largeBlock = 64 << 10
	// mostDropped may leave bbolt with a commit that waits: to delete is work as well, and all of it would come at once.
	mostDropped = 64
	// afterLarge is how many commits follow it there. Where blocks are large mostly the next one
	// is, too, and what came between them would have been written twice.
	afterLarge = 8
	// Of what waits, which is a quarter of the log at most.
	minWaiting, maxWaiting = 512 << 10, 8 << 20
)

// OpenLogged opens the journal in a directory, or creates it, for commits through a log of
// so many bytes, which is made after so many commits; below zero bytes there is none.
func OpenLogged(p *directory.Dir, bytes, after int) (*Logged, error) {
	if err := directory.CheckWAL(p.Lstat, p.Name()); err != nil {
		return nil, err
	}
	b, err := OpenBolt(p)
	if err != nil {
		return nil, err
	}
	l := &Logged{Bolt: b, size: int64(bytes), after: after}
	if err := l.Replay(p.OpenRegular); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return l, nil
}

// Replay reads what a crash has left in the log, which is opened with open, if one stands on the last
// commit of a file that was checked. It comes before all else.
func (l *Logged) Replay(open func(name string, flag int) (*os.File, error)) error {
	v, end, err := l.end()
	if l.given = end.Seq; err != nil || !l.logged {
		return err
	}
	f, err := open(directory.WALFile, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return format.Damaged("%s is missing; what was accepted last may be in it", directory.WALFile)
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	err = wal.Read(f, end.Log, end.Records, v, func(record []byte) error {
		t, err := ParseRecord(record)
		if err == nil {
			l.wait(t)
		}
		return err
	}, func(damage error) error { return damage })
	return errors.Join(err, f.Close())
}

func (l *Logged) Commit(t *Transaction) error {
	if l.bulk = max(l.bulk-1, -1); len(t.Block) > largeBlock {
		l.bulk = afterLarge
	}
	if l.bulk >= 0 || !l.small(t) {
		return l.give(t)
	}
	record := t.record()
	if !l.log.Fits(len(record)) {
		return l.give(t)
	}
	err := l.log.Append(record)
	if wantsRoom(err) {
		return l.give(t) // a file system that writes to another place even what it has given
	}
	if err == nil {
		if t, err = ParseRecord(record); err == nil {
			l.wait(t)
		}
	}
	return err
}

// small reports whether t may wait in the log. What bbolt would not take, it says before t is acknowledged.
func (l *Logged) small(t *Transaction) bool {
	return l.log != nil && l.logged && !l.short && l.room+t.takes()+64+len(t.Changes)*l.pageSize <= l.most &&
		len(t.Block) > 0 && len(t.Drop) <= mostDropped && l.weight+t.weighs() <= min(max(int(l.log.Size/4), minWaiting), maxWaiting) &&
		!slices.ContainsFunc(t.Changes, func(c format.Edit) bool {
			return c.Bucket == format.BucketMorgue || len(c.Key) == 0 || len(c.Key) > bbolt.MaxKeySize
		})
}

// weighs is about what t takes in bbolt: its values, and for each change a part of the page
// that is written again, because others are mostly in the same one.
func (t *Transaction) weighs() int { return t.takes() + 64 + len(t.Changes)<<10 }

// wait queues t for bbolt, and lets reads see its changes. It keeps the slices of t until they are committed.
func (l *Logged) wait(t *Transaction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, t)
	l.weight, l.room = l.weight+t.weighs(), l.room+t.takes()+64
	l.newest = t.Manifest
	for _, c := range t.Changes {
		l.put(c.Bucket, c.Key, c.Value)
	}
	end := t.Manifest
	end.Sides = l.sums // they are of what bbolt has
	l.put(format.BucketMeta, format.KeyManifest, end.Encode())
}

func (l *Logged) put(name format.Bucket, key, value []byte) {
	if l.beside == nil {
		l.beside = make(map[format.Bucket]map[string][]byte)
	}
	if l.beside[name] == nil {
		l.beside[name] = make(map[string][]byte)
	}
	if _, waits := l.beside[name][string(key)]; !waits {
		l.room += l.pageSize
	}
	l.beside[name][string(key)] = value
}

// give has bbolt commit all that waits, and t.
func (l *Logged) give(t *Transaction) error {
	if len(l.waiting) > 0 {
		t = l.merged(t)
	}
	if err := l.Bolt.Commit(t); err != nil {
		return err
	}
	return l.begin()
}

// merged is t with all that waits before it.
func (l *Logged) merged(t *Transaction) *Transaction {
	all := *t
	all.before, all.Drop, all.Changes = slices.Clip(l.waiting), nil, nil
	for _, w := range append(all.before, t) {
		for _, d := range w.Drop {
			if d.Seq < l.waiting[0].Seq { // bbolt has it
				all.Drop = append(all.Drop, d)
			}
		}
	}
	for _, name := range format.SideBuckets {
		for _, key := range slices.Sorted(maps.Keys(l.beside[name])) {
			all.Changes = append(all.Changes, format.Edit{Bucket: name, Key: []byte(key), Value: l.beside[name][key]})
		}
	}
	all.Changes = append(all.Changes, t.Changes...)
	return &all
}

// flush has bbolt commit all that waits.
func (l *Logged) flush() error {
	if len(l.waiting) == 0 {
		return nil
	}
	return l.give(&Transaction{Manifest: l.newest})
}

// begin notes that nothing waits, and voids the log: bbolt has made another commit.
func (l *Logged) begin() error {
	v, end, err := l.end()
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.given, l.waiting, l.weight, l.room, l.most, l.beside = end.Seq, nil, 0, 0, 0, nil
	l.mu.Unlock()
	if l.log != nil {
		l.log.Begin(v)
	}
	return nil
}

// Room promises room in bbolt to what waits. On a disk that gives no more nothing waits.
func (l *Logged) Room(need, run int) (Room, error) {
	if l.log != nil {
		if err := inPlace(l.file, l.place.Path(directory.WALFile), l.log.Size, l.log.Size); err != nil {
			return Room{}, err
		}
	}
	r, err := l.Bolt.Room(need+l.room, run)
	l.short = !r.Gives || r.Spare < 0 || r.Run < run
	if err == nil && l.short && len(l.waiting) > 0 {
		if err = l.flush(); err == nil || errors.Is(err, format.ErrFull) {
			r, err = l.Bolt.Room(need+l.room, run)
		}
	}
	if l.after = max(l.after-1, -2); err == nil && l.after == -1 {
		err = l.makeLog()
	}
	l.most = r.Bytes
	r.Bytes -= l.room
	return r, err
}

// makeLog makes a log that stands on nothing yet, unless there is to be none, or no room or
// descriptor for it. No log stands on the last commit: what is left of an old one does no harm.
func (l *Logged) makeLog() error {
	if l.size < 0 || l.short {
		_ = l.place.DropFile(directory.WALFile)
		return nil
	}
	f, err := l.place.OpenRegular(directory.WALFile, os.O_RDWR|os.O_CREATE)
	if err == nil {
		if err = l.fillLog(f); err != nil {
			err = errors.Join(err, f.Close(), l.place.Drop(directory.WALFile))
		}
	}
	if err == nil || directory.NoSpace(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return nil
	}
	return fmt.Errorf("journal: %s: %w", directory.WALFile, err)
}

// fillLog makes f the log, durably. Who may use the journal may use it.
func (l *Logged) fillLog(f *os.File) error {
	names, err := l.place.Syncer()
	if err != nil {
		return err
	}
	defer names.Close()
	ours, err := l.File.Stat()
	if err == nil {
		err = directory.KeepAccess(f, ours)
	}
	if err != nil {
		return err
	}
	made, err := wal.Make(f, l.size, syncData)
	if err == nil {
		err = directory.SyncNames(names)
	}
	if err == nil {
		l.log, l.file = made, f
	}
	return err
}

// Rest has bbolt commit all that waits, and no log stand on that: the file alone is the
// journal, also for older versions of this package. After ErrFull what waits is where it was: in
// the log, if there is one. It is called last before Close, if at all.
func (l *Logged) Rest() error {
	if !l.logged && len(l.waiting) == 0 {
		return nil
	}
	end, err := ReadManifest(l)
	if err != nil {
		return err
	}
	l.log = nil
	return l.give(&Transaction{Manifest: end})
}

// Compact gives over first: the log does not stand on the new file.
func (l *Logged) Compact(over <-chan struct{}) (replaced bool, err error) {
	if err := l.flush(); err != nil {
		return !errors.Is(err, format.ErrFull), err
	}
	replaced, err = l.Bolt.Compact(over)
	if replaced {
		err = errors.Join(err, l.begin())
	}
	return replaced, err
}

func (l *Logged) Close() error {
	if l.file == nil {
		return l.Bolt.Close()
	}
	return errors.Join(l.file.Close(), l.Bolt.Close())
}
