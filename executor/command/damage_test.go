package command

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v3"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
)

// tryAll runs every command on a journal that may be damaged. None may panic, write
// to it, or let a control character through.
func tryAll(t testing.TB, dir string) {
	t.Helper()
	files := func() map[string]string {
		files := snapshot(t, dir)
		delete(files, "LOCK") // copy and salvage hold it
		return files
	}
	before := files()
	scratch := t.TempDir()
	for i, args := range [][]string{
		{"inspect", dir, "-blocks"}, {"jobs", dir}, {"job", dir, "orders", "order-2"}, {"replay", dir},
		{"check", dir}, {"export", dir}, {"morgue", dir, "list"}, {"copy", dir, filepath.Join(scratch, "copy")},
		{"salvage", dir, filepath.Join(scratch, "saved")},
	} {
		if i%2 == 0 {
			args = append(args, "-json")
		}
		out, errs, status := strand(t, "", args...)
		require.Contains(t, []int{fine, isHurt, noClear}, status)
		for _, r := range out + errs {
			require.True(t, r == '\n' || unicode.IsPrint(r), "%q lets %q through", args, r)
		}
	}
	if _, err := os.Stat(filepath.Join(scratch, "saved")); err == nil {
		must(t, "", "check", filepath.Join(scratch, "saved"))
	}
	require.Equal(t, before, files(), "a command has written to a damaged journal")
	if _, _, status := strand(t, "", "compact", dir); status != fine {
		require.Equal(t, before, files(), "compact has written to a damaged journal")
	}
}

// damaged is a copy of a journal after something happened to its file.
func damaged(t testing.TB, dir string, harm func([]byte) []byte) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "journal.db"))
	require.NoError(t, err)
	hurt := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(hurt, "journal.db"), harm(bytes.Clone(b)), 0o600))
	return hurt
}

func TestDamage(t *testing.T) {
	t.Parallel()
	slow(t)
	dir := office(t)
	for name, harm := range map[string]func([]byte) []byte{
		"zero length": func([]byte) []byte { return nil },
		"cut in half": func(b []byte) []byte { return b[:len(b)/2] },
		"cut by one":  func(b []byte) []byte { return b[:len(b)-1] },
		"no metas":    func(b []byte) []byte { clear(b[:8192]); return b },
		"one meta":    func(b []byte) []byte { clear(b[:4096]); return b },
		"other meta":  func(b []byte) []byte { clear(b[4096:8192]); return b },
		"random":      func(b []byte) []byte { return bytes.Repeat([]byte("random"), len(b)/6) },
		"swapped": func(b []byte) []byte {
			page := bytes.Clone(b[4*4096 : 5*4096])
			copy(b[4*4096:], b[5*4096:6*4096])
			copy(b[5*4096:], page)
			return b
		},
	} {
		t.Run(name, func(t *testing.T) { tryAll(t, damaged(t, dir, harm)) })
	}
	each := 3
	if os.Getenv("STRAND_PUSH") != "" || os.Getenv("STRAND_LONG") != "" {
		each = 1
	}
	for page := 0; page < 12; page += each {
		t.Run(fmt.Sprint("zeroed page ", page), func(t *testing.T) {
			tryAll(t, damaged(t, dir, func(b []byte) []byte { clear(b[min(page*4096, len(b)):min((page+1)*4096, len(b))]); return b }))
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 24 / each {
		at := random.IntN(8 * 32 << 10)
		t.Run(fmt.Sprint("flip ", i), func(t *testing.T) {
			tryAll(t, damaged(t, dir, func(b []byte) []byte { b[at/8%len(b)] ^= 1 << (at % 8); return b }))
		})
	}
}

// Of a file that is cut after its first page nothing can be read: check does not say
// that nothing was lost, and advises no salvage.
func TestNothingIsLeft(t *testing.T) {
	out, _, status := strand(t, "", "check", damaged(t, office(t), func(b []byte) []byte { return b[:4096] }))
	require.Equal(t, isHurt, status)
	require.Contains(t, out, "lost: all of it: nothing can be read")
	require.NotContains(t, out, "nothing was lost")
	require.NotContains(t, out, "strand salvage")
}

// A flipped bit in a payload takes one block, which check and salvage name together
// with its job, and nothing else.
func TestSalvage(t *testing.T) {
	dir := office(t)
	hurt := damaged(t, dir, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`{"item":3}`), []byte(`{"item":4}`)) })
	out, _, status := strand(t, "", "check", hurt)
	assert.Equal(t, isHurt, status)
	assert.Contains(t, out, "damaged: journal: corrupt: block 9: checksum")
	assert.Contains(t, out, "perhaps a payload of orders order-3, position 5")
	saved := filepath.Join(t.TempDir(), "saved.strand")
	out = must(t, "", "salvage", hurt, saved)
	assert.Contains(t, out, "7 live entries from 12 intact blocks, 2 in the morgue, 3 queues")
	want := strings.Split(must(t, "", "export", dir), "\n")
	var kept []string
	for _, line := range want {
		if !strings.Contains(line, `"order-3"`) {
			kept = append(kept, strings.ReplaceAll(line, `"lines":14`, `"lines":13`))
		}
	}
	assert.Equal(t, kept, strings.Split(must(t, "", "export", saved), "\n"))
	_, errs, status := strand(t, "", "salvage", hurt, saved)
	assert.Equal(t, noClear, status)
	assert.Contains(t, errs, "already exists")
}

