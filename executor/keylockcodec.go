package executor

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// lockPrefix begins the state keys of key-locks; the number follows.
const lockPrefix = "lock/"

func stateKey(h *lock.KeyLock) string {
	return string(binary.BigEndian.AppendUint64([]byte(lockPrefix), h.Number))
}

func (l *locks) written(c lock.Change) journal.Set {
	if c.Ended {
		return journal.Set{Key: stateKey(c.Lock)}
	}
	l.binding.Lock()
	defer l.binding.Unlock()
	return l.set(c.Lock)
}

const keyLockVersion = 1

// set is what the journal has of a key-lock. binding is held. Times are written as
// on the wall clock of now, in Unix nanoseconds: 0 for ever.
func (l *locks) set(h *lock.KeyLock) journal.Set {
	v := []byte{keyLockVersion, 0}
	if h.OnRun {
		v[1] = 1
	}
	now := time.Now()
	zero := now.UnixNano() - int64(now.Sub(l.base))
	until := int64(h.Until)
	if until != 0 {
		until = zero + min(until, math.MaxInt64-zero)
	}
	v = binary.AppendUvarint(v, h.Position)
	v = binary.AppendVarint(v, zero+int64(h.Since))
	v = binary.AppendVarint(v, until)
	for _, s := range []string{h.Owner.Queue, h.Owner.ID} {
		v = binary.AppendUvarint(v, uint64(len(s)))
		v = append(v, s...)
	}
	return journal.Set{Key: stateKey(h), Value: append(v, h.Key...)}
}

// parse takes a key-lock from the journal, and when it ends on the wall clock.
func (l *locks) parse(s journal.Set, now time.Time) (h *lock.KeyLock, until int64, err error) {
	damaged := fmt.Errorf("executor: lock %q: %w", s.Key, &journal.CorruptError{Reason: fmt.Sprintf("a lock of %d bytes", len(s.Value))})
	number := s.Key[len(lockPrefix):]
	v := s.Value
	if len(number) != 8 || len(v) < 2 {
		return nil, 0, damaged
	}
	if v[0] > keyLockVersion {
		return nil, 0, fmt.Errorf("%w: a lock has version %d", journal.ErrTooNew, v[0])
	}
	zero := now.UnixNano() - int64(now.Sub(l.base))
	h = &lock.KeyLock{Number: binary.BigEndian.Uint64([]byte(number)), OnRun: v[1]&1 != 0}
	r := reader{v[2:]}
	h.Position, h.Since = r.uvarint(), time.Duration(r.varint()-zero)
	if until = r.varint(); until != 0 {
		h.Until = time.Duration(until - zero)
	}
	h.Owner.Queue = r.text()
	h.Owner.ID = r.text()
	if h.Key = string(r.rest); h.Key == "" {
		return nil, 0, damaged
	}
	return h, until, nil
}

// reader takes a value apart. Of one that is cut short it reads zeros.
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
