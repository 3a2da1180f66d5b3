package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/brief"
)

// ids are those of a page's rows, in order.
func ids(text string) (all []string) {
	for _, m := range regexp.MustCompile(`<th scope="row" class="wide"><a class="id" href="job\?id=[^"]*"><bdi>([^<]*)</bdi>`).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// allPages follows a list to its end.
func allPages(s site, pairs ...string) (all []string) {
	s.t.Helper()
	text := s.get("queue", pairs...)
	next := regexp.MustCompile(`<a class="button" href="([^"]*)" rel="next">`)
	for pages := 1; ; pages++ {
		require.Less(s.t, pages, 100)
		all = append(all, ids(text)...)
		m := next.FindStringSubmatch(text)
		if m == nil {
			return all
		}
		text = s.get(strings.ReplaceAll(m[1], "&amp;", "&"))
	}
}

func TestDashboard_L19_Lists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{Workers: 2})
		q := queue(t, x, "q", func(_ context.Context, job executor.Job[string]) error {
			switch job.Payload {
			case "dies":
				return executor.Cancel(fmt.Errorf("no such thing %s", job.ID))
			case "fails":
				return fmt.Errorf("fails %s", job.ID)
			case "blocks":
				time.Sleep(time.Hour)
			}
			return nil
		}, executor.QueueConfig[string]{RetryIn: func(int) time.Duration { return time.Hour }})
		require.NoError(t, x.Start(t.Context()))
		var later, failed, dead []string
		for i := range 30 {
			later = append(later, fmt.Sprintf("later-%02d", i))
			enqueue(t, q, later[i], "", executor.In(time.Duration(100-i)*time.Minute))
			failed = append(failed, fmt.Sprintf("failed-%02d", i))
			enqueue(t, q, failed[i], "fails")
			dead = append(dead, fmt.Sprintf("dead-%02d", i))
			enqueue(t, q, dead[i], "dies")
			synctest.Wait()
			time.Sleep(time.Second)
		}
		enqueue(t, q, "blocks", "blocks")
		synctest.Wait()
		s := mount(t, x, dashboard.Config{})
		reversed := func(list []string) []string { list = slices.Clone(list); slices.Reverse(list); return list }
		waiting := slices.Sorted(slices.Values(slices.Concat(later, failed)))
		require.Equal(t, waiting, allPages(s, "name", "q", "sort", "id", "limit", "25"))
		require.Equal(t, reversed(waiting), allPages(s, "name", "q", "sort", "id", "desc", "1", "limit", "25"))
		require.ElementsMatch(t, waiting, allPages(s, "name", "q", "limit", "25"))
		require.Equal(t, reversed(later), allPages(s, "name", "q", "sort", "due", "prefix", "later", "limit", "7"))
		require.Equal(t, failed, allPages(s, "name", "q", "tab", "retrying", "sort", "due", "limit", "7"))
		require.Equal(t, slices.Concat(reversed(later), failed), allPages(s, "name", "q", "sort", "attempts", "limit", "7"))
		require.Equal(t, []string{"failed-07"}, allPages(s, "name", "q", "error", "fails failed-07"))
		require.Equal(t, []string{"blocks"}, allPages(s, "name", "q", "tab", "running"))
		require.Equal(t, dead, allPages(s, "name", "q", "tab", "morgue", "limit", "7"))
		require.Equal(t, dead, allPages(s, "name", "q", "tab", "morgue", "sort", "died", "limit", "7"))
		require.Equal(t, reversed(dead), allPages(s, "name", "q", "tab", "morgue", "sort", "id", "desc", "1", "limit", "7"))
		require.Equal(t, dead[20:], allPages(s, "name", "q", "tab", "morgue", "prefix", "dead-2"))
		require.Contains(t, s.get("job", "queue", "q", "id", "failed-03"), "fails failed-03")
		require.Contains(t, s.get("find", "id", "dead-05"), "no such thing dead-05")
		require.NoError(t, x.Stop(t.Context()))
	})
}