// hostile is text that means to do harm on a terminal.
var hostile = []string{
	"\x1b[2J\x1b]0;owned\x07", "two\nlines\r\ttab", "\xff\xfe\x80", "\u202egnp.exe", "\u009b31m", "\u05e9\u05dc\u05d5\u05dd",
	"\u2028\u2029", "a\x00b", `quote"s`, `"quoted"`, " spaces ", "<script>", "\U000e0041", "zero\u200bwidth",
}

// Ids, payloads, queues and errors of any bytes come out harmless, and go
// through export and import unchanged.
func TestHostileText(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "hostile.strand")
	l := newLedger(t, dir)
	for i, text := range hostile {
		q := l.queue(text)
		l.put(q, text, text, ago(0), 1)
		l.state(journal.Entry{Queue: q, ID: []byte(text), Due: ago(0), Retry: i, Error: []byte(text)})
		l.bury(l.put(q, text+"2", text, ago(0), 1), 1, text, ago(0))
	}
	l.close()
	tryAll(t, dir)
	exported := must(t, "", "export", dir)
	moved := filepath.Join(t.TempDir(), "moved.strand")
	must(t, exported, "import", moved)
	assert.Equal(t, exported, must(t, "", "export", moved))
	assert.Equal(t, must(t, "", "jobs", dir), must(t, "", "jobs", moved))
	for _, text := range hostile {
		out := must(t, "", "job", moved, text, text)
		assert.Equal(t, 1, strings.Count(out, "  ready  "), "%q", out)
	}
}

// A file may have so many names of queues that what each of them costs shows: where each
// looks at all others, inspect takes a minute of two MiB. With STRAND_LONG they are 200,000.
func TestManyNamesOfQueues(t *testing.T) {
	names := uint32(5000)
	if os.Getenv("STRAND_LONG") != "" {
		names = 200_000
	}
	dir := filepath.Join(t.TempDir(), "names.strand")
	b, err := journal.NewBuilder(dir, 1, 1)
	require.NoError(t, err)
	for i := range names {
		require.NoError(t, b.Queue(fmt.Sprint("queue ", i), i+1))
	}
	require.NoError(t, b.Finish())
	for _, verb := range []string{"inspect", "jobs", "morgue", "replay", "check", "export", "compact"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		must(t, "", verb, dir)
		runtime.ReadMemStats(&after)
		assert.Less(t, (after.TotalAlloc-before.TotalAlloc)/uint64(names), uint64(4096), "%s: about a KiB for each name", verb)
		t.Logf("%s: %v", verb, time.Since(began))
	}
	x, err := executor.Open(dir, executor.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, x.Stop(t.Context()))
}

// nothingDead is what is said of a morgue that has nothing of that.
var nothingDead = map[string]string{
	"morgue DIR list mails nobody":         "nothing in the morgue\n",
	"morgue DIR requeue mails nobody":      "nothing in the morgue\n0 payloads requeued\n",
	"morgue DIR delete mails nobody":       "nothing in the morgue\n0 payloads deleted\n",
	"morgue DIR delete mails nobody -json": `{"type":"morgue","done":"deleted","affected":0}` + "\n",
	"morgue DIR requeue idle":              "nothing in the morgue\n0 payloads requeued\n",
	"morgue DIR delete idle -all":          "nothing in the morgue\n0 payloads deleted\n",
}

