//go:build unix

package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/control"
	"github.com/strandjobs/strand/journal"
)

// What workers have in hand, and why others wait.
func TestWhatRunsLive(t *testing.T) {
	dir := office(t)
	withErrands(t, dir)
	startLive(t, dir)
	require.Eventually(t, func() bool {
		return strings.Contains(must(t, "", "running", dir), "3 of 10")
	}, time.Minute, 10*time.Millisecond)
	out := must(t, "", "running", dir, "-stack")
	assert.Regexp(t, `(?m)^\d+ +errands +bank +1 +[\d.]+ m?s +\d+ +1 +3 of 10, "on my\\x1b\[31m way"$`, out)
	assert.Contains(t, out, "\n1 worker at work\n")
	assert.Contains(t, out, "command.liveChild")
	assert.Contains(t, must(t, "", "running", dir, "-queue", "mails"), "0 workers at work")
	out = must(t, "", "running", dir, "-json", "-stack")
	assert.Regexp(t, `^\{"type":"running","queue":"errands","worker":\d,"jobs":\[\{"id":"bank","attempt":1,"position":\d+,"payloads":1\}\],"more":0,`+
		`"since":"[^"]+","age_seconds":[\d.]+,"stuck":false,"progress":\{"done":3,"total":10,"message":"on my\\u001b\[31m way","at":"[^"]+"\},"stack":"`, out)

	assert.Contains(t, must(t, "", "jobs", dir, "-queue", "errands"), "bank  running  ")
	assert.Contains(t, must(t, "", "job", dir, "errands", "bank"), "now: errands/bank is running")
	assert.Contains(t, must(t, "", "job", dir, "errands", "bank", "-json"), `"state":"running"`)
	assert.Equal(t, "errands/bank is running\n", must(t, "", "explain", dir, "errands", "bank"))
	assert.Equal(t, "errands/post is ready; the queue runs 1 of 1\n", must(t, "", "explain", dir, "errands", "post"))
	assert.Contains(t, must(t, "", "explain", dir, "errands", "post", "-json"), `"turn":{"reason":"max concurrent","running":1,"of":1,`)
	assert.Contains(t, must(t, "", "explain", dir, "mails", "ann", "-json"),
		`"state":"paused","due":"2001-02-03T04:06:36Z","attempt":4,"last_error":"no route to host","payloads":1,"paused":["queue"]`)
	assert.Contains(t, must(t, "", "explain", dir, "mails", "carl"), "mails/carl is dead, 1 payload is in the morgue: unknown user")

	out = must(t, "", "status", dir)
	assert.Regexp(t, `(?m)^trouble +none$`, out)
	assert.Regexp(t, `(?m)^workers +5: 1 busy, 0 stuck$`, out)
	assert.Regexp(t, `(?m)^errands +no +2 +1 +0 +0 +0 +[\d.]+ \S+ +[\d.]+ \S+ +0$`, out)
	assert.Regexp(t, `(?m)^mails +yes +2 +0 +2 +0 +1 +\d+ y \d+ d +\d+ y \d+ d +2$`, out)
	assert.Contains(t, must(t, "", "status", dir, "-json"), `{"type":"queue","queue":"mails","registered":true,"unclaimed":0,"morgue_length":2,"length":2,`)
}

