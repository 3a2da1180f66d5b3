package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"go.etcd.io/bbolt"
)

// Scan has the blocks of bbolt that are still in the log, and then those that wait.
func (l *Logged) Scan(block func(seq uint64, data []byte) error) error {
	err := l.Bolt.Scan(func(seq uint64, data []byte) error {
		if seq < l.newest.Oldest {
			return nil
		}
		return block(seq, data)
	})
	for _, t := range l.waiting {
		if err == nil && t.Seq >= l.newest.Oldest {
			err = block(t.Seq, t.Block)
		}
	}
	return err
}

// Read finds a block that is given over meanwhile in one place or in the other.
func (l *Logged) Read(seq uint64, first, n int) ([]byte, error) {
	l.mu.RLock()
	i, waits := slices.BinarySearchFunc(l.waiting, seq, func(t *Transaction, seq uint64) int { return cmp.Compare(t.Seq, seq) })
	var block []byte
	if waits {
		block = l.waiting[i].Block
	}
	l.mu.RUnlock()
	if !waits {
		return l.Bolt.Read(seq, first, n)
	}
	if first+n > l.chunks(len(block)) {
		return nil, format.DamagedBlock(seq, "chunk %d is missing", first+n-1)
	}
	return bytes.Clone(block[first*l.chunk : min((first+n)*l.chunk, len(block))]), nil // who keeps it keeps no more
}

func (l *Logged) Get(name format.Bucket, key []byte) ([]byte, error) {
	l.mu.RLock()
	value, waits := l.beside[name][string(key)]
	l.mu.RUnlock()
	if waits {
		return bytes.Clone(value), nil
	}
	return l.Bolt.Get(name, key)
}

// Page has what bbolt has, and what waits over it.
func (l *Logged) Page(name format.Bucket, from []byte) ([]format.Pair, error) {
	for {
		page, newest, err := l.Bolt.Page(name, from)
		if err != nil {
			return nil, err
		}
		switch all, stale := l.over(name, from, page, newest); {
		case stale:
		case len(all) > 0 || len(page) == 0:
			return all, nil
		default: // all of it is deleted
			from = append(page[len(page)-1].Key, 0)
		}
	}
}

// over is a page that bbolt had when that was its newest block, with what waits over it; the
// last page is empty. Stale: bbolt has got more since.
func (l *Logged) over(name format.Bucket, from []byte, page []format.Pair, newest uint64) (all []format.Pair, stale bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if newest != l.given {
		return page, newest < l.given // it has got just now what waits, and more
	}
	beside := l.beside[name]
	if len(beside) == 0 {
		return page, false
	}
	last := len(page) - 1
	within := func(key string) bool { return key >= string(from) && (last < 0 || key <= string(page[last].Key)) }
	for key, value := range beside {
		if value != nil && within(key) {
			all = append(all, format.Pair{Key: []byte(key), Value: bytes.Clone(value)})
		}
	}
	for _, kv := range page {
		if _, waits := beside[string(kv.Key)]; !waits {
			all = append(all, kv)
		}
	}
	slices.SortFunc(all, func(a, b format.Pair) int { return bytes.Compare(a.Key, b.Key) })
	return all[:min(len(all), pageCount)], false
}

// CopyTo copies what bbolt has as it stands there, and has the copy commit what waits.
func (l *Logged) CopyTo(path string, over <-chan struct{}) error {
	p, err := directory.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(l.copyInto(p, filepath.Base(path), over), p.Close())
	}
	if err != nil {
		return fmt.Errorf("journal: copy: %w", err)
	}
	return nil
}

// copyInto reads the file below bbolt: pages that a reader of this commit can see are not
// written to while it reads. What waits stays as it is until that commit is settled; bbolt may
// have got it just then, but not what comes after that.
func (l *Logged) copyInto(p *directory.Dir, name string, over <-chan struct{}) error {
	f, err := p.OpenRegular(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	l.mu.RLock()
	release := sync.OnceFunc(l.mu.RUnlock)
	defer release()
	var waiting []*Transaction
	var end format.Manifest
	err = l.view(func(tx *bbolt.Tx) (err error) {
		waiting = slices.Clone(l.waiting)
		release()
		if end, err = format.ParseManifest(tx.Bucket([]byte(format.BucketMeta)).Get(format.KeyManifest)); err != nil {
			return err
		}
		_, err = tx.WriteTo(&interruptible{f, over})
		if err != nil && IsOver(over) {
			return ErrGivenUp // bbolt does not wrap it
		}
		return err
	})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil || end.Log == 0 && len(waiting) == 0 {
		return err
	}
	to, err := attachIn(p, name, BoltOptions())
	if err != nil {
		return err
	}
	return errors.Join(to.settle(waiting), to.Close())
}

// interruptible writes until over is closed.
type interruptible struct {
	io.Writer
	over <-chan struct{}
}

func (w *interruptible) Write(b []byte) (int, error) {
	if IsOver(w.over) {
		return 0, ErrGivenUp
	}
	return w.Writer.Write(b)
}

// Rewrite writes all to a new file that is to take the place of this one.
func (l *Logged) Rewrite(p *directory.Dir) error { return l.rewrite(p, nil, l.waiting) }
