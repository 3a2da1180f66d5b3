package executor_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
)

// deploys are versions of a program that keeps mirrors, under one name of its queue and
// then under another.
type deploys struct {
	*testing.T
	*mirrors
	disk *journal.Memory
}

func byScore() executor.QueueConfig[int] {
	return executor.QueueConfig[int]{MaxRetries: -1, Defaults: executor.Defaults[int]{Score: func(v int) float64 { return float64(v) }}}
}

// life runs one of them until f is through and all is done.
func (d *deploys) life(name, former string, f func(x *executor.Executor, q *executor.Queue[int])) {
	x := openOn(d, d.disk, executor.Config{})
	cfg := byScore()
	if former != "" {
		cfg.RenamedFrom = []string{former}
	}
	q, err := executor.HandleLatest(x, name, d.update, cfg)
	require.NoError(d, err)
	start(d, x)
	if f != nil {
		f(x, q)
	}
	synctest.Wait()
	stop(d, x)
}

func (d *deploys) send(q *executor.Queue[int], id string, v int, options ...executor.Option) {
	enqueue(d, q, id, v, options...)
	synctest.Wait()
}

// die has a payload go to the dead letters.
func (d *deploys) die(q *executor.Queue[int], id string, v int) {
	d.set(true)
	d.send(q, id, v)
	d.set(false)
}

func (d *deploys) requeue(x *executor.Executor, q *executor.Queue[int]) inspect.Requeued {
	back, err := x.Inspect().Requeue(d.Context(), inspect.SelectQueue(q.Name()))
	require.NoError(d, err)
	synctest.Wait()
	return back
}

// A queue of states is renamed, the deploy is rolled back, and rolled forward again. What
// was done under any of the names is known then: no older state runs after it. rounds are
// what comes before, and forward is the last deploy.
var renamedAndBack = []struct {
	name    string
	before  func(d *deploys)
	forward func(d *deploys, x *executor.Executor, q *executor.Queue[int])
	want    map[string]int
}{
	{"dead under the new name, and done under the old one", func(d *deploys) {
		d.life("index", "mirrors", func(_ *executor.Executor, q *executor.Queue[int]) { d.die(q, "a", 3) })
		d.life("mirrors", "", func(_ *executor.Executor, q *executor.Queue[int]) { d.send(q, "a", 5) })
	}, func(d *deploys, x *executor.Executor, q *executor.Queue[int]) {
		require.Zero(d, d.requeue(x, q), "it is superseded")
		d.send(q, "a", 4)
	}, map[string]int{"a": 5}},
	{"all is done under both", func(d *deploys) {
		d.life("mirrors", "", func(_ *executor.Executor, q *executor.Queue[int]) { d.send(q, "a", 1) })
		d.life("index", "mirrors", func(_ *executor.Executor, q *executor.Queue[int]) { d.send(q, "a", 2); d.send(q, "c", 7) })
		d.life("mirrors", "", func(_ *executor.Executor, q *executor.Queue[int]) {
			d.send(q, "a", 5)
			d.send(q, "b", 5)
			d.send(q, "c", 3)
		})
		d.wentOld = 0 // c did: a program that knows the old name alone can't know better
	}, func(d *deploys, _ *executor.Executor, q *executor.Queue[int]) {
		d.send(q, "a", 4)
		d.send(q, "b", 4)
		d.send(q, "c", 6) // 7 was done
	}, map[string]int{"a": 5, "b": 5, "c": 3}},
	{"dead under both", func(d *deploys) {
		d.life("index", "mirrors", func(_ *executor.Executor, q *executor.Queue[int]) {
			d.die(q, "a", 3)
			d.die(q, "b", 6)
			d.send(q, "c", 2)
		})
		d.life("mirrors", "", func(_ *executor.Executor, q *executor.Queue[int]) {
			d.die(q, "a", 5)
			d.die(q, "b", 5)
			d.die(q, "c", 1)
		})
	}, func(d *deploys, x *executor.Executor, q *executor.Queue[int]) {
		require.LessOrEqual(d, stats(d, q).Dead, 2, "one of an id")
		d.requeue(x, q)
		d.send(q, "a", 4)
	}, map[string]int{"a": 5, "b": 6, "c": 2}},
	{"waiting under the old name, and done under both", func(d *deploys) {
		d.life("index", "mirrors", func(_ *executor.Executor, q *executor.Queue[int]) { d.send(q, "a", 2); d.send(q, "c", 7) })
		d.life("mirrors", "", func(_ *executor.Executor, q *executor.Queue[int]) {
			d.send(q, "a", 5)
			d.send(q, "b", 5, executor.In(time.Hour))
			d.send(q, "c", 6, executor.In(time.Hour))
		})
	}, func(d *deploys, _ *executor.Executor, q *executor.Queue[int]) {
		d.send(q, "a", 4)
		d.send(q, "b", 4)
		d.send(q, "c", 6)
		time.Sleep(time.Hour)
	}, map[string]int{"a": 5, "b": 5, "c": 7}},
	{"waiting under both", func(d *deploys) {
		d.life("index", "mirrors", func(_ *executor.Executor, q *executor.Queue[int]) {
			d.send(q, "a", 3, executor.In(time.Hour))
			d.send(q, "b", 6, executor.In(time.Hour))
			d.send(q, "c", 3, executor.In(time.Hour))
		})
		d.life("mirrors", "", func(_ *executor.Executor, q *executor.Queue[int]) {
			d.send(q, "a", 5, executor.In(time.Hour))
			d.send(q, "b", 5, executor.In(time.Hour))
			d.send(q, "c", 5)
		})
	}, func(d *deploys, _ *executor.Executor, q *executor.Queue[int]) {
		require.LessOrEqual(d, stats(d, q).Payloads, 2, "one of an id")
		time.Sleep(time.Hour)
	}, map[string]int{"a": 5, "b": 6, "c": 5}},
	{"back and forward by its former names, twice", func(d *deploys) {
		d.life("mirrors", "", func(_ *executor.Executor, q *executor.Queue[int]) { d.send(q, "a", 1); d.die(q, "b", 1) })
		d.life("index", "mirrors", func(_ *executor.Executor, q *executor.Queue[int]) { d.send(q, "a", 5) })
		d.life("mirrors", "index", func(_ *executor.Executor, q *executor.Queue[int]) { d.send(q, "a", 4); d.send(q, "c", 3) })
		d.life("index", "mirrors", func(_ *executor.Executor, q *executor.Queue[int]) { d.send(q, "c", 2); d.send(q, "b", 2) })
		d.life("mirrors", "index", func(x *executor.Executor, q *executor.Queue[int]) { d.requeue(x, q); d.send(q, "b", 1) })
	}, func(d *deploys, _ *executor.Executor, q *executor.Queue[int]) {
		for _, id := range []string{"a", "b", "c"} {
			d.send(q, id, 1)
		}
	}, map[string]int{"a": 5, "b": 2, "c": 3}},
}

