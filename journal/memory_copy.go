package journal

import (
	"errors"
	"path/filepath"
)

// copyTo commits what is on the disk in memory to a new file.
func (m *Memory) copyTo(path string, _ <-chan struct{}) error {
	c := m.Crash() // nothing changes that one
	p, err := openPlace(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := openBolt(p)
	if err != nil {
		return err
	}
	return errors.Join(c.transfer(s), s.close())
}

// transfer commits everything to s: the blocks one by one, the rest with the
// true end mark.
func (m *Memory) transfer(s store) error {
	err := m.scan(func(seq uint64, data []byte) error {
		return s.commit(&transaction{seq: seq, block: data, tail: firstTail})
	})
	if err != nil || m.side == nil {
		return err
	}
	t, err := parseTail(m.side[bucketMeta][string(keyTail)])
	if err != nil {
		return err
	}
	last := &transaction{tail: t}
	for _, name := range []bucket{bucketQueues, bucketMorgue, bucketState} {
		for key, value := range m.side[name] {
			last.changes = append(last.changes, change{bucket: name, key: []byte(key), value: value})
		}
	}
	return s.commit(last)
}
