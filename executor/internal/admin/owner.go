package admin

import (
	"strconv"
	"strings"
)

// JobOf reads the name of a job as it is in explanations: queue/id, either quoted if
// it would not be clear otherwise. False: it is the name of no job.
func JobOf(name string) (queue, id string, ok bool) {
	if quoted, err := strconv.QuotedPrefix(name); err == nil && strings.HasPrefix(name, `"`) {
		queue, _ = strconv.Unquote(quoted)
		name, ok = strings.CutPrefix(name[len(quoted):], "/")
		id = name
	} else {
		queue, id, ok = strings.Cut(name, "/")
	}
	if !ok {
		return "", "", false
	}
	if strings.HasPrefix(id, `"`) {
		unquoted, err := strconv.Unquote(id)
		if err != nil {
			return "", "", false
		}
		id = unquoted
	}
	return queue, id, true
}
