//go:build unix

package command

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// later adds what is due in a hundred years to an office, a job of many payloads, and
// enough jobs for several pages.
func later(t *testing.T, dir string) {
	t.Helper()
	l := newLedger(t, dir)
	orders := l.queue("orders")
	far := time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	l.put(orders, "order-9", "much \x1b[31m later\xff", far, 1)
	var entries []journal.Entry
	for i := range 120 {
		entries = append(entries, journal.Entry{Queue: orders, ID: []byte("order-10"), Payload: fmt.Appendf(nil, "%d", i), Due: far + 1, Score: float64(i)})
		entries = append(entries, journal.Entry{Queue: orders, ID: fmt.Appendf(nil, "crowd-%d\xfe", i), Payload: fmt.Appendf(nil, "%d", i), Due: ago(time.Duration(i) * time.Second), Score: 1})
	}
	ticket, err := l.Append(t.Context(), entries, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	l.close()
}

// A process does not count the bytes of a queue, and only it counts what it has done.
var (
	queueJSON = regexp.MustCompile(`(?m)^\{"type":"queue".*\}$`)
	queueHead = regexp.MustCompile(`PAYLOADS +AGE +BYTES +MORGUE`)
	queueRow  = regexp.MustCompile(`(?m)^((?:errands|idle|mails|orders) .*?) +[\d.]+ [a-zµ]+(?: \d+ [a-z]+)? +(?:[\d.]+ K?i?B|-) +(\d+)$`)
)

func alike(s, dir string) string {
	s = queueJSON.ReplaceAllStringFunc(normal(s, dir), func(line string) string {
		all := make(map[string]any)
		if err := json.Unmarshal([]byte(line), &all); err != nil {
			return err.Error()
		}
		var some strings.Builder
		for name := range strings.FieldsSeq("queue paused paused_ids paused_prefixes length payloads fresh retries halted due delayed morgue_length") {
			fmt.Fprintf(&some, "%s %v ", name, all[name])
		}
		return some.String()
	})
	s = queueHead.ReplaceAllString(s, "PAYLOADS  AGE  BYTES  MORGUE")
	return queueRow.ReplaceAllString(s, "$1 <age> <size> $2")
}

// Each command that looks says the same of a journal that a process has open as it says
// of it when that process is dead, byte by byte.
func TestTheSameLiveAndAtRest(t *testing.T) {
	t.Parallel()
	slow(t)
	dir := office(t)
	later(t, dir)
	must(t, "", "pause", dir, "orders", "-prefix", "crowd-1")
	must(t, "", "pause", dir, "orders", "order-2", "order-9")
	_, kill := startLive(t, dir)
	calls := [][]string{
		{"inspect", dir}, {"jobs", dir}, {"jobs", dir, "-queue", "orders", "-limit", "7"}, {"jobs", dir, "-limit", "0"},
		{"job", dir, "mails", "ann"}, {"job", dir, "mails", "bob"}, {"job", dir, "mails", "bob", "-full"}, {"job", dir, "mails", "carl"},
		{"job", dir, "orders", "order-2"}, {"job", dir, "orders", "order-9"}, {"job", dir, "orders", "order-10"},
		{"job", dir, "mails", "nobody"}, {"job", dir, "no", "nobody"}, {"jobs", dir, "-queue", "no"},
		{"morgue", dir}, {"morgue", dir, "list", "mails", "ann"}, {"morgue", dir, "list", "orders"}, {"morgue", dir, "list", "-full"},
		{"morgue", dir, "list", "mails", "nobody"}, {"morgue", dir, "delete"}, {"morgue", dir, "burn"},
	}
	answers := func() (all []string) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, args := range calls {
			for _, args := range [][]string{args, append(args, "-json")} {
				var out, errs strings.Builder
				status := Program{}.Run(t.Context(), append([]string{"strand"}, args...), nil, &out, &errs, now)
				all = append(all, fmt.Sprintf("%q %d\n%s%s", args[0:1], status, alike(out.String(), dir), normal(errs.String(), dir)))
			}
		}
		return all
	}
	require.ErrorAs(t, journal.InUse(dir), new(*journal.LockedError))
	live := answers()
	kill()
	require.NoError(t, journal.InUse(dir))
	rest := answers()
	for i := range live {
		assert.Equal(t, rest[i], live[i], calls[i/2])
	}
	assert.FileExists(t, filepath.Join(dir, "control.sock"), "the socket of the dead")
}
