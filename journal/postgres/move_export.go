package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Export writes the partitions of a schema, which no node may own, to dir, which must not be
// there yet: a journal when there is one partition. Of several each has positions of its
// own, and so dir becomes a directory with a file partitions.json and a journal for each,
// 0000 and so on, which [Import] takes, for as many partitions or a multiple of that, and each
// of which an executor, or the strand command, can open by itself. The schema stays as it is.
//
// A journal has all that its partition had at one moment, the same for all of them: log,
// morgue, state keys, positions, epoch and UUID. It is read again and compared entry by
// entry. dir appears when all of it is on disk and compared; what a process that died
// leaves is beside it, with ".export-" and a number in its name, and may be removed. What
// nodes have accepted in the inbox is in no partition yet: with any of that it is
// ErrNotEmpty.
//
// Of cfg, Schema, Partitions and Executor.Logger count, which is told now and then how far it is.
// It takes about 100 bytes of memory for each live entry of a partition, and 100 MiB besides.
//
// It returns ErrConfig, ErrNoSchema, ErrTooNew, ErrPartitions, ErrUnsafe, ErrInUse, also for
// a node that was at work meanwhile, ErrNotEmpty, ErrDiffers, journal.ErrExists,
// journal.ErrCorrupt, the cause of ctx, or what the server or the system says; then there is
// no dir.
func Export(ctx context.Context, url string, cfg Config, dir string) (moved Moved, err error) {
	m, err := newMover(ctx, url, cfg, false)
	if err != nil {
		return Moved{}, err
	}
	defer m.close()
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); err == nil {
		return Moved{}, fmt.Errorf("%w: %s", journal.ErrExists, dir)
	}
	draft, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".export-")
	if err != nil {
		return Moved{}, fmt.Errorf("postgres: export: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(draft)) }()
	err = m.survey(ctx, true, func(s *partitionStore) error {
		return s.export(m, filepath.Join(draft, partName(s.partition)))
	})
	if err == nil {
		err = m.reveal(draft, dir)
	}
	if err != nil {
		return Moved{}, fmt.Errorf("postgres: export: %w", because(ctx, err))
	}
	return m.moved, nil
}

// Check reads and checks all partitions as their owners do when they open them: what Open of
// package journal calls ErrCorrupt is that here. Nodes may be at work; it sees one moment.
// Of cfg, Schema and Partitions count.
func Check(ctx context.Context, url string, cfg Config) (Moved, error) {
	m, err := newMover(ctx, url, cfg, false)
	if err != nil {
		return Moved{}, err
	}
	defer m.close()
	if err := m.survey(ctx, false, func(*partitionStore) error { return nil }); err != nil {
		return Moved{}, fmt.Errorf("postgres: check: %w", because(ctx, err))
	}
	return m.moved, nil
}

// survey reads all partitions as they are at one moment, and calls do for each before. alone:
// no node may be at work until the end.
func (m *mover) survey(ctx context.Context, alone bool, do func(*partitionStore) error) error {
	tx, err := m.begin(ctx, snapshot)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	heads, err := m.quiet(ctx, alone)
	if err != nil {
		return err
	}
	for p, h := range heads {
		s := m.store(ctx, p, h.epoch)
		err := do(s)
		if err == nil {
			err = m.tally(s)
		}
		_ = s.Close()
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
	}
	if err := tx.Rollback(ctx); err != nil || !alone {
		return err
	}
	now, err := m.quiet(ctx, alone)
	if err == nil && !slices.Equal(heads, now) {
		err = fmt.Errorf("%w: one had a partition meanwhile; stop it", ErrInUse)
	}
	return err
}

// quiet returns the heads of partitions; alone: of which no node has any, and to which no
// calls are on their way.
func (m *mover) quiet(ctx context.Context, alone bool) ([]head, error) {
	if alone {
		if err := m.atRest(ctx); err != nil {
			return nil, err
		}
		if err := m.noInbox(ctx, "run a node until they are taken in, and see Stats for those that were refused"); err != nil {
			return nil, err
		}
	}
	return m.heads(ctx)
}

// tally reads a partition and counts what it has.
func (m *mover) tally(s *partitionStore) error {
	r, err := s.view(atHand)
	if err != nil {
		return err
	}
	return m.each(s.ctx, fmt.Sprint("count partition ", s.partition), r, func(p *piece) error { m.count(p); return nil })
}

// export makes a journal of the partition and compares it.
func (s *partitionStore) export(m *mover, dir string) error {
	d, err := directory.NewDraft(dir)
	if err != nil {
		return err
	}
	b, err := store.OpenBolt(d.Lock.Place)
	if err == nil {
		err = errors.Join(s.transfer(s.ctx, m.conn, b), b.Close())
	}
	if err == nil {
		err = d.Reveal()
	}
	if err != nil {
		return errors.Join(translated(err), d.Discard())
	}
	r, err := s.view(atHand)
	if err != nil {
		return err
	}
	info, err := withJournal(dir, func(v *journal.View) error {
		return m.compare(s.ctx, dir, v, []*journal.View{r}, newRouter(Config{}.divide(1), 0, 1))
	})
	if want := r.Info(); err == nil && (info.Next != want.Next || info.Epoch != want.Epoch) {
		err = fmt.Errorf("%w: the journal goes on at position %d in epoch %d, and not at %d in %d",
			ErrDiffers, info.Next, info.Epoch, want.Next, want.Epoch)
	}
	return err
}

// partsFile is what a directory of journals has beside them.
const partsFile = "partitions.json"

// journalFile is what makes a directory a journal.
const journalFile = "journal.db"

const partsVersion = 1

type partsNote struct {
	Version    int `json:"version"`
	Partitions int `json:"partitions"`
}

func partName(partition int) string { return fmt.Sprintf("%04d", partition) }

// reveal gives what is in draft its name.
func (m *mover) reveal(draft, dir string) error {
	from := draft
	if m.partitions == 1 {
		from = filepath.Join(draft, partName(0))
	} else {
		note, err := json.Marshal(partsNote{partsVersion, m.partitions})
		if err == nil {
			err = writeSynced(filepath.Join(draft, partsFile), append(note, '\n'))
		}
		if err == nil {
			err = syncDir(draft)
		}
		if err != nil {
			return err
		}
	}
	if _, err := os.Lstat(dir); err == nil { // an empty directory would be replaced
		return fmt.Errorf("%w: %s", journal.ErrExists, dir)
	}
	if err := os.Rename(from, dir); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	p, err := directory.Open(dir)
	if err != nil {
		return err
	}
	defer p.Close()
	f, err := p.Syncer()
	if err != nil {
		return err
	}
	return errors.Join(directory.SyncNames(f), f.Close())
}

// journalsIn returns the journals in dir: itself, or one for each of several partitions.
func journalsIn(dir string) (names []string, err error) {
	path := filepath.Join(dir, partsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return []string{dir}, nil // OpenView tells if it is none
	}
	var note partsNote
	if err == nil {
		err = json.Unmarshal(text, &note)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w", journal.ErrNotJournal, path, err)
	case note.Version > partsVersion:
		return nil, fmt.Errorf("%w: %s has version %d, this is version %d", journal.ErrTooNew, path, note.Version, partsVersion)
	case note.Version < 1 || note.Partitions < 2 || note.Partitions > maxPartitions:
		return nil, fmt.Errorf("%w: %s says version %d and %d partitions", journal.ErrNotJournal, path, note.Version, note.Partitions)
	}
	one := filepath.Join(dir, journalFile)
	if _, err := os.Lstat(one); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has the journals of %d partitions, and %s, one that an executor may have made there since; "+
			"move that to a directory of its own", journal.ErrNotJournal, dir, note.Partitions, one)
	}
	for p := range note.Partitions {
		names = append(names, filepath.Join(dir, partName(p)))
	}
	return names, nil
}