// The morgue gives back and deletes what it was asked for, on disk.
func TestMorgueWrites(t *testing.T) {
	dir := office(t)
	assert.Contains(t, must(t, "", "morgue", dir, "requeue", "mails", "ann"), "1 payload requeued")
	out := must(t, "", "job", dir, "mails", "ann", "-json")
	assert.Contains(t, out, `"payloads":2`)
	assert.Contains(t, out, `"restored":true`)
	assert.NotContains(t, out, `"type":"dead"`)
	_, errs, status := strand(t, "", "morgue", dir, "delete", "mails", "carl", "nobody")
	assert.Equal(t, noClear, status)
	assert.Contains(t, errs, `no payload of queue "mails" with the id "nobody" is in the morgue; nothing was done`)
	assert.Contains(t, must(t, "", "morgue", dir, "delete", "-all"), "1 payload deleted")
	for args, says := range nothingDead {
		assert.Equal(t, says, must(t, "", strings.Fields(strings.ReplaceAll(args, "DIR", dir))...), args)
	}
	must(t, "", "check", dir)
}

// When it can't take all of it out of the morgue, it says how much it took out before.
func TestMorgueSaysWhatWasDoneBeforeAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs.strand")
	l := newLedger(t, dir)
	orders := l.queue("orders")
	ticket, err := l.Append(t.Context(), slices.Repeat([]journal.Entry{{Queue: orders, ID: []byte("a")}}, atOnce+1), nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(t.Context()))
	var dead []journal.Position
	var die journal.Change
	for i := range atOnce + 1 {
		dead = append(dead, ticket.Position(i))
		die.Buried = append(die.Buried, journal.Burial{Ref: l.refs[dead[i]], Reason: "no"})
	}
	l.record(die)
	l.close()
	empty := func(ctx context.Context, verb string, ps []journal.Position) error {
		c := cli.Command{Action: func(_ context.Context, c *cli.Command) error {
			found := map[string][]journal.Position{"orders": ps}
			return (&chosen{verb: verb}).empty(ctx, &call{Command: c, output: &output{now: someday}}, map[string]uint32{"orders": orders}, found)
		}}
		return c.Run(t.Context(), []string{"morgue", dir})
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorContains(t, empty(stopped, "delete", dead[atOnce:]), "up to 1 payload deleted, and then: ", "the end commits what was recorded")
	require.Contains(t, must(t, "", "check", dir), "1000 in the morgue")

	err = empty(t.Context(), "requeue", dead)
	require.ErrorIs(t, err, journal.ErrNotFound)
	require.ErrorContains(t, err, "1000 payloads requeued, and then: ")
	require.Contains(t, must(t, "", "check", dir), "0 in the morgue")

	require.ErrorContains(t, empty(stopped, "requeue", dead[:1]), "0 payloads requeued, and then: ")
}

// A queue whose name is empty, as a variable of a script that is not set, is none: it does not stand for all of them,
// neither on a stopped journal nor in a process.
func TestNoNameIsNotAllQueues(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs.strand")
	l := newLedger(t, dir)
	for _, name := range []string{"mails", "orders"} {
		queue := l.queue(name)
		l.bury(l.put(queue, "ann", name, ago(time.Hour), 1), 1, "no", ago(time.Minute))
	}
	l.close()
	refused := func() {
		for _, args := range [][]string{{"morgue", dir, "delete", "", "ann"}, {"morgue", dir, "delete", "", "-all"}, {"morgue", dir, "requeue", ""},
			{"morgue", dir, "requeue", "", "ann"}, {"morgue", dir, "list", "", "ann"}, {"job", dir, "", "ann"}} {
			out, errs, status := strand(t, "", args...)
			assert.Equal(t, noClear, status, args)
			assert.Empty(t, out, args)
			assert.Contains(t, errs, "the name of the queue is empty", args)
		}
	}
	both := func() {
		out := must(t, "", "morgue", dir)
		assert.Contains(t, out, "\nmails ")
		assert.Contains(t, out, "\norders ")
	}
	refused()
	both()
	x, err := executor.Open(dir, executor.Config{Logger: slog.New(slog.DiscardHandler), ControlSocket: true})
	require.NoError(t, err)
	refused()
	both()
	require.NoError(t, x.Stop(t.Context()))

	empty := filepath.Join(t.TempDir(), "empty.strand")
	x, err = executor.Open(empty, executor.Config{Logger: slog.New(slog.DiscardHandler), ControlSocket: true})
	require.NoError(t, err)
	_, errs, status := strand(t, "", "job", empty, "", "ann")
	assert.Equal(t, noClear, status)
	assert.Contains(t, errs, "the name of the queue is empty")
	require.NoError(t, x.Stop(t.Context()))
}

