package rest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
	"github.com/strandjobs/strand/journal/internal/store"
)

// Report is what Check found in a journal.
type Report struct {
	// Damage is the first thing that is wrong, and matches ErrCorrupt; nil when
	// the journal is sound. After damage the other figures are incomplete.
	Damage error

	FileBytes int64           // of the file
	Epoch     uint64          // how many times the journal was opened
	UUID      string          // of the journal and its copies; empty for one from before there was one
	Next      format.Position // the next position
	Blocks    int             // in the log
	Bytes     int             // of these blocks
	LiveBytes int             // of entries in them that did not end
	Live      int             // entries that did not end
	Dead      int             // entries that did, in blocks that are still there

	Queues []QueueReport // by name
}

// QueueReport counts what a queue has.
type QueueReport struct {
	Name     string // empty for a number that has no name, which is damage
	Number   uint32
	Payloads int // that did not end
	States   int // of jobs
	Buried   int // payloads in the morgue
}

// Check reads and checks all of the journal in dir without writing to it, not
// even the LOCK file. A [LockedError] says who has the journal open. Who opens it
// meanwhile is kept waiting for a second, and is then told that it is in use.
//
// It returns an error when it could not look: also ErrTooNew and ErrNotJournal,
// the latter for a directory without a journal, too. Damage is in the report.
func Check(dir string) (Report, error) {
	c := &checker{queues: make(map[uint32]*QueueReport)}
	if err := identify(dir); err != nil {
		return c.report, err
	}
	if err := directory.HeldBy(dir); err != nil {
		return c.report, err
	}
	err := c.file(filepath.Join(dir, directory.FileName))
	for _, q := range c.queues {
		c.report.Queues = append(c.report.Queues, *q)
	}
	slices.SortFunc(c.report.Queues, func(a, b QueueReport) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Number, b.Number))
	})
	if errors.Is(err, format.ErrCorrupt) {
		c.report.Damage, err = err, nil
	}
	return c.report, err
}

type checker struct {
	report Report
	queues map[uint32]*QueueReport // by number
}

func (c *checker) file(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	c.report.FileBytes = info.Size()
	if err := pages.Check(path); err != nil {
		return err
	}
	s, err := store.ReadBolt(path)
	if err != nil {
		return err
	}
	return errors.Join(c.contents(s), s.Close())
}

func (c *checker) contents(s *store.Bolt) error {
	if err := s.Check(); err != nil {
		return err
	}
	if err := c.beside(s); err != nil {
		return err
	}
	survey := block.NewSurvey()
	err := s.Scan(func(seq uint64, data []byte) error {
		err := survey.Block(seq, data)
		if err == nil {
			c.report.Blocks++
			c.report.Bytes += len(data)
		}
		return err
	})
	if err != nil {
		return err
	}
	t, err := store.ReadTail(s)
	if err != nil {
		return err
	}
	c.report.Epoch, c.report.Next = t.Epoch, t.Next
	if c.report.UUID, err = store.ReadUUID(s); err != nil {
		return err
	}
	if err := survey.Finish(t); err != nil {
		return err
	}
	return s.Scan(func(seq uint64, data []byte) error { return c.count(survey, seq, data) })
}

// beside counts what is beside the log; all of it has been checked.
func (c *checker) beside(s *store.Bolt) error {
	queues, err := store.ReadQueues(s)
	for name, number := range queues {
		c.queue(number).Name = name
	}
	for number, n := range s.Buried() {
		c.queue(number).Buried = n
	}
	return err
}

func (c *checker) queue(number uint32) *QueueReport {
	q := c.queues[number]
	if q == nil {
		q = &QueueReport{Number: number}
		c.queues[number] = q
	}
	return q
}

// count counts the entries of a block that was surveyed.
func (c *checker) count(s *block.Survey, seq uint64, data []byte) error {
	h, err := format.ParseHeader(data, seq)
	if err != nil {
		return err
	}
	return h.Scan(data, func(_ uint32, size int, e *format.Entry) {
		if !s.Live(e.Position, seq) {
			c.report.Dead++
			return
		}
		c.report.Live++
		c.report.LiveBytes += size
		if q := c.queue(e.Queue); e.Kind == format.KindState {
			q.States++
		} else {
			q.Payloads++
		}
	}, nil)
}
