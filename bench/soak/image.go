package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// imagesPerRun is how many images one recording is good for.
const imagesPerRun = 500

// imageProof repeats N2: what a loss of power may leave on a disk at any moment
// of a run, the first creation included, opens and has everything that was
// accepted.
func imageProof(c *campaign) error {
	for c.more() {
		if err := c.trial(imageRun); err != nil {
			return err
		}
	}
	return nil
}

// imageRun records two lives on one journal, and tries images of each.
func imageRun(c *campaign, r *rand.Rand, dir string) error {
	o := newOracle()
	journalDir := filepath.Join(dir, "jobs.strand")
	for number := range 2 {
		l := randomLife(r, journalDir, number+1)
		l.Ops = 5 + r.IntN(40)
		m, err := newMedium(journalDir)
		if err != nil {
			return err
		}
		trace := filepath.Join(dir, fmt.Sprintf("trace%d", number))
		p, err := startLife(l, func(string) error { return nil }, straceArgs(trace)...)
		if err != nil {
			return err
		}
		if err := p.wait(30 * time.Second); err != nil {
			return err
		}
		calls, err := readTrace(trace, journalDir)
		if err != nil {
			return err
		}
		o.begin(number + 1)
		c.count("calls recorded", len(calls))
		if err := tryImages(c, r, o, m, calls, filepath.Join(dir, "image")); err != nil {
			return fmt.Errorf("life %d: %w", number+1, err)
		}
		o.end()
		if !o.clean {
			return fmt.Errorf("life %d ended with: %s", number+1, o.class)
		}
	}
	return nil
}

// tryImages follows a recording and loses the power at random calls.
func tryImages(c *campaign, r *rand.Rand, o *oracle, m *medium, calls []call, dir string) error {
	points := make([]int, imagesPerRun/2)
	for i := range points {
		points[i] = r.IntN(len(calls) + 1)
	}
	slices.Sort(points)
	for i := 0; ; i++ {
		for ; len(points) > 0 && points[0] == i; points = points[1:] {
			if err := m.lose(r, dir); err != nil {
				return err
			}
			in, err := contents(dir)
			if err == nil {
				err = o.missing(in)
			}
			if err != nil {
				return fmt.Errorf("power lost at call %d of %d: %w", i, len(calls), err)
			}
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			if c.did(1); !c.more() {
				points = nil
				break
			}
		}
		if i == len(calls) {
			return nil
		}
		if calls[i].path != "stdout" {
			m.do(calls[i])
			continue
		}
		for line := range strings.Lines(string(calls[i].data)) {
			if err := o.hear(line); err != nil {
				return err
			}
		}
	}
}

// medium is what is known about a disk: what is on it for sure, and what may
// have reached it.
type medium struct {
	dir     string
	names   map[string]*inode // as programs see them
	durable map[string]*inode // as they are found without the pending calls
	pending []change
}

type inode struct{ data []byte }

// change is a call that no sync has covered. Of a name: file is the one that
// gets it. Of a file: offset and data, or a new size when data is nil.
type change struct {
	call  call
	file  *inode
	names bool
}

func newMedium(dir string) (*medium, error) {
	m := &medium{dir: dir, names: map[string]*inode{}, durable: map[string]*inode{}}
	data, err := os.ReadFile(filepath.Join(dir, journalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	file := &inode{data}
	m.names[journalFile], m.durable[journalFile] = file, file
	return m, err
}

const journalFile = "journal.db"

func (m *medium) do(c call) {
	name := filepath.Base(c.path)
	file := m.names[name]
	switch {
	case c.failed || !strings.HasPrefix(name, journalFile) && c.path != m.dir:
	case c.name == "openat" && file == nil:
		m.names[name] = new(inode)
		m.pending = append(m.pending, change{c, m.names[name], true})
	case c.name == "rename":
		m.names[filepath.Base(c.second)] = file
		delete(m.names, name)
		m.pending = append(m.pending, change{c, file, true})
	case c.name == "pwrite64" || c.name == "ftruncate":
		m.pending = append(m.pending, change{c, file, false})
	case isSync(c.name):
		m.pending = slices.DeleteFunc(m.pending, func(p change) bool {
			covered := p.names == (c.path == m.dir) && (p.names || p.file == file)
			if covered && p.names {
				p.rename(m.durable)
			} else if covered {
				p.write(p.file, nil)
			}
			return covered
		})
	}
}

// rename applies a change of a name.
func (p change) rename(names map[string]*inode) {
	if p.call.name == "rename" {
		if names[filepath.Base(p.call.path)] != p.file {
			return // it never got its first name
		}
		delete(names, filepath.Base(p.call.path))
		names[filepath.Base(p.call.second)] = p.file
		return
	}
	names[filepath.Base(p.call.path)] = p.file
}

const sectorSize = 512

// write applies a change of a file, or the sectors of it that torn lets pass.
func (p change) write(f *inode, torn func() bool) {
	end := p.call.offset + int64(len(p.call.data))
	if p.call.name == "ftruncate" {
		f.resize(p.call.offset)
		return
	}
	f.resize(max(int64(len(f.data)), end))
	for at := p.call.offset; at < end; {
		next := min(at/sectorSize*sectorSize+sectorSize, end)
		if torn == nil || torn() {
			copy(f.data[at:next], p.call.data[at-p.call.offset:])
		}
		at = next
	}
}

func (f *inode) resize(n int64) {
	if n <= int64(len(f.data)) {
		f.data = f.data[:n]
		return
	}
	f.data = append(f.data, make([]byte, n-int64(len(f.data)))...)
}

// lose writes what a loss of power leaves into dir.
func (m *medium) lose(r *rand.Rand, dir string) error {
	names, copies := map[string]*inode{}, map[*inode]*inode{}
	for name, file := range m.durable {
		names[name] = file
	}
	// Which share of the writes arrives is drawn first: all or none of them
	// are as likely as a mixture.
	share := cmp.Or(float64(r.IntN(4))/3, -1)
	arrives := func() bool { return r.Float64() < share }
	for _, p := range m.pending {
		if p.names {
			if arrives() {
				p.rename(names)
			}
			continue
		}
		f := copies[p.file]
		if f == nil {
			f = &inode{bytes.Clone(p.file.data)}
			copies[p.file] = f
		}
		switch {
		case arrives():
			p.write(f, nil)
		case share > 0 && r.IntN(2) == 0:
			p.write(f, func() bool { return r.IntN(2) == 0 })
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for name, file := range names {
		if f := copies[file]; f != nil {
			file = f
		}
		if err := os.WriteFile(filepath.Join(dir, name), file.data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
