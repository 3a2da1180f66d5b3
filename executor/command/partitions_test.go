package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

const thirds = 3

// third is the part that an id is in.
func third(id []byte) int { return int(id[len(id)-1]) % thirds }

// divided makes three journals of one, each with the ids of its own, and looks into all of them.
func divided(t *testing.T, dir string) Program {
	whole, err := journal.OpenView(dir)
	require.NoError(t, err)
	defer whole.Close()
	var builders []*journal.Builder
	var dirs []string
	for i := range thirds {
		dirs = append(dirs, filepath.Join(t.TempDir(), fmt.Sprint("part", i)))
		b, err := journal.NewBuilder(dirs[i], whole.Info().Next, whole.Info().Epoch)
		require.NoError(t, err)
		for name, number := range whole.Queues() {
			require.NoError(t, b.Queue(name, (number+uint32(i))%uint32(len(whole.Queues()))+1), "each partition has numbers of its own")
		}
		builders = append(builders, b)
	}
	renumbered := func(e journal.Entry) journal.Entry {
		e.Queue = (e.Queue+uint32(third(e.ID)))%uint32(len(whole.Queues())) + 1
		return e
	}
	for _, number := range whole.Queues() {
		for _, page := range whole.PendingPages(number) {
			for _, ref := range page {
				var e journal.Entry
				require.NoError(t, ref.Read(&e))
				require.NoError(t, builders[third(e.ID)].Add(renumbered(e)))
			}
		}
	}
	for b, err := range whole.Morgue() {
		require.NoError(t, err)
		b.Entry = renumbered(b.Entry)
		require.NoError(t, builders[third(b.Entry.ID)].Bury(b))
	}
	for _, b := range builders {
		require.NoError(t, b.Finish())
	}
	return Program{Name: "looker", Look: func(_ context.Context, _ string, look func([]*journal.View) error) error {
		var views []*journal.View
		for _, dir := range dirs {
			v, err := journal.OpenView(dir)
			require.NoError(t, err)
			defer v.Close()
			views = append(views, v)
		}
		return look(views)
	}}
}

func looked(t *testing.T, p Program, args ...string) (out, errs string, status int) {
	t.Helper()
	var o, e bytes.Buffer
	status = p.Run(t.Context(), append([]string{"looker"}, args...), nil, &o, &e, someday)
	return o.String(), e.String(), status
}

// Journals that have parts of one are told as that one is: the same jobs in the same order, the same
// figures, the same dead letters, and of which part a job is.
func TestPartitionsAreToldAsOne(t *testing.T) {
	for _, dir := range []string{crowd(t, 0), crowd(t, 1), crowd(t, 2), office(t)} {
		p := divided(t, dir)
		part := regexp.MustCompile(`,"partition":(\d)`)
		want := strings.Split(must(t, "", "jobs", dir, "-json"), "\n")
		out, errs, status := looked(t, p, "jobs", "-json")
		require.Equal(t, fine, status, errs)
		got := strings.Split(part.ReplaceAllString(out, ""), "\n")
		require.Equal(t, dues(t, want), dues(t, got), "they are due in the same order")
		require.ElementsMatch(t, want, got)
		for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
			var job struct{ ID string }
			require.NoError(t, json.Unmarshal([]byte(line), &job))
			require.Equal(t, fmt.Sprint(third([]byte(job.ID))), part.FindStringSubmatch(line)[1])
		}
		whole := strings.Split(must(t, "", "jobs", dir), "\n")
		for _, limit := range []string{"1", "7", "60"} {
			out, _, _ := looked(t, p, "jobs", "-limit", limit)
			lines := strings.Split(out, "\n")
			require.Equal(t, whole[len(whole)-2:], lines[len(lines)-2:], "what is not listed counts")
		}
		queues, _, _ := looked(t, p, "status")
		require.Equal(t, queues, must(t, "", "inspect", dir)[strings.Index(must(t, "", "inspect", dir), "\n\n")+1:])
		dead, _, _ := looked(t, p, "morgue", "-json")
		require.ElementsMatch(t, strings.Split(must(t, "", "morgue", dir, "-json"), "\n"), strings.Split(dead, "\n"))
		var first struct{ Queue, ID string }
		require.NoError(t, json.Unmarshal([]byte(want[0]), &first))
		one, errs, status := looked(t, p, "job", first.Queue, first.ID)
		require.Equal(t, fine, status, errs)
		says := fmt.Sprintf("partition: %d\n", third([]byte(first.ID)))
		require.Contains(t, one, says)
		require.Equal(t, must(t, "", "job", dir, first.Queue, first.ID), strings.Replace(one, says, "", 1))
	}
}

// dues are the queues, states and due times of a list.
func dues(t *testing.T, lines []string) (all []string) {
	for _, line := range slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return line == "" }) {
		var job struct{ Queue, State, Due string }
		require.NoError(t, json.Unmarshal([]byte(line), &job))
		all = append(all, job.Queue+" "+job.Due)
		if job.State == "halted" {
			all[len(all)-1] = job.Queue + " halted"
		}
	}
	return all
}

// A program with journals of its own has no directory among the arguments, and what it can't do it says.
func TestWhatAProgramSays(t *testing.T) {
	p := divided(t, crowd(t, 1))
	for want, args := range map[string][]string{
		"looker: wrong call: looker job QUEUE ID [-FLAG...]; got 1 arguments\n":                          {"job", "a"},
		"looker: wrong call: looker status [-FLAG...]; got 1 arguments\n":                                {"status", "dir"},
		"to requeue what is dead is for the node that owns its partition":                                {"morgue", "requeue"},
		"to delete what is dead is for the node that owns its partition":                                 {"morgue", "delete", "a", "b"},
		`the journal has no queue "no"; it has: a, b`:                                                    {"jobs", "-queue", "no"},
		`queue "a" has no job "no", neither waiting nor in the morgue`:                                   {"job", "a", "no"},
		`{"type":"error","error":"wrong call: looker jobs [-FLAG...]; got 1 arguments","exit":2}` + "\n": {"jobs", "dir", "-json"},
		"flag provided but not defined: -timeout":                                                        {"jobs", "-timeout", "1s"},
	} {
		out, errs, status := looked(t, p, args...)
		assert.Equal(t, noClear, status, args)
		assert.Contains(t, errs, want)
		assert.Empty(t, out)
	}
	out, _, status := looked(t, p, "morgue", "-h")
	assert.Equal(t, fine, status)
	assert.Contains(t, out, "looker morgue [list [QUEUE [ID...]]] [-FLAG...]")
	p.Look = func(context.Context, string, func([]*journal.View) error) error {
		return errors.Join(journal.ErrCorrupt)
	}
	_, errs, status := looked(t, p, "jobs")
	assert.Equal(t, isHurt, status, errs)
}
