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

	"github.com/jackc/pgx/v5"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/rest"
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
// It returns executor.ErrConfig, ErrNoSchema, journal.ErrTooNew, ErrPartitions, ErrUnsafe, ErrInUse, also for a node
// that was at work meanwhile, ErrNotEmpty, an error that says what differs, journal.ErrExists, journal.ErrCorrupt, the
// cause of ctx, or what the server or the system says. After all of these it has made no dir.
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
			return m.export(s, filepath.Join(draft, partName(s.partition)))
		})
		if err == nil {
			err = m.reveal(draft, dir)
		}
		return errors.Join(err, os.RemoveAll(draft))
	})
}

// Check reads and checks all partitions as their owners do when they open them. Damage is
// journal.ErrCorrupt. Nodes may be at work: Check sees all of it as it was at one moment.
// Of cfg, Schema, Partitions and Executor.Logger count.
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
// It uses only Schema and Partitions of cfg. It returns the errors of [Check], or what do returns.
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

// export makes a journal of a partition and compares it.
func (m *mover) export(s *partitionStore, dir string) error {
	r, err := s.view(atHand)
	if err == nil {
		err = translated(directory.Fill(dir, func(file string) error { return store.Copy(s, file) }))
	}
	if err != nil {
		return err
	}
	return withJournal(dir, 1, func(v *journal.View) error { return m.compare(s.ctx, dir, alone(v), []*journal.View{r}) })
}

// partsFile is what a directory of journals has beside them: a partsNote.
const partsFile, partsVersion = "partitions.json", 1

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

// Import puts the journal in dir, which no process may have open, into the partitions of a schema that were not used
// yet; or the directory of journals that [Export] makes of several partitions, into any number of them. It is one
// transaction: all is there, or the schema is as it was, also when this process, the connection or the server dies
// meanwhile. Before it is committed, both sides are read again and compared entry by entry. The journal stays as it
// is: keep its program from running the jobs a second time.
//
// The order of each id is kept, with payloads, metadata, states of jobs, the morgue, names of queues, and the epoch
// that fencing tokens grow from; and positions are where a journal is divided, and not joined with others: see
// [Repartition]. A journal is divided as the ids are: by cfg.Partition, which has to be that of the nodes. What an id
// has goes with it, with the locks of its jobs and its pause; the README says what becomes of the rest. A lock or a
// limit that ids of several partitions share binds within each from then on: see the package comment. What the crash
// recorder of a process that died has noted is left out.
//
// Of cfg, Schema, Partitions, Partition, Name, SingleServer and Executor.Logger count, which is told now and then how
// far it is. ctx ends it; while the server does not say what became of the commit it is asked for a minute. It takes
// about 100 bytes of memory for each live entry, and 100 MiB besides. The server takes as much room for it in its own
// log as in the tables; what one that failed has written there goes with the next vacuum. Nodes that are started
// meanwhile get no partition until it is over.
//
// It returns executor.ErrConfig, ErrNoSchema, journal.ErrTooNew, ErrPartitions, ErrUnsafe, ErrInUse, ErrNotEmpty, ErrIndivisible,
// an error that says what differs; executor.ErrNotOwned for an id in a journal of another partition than cfg says; the errors of
// journal.OpenView for dir; journal.ErrUnknown when it may be there, which [Check] tells; the cause of ctx, or what
// the server says.
func Import(ctx context.Context, url string, cfg Config, dir string) (Moved, error) {
	dirs, err := journalsIn(dir)
	if err != nil {
		return Moved{}, err
	}
	return withMover(ctx, url, cfg, "import of "+dir, true, func(m *mover) error {
		uuids := newUUIDs(m.partitions)
		return m.transact(ctx, uuids[0], func() error {
			err := m.fill(ctx, dir, dirs, uuids)
			if err == nil { // at the end: who opens the schema would wait for it
				_, _, err = m.cfg.settle(ctx, m.conn, m.cfg.divide(m.partitions), true)
			}
			return err
		})
	})
}

// fill writes what there is in journals, and compares it.
func (m *mover) fill(ctx context.Context, dir string, dirs []string, uuids [][]byte) error {
	heads, err := m.claim(ctx, uuids)
	if err != nil {
		return err
	}
	if _, _, err := m.cfg.settle(ctx, m.conn, m.cfg.divide(m.partitions), false); err != nil {
		return err
	}
	return m.distribute(ctx, dir, newRouter(m.cfg, len(dirs), m.partitions), heads, func(from, together int, do func(*journal.View) error) error {
		opened := false
		err := withJournal(dirs[from], together, func(v *journal.View) error { opened = true; return do(v) })
		if err != nil && !opened && len(dirs) > 1 {
			err = fmt.Errorf("journal %s: %w", filepath.Base(dirs[from]), err)
		}
		return err
	})
}

// withJournal calls f with a journal that is not open, and stays so, which is open together with some others.
func withJournal(dir string, together int, f func(*journal.View) error) error {
	v, err := rest.OpenView(dir, max(rest.AtHand/together, leastBlock))
	if err != nil {
		return err
	}
	return errors.Join(v.Undisturbed(f(v)), v.Close())
}

// commit commits, and finds out what has become of it: then the first partition has that
// UUID, or has not.
func (m *mover) commit(ctx context.Context, tx pgx.Tx, uuid []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	forgetWarning(m.conn.Conn().PgConn())
	err := cmp.Or(tx.Commit(ctx), warned(m.conn.Conn().PgConn()))
	if err == nil || refusedForGood(err) {
		return err
	}
	_ = m.conn.Conn().Close(context.WithoutCancel(ctx)) // its transaction ends, in one way or the other
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.outcome)
	defer cancel()
	there := false // the answer is one of a commit, which the standby has, too
	for pause := firstPause; ; {
		unknown := onConnection(limit, m.pool, m.outcome,
			scalar(&there, in(m.cfg.Schema, "SELECT uuid = $1 FROM {schema}.last(0)"), uuid))
		switch {
		case unknown == nil && there:
			return nil
		case unknown == nil:
			return err
		}
		if retryAfter(limit, &pause) != nil {
			return fmt.Errorf("%w: the commit has no answer: %w", journal.ErrUnknown, errors.Join(err, unknown))
		}
	}
}
