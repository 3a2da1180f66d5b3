package format

import (
	"crypto/rand"
	"fmt"
)

// KeyUUID is where the meta bucket keeps what tells a journal from all others. A
// copy has the same; which of them is meant, epoch and next position may tell.
// Journals from before there was one have none.
var KeyUUID = []byte("uuid")

const uuidSize = 16

// NewUUID returns a random one (version 4), with its checksum.
func NewUUID() []byte {
	id := make([]byte, uuidSize, uuidSize+ChecksumSize)
	_, _ = rand.Read(id) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return AppendChecksum(id, KeyUUID)
}

// ParseUUID returns the text of one; empty for none.
func ParseUUID(v []byte) (string, error) {
	if v == nil {
		return "", nil
	}
	id, err := CutChecksum(v, KeyUUID)
	if err != nil || len(id) != uuidSize {
		return "", Damaged("the UUID of the journal: %d bytes, %v", len(v), err)
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), nil
}