func TestRenamedAndBack(t *testing.T) {
	for _, c := range renamedAndBack {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := &deploys{t, &mirrors{at: make(map[string]int)}, new(journal.Memory)}
				c.before(d)
				for range 2 { // the setting may stay
					d.life("index", "mirrors", func(x *executor.Executor, q *executor.Queue[int]) { c.forward(d, x, q) })
					require.Equal(t, c.want, d.at)
					require.Zero(t, d.wentOld)
				}
				d.life("mirrors", "", func(_ *executor.Executor, q *executor.Queue[int]) {
					require.Zero(t, stats(t, q).Payloads+stats(t, q).Dead, "the old name is free, and empty")
				})
			})
		})
	}
}

// So it is after a crash at any commit of the start that takes over, and at the next one.
func TestRenamedAndBackEveryCrash(t *testing.T) {
	for _, c := range renamedAndBack {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := &deploys{t, &mirrors{at: make(map[string]int)}, new(journal.Memory)}
				c.before(d)
				at := fmt.Sprint(d.at)
				images := []*journal.Memory{d.disk.Crash()}
				for range 2 {
					var next []*journal.Memory
					for _, image := range images {
						disk := image.Crash()
						disk.OnCommit(func() { next = append(next, disk.Crash()) })
						x := openOn(t, disk, executor.Config{})
						require.NoError(t, pauseAll(t.Context(), x))
						cfg := byScore()
						cfg.RenamedFrom = []string{"mirrors"}
						must(executor.HandleLatest(x, "index", d.update, cfg))
						start(t, x)
						synctest.Wait()
						stop(t, x)
						require.Equal(t, at, fmt.Sprint(d.at), "it was paused")
					}
					images = append(images, next...)
				}
				require.Greater(t, len(images), 4)
				for i, image := range images {
					one := &deploys{t, &mirrors{at: make(map[string]int)}, image}
					maps.Copy(one.at, d.at)
					one.life("index", "mirrors", func(x *executor.Executor, q *executor.Queue[int]) {
						require.NoError(t, resumeAll(t.Context(), x))
						synctest.Wait()
						c.forward(one, x, q)
					})
					require.Equal(t, c.want, one.at, i)
					require.Zero(t, one.wentOld, i)
				}
			})
		})
	}
}

