package command

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// childEnv makes the test binary a process that has a journal open.
const childEnv = "STRAND_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(commandEnv) != "" {
		debug.SetGCPercent(25) // as main of executor/cmd/strand does it
		ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
		status := Program{}.Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr, time.Now())
		cancel()
		os.Exit(status)
	}
	if dir := os.Getenv(liveEnv); dir != "" {
		liveChild(dir)
	}
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
	}
	_ = flag.Set("test.parallel", "8") // they wait for processes; -parallel of go test counts
	os.Exit(m.Run())
}

// commandEnv makes it the command, and liveEnv a process that has a journal open and can
// be asked.
const (
	commandEnv = "STRAND_TEST_COMMAND"
	liveEnv    = "STRAND_TEST_LIVE"
)

// someday is when the tests run.
var someday = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)

// ago and in are due times.
func ago(d time.Duration) int64 { return someday.Add(-d).UnixNano() }
func in(d time.Duration) int64  { return someday.Add(d).UnixNano() }

// strand calls the command as the tests' process.
func strand(t testing.TB, input string, args ...string) (out, errs string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	status = Program{}.Run(t.Context(), append([]string{"strand"}, args...), strings.NewReader(input), &o, &e, someday)
	return o.String(), e.String(), status
}

// must calls the command and expects it to do well.
func must(t testing.TB, input string, args ...string) string {
	t.Helper()
	out, errs, status := strand(t, input, args...)
	require.Equal(t, fine, status, "strand %q: %s%s", args, out, errs)
	require.Empty(t, errs)
	return out
}

// ledger fills a journal without an executor.
type ledger struct {
	testing.TB
	*journal.Log
	refs map[journal.Position]journal.Ref
}

func newLedger(t testing.TB, dir string) *ledger {
	t.Helper()
	l := &ledger{TB: t, refs: make(map[journal.Position]journal.Ref)}
	var err error
	l.Log, err = journal.Open(dir, journal.Config{Deliver: func(d *journal.Delivery) {
		var e journal.Entry
		for i := range d.Len() {
			ref, err := d.Read(i, &e)
			if err != nil {
				panic(err) // not the test's goroutine
			}
			l.refs[e.Position] = ref
		}
		d.Done()
	}})
	require.NoError(t, err)
	return l
}

// queue returns the number of a queue.
func (l *ledger) queue(name string) uint32 {
	l.Helper()
	number, err := l.Log.Queue(context.Background(), name)
	require.NoError(l, err)
	return number
}

// put appends one payload, in a block of its own.
func (l *ledger) put(queue uint32, id, payload string, due int64, score float64) journal.Position {
	l.Helper()
	return l.append(journal.Entry{Queue: queue, ID: []byte(id), Payload: []byte(payload), Due: due, Score: score})
}

// append is put with all that a payload may carry.
func (l *ledger) append(entry journal.Entry) journal.Position {
	l.Helper()
	ticket, err := l.Append(context.Background(), []journal.Entry{entry}, nil)
	require.NoError(l, err)
	require.NoError(l, ticket.Wait(context.Background()))
	return ticket.Position(0)
}

// record makes a change durable.
func (l *ledger) record(c journal.Change) {
	l.Helper()
	l.Record(&c)
	require.NoError(l, l.Flush(context.Background()))
}

func (l *ledger) state(e journal.Entry) {
	l.Helper()
	l.record(journal.Change{States: []journal.JobState{{Entry: e}}})
}

func (l *ledger) end(ps ...journal.Position) {
	l.Helper()
	var c journal.Change
	for _, p := range ps {
		c.Ended = append(c.Ended, l.refs[p])
	}
	l.record(c)
}

func (l *ledger) bury(p journal.Position, retry int, reason string, at int64) {
	l.Helper()
	l.record(journal.Change{Buried: []journal.Burial{{Ref: l.refs[p], Retry: retry, Reason: reason, At: at}}})
}

func (l *ledger) close() {
	l.Helper()
	require.NoError(l, l.Close())
}

// office is a journal with a bit of everything: jobs that are fresh, merged,
// retried, halted, delayed and buried.
func office(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "office.strand")
	l := newLedger(t, dir)
	mails, orders := l.queue("mails"), l.queue("orders")
	l.queue("idle")
	done := l.put(orders, "order-1", `{"item":1}`, ago(time.Hour), 1)
	l.put(orders, "order-2", `{"item":2}`, ago(50*time.Minute), 7)
	l.put(orders, "order-2", `{"item":2,"more":true}`, ago(40*time.Minute), 5)
	l.put(orders, "order-2", `{"item":2}`, ago(30*time.Minute), 9) // equal to the first
	l.end(done)
	l.put(orders, "order-3", `{"item":3}`, in(26*time.Hour), 3)
	retried := l.append(journal.Entry{
		Queue: mails, ID: []byte("ann"), Payload: []byte(`"hello"`), Due: ago(20 * time.Minute), Score: 2, Accepted: ago(time.Hour),
		Metadata: journal.NewMetadata(map[string]string{"tenant": "the \x1b[31mred one", "trace": "00-4bf9"}),
	})
	l.state(journal.Entry{
		Queue: mails, ID: []byte("ann"), Due: in(90 * time.Second), Retry: 2, Failed: []journal.Position{retried},
		Error: []byte("no route to host"), History: failedTwice("no route to host"),
	})
	l.put(mails, "bob", strings.Repeat("long ", 40), ago(10*time.Minute), 4)
	l.state(journal.Entry{
		Queue: mails, ID: []byte("bob"), Due: ago(9 * time.Minute), Retry: 25, Halted: true, Crashed: true,
		Error: []byte("mailbox full"), History: failedTwice("mailbox full"),
	})
	dead := l.put(mails, "carl", `"bye"`, ago(5*time.Minute), 6)
	l.bury(dead, 25, "unknown user", ago(time.Minute))
	dead = l.append(journal.Entry{
		Queue: mails, ID: []byte("ann"), Payload: []byte(`"first"`), Due: ago(25 * time.Minute), Score: 1, Accepted: ago(2 * time.Hour),
		Metadata: journal.NewMetadata(map[string]string{"trace\xff": "00-\xff"}),
	})
	l.record(journal.Change{Buried: []journal.Burial{{
		Ref: l.refs[dead], Retry: 3, Reason: "greylisted", At: ago(2 * time.Minute), History: failedTwice("greylisted"), Crashed: true,
	}}})
	l.close()
	return dir
}

// failedTwice is the history of a job whose last failure is the second of two.
func failedTwice(last string) journal.History {
	const first = "timeout\nafter 30s, at the relay of the other side, which has said what it wants to say by now"
	return journal.History(nil).Add("", journal.Failure{Attempt: 2, At: ago(6 * time.Minute), Text: first}).
		Add(first, journal.Failure{Attempt: 3, At: ago(4 * time.Minute), Text: last})
}

// untouched fails when a directory changes.
func untouched(t testing.TB, dir string) {
	t.Helper()
	before := snapshot(t, dir)
	t.Cleanup(func() { require.Equal(t, before, snapshot(t, dir), "something was written to %s", dir) })
}

// snapshot is everything about the files of a directory.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		info, err := entry.Info()
		require.NoError(t, err)
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		require.NoError(t, err)
		files[entry.Name()] = fmt.Sprint(info.Mode(), info.ModTime(), len(content)) + string(content)
	}
	return files
}
