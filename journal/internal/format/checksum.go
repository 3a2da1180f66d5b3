package format

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// The values of morgue and meta end with a CRC32C of their key and themselves:
// bbolt has none on data pages. See also [Seal].
const ChecksumSize = 4

var errChecksum = errors.New("wrong checksum")

func checksumOf(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, Castagnoli), Castagnoli, value)
}

// BlockChecksum is that of a block without the four bytes where it stands.
func BlockChecksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:8], Castagnoli), Castagnoli, b[12:])
}

// AppendChecksum appends that of key and value.
func AppendChecksum(value, key []byte) []byte {
	return binary.LittleEndian.AppendUint32(value, checksumOf(key, value))
}

// CutChecksum checks v and returns the value in it.
func CutChecksum(v, key []byte) ([]byte, error) {
	n := len(v) - ChecksumSize
	if n < 0 {
		return nil, errShort
	}
	if binary.LittleEndian.Uint32(v[n:]) != checksumOf(key, v[:n]) {
		return nil, errChecksum
	}
	return v[:n:n], nil
}