// Every verb that changes something says how many it has affected, and what it did is in
// the journal when the process dies a moment later.
func TestActingLive(t *testing.T) {
	dir := office(t)
	_, kill := startLive(t, dir)
	for _, call := range []struct {
		args string
		says string
	}{
		{"run DIR mails bob", "1 job made due\n"},
		{"run DIR mails nobody", "0 jobs made due\n"},
		{"retry DIR mails ann", "1 job made due\n"},
		{"run DIR mails -all -json", `{"type":"run","done":"made due","affected":2}` + "\n"},
		{"cancel DIR orders order-2 -reason wrong\x1b[31m", "3 payloads canceled\n"},
		{"delete DIR orders order-3", "1 payload deleted\n"},
		{"delete DIR mails -all -failed", "0 payloads deleted\n"}, // run has given them their retries back
		{"pause DIR", "the executor is paused\n"},
		{"pause DIR idle -json", `{"type":"pause","done":"paused","affected":0}` + "\n"},
		{"pause -prefix acme/ DIR orders", "what begins with acme/ is paused\n"},
		{"pause -prefix acme/ DIR orders", "what begins with acme/ was paused before\n"},
		{"resume -prefix acme DIR orders", "what begins with acme was not paused\n"},
		{"pause -prefix acme/ DIR orders -json", `{"type":"pause","done":"paused","affected":0}` + "\n"},
		{"resume -prefix acme/ DIR orders -json", `{"type":"resume","done":"resumed","affected":1}` + "\n"},
		{"pause DIR orders order-2 order-7", "2 ids were paused\n"},
		{"pause DIR orders order-7", "0 ids were paused\n"},
		{"resume DIR orders order-7", "1 id was resumed\n"},
		{"resume DIR mails", "queue mails is resumed\n"},
		{"resume DIR mails", "queue mails was not paused\n"},
		{"pause DIR", "the executor was paused before\n"},
	} {
		assert.Equal(t, call.says, must(t, "", strings.Fields(strings.ReplaceAll(call.args, "DIR", dir))...), call.args)
	}
	for args, says := range nothingDead {
		assert.Equal(t, says, must(t, "", strings.Fields(strings.ReplaceAll(args, "DIR", dir))...), args)
	}
	out := must(t, "", "morgue", dir, "requeue", "mails", "carl")
	assert.True(t, strings.HasPrefix(out, "1 payload requeued; of 1 it is not known whether later payloads of their ids have run: they died in an earlier process\n"), out)
	assert.True(t, strings.HasSuffix(must(t, "", "morgue", dir, "delete", "mails", "ann", "-json"), `{"type":"morgue","done":"deleted","affected":1}`+"\n"))

	for _, wrong := range [][2]string{
		{"run DIR mails", `name ids, or say -all for all jobs of queue "mails"`}, {"run DIR mails bob -all", "name ids, or say -all"},
		{"cancel DIR no x", `the journal has no queue "no"; it has: errands, idle, mails, orders`},
		{"cancel DIR mails bob -failed -reason x", "-reason"}, {"morgue DIR delete orders order-2 nobody", "nothing was done"},
		{"pause DIR no", "no queue"}, {"inspect DIR -blocks", "no process has open"},
	} {
		_, errs, status := strand(t, "", strings.Fields(strings.ReplaceAll(wrong[0], "DIR", dir))...)
		assert.Equal(t, noClear, status)
		assert.Contains(t, errs, wrong[1])
	}
	_, errs, status := strand(t, "", "delete", dir, "mails", strings.Repeat("x", 513))
	assert.Equal(t, noClear, status)
	assert.Contains(t, errs, "invalid id")
	assert.Contains(t, must(t, "", "compact", dir), " now\n")

	kill()
	assert.Regexp(t, `(?m)mails  bob +scheduled .* 1 +1 +200 B`, must(t, "", "jobs", dir))
	jobs := must(t, "", "jobs", dir, "-json")
	for _, gone := range []string{"order-2", "order-3", "retrying", "halted"} {
		assert.NotContains(t, jobs, gone)
	}
	assert.Equal(t, 3, strings.Count(jobs, "\n"))
	dead := must(t, "", "morgue", dir)
	assert.Equal(t, 3, strings.Count(dead, `"executor: canceled by an operator: wrong\x1b[31m"`), dead)
	assert.NotContains(t, dead, "mails")

	// The next process, over the socket of the dead one, knows what is paused.
	startLive(t, dir)
	out = must(t, "", "status", dir)
	assert.Regexp(t, `(?m)^paused +yes$`, out)
	assert.Contains(t, must(t, "", "explain", dir, "orders", "order-2"), "order-2")
	assert.Equal(t, "1 id was resumed\n", must(t, "", "resume", dir, "orders", "order-2"))
}

