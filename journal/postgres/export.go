package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Export writes the partitions of a schema, which no node may own, to dir, which must not be there yet: a journal when
// there is one partition. Of several each has positions of its own, and so dir becomes a directory with a file
// partitions.json and a journal for each, 0000 and so on, which [Import] takes, for any number of partitions, and each
// of which an executor, or the strand command, can open by itself. The schema stays as it is.
//
// A journal has all that its partition had at one moment, the same for all of them: log, morgue, state keys,
// positions, epoch and UUID. It is read again and compared entry by entry. dir appears when all of it is on disk and
// compared; what a process that died leaves is beside it, with ".export-" and a number in its name, and may be
// removed. What nodes have accepted in the inbox is in no partition yet: with any of that it is ErrNotEmpty.
//
// Of cfg, Schema, Partitions and Executor.Logger count, which is told now and then how far it is. It takes about 100
// bytes of memory for each live entry of a partition, and 100 MiB besides.
//
// It returns ErrConfig, ErrNoSchema, ErrTooNew, ErrPartitions, ErrUnsafe, ErrInUse, also for a node that was at work
// meanwhile, ErrNotEmpty, errDiffers, journal.ErrExists, journal.ErrCorrupt, the cause of ctx, or what the server or
// the system says; then there is no dir.
func Export(ctx context.Context, url string, cfg Config, dir string) (Moved, error) {
	dir = filepath.Clean(dir)
	return withMover(ctx, url, cfg, "export", false, func(m *mover) error {
		if _, err := os.Lstat(dir); err == nil {
			return fmt.Errorf("%w: %s", journal.ErrExists, dir)
		}
		draft, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+".export-")
		if err != nil {
			return err
		}
		err = m.survey(ctx, func(s *partitionStore) error {
			return s.export(m, filepath.Join(draft, partName(s.partition)))
		})
		if err == nil {
			err = m.reveal(draft, dir)
		}
		return errors.Join(err, os.RemoveAll(draft))
	})
}

// Check reads and checks all partitions as their owners do when they open them: what Open of
// package journal calls ErrCorrupt is that here. Nodes may be at work; it sees one moment.
// Of cfg, Schema and Partitions count.
func Check(ctx context.Context, url string, cfg Config) (Moved, error) {
	return withMover(ctx, url, cfg, "check", false, func(m *mover) error { return m.check(ctx) })
}

func (m *mover) check(ctx context.Context) error {
	return m.look(ctx, func(_ Stats, views []*journal.View) error {
		for p, v := range views {
			if err := m.each(ctx, fmt.Sprint("count partition ", p), alone(v), func(p *piece) error { m.count(p); return nil }); err != nil {
				return fmt.Errorf("partition %d: %w", p, err)
			}
		}
		return nil
	})
}

// Look calls do with what Stats of a node has, without what only nodes know, and with all partitions, as
// they are at one moment and as journal.OpenView reads a journal. It takes no lease and changes nothing; the
// server may be a standby. Nodes may be at work, whose old rows it keeps meanwhile: see Stats.SnapshotAge.
// What is in the inbox is in no partition yet. It takes 24 bytes of memory for each live entry, and 100 MiB.
//
// Of cfg, Schema and Partitions count. It returns the errors of [Check], or what do returns.
func Look(ctx context.Context, url string, cfg Config, do func(Stats, []*journal.View) error) (err error) {
	_, failed := withMover(ctx, url, cfg, "look", false, func(m *mover) error {
		return m.look(ctx, func(s Stats, all []*journal.View) error { err = do(s, all); return err })
	})
	return cmp.Or(err, failed)
}

func (m *mover) look(ctx context.Context, do func(Stats, []*journal.View) error) error {
	return m.atOnce(ctx, func() error {
		stats, err := readStats(ctx, m.conn, textsFor(m.cfg.Schema, time.Time{}, m.partitions))
		if err != nil {
			return err
		}
		heads, err := m.heads(ctx)
		if err != nil {
			return err
		}
		views := make([]*journal.View, len(heads))
		for p, h := range heads {
			s := m.store(ctx, p, h.epoch)
			defer s.Close()
			if views[p], err = s.view(max(atHand/len(heads), leastBlock)); err != nil {
				return fmt.Errorf("partition %d: %w", p, err)
			}
		}
		return do(stats, views)
	})
}

// atOnce calls do in a transaction that sees one moment.
func (m *mover) atOnce(ctx context.Context, do func() error) error {
	tx, err := m.begin(ctx, snapshot)
	if err != nil {
		return err
	}
	return cmp.Or(do(), tx.Rollback(context.WithoutCancel(ctx)))
}

// survey calls do with each partition as it is at one moment. No node may be at work until the end.
func (m *mover) survey(ctx context.Context, do func(*partitionStore) error) error {
	var heads []head
	err := m.atOnce(ctx, func() (err error) {
		heads, err = m.quiet(ctx)
		for p := 0; p < len(heads) && err == nil; p++ {
			s := m.store(ctx, p, heads[p].epoch)
			if err = errors.Join(do(s), s.Close()); err != nil {
				err = fmt.Errorf("partition %d: %w", p, err)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	now, err := m.quiet(ctx)
	if err == nil && !slices.Equal(heads, now) {
		err = fmt.Errorf("%w: one had a partition meanwhile; stop it", ErrInUse)
	}
	return err
}

// quiet returns the heads of partitions, of which no node has any, and to which no calls are on
// their way.
func (m *mover) quiet(ctx context.Context) ([]head, error) {
	if err := m.atRest(ctx); err != nil {
		return nil, err
	}
	if err := m.noInbox(ctx, "run a node until they are taken in, and see Stats for those that were refused"); err != nil {
		return nil, err
	}
	return m.heads(ctx)
}

// export makes a journal of the partition and compares it.
func (s *partitionStore) export(m *mover, dir string) error {
	r, err := s.view(atHand)
	if err == nil {
		err = translated(directory.Fill(dir, func(file string) error { return store.Copy(s, file) }))
	}
	if err != nil {
		return err
	}
	return withJournal(dir, 1, func(v *journal.View) error { return m.compare(s.ctx, dir, alone(v), []*journal.View{r}) })
}

// partsFile is what a directory of journals has beside them.
const partsFile = "partitions.json"

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
		note, _ := json.Marshal(partsNote{partsVersion, m.partitions}) // does not fail
		f, err := os.OpenFile(filepath.Join(draft, partsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(append(note, '\n'))
		if err := errors.Join(err, f.Sync(), f.Close(), syncDir(draft)); err != nil {
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
	one := filepath.Join(dir, directory.FileName)
	if _, err := os.Lstat(one); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has the journals of %d partitions, and %s, one that an executor may have made there since; "+
			"move that to a directory of its own", journal.ErrNotJournal, dir, note.Partitions, one)
	}
	for p := range note.Partitions {
		names = append(names, filepath.Join(dir, partName(p)))
	}
	return names, nil
}
