//go:build unix

package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// Of a queue that the process has not registered it says how much there is, and its morgue
// can be looked at.
func TestUnregisteredQueueLive(t *testing.T) {
	dir := office(t)
	l := newLedger(t, dir)
	former := l.queue("former")
	l.put(former, "a", "waits", ago(0), 1)
	l.put(former, "b", "waits", ago(0), 1)
	l.bury(l.put(former, "c", "is dead", ago(0), 1), 3, "boom", ago(0))
	l.close()
	startLive(t, dir)
	const note = "The process has not registered the queue former, which has 2 payloads.\n"
	for _, args := range [][]string{{"inspect", dir}, {"jobs", dir}, {"jobs", dir, "-queue", "former"}, {"job", dir, "former", "a"}, {"status", dir}} {
		assert.True(t, strings.HasSuffix(must(t, "", args...), note), args)
	}
	assert.Contains(t, must(t, "", "jobs", dir, "-json"), `{"type":"unregistered","queue":"former","payloads":2}`+"\n")
	assert.Contains(t, must(t, "", "morgue", dir, "list", "former"), "is dead")
	assert.Contains(t, must(t, "", "job", dir, "former", "c"), "is dead")
	_, errs, status := strand(t, "", "morgue", dir, "requeue", "former")
	assert.Equal(t, noClear, status)
	assert.Contains(t, errs, `unknown queue: "former"`)
	_, errs, _ = strand(t, "", "run", dir, "former", "a")
	assert.Contains(t, errs, `unknown queue: "former"`)
}

// Of a job that is larger than an answer the first payloads are shown, and how many there
// are beyond.
func TestLargeJobLive(t *testing.T) {
	dir := office(t)
	l := newLedger(t, dir)
	q := l.queue("orders")
	for i := range 3 {
		l.put(q, "large", fmt.Sprint(i)+strings.Repeat("x", 700_000), ago(0), float64(i))
	}
	entries := make([]journal.Entry, 1200)
	for i := range entries {
		entries[i] = journal.Entry{Queue: q, ID: []byte("many"), Payload: []byte("four"), Due: ago(0), Score: float64(i)}
	}
	ticket, err := l.Append(t.Context(), entries, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	l.close()
	startLive(t, dir)
	out := must(t, "", "job", dir, "orders", "large")
	assert.Contains(t, out, "  3         2.0 MiB  ")
	assert.Contains(t, out, "0xxx")
	assert.Contains(t, out, "\n2 more payloads are not shown: an answer has the first thousand, of a MiB\n")
	out = must(t, "", "job", dir, "orders", "large", "-json")
	assert.Contains(t, out, `"payloads":3,`)
	assert.Contains(t, out, `"bytes":700001,"total_bytes":2100003,"waiting":[{`)
	assert.Equal(t, 1, strings.Count(out, "xxx\"}"))

	out = must(t, "", "job", dir, "orders", "many")
	assert.Contains(t, out, "\n200 more payloads are not shown")
	assert.Contains(t, out, "  1200      over 3.9 KiB  ")
	assert.Contains(t, must(t, "", "jobs", dir), "  1200      over 3.9 KiB  ")
	assert.Contains(t, must(t, "", "jobs", dir, "-json"), `"bytes":4,"total_bytes":4000,"bytes_at_least":true}`)
	_, errs, status := strand(t, "", "job", dir, "orders", "large", "-timeout", "1ns")
	assert.Equal(t, noClear, status)
	assert.Contains(t, errs, "did not answer hello within 1ns")
}