// graveyard is an executor of which queue q has so many in the morgue, and as many
// that wait for a retry.
func graveyard(t *testing.T, n int) (*executor.Executor, *executor.Queue[string]) {
	x := open(t, executor.Config{Workers: 4})
	alive := false
	q := queue(t, x, "q", func(_ context.Context, job executor.Job[string]) error {
		switch {
		case alive:
			return nil
		case job.Payload == "dies":
			return executor.Cancel(errBoom)
		}
		return errBoom
	}, executor.QueueConfig[string]{RetryIn: func(int) time.Duration { return 24 * time.Hour }})
	for i := range n {
		enqueue(t, q, fmt.Sprintf("dead-%05d", i), "dies")
		enqueue(t, q, fmt.Sprintf("failed-%05d", i), "fails")
	}
	require.NoError(t, x.Start(t.Context()))
	synctest.Wait()
	alive = true
	return x, q
}

func TestDashboard_L20_Actions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := graveyard(t, 20)
		s := writable(t, x)
		left := func() inspect.QueueStats {
			synctest.Wait()
			stats, err := q.Stats(t.Context())
			require.NoError(t, err)
			return stats
		}
		sure := url.Values{"confirm": {"yes"}}
		require.Equal(t, 20, left().Dead)
		// The morgue: one, a selection, what matches, all.
		text := s.get("queue", "name", "q", "tab", "morgue")
		picks := regexp.MustCompile(`name="sel" value="([^"]*)"`).FindAllStringSubmatch(text, -1)
		require.Len(t, picks, 20)
		require.Contains(t, s.post(url.Values{"sel": {picks[0][1]}}, "verb", "requeue", "queue", "q", "tab", "morgue",
			"scope", "selected", "from", "queue"), "1 payload is back in the queue.")
		require.Equal(t, 19, left().Dead)
		selection := url.Values{"sel": {picks[1][1], picks[2][1], picks[3][1]}}
		require.Contains(t, s.post(selection, "verb", "requeue", "queue", "q", "tab", "morgue", "scope", "selected"),
			"3 payloads are back in the queue.")
		require.Equal(t, 16, left().Dead)
		require.Contains(t, s.post(sure, "verb", "delete-dead", "queue", "q", "tab", "morgue", "scope", "filtered",
			"prefix", "dead-0001"), "10 payloads deleted from the morgue.")
		require.Equal(t, 6, left().Dead)
		require.Contains(t, s.post(sure, "verb", "delete-dead", "queue", "q", "id", "dead-00004", "scope", "id", "from",
			"job"), "1 payload deleted from the morgue.")
		require.Contains(t, s.post(sure, "verb", "requeue", "queue", "q", "tab", "morgue", "scope", "all"),
			"5 payloads are back in the queue.")
		require.Zero(t, left().Dead)
		// What failed.
		require.Contains(t, s.post(url.Values{"sel": {":failed-00000", ":failed-00001"}}, "verb", "run", "queue", "q",
			"tab", "retrying", "scope", "selected"), "2 jobs are due now.")
		require.Equal(t, 18, left().Retrying)
		require.Contains(t, s.post(sure, "verb", "kill-failed", "queue", "q", "tab", "retrying", "scope", "filtered",
			"prefix", "failed-00002"), "1 payload sent to the morgue.")
		require.Contains(t, s.post(sure, "verb", "delete-failed", "queue", "q", "tab", "retrying", "scope", "filtered",
			"prefix", "failed-00003"), "1 payload deleted.")
		require.Contains(t, s.post(sure, "verb", "delete", "queue", "q", "id", "failed-00004", "scope", "id", "from",
			"job"), "1 payload deleted.")
		require.Contains(t, s.post(sure, "verb", "cancel", "queue", "q", "id", "failed-00005", "scope", "id", "from",
			"job"), "1 payload cancelled")
		require.Equal(t, 14, left().Retrying)
		require.Equal(t, 2, left().Dead)
		require.Contains(t, s.post(sure, "verb", "run", "queue", "q", "tab", "retrying", "scope", "all"), "14 jobs are due now.")
		require.Zero(t, left().Jobs)
		require.NoError(t, x.Stop(t.Context()))
	})
}

func TestWhatCantBeTakenBackIsAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := graveyard(t, 3)
		s := writable(t, x)
		for query, want := range map[string]string{
			"verb=delete-dead&queue=q&tab=morgue&scope=all":                                      "Delete all 3 dead payloads of q for good?",
			"verb=requeue&queue=q&tab=morgue&scope=filtered&prefix=dead":                         "Put 3 dead payloads that match the filter, of 3 dead payloads of q back?",
			"verb=requeue&queue=q&tab=morgue&scope=filtered&prefix=dead-00001":                   "Put 1 dead payload that matches the filter, of 3 dead payloads of q back?",
			"verb=requeue&queue=q&tab=morgue&scope=filtered&prefix=none":                         "Put 0 dead payloads that match the filter, of 3 dead payloads of q back?",
			"verb=run&queue=q&tab=retrying&scope=filtered&prefix=failed-00001":                   "Run 1 job that matches the filter, of the jobs of q that retry now?",
			"verb=delete-dead&queue=q&scope=id&id=dead-00001":                                    "Delete the dead payload of this id for good?",
			"verb=delete-failed&queue=q&tab=retrying&scope=all":                                  "Delete all 3 jobs of q that retry for good?",
			"verb=cancel&queue=q&tab=waiting&scope=selected&sel=:failed-00001&sel=:failed-00002": "Cancel 2 jobs of q?",
			"verb=delete&queue=q&scope=id&id=failed-00001&from=job":                              "Delete this job for good?",
			"verb=pause&scope=executor":                                                          "Pause everything?",
		} {
			a := s.do(http.MethodPost, "do?"+query, nil)
			require.Equal(t, http.StatusOK, a.StatusCode, query)
			require.Contains(t, a.text, "<h1>"+want+"</h1>", query)
			require.Contains(t, a.text, "confirm=yes", query)
		}
		stats, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, stats.Dead)
		require.Equal(t, 3, stats.Retrying)
		require.False(t, stats.Paused)
		a := s.do(http.MethodPost, "do?verb=cancel&queue=q&scope=id&id=failed-00001", url.Values{"reason": {"by hand"}})
		require.Contains(t, a.text, "reason=by&#43;hand")
		// The answer to the question does what was asked about, with what was ticked.
		a = s.do(http.MethodPost, "do?verb=delete&queue=q&tab=retrying&scope=selected", url.Values{"sel": {":failed-00001"}})
		action := regexp.MustCompile(`action="do\?([^"]*)"`).FindStringSubmatch(a.text)[1]
		values, err := url.ParseQuery(strings.ReplaceAll(action, "&amp;", "&"))
		require.NoError(t, err)
		require.Contains(t, a.text, `name="sel" value=":failed-00001"`)
		values.Set("sel", ":failed-00001")
		require.Contains(t, s.post(values), "1 payload deleted.")
		require.NoError(t, x.Stop(t.Context()))
	})
}