// What else goes along with a name that is known already: what is paused under either, when an
// id rests, retries, and how old what waits is. A queue of events that is idle under the old
// name takes over its rests, too.
func TestRenamedAndBackWithAllElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := &deploys{t, &mirrors{at: make(map[string]int)}, new(journal.Memory)}
		pause := func(x *executor.Executor, which inspect.Selection) {
			_, err := x.Inspect().Pause(t.Context(), which)
			require.NoError(t, err)
		}
		d.life("index", "mirrors", func(x *executor.Executor, q *executor.Queue[int]) {
			pause(x, inspect.SelectIDs("index", "b"))
			d.send(q, "a", 1)
			d.send(q, "b", 7)
		})
		time.Sleep(time.Hour)
		d.life("mirrors", "", func(x *executor.Executor, q *executor.Queue[int]) {
			pause(x, inspect.SelectPrefix("mirrors", "te"))
			d.send(q, "tenant", 2)
			d.send(q, "b", 6)
		})
		d.life("index", "mirrors", func(x *executor.Executor, q *executor.Queue[int]) {
			require.Equal(t, map[string]int{"a": 1, "b": 6}, d.at, "b is paused under the new name alone")
			require.Equal(t, 2, stats(t, q).Payloads)
			require.Equal(t, time.Hour, stats(t, q).Age)
			_, err := x.Inspect().Resume(t.Context(), inspect.SelectIDs("index", "b"))
			require.NoError(t, err)
			_, err = x.Inspect().Resume(t.Context(), inspect.SelectPrefix("index", "te"))
			require.NoError(t, err)
			synctest.Wait()
			require.Equal(t, map[string]int{"a": 1, "b": 7, "tenant": 2}, d.at)
		})
		for paused, err := range openOn(t, d.disk, executor.Config{}).Inspect().PausedPrefixes("mirrors") {
			t.Fatal(paused, err)
		}
	})
}

func TestRenamedAndBackWithRests(t *testing.T) {
	for _, merge := range []executor.Merge{executor.MergeKeepAll, executor.MergeSupersede} {
		t.Run(string(merge), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := new(journal.Memory)
				var ran shared[[]time.Duration]
				begin := time.Now()
				life := func(name string, former ...string) {
					x := openOn(t, disk, executor.Config{})
					q := must(executor.Handle(x, name, func(context.Context, executor.Job[int]) error {
						ran.set(append(ran.get(), time.Since(begin)))
						return nil
					}, executor.QueueConfig[int]{RenamedFrom: former, Merge: merge, Gather: executor.Gather[int]{Throttle: time.Hour}}))
					start(t, x)
					enqueue(t, q, "id", 1)
					time.Sleep(time.Minute)
					stop(t, x)
				}
				life("new")
				life("old")
				life("new", "old") // it rests under both
				time.Sleep(time.Hour)
				life("new", "old")
				require.Equal(t, []time.Duration{0, time.Minute, time.Hour + 3*time.Minute}, ran.get())
			})
		})
	}
}

// An id that has kept a slot under both names has one of them, and the other is free.
func TestRenamedAndBackWithSlots(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		var runs shared[[]int]
		fail := true
		life := func(name string, former ...string) {
			x := openOn(t, disk, executor.Config{})
			slots := must(executor.NewSlots(x, "serials", executor.SlotsConfig[int]{Next: next, TTL: 24 * time.Hour, KeepOnFailure: true}))
			q := must(executor.HandleLatest(x, name, func(_ context.Context, job executor.Job[int]) error {
				slot, _ := slots.Of(job)
				runs.set(append(runs.get(), slot))
				if fail {
					return errBoom
				}
				return nil
			}, executor.QueueConfig[int]{RenamedFrom: former, RetryIn: always(time.Hour), Conditions: executor.Conditions[int]{Slots: []executor.SlotSource{slots}}}))
			start(t, x)
			if fail {
				enqueue(t, q, "id", len(runs.get()))
			}
			synctest.Wait()
			if !fail {
				require.Len(t, slots.Snapshot().Open, 1, "one is free")
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Empty(t, slots.Snapshot().Open)
			}
			stop(t, x)
		}
		life("new")
		life("old")
		fail = false
		life("new", "old")
		require.Contains(t, []string{"[1 2 1]", "[1 2 2]"}, fmt.Sprint(runs.get()))
	})
}

// A job that waits under the new name keeps its retries, although its id rests under the old one.
func TestRenamedAndBackKeepsRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := new(journal.Memory)
		var ran shared[[]time.Duration]
		begin := time.Now()
		life := func(err error, name string, former ...string) {
			x := openOn(t, disk, executor.Config{})
			q := must(executor.Handle(x, name, func(context.Context, executor.Job[int]) error {
				ran.set(append(ran.get(), time.Since(begin)))
				return err
			}, executor.QueueConfig[int]{RenamedFrom: former, MaxRetries: 1, RetryIn: always(time.Hour), Gather: executor.Gather[int]{Throttle: 10 * time.Minute}}))
			start(t, x)
			if len(former) == 0 {
				enqueue(t, q, "id", 1)
				time.Sleep(time.Minute)
			} else {
				time.Sleep(2 * time.Hour)
				require.Equal(t, 1, stats(t, q).Dead)
			}
			stop(t, x)
		}
		life(errBoom, "new")
		life(nil, "old")
		life(errBoom, "new", "old")
		require.Equal(t, []time.Duration{0, time.Minute, time.Hour}, ran.get())
	})
}
