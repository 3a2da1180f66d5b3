package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
)

// stagedPrefix begins the state key of a follow-up of another partition; the number of that and the name of
// the queue follow. No such key is ever written: the commit that sets it puts rows into the inbox instead.
const stagedPrefix = "outbox/"

// followUp is FollowUp of cluster.Cluster. What the server would refuse is refused here: it would take the
// commit with it.
func (n *Node) followUp(queue string, it item) (set journal.Set, err error) {
	number, err := n.PartitionOf(it.ID)
	if err == nil && !validText(queue) {
		err = fmt.Errorf("%w: queue %q, whose name is not UTF-8, or has a zero byte", executor.ErrFollowUp, queue)
	}
	set.Key = fmt.Sprintf("%s%d/%s", stagedPrefix, number, queue)
	set.Value = appendItem(binary.AppendUvarint(nil, 1), &it, isStaged)
	return set, err
}

// placeOf returns where a change goes that stands for a follow-up.
func placeOf(e format.Edit) (at place, staged bool) {
	if e.Bucket != format.BucketState || !bytes.HasPrefix(e.Key, []byte(stagedPrefix)) {
		return at, false
	}
	number, queue, _ := strings.Cut(string(e.Key[len(stagedPrefix):]), "/")
	at.queue = queue
	at.partition, _ = strconv.Atoi(number) // which followUp has written
	return at, true
}

// follow are rows for follow-ups, in their order.
func follow(staged []*outCall) (all []rows) {
	for len(staged) > 0 {
		n := flushable(staged)
		all = append(all, rowsOf(staged[:n]))
		staged = staged[n:]
	}
	return all
}
