package directory

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/strandjobs/strand/journal/internal/format"
)

// Draft is a directory that is to become a journal: a copy, or one that is being
// built. Its name is that of the journal, ".new-" and a number, and its LOCK says
// that name and is locked for as long as its maker works on it. A process that dies
// leaves the draft behind; by these signs the next one knows it, and removes it.
type Draft struct {
	Parent *Dir
	Lock   *DirLock
	name   string // in parent
	final  string // in parent, when it is whole
}

// DraftSuffix comes between the name of a journal and the number of a draft.
const DraftSuffix = ".new-"

func draftNote(name string) string { return "unfinished " + name + "\n" }

// NewDraft begins the journal dir, which must not be there yet.
func NewDraft(dir string) (*Draft, error) {
	dir = filepath.Clean(dir)
	parent, err := Open(filepath.Dir(dir))
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	d := &Draft{Parent: parent, final: filepath.Base(dir)}
	_, err = parent.Lstat(d.final)
	switch {
	case err == nil:
		err = fmt.Errorf("%w: %s", format.ErrExists, dir)
	case errors.Is(err, fs.ErrNotExist):
		sweep(parent)
		err = d.make()
	}
	if err != nil {
		return nil, errors.Join(err, parent.Close())
	}
	return d, nil
}

// make makes the directory and locks it. Until it is locked, a process that sweeps
// may take it for a leftover: then it is made again.
func (d *Draft) make() error {
	for range attempts {
		d.name = d.final + DraftSuffix + strconv.FormatUint(rand.Uint64(), 10)
		if err := d.Parent.mkdir(d.name); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		var err error
		if d.Lock, err = tryLock(d.Path(), draftNote(d.name), false); err == nil {
			return nil
		}
		_ = d.Parent.RemoveAll(d.name) // a LOCK may be in it
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errRemoved) && !errors.Is(err, errHeld) {
			return fmt.Errorf("journal: %w", err)
		}
	}
	return fmt.Errorf("journal: %s is removed all the time", d.Path())
}

// Fill makes the journal dir, which must not be there yet, with the file that make writes:
// as a whole, or not at all.
func Fill(dir string, make func(file string) error) error {
	d, err := NewDraft(dir)
	if err != nil {
		return err
	}
	if err = make(filepath.Join(d.Path(), FileName)); err == nil {
		err = d.Reveal()
	}
	if err != nil {
		return errors.Join(err, d.Discard())
	}
	return nil
}

// Path is where the draft is.
func (d *Draft) Path() string { return d.Parent.Path(d.name) }

// Reveal makes the draft durable and gives it its name. After an error Discard is
// called.
func (d *Draft) Reveal() error {
	inside, err := d.Lock.Place.Syncer()
	beside, wrong := d.Parent.Syncer()
	defer inside.Close()
	defer beside.Close()
	if err = cmp.Or(err, wrong, SyncNames(inside)); err == nil && !canLock {
		err = d.release() // or the directory can't be renamed
	}
	if err == nil {
		err = d.rename(beside)
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return errors.Join(d.release(), d.Parent.Close())
}

// rename gives the draft its name, and makes it durable through what Syncer has returned.
func (d *Draft) rename(beside *os.File) error {
	err := d.Parent.Rename(d.name, d.final)
	if err == nil {
		d.name = d.final // for Discard
		err = SyncNames(beside)
	}
	return err
}

// release ends the lock and removes its file: a copy is as if it had never been opened.
func (d *Draft) release() error {
	if d.Lock == nil {
		return nil
	}
	l := d.Lock
	d.Lock = nil
	return l.Undo()
}

// Discard removes the draft.
func (d *Draft) Discard() error {
	first := d.release // or its files can't be removed
	if canLock && d.Lock != nil {
		first = d.Lock.Place.clear // before what it is known by
	}
	return errors.Join(first(), d.Parent.RemoveAll(d.name), d.release(), d.Parent.Close())
}

// clear removes the files that a draft has, but its LOCK.
func (p *Dir) clear() error { return errors.Join(p.Drop(NewName), p.Drop(FileName)) }

// SweepBeside removes drafts whose makers have died, from where dir is.
func SweepBeside(dir string) {
	if parent, err := Open(filepath.Dir(filepath.Clean(dir))); err == nil {
		sweep(parent)
		_ = parent.Close()
	}
}

// sweep removes drafts whose makers have died. What may be anything else, or
// can't be removed, is left alone.
func sweep(parent *Dir) {
	if !canLock {
		return
	}
	self, err := parent.Open(".")
	if err != nil {
		return
	}
	defer self.Close()
	for err == nil {
		var names []string
		names, err = self.Readdirnames(1000)
		for _, name := range names {
			if namesDraft(name) {
				parent.sweepOne(name)
			}
		}
	}
}

func namesDraft(name string) bool {
	at := strings.LastIndex(name, DraftSuffix)
	if at < 1 {
		return false
	}
	_, err := strconv.ParseUint(name[at+len(DraftSuffix):], 10, 64)
	return err == nil
}

// sweepOne removes a directory of the place if it is a draft that no process works
// on.
func (p *Dir) sweepOne(name string) {
	if info, err := p.Lstat(name); err != nil || !info.IsDir() {
		return
	}
	root, err := p.OpenRoot(name)
	if err != nil {
		return
	}
	inside := &Dir{root}
	defer inside.Close()
	f, err := inside.OpenRegular(LockName, os.O_RDWR)
	if err == nil {
		defer f.Close()
		if lockFile(f) != nil || !p.abandoned(name, inside, f) || inside.clear() != nil || inside.Drop(LockName) != nil {
			return
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return
	}
	_ = p.Remove(name) // only if it is empty: its maker came no further, or we did that
}

// abandoned reports whether a name still stands for the place inside, which is a draft, and that
// still has the LOCK that we hold: who finishes a draft gives it another name, and removes its LOCK.
func (p *Dir) abandoned(name string, inside *Dir, lock *os.File) bool {
	held, err := lock.Stat()
	place, wrong := inside.Stat(".")
	return cmp.Or(err, wrong) == nil && p.Has(name, place) && inside.Has(LockName, held) && inside.isDraft(name, lock)
}

// isDraft reports whether the LOCK of a place says that it is the draft of a name, and
// nothing is in it that no draft has.
func (p *Dir) isDraft(name string, lock *os.File) bool {
	b, err := io.ReadAll(io.LimitReader(lock, lockBytes))
	if _, note, _ := strings.Cut(string(b), "\n"); err != nil || note != draftNote(name) {
		return false
	}
	files, err := fs.ReadDir(p.FS(), ".")
	return err == nil && !slices.ContainsFunc(files, func(f fs.DirEntry) bool {
		return f.Name() != LockName && f.Name() != FileName && f.Name() != NewName
	})
}
