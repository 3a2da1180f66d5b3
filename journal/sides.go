package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// sum tells what a bucket holds, in whatever order it came there: how many
// values, and the sum of what each of them hashes to. A value that is missing, or
// an older version of itself, makes another sum.
type sum struct{ count, hash uint64 }

func (s *sum) add(key, v []byte) {
	s.count++
	s.hash += hashOf(key, v)
}

func (s *sum) remove(key, v []byte) {
	s.count--
	s.hash -= hashOf(key, v)
}

// hashOf takes what is hashed already: values end with a checksum over key and
// value. CRCs are linear, so that those of two changes can cancel each other out;
// mixed (as splitmix64 does) they don't.
func hashOf(key, v []byte) uint64 {
	h := uint64(len(key)) << 32
	if n := len(v) - checksumSize; n >= 0 {
		h |= uint64(binary.LittleEndian.Uint32(v[n:]))
	}
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// sides are the sums of the buckets beside the log.
type sides struct{ queues, morgue, state sum }

// sideBuckets are the buckets that have one.
var sideBuckets = []bucket{bucketQueues, bucketMorgue, bucketState}

func (s *sides) of(name bucket) *sum {
	switch name {
	case bucketQueues:
		return &s.queues
	case bucketMorgue:
		return &s.morgue
	case bucketState:
		return &s.state
	}
	panic(fmt.Sprintf("journal: bug: bucket %q has no sum", name))
}

// sealSize is what the values of queues and state keys end with: the number of
// the newest block when they were written, and a checksum over bucket, key, value
// and number. The number tells [Salvage] which of two copies is the older one.
const sealSize = 8 + checksumSize

// sealed reports whether the values of a bucket are. Those of the morgue are not:
// there is only one version of each, and they bring a checksum of their own.
func sealed(name bucket) bool { return name == bucketQueues || name == bucketState }

// seal returns a copy of value as it is written.
func seal(name bucket, key, value []byte, seq uint64) []byte {
	v := append(make([]byte, 0, len(value)+sealSize), value...)
	v = binary.BigEndian.AppendUint64(v, seq)
	return binary.LittleEndian.AppendUint32(v, sealOf(name, key, v))
}

func sealOf(name bucket, key, v []byte) uint32 {
	return crc32.Update(checksumOf([]byte(name), key), castagnoli, v)
}

// unseal is the opposite of seal. The value is a part of v.
func unseal(name bucket, key, v []byte) (value []byte, seq uint64, err error) {
	n := len(v) - sealSize
	if n < 0 {
		return nil, 0, brokenValue(name, key, fmt.Errorf("%d bytes", len(v)))
	}
	if binary.LittleEndian.Uint32(v[n+8:]) != sealOf(name, key, v[:n+8]) {
		return nil, 0, brokenValue(name, key, errChecksum)
	}
	return v[:n:n], binary.BigEndian.Uint64(v[n:]), nil
}