// The question before an action on a whole list has the number of what the action would take, also where the figure
// above the list counts others: ids that are paused are parked, and what is halted does not retry.
func TestTheQuestionCountsWhatIsMeant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{Workers: 4})
		q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
		for _, id := range []string{"a", "b", "c"} {
			enqueue(t, q, id, "", executor.In(time.Hour))
		}
		halts := queue(t, x, "halts", func(_ context.Context, job executor.Job[string]) error { return errBoom },
			executor.QueueConfig[string]{MaxRetries: -1, DeadLetters: executor.DeadLetters[string]{OnExhausted: executor.OnExhaustedHalt}})
		enqueue(t, halts, "h", "")
		require.NoError(t, x.Start(t.Context()))
		synctest.Wait()
		s := writable(t, x)
		asked := func(query string) string {
			return regexp.MustCompile(`<h1>(.*)</h1>`).FindStringSubmatch(s.do(http.MethodPost, "do?"+query, nil).text)[1]
		}
		require.Equal(t, "Delete all 0 jobs of q that are parked for good?", asked("verb=delete&queue=q&tab=parked&scope=all"))
		_, err := x.Inspect().Pause(t.Context(), inspect.SelectIDs("q", "a", "b"))
		require.NoError(t, err)
		require.Equal(t, "Delete all 2 jobs of q that are parked for good?", asked("verb=delete&queue=q&tab=parked&scope=all"))
		require.Equal(t, "Delete 1 job that matches the filter, of the jobs of q that are parked for good?",
			asked("verb=delete&queue=q&tab=parked&scope=filtered&prefix=a"))
		require.Equal(t, "Send all 0 jobs of halts that retry to the morgue?", asked("verb=kill-failed&queue=halts&tab=retrying&scope=all"))
		require.Contains(t, s.post(url.Values{"confirm": {"yes"}}, "verb", "delete", "queue", "q", "tab", "parked", "scope", "all"), "2 payloads deleted.")
		for i := range brief.MaxRows + 1 {
			id := fmt.Sprintf("p%04d", i)
			enqueue(t, q, id, "", executor.In(time.Hour))
		}
		_, err = x.Inspect().Pause(t.Context(), inspect.SelectPrefix("q", "p"))
		require.NoError(t, err)
		require.Equal(t, "Delete all jobs of q that are parked, of which there are at least 1\u202f000, for good?", asked("verb=delete&queue=q&tab=parked&scope=all"))
		require.NoError(t, x.Stop(t.Context()))
	})
}

// What a page offers, with all its rows ticked, is understood.
func TestEachButtonIsUnderstood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := graveyard(t, 3)
		require.NoError(t, x.KeyLocks().Lock(t.Context(), "k"))
		_, err := x.Inspect().Pause(t.Context(), inspect.SelectQueue("q"))
		require.NoError(t, err)
		pressing := false
		s := mount(t, x, dashboard.Config{Authorize: func(_ *http.Request, a dashboard.Action) error {
			if pressing && a.Verb != dashboard.View { // which is asked about what was understood
				return errBoom
			}
			return nil
		}})
		forms := regexp.MustCompile(`(?s)<form method="post" action="(do[^"]*)"[^>]*>(.*?)</form>`)
		buttons := regexp.MustCompile(`<button[^>]* value="([^"]*)"[^>]*>`)
		formAction := regexp.MustCompile(` formaction="([^"]*)"`)
		rows := regexp.MustCompile(`name="sel" value="([^"]*)"`)
		pressed := make(map[string]bool)
		for _, path := range []string{"", "queue?name=q", "queue?name=q&prefix=failed", "queue?name=q&tab=retrying",
			"queue?name=q&tab=retrying&error=boom", "queue?name=q&tab=morgue", "queue?name=q&tab=morgue&prefix=dead",
			"job?queue=q&id=failed-00000", "job?queue=q&id=dead-00000", "locks"} {
			pressing = false
			text := s.get(path)
			pressing = true
			for _, form := range forms.FindAllStringSubmatch(text, -1) {
				ticked := make(url.Values)
				for _, row := range rows.FindAllStringSubmatch(form[2], -1) {
					ticked.Add("sel", row[1])
				}
				for _, button := range buttons.FindAllStringSubmatch(form[2], -1) {
					action := form[1]
					if other := formAction.FindStringSubmatch(button[0]); other != nil {
						action = other[1]
					}
					ticked.Set("verb", button[1])
					s.refused(http.StatusForbidden, http.MethodPost, strings.ReplaceAll(action, "&amp;", "&"), ticked)
					pressed[button[1]] = true
				}
			}
		}
		require.Len(t, pressed, 10, "%v", pressed)
		require.NoError(t, x.Stop(t.Context()))
	})
}

func TestPauseAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{})
		q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
		require.NoError(t, x.Start(t.Context()))
		s := writable(t, x)
		jobs := func() int {
			synctest.Wait()
			stats, err := q.Stats(t.Context())
			require.NoError(t, err)
			return stats.Jobs
		}
		require.Contains(t, s.post(nil, "verb", "pause", "queue", "q", "scope", "all", "from", "queue"), "1 queue is paused.")
		enqueue(t, q, "a", "")
		require.Equal(t, 1, jobs())
		require.Contains(t, s.get("job", "queue", "q", "id", "a"), "a pause of its queue")
		require.Contains(t, s.post(nil, "verb", "resume", "queue", "q", "scope", "all", "from", "queue"), "1 queue resumed.")
		require.Zero(t, jobs())
		require.Contains(t, s.post(url.Values{"confirm": {"yes"}}, "verb", "pause", "scope", "executor"), "Everything is paused.")
		enqueue(t, q, "a", "")
		require.Equal(t, 1, jobs())
		require.Contains(t, s.post(nil, "verb", "pause", "queue", "q", "id", "a", "scope", "id", "from", "job"), "1 id is paused.")
		require.Contains(t, s.post(nil, "verb", "resume", "scope", "executor"), "The executor goes on.")
		require.Equal(t, 1, jobs())
		require.Contains(t, s.post(nil, "verb", "resume", "queue", "q", "id", "a", "scope", "id"), "1 id resumed.")
		require.Zero(t, jobs())
		require.NoError(t, x.Stop(t.Context()))
	})
}

func TestDashboard_L21_FiguresOfQueuesAndShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := graveyard(t, 5)
		for i := range 4 {
			enqueue(t, q, fmt.Sprint("later-", i), "", executor.In(time.Hour))
		}
		text := mount(t, x, dashboard.Config{}).get("queue", "name", "q")
		for name, want := range map[string]string{"Enqueued": "9", "Payloads": "9", "Fresh": "4", "Failed": "5",
			"Processed": "0", "Lag": "–"} {
			require.Regexp(t, fmt.Sprintf(`<dt title="[^"]+">%s</dt><dd data-live="[^"]*"[^>]*>%s</dd>`, name, want), text)
		}
		info, err := x.Stats(t.Context())
		require.NoError(t, err)
		for _, shard := range info.Queues[0].Shards {
			require.Contains(t, text, fmt.Sprintf(`<th scope="row">%d</th><td class="n">–</td><td class="n">%d</td>`,
				shard.Shard, shard.Jobs))
		}
		require.NoError(t, x.Stop(t.Context()))
	})
}

func TestDashboard_L22_Totals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, _ := graveyard(t, 5)
		late := queue(t, x, "late", func(context.Context, executor.Job[string]) error { time.Sleep(time.Hour); return nil },
			executor.QueueConfig[string]{MaxConcurrent: 1})
		enqueue(t, late, "a", "")
		enqueue(t, late, "b", "")
		time.Sleep(90 * time.Second)
		text := mount(t, x, dashboard.Config{}).get("")
		for name, want := range map[string]string{
			"Lag": "1 min 30 s", "Age": "1 min 30 s", "Busy": "1 / 4", "Enqueued": "7", "Fresh": "2", "Retries": "5", "Dead": "5",
			"Processed": "0", "Failed": "5",
		} {
			require.Regexp(t, fmt.Sprintf(`<dt title="[^"]+">%s</dt><dd data-live="[^"]*"[^>]*>%s</dd>`, name, want), text)
		}
		require.Contains(t, text, `href="queue?name=q&amp;tab=morgue"`)
		time.Sleep(3 * time.Hour)
		require.NoError(t, x.Stop(t.Context()))
	})
}