// A pause at rest holds from the next start on.
func TestPauseAtRest(t *testing.T) {
	dir := office(t)
	assert.Equal(t, "the executor is paused\n", must(t, "", "pause", dir))
	assert.Equal(t, "queue orders is paused\n", must(t, "", "pause", dir, "orders"))
	assert.Equal(t, "queue orders was paused before\n", must(t, "", "pause", dir, "orders"))
	assert.Equal(t, "queue mails was not paused\n", must(t, "", "resume", dir, "mails"))
	assert.Equal(t, "what begins with acme was not paused\n", must(t, "", "resume", dir, "mails", "-prefix", "acme"))
	assert.Equal(t, "2 ids were paused\n", must(t, "", "pause", dir, "mails", "ann", "ann", "bob"))
	assert.Equal(t, "1 id was resumed\n", must(t, "", "resume", dir, "mails", "bob", "carl"))
	assert.Equal(t, `{"type":"resume","done":"resumed","affected":0}`+"\n", must(t, "", "resume", dir, "mails", "bob", "-json"))
	assert.Equal(t, "what begins with acme/ is paused\n", must(t, "", "pause", "-prefix", "acme/", dir, "mails"))
	assert.Equal(t, `{"type":"pause","done":"paused","affected":0}`+"\n", must(t, "", "pause", "-prefix", "acme/", dir, "mails", "-json"))
	for _, args := range [][]string{{"pause", "-prefix", "a", dir}, {"pause", "-prefix", "", dir, "mails"}, {"resume", "-prefix", "a", dir, "mails", "bob"}} {
		_, errs, status := strand(t, "", args...)
		assert.Equal(t, noClear, status)
		assert.Contains(t, errs, "-prefix", args)
	}
	for _, args := range [][]string{{"pause", dir, "no"}, {"pause", dir, ""}, {"pause", dir, "mails", ""}, {"pause", dir, "mails", strings.Repeat("x", 513)}} {
		_, errs, status := strand(t, "", args...)
		assert.Equal(t, noClear, status)
		assert.Contains(t, errs, "wrong call", args)
	}
	_, kill := startLive(t, dir)
	assert.Contains(t, must(t, "", "explain", dir, "mails", "ann", "-json"), `"paused":["executor","queue","id"]`)
	assert.Contains(t, must(t, "", "explain", dir, "mails", "bob", "-json"), `"paused":["executor","queue"]`)
	kill()
	assert.Equal(t, "the executor is resumed\n", must(t, "", "resume", dir))
	startLive(t, dir)
	assert.Equal(t, "queue mails is resumed\n", must(t, "", "resume", dir, "mails"))
	out := must(t, "", "status", dir)
	assert.Regexp(t, `(?m)^paused +no$`, out)
	assert.Regexp(t, `(?m)^mails +1 id, 1 prefix +\d`, out)
	assert.Regexp(t, `(?m)^orders +yes +\d`, out)
	assert.Contains(t, must(t, "", "status", dir, "-json"), `"paused_ids":1,"paused_prefixes":1`)
}

