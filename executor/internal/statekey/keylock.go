package statekey

import (
	"encoding/binary"
	"fmt"

	"github.com/strandjobs/strand/executor/internal/admit"
	"github.com/strandjobs/strand/journal"
)

// LockPrefix begins the state keys of key-locks; the number follows.
const LockPrefix = "lock/"

const keyLockVersion = 1

// KeyLock is what the journal has of a keylock.Lock. Times are those of the wall clock,
// in Unix nanoseconds; Until is 0 for ever.
type KeyLock struct {
	Number, Position uint64
	OnRun            bool
	Since, Until     int64
	Owner            admit.Owner
	Key              string
}

// LockKey is the state key of the key-lock with a number.
func LockKey(number uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(LockPrefix), number))
}

// Set writes a key-lock.
func (k *KeyLock) Set() journal.Set {
	v := []byte{keyLockVersion, 0}
	if k.OnRun {
		v[1] = 1
	}
	v = binary.AppendUvarint(v, k.Position)
	v = binary.AppendVarint(v, k.Since)
	v = binary.AppendVarint(v, k.Until)
	for _, s := range []string{k.Owner.Queue, k.Owner.ID} {
		v = binary.AppendUvarint(v, uint64(len(s)))
		v = append(v, s...)
	}
	return journal.Set{Key: LockKey(k.Number), Value: append(v, k.Key...)}
}

// ParseKeyLock reads what Set has written.
func ParseKeyLock(s journal.Set) (k KeyLock, err error) {
	v, number := s.Value, s.Key[len(LockPrefix):]
	if len(number) != 8 || len(v) < 2 {
		return k, damaged("a lock of %d bytes, with a number of %d", len(v), len(number))
	}
	if v[0] > keyLockVersion {
		return k, fmt.Errorf("%w: a lock has version %d", journal.ErrTooNew, v[0])
	}
	rest := v[2:]
	k = KeyLock{
		Number: binary.BigEndian.Uint64([]byte(number)), OnRun: v[1]&1 != 0, Position: take(&rest, binary.Uvarint),
		Since: take(&rest, binary.Varint), Until: take(&rest, binary.Varint),
	}
	k.Owner.Queue = takeText(&rest)
	k.Owner.ID = takeText(&rest)
	if k.Key = string(rest); k.Key == "" {
		return k, damaged("a lock of %d bytes, which has no key", len(v))
	}
	return k, nil
}

// take takes a number off a value. Of one that is cut short it takes all, and zero.
func take[N any](rest *[]byte, number func([]byte) (N, int)) N {
	v, n := number(*rest)
	if n <= 0 {
		n = len(*rest)
	}
	*rest = (*rest)[n:]
	return v
}

// takeText takes a text that has its length before it.
func takeText(rest *[]byte) string {
	n := take(rest, binary.Uvarint)
	n = min(n, uint64(len(*rest)))
	text := string((*rest)[:n])
	*rest = (*rest)[n:]
	return text
}
