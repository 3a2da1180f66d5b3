package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// newMedium returns a disk on which all is that is in dir.
func newMedium(dir string) (*medium, error) {
	m := &medium{dir: dir, names: map[string]*inode{}, durable: map[string]*inode{}}
	for _, name := range keptFiles {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		file := &inode{data}
		m.names[name], m.durable[name] = file, file
	}
	return m, nil
}

const (
	journalFile = "journal.db"
	walFile     = "journal.wal"
)

// keptFiles are those that have what was accepted.
var keptFiles = []string{journalFile, journalFile + ".new", walFile}

// do takes in a call. An error says that this disk does not know what it does.
func (m *medium) do(c call) error {
	name := filepath.Base(c.path)
	file := m.names[name]
	switch {
	case c.failed || !slices.Contains(keptFiles, name) && c.path != m.dir:
	case c.name == "openat" && c.cuts:
		return fmt.Errorf("%s was cut as it was opened", name)
	case c.name == "openat" && file == nil:
		m.names[name] = new(inode)
		m.pending = append(m.pending, change{c, m.names[name], true})
	case c.name == "rename":
		m.names[filepath.Base(c.second)] = file
		delete(m.names, name)
		m.pending = append(m.pending, change{c, file, true})
	case c.name == "unlinkat":
		delete(m.names, name)
		m.pending = append(m.pending, change{c, file, true})
	case c.name == "pwrite64" || c.name == "ftruncate":
		m.pending = append(m.pending, change{c, file, false})
	case isSync(c.name):
		m.sync(file, c.path == m.dir)
	case c.name != "openat" && c.name != "open" && c.name != "mmap":
		return fmt.Errorf("%s of %s", c.name, name)
	}
	return nil
}

// sync has what is pending of a file, or of the names, arrive.
func (m *medium) sync(file *inode, names bool) {
	m.pending = slices.DeleteFunc(m.pending, func(p change) bool {
		covered := p.names == names && (p.names || p.file == file)
		if covered && p.names {
			p.rename(m.durable)
		} else if covered {
			p.write(p.file, nil)
		}
		return covered
	})
}

// rename applies a change of a name.
func (p change) rename(names map[string]*inode) {
	name := filepath.Base(p.call.path)
	if p.call.name == "openat" {
		names[name] = p.file
		return
	}
	if names[name] != p.file {
		return // it never got that name
	}
	delete(names, name)
	if p.call.name == "rename" {
		names[filepath.Base(p.call.second)] = p.file
	}
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
	// Which share of the writes arrives is drawn first: all or none of them
	// are as likely as a mixture.
	share := cmp.Or(float64(r.IntN(4))/3, -1)
	files := m.left(func() bool { return r.Float64() < share }, func() bool { return share > 0 && r.IntN(2) == 0 })
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for name, file := range files {
		if err := os.WriteFile(filepath.Join(dir, name), file.data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// left is what is found when of each pending change arrives says whether it did, and of a
// write that did not, torn whether parts of it did, and which.
func (m *medium) left(arrives, torn func() bool) map[string]*inode {
	names, copies := maps.Clone(m.durable), map[*inode]*inode{}
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
		case torn():
			p.write(f, torn)
		}
	}
	for name, file := range names {
		names[name] = cmp.Or(copies[file], file)
	}
	return names
}

// agree compares what programs see on this disk with what is in the directory: who knows
// all calls knows that, too.
func (m *medium) agree() error {
	all := func() bool { return true }
	seen := m.left(all, all)
	for _, name := range keptFiles {
		there, err := os.ReadFile(filepath.Join(m.dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if file := seen[name]; (file == nil) != (err != nil) || file != nil && !bytes.Equal(file.data, there) {
			return fmt.Errorf("%s is not what the recorded calls have made of it", name)
		}
	}
	return nil
}
