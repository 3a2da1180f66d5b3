package main

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
	names, copies := maps.Clone(m.durable), map[*inode]*inode{}
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