// What needs a journal at rest says so, and how to get one that is; what needs a process
// says that there is none.
func TestTheOtherState(t *testing.T) {
	dir, to := office(t), t.TempDir()
	for _, args := range [][]string{{"status", dir}, {"running", dir}, {"explain", dir, "a", "b"}, {"events", dir}, {"run", dir, "a", "b"}, {"cancel", dir, "a", "b"}, {"delete", dir, "a", "b"}} {
		_, errs, status := strand(t, "", args...)
		assert.Equal(t, noClear, status)
		assert.Contains(t, errs, fmt.Sprintf("strand %s asks a process, and no process has the journal open: %s\nstrand inspect, jobs, job and morgue look at it as it is.", args[0], dir))
	}
	_, errs, _ := strand(t, "", "status", filepath.Join(to, "no"))
	assert.Contains(t, errs, "no such file")

	pid, _ := startLive(t, dir)
	for i, args := range [][]string{{"replay", dir}, {"export", dir}, {"check", dir}, {"salvage", dir, filepath.Join(to, "saved")}} {
		out, errs, status := strand(t, "", append(args, "-json")...)
		assert.Equal(t, noClear, status)
		assert.Empty(t, out)
		assert.Contains(t, errs, fmt.Sprintf(`strand %s: it works only on a journal at rest","pid":%d,"exit":2,"hint":"strand copy DIR NEWDIR has that process make a hot copy`, args[0], pid))
		copied := filepath.Join(to, fmt.Sprint(i))
		assert.Equal(t, fmt.Sprintf("copied to %s\n", copied), must(t, "", "copy", dir, copied))
		must(t, "", append([]string{args[0], copied}, args[2:]...)...)
	}
	_, errs, status := strand(t, "", "copy", dir, to)
	assert.Equal(t, noClear, status, "it is there")
	assert.Contains(t, errs, to)
}

// What happens is told as it happens, also to programs.
func TestEventsLive(t *testing.T) {
	dir := office(t)
	startLive(t, dir)
	for i, want := range []string{
		`(?m)^20\S+ \S+  requeued     mails carl\n20\S+ \S+  buried       mails carl  attempt 1  executor: canceled by an operator\n`,
		`(?m)^\{"type":"event","number":\d+,"time":"20[^"]+","kind":"requeued","queue":"mails","id":"carl","position":10,.*"token":"[0-9a-f]+-\d+"\}\n` +
			`\{"type":"event",.*"kind":"buried",.*"error":"executor: canceled by an operator",.*"token":"[^"]+"\}\n`,
	} {
		got := make(chan string)
		args := []string{"events", dir, "-limit", "4", "-queue", "mails", "-kind", "requeued", "-kind", "buried"}
		go func() {
			var out, errs strings.Builder
			Program{}.Run(context.Background(), append(append([]string{"strand"}, args...), []string{"-json"}[:i]...), nil, &out, &errs, time.Now())
			got <- out.String() + errs.String()
		}()
		for said := ""; said == ""; {
			must(t, "", "morgue", dir, "requeue", "mails", "carl") // as soon as it listens
			must(t, "", "cancel", dir, "mails", "carl")
			select {
			case said = <-got:
				assert.Regexp(t, want, said)
			default:
			}
		}
	}
	_, errs, status := strand(t, "", "events", dir, "-kind", "no")
	assert.Equal(t, noClear, status)
	assert.Contains(t, errs, `there is no kind of events "no"`)
}

// A process without a socket is named, and how to give it one, also when the socket of a
// dead one is there; and what answers there and has not locked the journal is not asked.
func TestNobodyOrSomebodyElse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "used.strand")
	pid, _ := startChild(t, dir)
	told := func() string {
		_, errs, status := strand(t, "", "jobs", dir)
		require.Equal(t, noClear, status)
		require.ErrorAs(t, journal.InUse(dir), new(*journal.LockedError))
		require.Contains(t, errs, fmt.Sprintf("in use by process %d", pid))
		require.Contains(t, errs, "starts or stops at the moment, and may be asked in a second")
		require.Contains(t, errs, "set Config.ControlSocket in its process, or make room if its disk is full")
		return errs
	}
	none := told()
	l, err := control.Listen(dir)
	require.NoError(t, err)
	file, err := os.Readlink(filepath.Join(dir, "control.sock"))
	require.Error(t, err, file)
	s := &control.Server{Hello: control.Hello{PID: 1}}
	s.Serve(l)
	require.Contains(t, told(), "process 1 answers on the socket there, which is another one")
	s.Close()
	require.Equal(t, none, told())
}