// The fresh jobs are a list of their own, whatever they do, with a link to it beside the
// number of them, and with actions.
func TestDashboard_L22_FreshJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, q := graveyard(t, 3)
		enqueue(t, q, "later-1", "", executor.In(time.Hour))
		enqueue(t, q, "later-2", "", executor.In(time.Hour))
		held := make(chan struct{})
		slow := queue(t, x, "slow", func(context.Context, executor.Job[string]) error { <-held; return nil }, executor.QueueConfig[string]{})
		enqueue(t, slow, "runs", "")
		synctest.Wait()
		s := writable(t, x)
		require.Regexp(t, `<a href="queue\?name=q&amp;tab=fresh"[^>]*>2</a>`, s.get(""))
		require.Equal(t, []string{"later-1", "later-2"}, allPages(s, "name", "q", "tab", "fresh", "sort", "id"))
		require.Equal(t, []string{"runs"}, allPages(s, "name", "slow", "tab", "fresh"))
		require.Equal(t, []string{"later-1", "later-2"}, valuesOf(s.api("jobs", "queue", "q", "state", "fresh", "order", "id")["jobs"], "id"))
		require.Contains(t, s.do(http.MethodPost, "do?verb=run&queue=q&tab=fresh&scope=all", nil).text, "Run all 2 jobs of q that are fresh now?")
		require.Contains(t, s.post(url.Values{"confirm": {"yes"}}, "verb", "run", "queue", "q", "tab", "fresh", "scope", "all"), "2 jobs are due now.")
		synctest.Wait()
		require.Empty(t, allPages(s, "name", "q", "tab", "fresh"))
		stats, err := q.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, 3, stats.Retrying)
		close(held)
		require.NoError(t, x.Stop(t.Context()))
	})
}

func theHandlerThatBlocks(hold chan struct{}) { <-hold }

func TestDashboard_L24_WhatAllWorkersDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := open(t, executor.Config{Workers: 2})
		hold := make(chan struct{})
		q := queue(t, x, "q", func(ctx context.Context, _ executor.Job[string]) error {
			executor.Progress(ctx, 3, 10, "mailing")
			theHandlerThatBlocks(hold)
			return nil
		}, executor.QueueConfig[string]{})
		require.NoError(t, x.Start(t.Context()))
		s := mount(t, x, dashboard.Config{})
		require.Contains(t, s.get("running"), "No worker has anything in hand.")
		enqueue(t, q, "busy-1", "")
		synctest.Wait()
		time.Sleep(90 * time.Second)
		text := s.get("running")
		require.Contains(t, text, `href="job?id=busy-1&amp;queue=q"`)
		require.Contains(t, text, ">1 min 30 s</time>")
		require.Contains(t, text, "3 of 10 <bdi>mailing</bdi>")
		require.NotContains(t, text, "theHandlerThatBlocks")
		require.Contains(t, s.get("running?stacks=1"), "theHandlerThatBlocks")
		require.Contains(t, s.get("job", "queue", "q", "id", "busy-1"), "has it in hand for 1 min 30 s")
		close(hold)
		require.NoError(t, x.Stop(t.Context()))
	})
}

// A question is as short as a page: what matches is counted up to the longest list.
func TestAQuestionAboutMany(t *testing.T) {
	x := open(t, executor.Config{})
	q := queue(t, x, "q", nil, executor.QueueConfig[string]{})
	for i := range brief.MaxRows + 1 {
		enqueue(t, q, fmt.Sprintf("a-%04d", i), "")
	}
	enqueue(t, q, "b", "")
	s := writable(t, x)
	for _, each := range [][2]string{{"a", "at least 1\u202f000 jobs that match"}, {"b", "1 job that matches"}} {
		a := s.do(http.MethodPost, address("do", "verb", "cancel", "queue", "q", "tab", "waiting", "scope", "filtered", "prefix", each[0]), nil)
		require.Contains(t, a.text, "Cancel "+each[1]+" the filter, of 1\u202f002 jobs of q?")
	}
}
