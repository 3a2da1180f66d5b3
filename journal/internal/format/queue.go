package format

import (
	"encoding/binary"
	"fmt"
)

// QueueEdit gives a queue its number.
func QueueEdit(name string, number uint32) Edit {
	return Edit{Bucket: BucketQueues, Key: []byte(name), Value: binary.BigEndian.AppendUint32(nil, number)}
}

// ParseQueue returns the number of a queue.
func ParseQueue(name, value []byte) (uint32, error) {
	if len(value) != 4 {
		return 0, BrokenValue(BucketQueues, name, fmt.Errorf("%d bytes", len(value)))
	}
	return binary.BigEndian.Uint32(value), nil
}

// MaxQueueName is the longest name of a queue, in bytes.
const MaxQueueName = 4096
