package admit

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Owner is who holds, locks or waits: a job by its queue and id, all others by an
// ID alone. The zero value is anonymous, or a person who locks by hand. An owner
// counts as one sequential party.
type Owner struct{ Queue, ID string }

// String names an owner for people: queue/id, or the ID as it is. Two jobs never
// have one name, and nothing in it moves the cursor of a terminal.
func (o Owner) String() string {
	if o.Queue == "" {
		return o.ID
	}
	queue, id := Plain(o.Queue), Plain(o.ID)
	if queue == o.Queue && strings.ContainsAny(queue, `/"`) {
		queue = strconv.Quote(queue)
	}
	if id == o.ID && strings.HasPrefix(id, `"`) {
		id = strconv.Quote(id)
	}
	return queue + "/" + id
}

// Plain quotes a text that does not print as it is: control characters, what turns
// the direction of writing round, and what is not UTF-8.
func Plain(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
