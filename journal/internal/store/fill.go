package store

import "os"

// zeroes is written to pages that were not used yet.
var zeroes [64 << 10]byte

// writeZeroes has the disk give the bytes of f between two offsets.
func writeZeroes(f *os.File, from, to int64) error {
	for ; from < to; from += int64(len(zeroes)) {
		if _, err := f.WriteAt(zeroes[:min(int64(len(zeroes)), to-from)], from); err != nil {
			return err
		}
	}
	return nil
}
