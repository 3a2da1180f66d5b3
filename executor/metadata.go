package executor

import (
	"fmt"
	"maps"

	"github.com/strandjobs/strand/journal"
)

// What [Metadata] may have.
const (
	maxMetadataPairs = 16
	maxMetadataBytes = 1 << 10
)

func setMetadata(e *journal.Entry, pairs map[string]string) error {
	if len(pairs) == 0 {
		e.Metadata = nil // that of an earlier option
		return nil
	}
	if len(pairs) > maxMetadataPairs {
		return fmt.Errorf("%w: %d pairs for id %q, the limit is %d", ErrInvalidMetadata, len(pairs), e.ID, maxMetadataPairs)
	}
	size := 0
	for key, value := range pairs {
		if key == "" {
			return fmt.Errorf("%w: a key is empty, of the value %q for id %q", ErrInvalidMetadata, brief(value), e.ID)
		}
		size += len(key) + len(value)
	}
	if size > maxMetadataBytes {
		return fmt.Errorf("%w: keys and values for id %q have %d bytes, the limit is %d", ErrInvalidMetadata, e.ID, size, maxMetadataBytes)
	}
	e.Metadata = journal.NewMetadata(pairs)
	return nil
}

// metadataOf returns the metadata of a payload, nil if it has none.
func metadataOf(e *journal.Entry) map[string]string {
	if len(e.Metadata) == 0 {
		return nil
	}
	return maps.Collect(e.Metadata.All())
}