// The job that waits for an id goes on with what comes back to it on a stopped journal, as in a process that runs:
// it is due now, with all of its retries, and not halted. Jobs of other ids wait on.
func TestMorgueAtRestBeginsAnew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs.strand")
	l := newLedger(t, dir)
	orders := l.queue("orders")
	for id, state := range map[string]journal.Entry{
		"halted": {Due: ago(time.Minute), Retry: 3, Halted: true, Crashed: true}, "retries": {Due: in(time.Hour), Retry: 1},
		"snoozed": {Due: in(time.Hour), Retry: -1}, "other": {Due: in(time.Hour), Retry: -1, Halted: true},
	} {
		dead := l.put(orders, id, `"dead"`, ago(time.Hour), 1)
		failed := l.put(orders, id, `"failed"`, ago(time.Hour), 2)
		state.Queue, state.ID, state.Failed, state.Error = orders, []byte(id), []journal.Position{failed}, []byte("no")
		l.state(state)
		l.bury(dead, 3, "no", ago(time.Minute))
	}
	l.close()
	must(t, "", "morgue", dir, "requeue", "orders", "halted", "retries", "snoozed")
	must(t, "", "check", dir)
	out := must(t, "", "jobs", dir, "-json")
	assert.Equal(t, 3, strings.Count(out, `"state":"ready","due":"2001-02-03T04:05:06Z","attempt":1,`), out)
	assert.Equal(t, 1, strings.Count(out, `"state":"halted"`), out)

	x, err := executor.Open(dir, executor.Config{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	q, err := executor.Handle(x, "orders", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{})
	require.NoError(t, err)
	s, err := q.Stats(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{4, 7, 0, 1}, []int{s.Jobs, s.Payloads, s.Retrying, s.Halted})
	require.NoError(t, x.Stop(t.Context()))
}

// An export that is cut, changed or made up makes no journal.
func TestBadImports(t *testing.T) {
	exported := must(t, "", "export", office(t))
	lines := strings.SplitAfter(exported, "\n")
	for name, bad := range map[string]string{
		"empty": "", "no JSON": "x", "cut": strings.Join(lines[:5], ""), "half a line": exported[:len(exported)/2],
		"a line missing": strings.Join(append(lines[:6:6], lines[7:]...), ""), "twice": exported + exported,
		"newer":            strings.Replace(exported, `"version":3`, `"version":4`, 1),
		"position beyond":  strings.Replace(exported, `"position":6`, `"position":600`, 1),
		"position twice":   strings.Replace(exported, `"position":6`, `"position":8`, 1),
		"unknown queue":    strings.Replace(exported, `"queue":"mails"`, `"queue":"no"`, 1),
		"no such time":     strings.Replace(exported, "2001-02-03T03:45:06Z", "9001-02-03T03:45:06Z", 1),
		"queue number gap": strings.Replace(exported, `"idle","number":3`, `"idle","number":9`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			_, errs, status := strand(t, bad, "import", filepath.Join(parent, "new.strand"))
			assert.Equal(t, noClear, status)
			assert.NotEmpty(t, errs)
			assert.Empty(t, snapshot(t, parent))
		})
	}
}

// FuzzDamage flips bytes anywhere.
func FuzzDamage(f *testing.F) {
	dir := office(f)
	f.Add(uint32(4096), []byte("x"))
	f.Fuzz(func(t *testing.T, at uint32, with []byte) {
		tryAll(t, damaged(t, dir, func(b []byte) []byte { copy(b[int(at)%len(b):], with); return b }))
	})
}

// FuzzImport reads anything.
func FuzzImport(f *testing.F) {
	f.Add(must(f, "", "export", office(f)))
	f.Fuzz(func(t *testing.T, input string) {
		to := filepath.Join(t.TempDir(), "new.strand")
		if _, _, status := strand(t, input, "import", to); status == fine {
			must(t, "", "check", to)
		}
	})
}

// slow leaves a test that takes seconds to .ci/run, which sets CI, and to those who name tests.
func slow(t *testing.T) {
	t.Helper()
	if flag.Lookup("test.run").Value.String() == "" && os.Getenv("CI") == "" && os.Getenv("STRAND_LONG") == "" {
		t.Skip("takes seconds: CI=1 makes it")
	}
}
