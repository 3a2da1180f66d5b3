package store

import (
	"errors"
	"path/filepath"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
)

// CopyTo commits what is on the disk in memory to a new file.
func (m *Memory) CopyTo(path string, _ <-chan struct{}) error {
	c := m.Crash() // nothing changes that one
	p, err := directory.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := OpenBolt(p)
	if err != nil {
		return err
	}
	return errors.Join(c.transfer(s), s.Close())
}

// transfer commits everything to s: the blocks one by one, the rest with the
// true end mark.
func (m *Memory) transfer(s Store) error {
	err := m.Scan(func(seq uint64, data []byte) error {
		return s.Commit(&Transaction{Seq: seq, Block: data, Manifest: format.FirstManifest})
	})
	if err != nil || m.side == nil {
		return err
	}
	t, err := format.ParseManifest(m.side[format.BucketMeta][string(format.KeyManifest)])
	if err != nil {
		return err
	}
	last := &Transaction{Manifest: t}
	for _, name := range []format.Bucket{format.BucketQueues, format.BucketMorgue, format.BucketState} {
		for key, value := range m.side[name] {
			last.Changes = append(last.Changes, format.Edit{Bucket: name, Key: []byte(key), Value: value})
		}
	}
	return s.Commit(last)
}
