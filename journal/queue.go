package journal

import (
	"encoding/binary"
	"fmt"
)

func queueChange(name string, number uint32) change {
	return change{bucket: bucketQueues, key: []byte(name), value: binary.BigEndian.AppendUint32(nil, number)}
}

func parseQueue(name, value []byte) (uint32, error) {
	if len(value) != 4 {
		return 0, brokenValue(bucketQueues, name, fmt.Errorf("%d bytes", len(value)))
	}
	return binary.BigEndian.Uint32(value), nil
}

// maxQueueName is the longest name of a queue, in bytes.
const maxQueueName = 4096
