//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// office is a schema that a node has worked on: of ten ids three wait for a retry, four are dead, and
// three run until release is called.
func office(t *testing.T, url string) (release func()) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, postgres.Migrate(ctx, url, postgres.Config{Partitions: 4}))
	n, err := postgres.Open(ctx, url, postgres.Config{Name: "web\x1b[31m-1", SingleServer: true, Executor: executor.Config{Workers: 10, Logger: slog.New(slog.DiscardHandler)}})
	require.NoError(t, err)
	began, ended := make(chan string, 10), make(chan struct{})
	q, err := executor.Handle(n, "mails", func(ctx context.Context, job executor.Job[string]) error {
		began <- job.ID
		switch job.ID[0] {
		case 'r':
			return errors.New("no route to host")
		case 'd':
			return executor.Cancel(errors.New("unknown user"))
		}
		<-ended
		return nil
	}, executor.QueueConfig[string]{})
	require.NoError(t, err)
	for i := range 10 {
		id := fmt.Sprint([]string{"retry-", "dead-", "busy-"}[i%3], i)
		_, err := q.Enqueue(ctx, id, "hello", executor.Metadata(map[string]string{"n": fmt.Sprint(i)}))
		require.NoError(t, err)
	}
	require.NoError(t, n.Start(ctx))
	for range 10 {
		<-began
	}
	return func() {
		close(ended)
		require.NoError(t, n.Stop(context.WithoutCancel(ctx)))
	}
}

func called(t *testing.T, url string, args ...string) (out, errs string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(t.Context(), append(args, "-url", url), &o, &e, time.Now())
	return o.String(), e.String(), status
}

// What is in the partitions is told, while a node has them and when none is up; and of what only nodes
// know, which of them does.
func TestLook(t *testing.T) {
	server := pgtest.Start(t)
	url := server.URL()
	release := office(t, url)
	says := func(want int, args []string, texts ...string) {
		t.Helper()
		out, errs, status := called(t, url, args...)
		require.Equal(t, want, status, "%s%s", out, errs)
		for _, text := range texts {
			require.Regexp(t, text, out+errs)
		}
		require.NotContains(t, out+errs, "\x1b")
		require.Equal(t, want == fine, errs == "", errs)
	}
	const age = ` +\S+Z \(\d+s ago\) +`
	says(fine, []string{"status"}, `^NODE +ID\nweb\?\[31m-1 +[-0-9a-f]{36}\n\nPARTITION +OWNER`, `\n0 +web\?\[31m-1`+age+`1 +0 +0\n`,
		`(?m)^QUEUE +PAUSED +JOBS +FRESH.*\nmails +no +7 +3 +4 +0 +3 +4 +7 .* 3$`)
	says(fine, []string{"status", "-json"}, `^\{"id":"[-0-9a-f]{36}","name":"web\?\[31m-1","type":"node"\}\n\{"epoch":1,"inbox":0,"name":`,
		`\n\{"type":"queue","queue":"mails",.*"length":7,.*\n$`)
	says(fine, []string{"jobs"}, `\n1 +mails +busy-\d +ready .*\n(.*\n){2}4 +mails +retry-\d +retrying .* no route to host\n(.*\n)*7 jobs\n$`)
	says(fine, []string{"-schema=strand", "jobs", "-limit", "1", "-json"}, `^\{"type":"job","queue":"mails","id":"busy-\d",.*,"partition":\d\}\n$`)
	says(fine, []string{"job", "mails", "retry-3"}, `partition: \d`, `\nfailures:\n`, `\nmetadata:\nPOSITION +KEY +VALUE\n\d +n +3\n`)
	says(fine, []string{"job", "mails", "dead-1"}, `in the morgue:\n.*\nmails +dead-1 .* cancelled: unknown user `)
	says(fine, []string{"morgue"}, `(?s)dead-1.*dead-4.*dead-7`)
	says(notDone, []string{"job", "mails", "no"}, `^strand-postgres: wrong call: queue "mails" has no job "no", neither waiting nor in the morgue`)
	says(notDone, []string{"jobs", "-nonsense"}, "flag provided but not defined: -nonsense\n")
	says(fine, []string{"jobs", "-h"}, `strand-postgres jobs \[-FLAG`)
	says(notDone, []string{"running"}, `partition 0 is owned by web\?\[31m-1, since`+age[:len(age)-2]+`\n(.*\n){3}.*ask their dashboards`)
	says(fine, []string{"explain", "mails", "busy-2"}, `^mails/busy-2 is running\n$`)
	says(fine, []string{"explain", "mails", "retry-3"}, `^mails/retry-3 is retrying at .*, failed 1 time: no route to host\n$`)
	says(fine, []string{"explain", "mails", "dead-1"}, `^mails/dead-1 is dead, .* cancelled: unknown user\n$`)
	says(fine, []string{"explain", "mails", "no"}, `^mails/no is unknown\n$`)
	says(notDone, []string{"explain", "nothing", "no"}, `^strand-postgres: .*unknown queue.*nothing`)
	says(notDone, []string{"explain", "mails"}, `explain takes 2 argument`)
	says(notDone, []string{"status", "-schema", "other"}, `^strand-postgres: .*run strand-postgres migrate: "other"\n$`)
	release()

	caller, err := postgres.Open(t.Context(), url, postgres.Config{SingleServer: true, Executor: executor.Config{Logger: slog.New(slog.DiscardHandler)}})
	require.NoError(t, err)
	q, err := executor.Handle(caller, "mails", func(context.Context, executor.Job[string]) error { return nil }, executor.QueueConfig[string]{})
	require.NoError(t, err)
	_, err = q.Enqueue(t.Context(), "retry-3", "again")
	require.NoError(t, err)
	require.NoError(t, caller.Stop(t.Context()))
	says(fine, []string{"status"}, `^NODE +ID\n\nPARTITION`, `\n\d +nobody +- +1 +1 +0\n`, `\nmails +no +4 +0 +4 `)
	says(fine, []string{"running"}, `^(partition \d has no owner: nothing of it runs\n){4}$`)
	says(fine, []string{"explain", "mails", "retry-3"}, `^partition \d has no owner: nothing of it runs\n$`)
	out, errs, status := called(t, url, "jobs", "-limit", "1")
	require.Equal(t, fine, status)
	require.Contains(t, out, "\n4 jobs\n")
	require.Equal(t, "strand-postgres: 1 rows of the inbox are in no partition yet, and are not in this list\n", errs)

	server.Exec(t, "CREATE ROLE nobody LOGIN")
	url = strings.Replace(server.URL(), "postgres@", "nobody@", 1)
	says(notDone, []string{"jobs"}, "permission denied for schema strand")
	url = "postgres://127.0.0.1:1/x"
	says(notDone, []string{"jobs"}, "connection refused")
	url = server.URL()
	server.Exec(t, "UPDATE strand.version SET minor = 1; ALTER TABLE strand.lease DROP COLUMN since")
	says(notDone, []string{"jobs", "-json"}, `^\{"type":"error","error":"postgres: .*run strand-postgres migrate: .* has version 2\.1, this is version 2\.5","exit":2\}`)
	says(fine, []string{"migrate"}, "as it should be")
	says(fine, []string{"status"}, `mails +no +4`)
	server.Exec(t, "DELETE FROM strand.block")
	says(isDamaged, []string{"jobs"}, `^strand-postgres: postgres: look: partition 0: .*the log has no blocks\n$`)
}
