package executor

import (
	"encoding/binary"
	"fmt"

	"github.com/strandjobs/strand/journal"
)

// lockPrefix begins the state keys of holds; the number follows.
const lockPrefix = "lock/"

func (h *hold) stateKey() string {
	return string(binary.BigEndian.AppendUint64([]byte(lockPrefix), h.number))
}

func (l *locks) written(e effect) journal.Set {
	if e.dropped {
		return journal.Set{Key: e.hold.stateKey()}
	}
	l.binding.Lock()
	defer l.binding.Unlock()
	return journal.Set{Key: e.hold.stateKey(), Value: e.hold.encode(e.hold.position)}
}

const holdVersion = 1

func (h *hold) encode(position journal.Position) []byte {
	v := []byte{holdVersion, 0}
	if h.onRun {
		v[1] = 1
	}
	v = binary.AppendUvarint(v, uint64(position))
	v = binary.AppendVarint(v, h.since)
	v = binary.AppendVarint(v, h.until)
	for _, s := range []string{h.by.queue, h.by.id} {
		v = binary.AppendUvarint(v, uint64(len(s)))
		v = append(v, s...)
	}
	return append(v, h.key...)
}

func parseHold(s journal.Set) (*hold, error) {
	damaged := fmt.Errorf("executor: lock %q: %w", s.Key, &journal.CorruptError{Reason: fmt.Sprintf("a lock of %d bytes", len(s.Value))})
	number := s.Key[len(lockPrefix):]
	v := s.Value
	if len(number) != 8 || len(v) < 2 {
		return nil, damaged
	}
	if v[0] > holdVersion {
		return nil, fmt.Errorf("%w: a lock has version %d", journal.ErrTooNew, v[0])
	}
	h := &hold{number: binary.BigEndian.Uint64([]byte(number)), onRun: v[1]&1 != 0}
	r := reader{v[2:]}
	h.position, h.since, h.until = journal.Position(r.uvarint()), r.varint(), r.varint()
	h.by.queue = r.text()
	h.by.id = r.text()
	if h.key = string(r.rest); h.key == "" {
		return nil, damaged
	}
	return h, nil
}

// reader takes a value apart. What is cut short leaves nothing.
type reader struct{ rest []byte }

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.skip(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.skip(n)
	return v
}

func (r *reader) text() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.rest = nil
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

func (r *reader) skip(n int) {
	if n <= 0 {
		r.rest = nil
		return
	}
	r.rest = r.rest[n:]
}
