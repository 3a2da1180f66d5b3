package executor_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/events"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
)

// hostileContext does harm in one of its methods.
type hostileContext struct {
	context.Context
	done, err, value func()
}

func (c hostileContext) Done() <-chan struct{} {
	if c.done != nil {
		c.done()
	}
	return c.Context.Done()
}

func (c hostileContext) Err() error {
	if c.err != nil {
		c.err()
	}
	return c.Context.Err()
}

func (c hostileContext) Value(key any) any {
	if c.value != nil {
		c.value()
	}
	return c.Context.Value(key)
}

// victims are what hostile arguments are given to.
type victims struct {
	x        *executor.Executor
	q        *executor.Queue[int]
	caller   *executor.Caller[int, int]
	log      *journal.Log
	table    *lock.Table
	slots    *lock.Slots[int]
	serials  *executor.Slots[int]
	rival    *lock.Candidate
	c        *cron.Cron
	dir      string
	calls    int
	finished chan string
}

func newVictims(t *testing.T) *victims {
	v := &victims{dir: t.TempDir(), table: new(lock.Table), finished: make(chan string, 1000)}
	v.x = open(t, filepath.Join(v.dir, "jobs"), executor.Config{Workers: 2})
	v.q = handle(t, v.x, "q", func(_ context.Context, job executor.Merged[int]) error {
		v.finished <- job.ID
		return nil
	}, executor.QueueConfig[int]{})
	var err error
	v.caller, err = executor.HandleResult(v.x, "caller", func(_ context.Context, job executor.Job[int]) (int, error) {
		return job.Payload, nil
	}, executor.QueueConfig[int]{})
	require.NoError(t, err)
	require.NoError(t, v.x.Start(t.Context()))
	v.log, err = journal.Open(filepath.Join(v.dir, "log"), journal.Config{})
	require.NoError(t, err)
	_, err = v.log.Queue(t.Context(), "q")
	require.NoError(t, err)
	v.slots, err = lock.NewSlots(lock.SlotsConfig[int]{Next: func(n int) int { return n + 1 }})
	require.NoError(t, err)
	v.serials, err = executor.NewSlots(v.x, "serials", executor.SlotsConfig[int]{Next: next})
	require.NoError(t, err)
	election, err := v.table.NewElection("e", lock.ElectionConfig{})
	require.NoError(t, err)
	first, err := election.Candidate("first")
	require.NoError(t, err)
	require.True(t, first.IsLeader())
	v.rival, err = election.Candidate("rival")
	require.NoError(t, err)
	v.c, err = cron.New(v.x, cron.Config{})
	require.NoError(t, err)
	require.NoError(t, v.c.Start())
	require.NoError(t, v.add(t.Context(), "hourly"))
	_, err = v.table.TryAcquire(lock.Options{}, "held")
	require.NoError(t, err)
	return v
}

func (v *victims) add(ctx context.Context, name string) error {
	return cron.Add(ctx, v.c, cron.Schedule[int]{Name: name, Spec: "@hourly", Queue: v.q, Payload: func(time.Time) int { return 1 }})
}

// work proves that everything still works.
func (v *victims) work(t *testing.T, after string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v.calls++
	_, err := v.q.Enqueue(ctx, "after", v.calls, executor.IdempotencyKey("k"+after), executor.FromSource("m", int64(v.calls)))
	require.NoError(t, err, after)
	for ended := false; !ended; {
		select {
		case id := <-v.finished:
			ended = id == "after"
		case <-ctx.Done():
			t.Fatalf("nothing runs after %s", after)
		}
	}
	_, err = v.x.Stats(ctx)
	require.NoError(t, err, after)
	_, err = v.x.Inspect().Requeue(ctx, inspect.SelectQueue(v.q.Name()))
	require.NoError(t, err, after)
	require.NoError(t, v.x.Compact(ctx), after)
	require.NoError(t, v.x.SetSourceOffset(ctx, "mine", 1), after)
	require.NoError(t, v.x.Err(), after)
	ticket, err := v.log.Append(ctx, []journal.Entry{{Queue: 1, ID: []byte("x")}}, nil)
	require.NoError(t, err, after)
	require.NoError(t, ticket.Wait(ctx), after)
	require.NoError(t, v.log.Restore(ctx, 1, nil, 0, nil), after)
	l, err := v.table.Acquire(ctx, lock.Options{}, "free")
	require.NoError(t, err, after)
	require.NoError(t, l.Unlock())
	r, err := v.slots.Reserve(ctx, lock.Options{})
	require.NoError(t, err, after)
	require.NoError(t, r.Unlock())
	require.Len(t, v.c.List(), 1, after)
}

// takesContext has a call for every exported function that takes a context. What it
// returns, if the context can't be used, is an error.
func (v *victims) takesContext() map[string]func(context.Context) error {
	i, all, none := v.x.Inspect(), inspect.SelectQueue("q"), inspect.SelectIDs("q", "none")
	entry := []journal.Entry{{Queue: 1, ID: []byte("x")}}
	some := []executor.Item[int]{{ID: "a"}}
	ignored := func(err error) error { return errors.Join(err, errIgnored) }
	return map[string]func(context.Context) error{
		"executor.OpenContext": func(ctx context.Context) error {
			_, err := executor.OpenContext(ctx, filepath.Join(v.dir, "jobs"), executor.Config{})
			return err
		},
		"journal.OpenContext": func(ctx context.Context) error {
			_, err := journal.OpenContext(ctx, filepath.Join(v.dir, "log"), journal.Config{})
			return err
		},
		"executor.Executor.Compact": v.x.Compact,
		"executor.Executor.Events": func(ctx context.Context) error {
			for _, err := range v.x.Events(ctx, events.Filter{}) {
				return err
			}
			return nil
		},
		"executor.Executor.Copy":               func(ctx context.Context) error { return v.x.Copy(ctx, filepath.Join(v.dir, "no", "such")) },
		"executor.Executor.DeleteSourceOffset": func(ctx context.Context) error { return v.x.DeleteSourceOffset(ctx, "x") },
		"executor.Heartbeat":                   func(ctx context.Context) error { executor.Heartbeat(ctx); return errIgnored },
		"executor.Progress":                    func(ctx context.Context) error { executor.Progress(ctx, 1, 2, ""); return errIgnored },
		"executor.Inspector.Jobs": func(ctx context.Context) error {
			_, err := v.x.Inspect().Jobs(ctx, inspect.JobQuery{Queue: "q", Order: inspect.OrderID})
			return err
		},
		"executor.Inspector.JobsByID": func(ctx context.Context) error { _, err := v.x.Inspect().JobsByID(ctx, "q", "a"); return err },
		"executor.Inspector.Job":      func(ctx context.Context) error { _, err := v.x.Inspect().Job(ctx, "q", "a"); return err },
		"executor.Inspector.Dead": func(ctx context.Context) error {
			_, err := v.x.Inspect().Dead(ctx, inspect.JobQuery{Queue: "q"})
			return err
		},
		"executor.Inspector.Running": func(ctx context.Context) error {
			_, err := v.x.Inspect().Running(ctx, inspect.RunningQuery{})
			return err
		},
		"executor.Inspector.Explain":        func(ctx context.Context) error { _, err := v.x.Inspect().Explain(ctx, "q", "a"); return err },
		"executor.Executor.Run":             v.x.Run, // ErrState: it runs
		"executor.Executor.SetSourceOffset": func(ctx context.Context) error { return v.x.SetSourceOffset(ctx, "x", 1) },
		"executor.Executor.Start":           v.x.Start,
		"executor.Executor.Stats":           func(ctx context.Context) error { _, err := v.x.Stats(ctx); return err },
		"executor.Executor.Stop": func(ctx context.Context) error {
			if ctx != nil {
				return errIgnored // it would stop
			}
			return v.x.Stop(ctx)
		},
		"executor.keyLocks.Lock":   func(ctx context.Context) error { return ignored(v.x.KeyLocks().Lock(ctx, "k")) },
		"executor.keyLocks.Locked": func(ctx context.Context) error { _, err := v.x.KeyLocks().Locked(ctx, "k"); return ignored(err) },
		"executor.keyLocks.Unlock": func(ctx context.Context) error { return ignored(v.x.KeyLocks().Unlock(ctx, "k")) },
		"executor.Slots.Reset":     v.serials.Reset,
		"executor.Caller.Do":       func(ctx context.Context) error { _, err := v.caller.Do(ctx, "a", 1); return ignored(err) },
		"executor.Queue.Enqueue": func(ctx context.Context) error {
			_, err := v.q.Enqueue(ctx, "a", 1)
			_, keyed := v.q.Enqueue(ctx, "a", 1, executor.IdempotencyKey("hostile"), executor.FromSource("hostile", math.MaxInt64))
			if err == nil {
				return keyed
			}
			return err
		},
		"executor.Queue.EnqueueMany": func(ctx context.Context) error { _, err := v.q.EnqueueMany(ctx, some); return err },
		"executor.Queue.Pending":     func(ctx context.Context) error { _, err := v.q.Pending(ctx, "a"); return err },
		"executor.Queue.Wait":        func(ctx context.Context) error { return ignored(v.q.Wait(ctx, executor.Receipt{ID: "a", Position: 1})) },

		"executor.Inspector.Pause": func(ctx context.Context) error {
			_, err := i.Pause(ctx, inspect.SelectPrefix("q", "none"))
			defer func() { _ = resumeAll(context.Background(), v.x) }()
			return errors.Join(err, pauseAll(ctx, v.x))
		},
		"executor.Inspector.Resume": func(ctx context.Context) error {
			_, err := i.Resume(ctx, inspect.SelectPrefix("q", "none"))
			return err
		},
		"executor.Inspector.RetryNow":     func(ctx context.Context) error { _, err := i.RetryNow(ctx, all); return err },
		"executor.Inspector.Act":          func(ctx context.Context) error { _, err := i.Act(ctx, "run", all, ""); return err },
		"executor.Inspector.RunNow":       func(ctx context.Context) error { _, err := i.RunNow(ctx, all); return err },
		"executor.Inspector.Cancel":       func(ctx context.Context) error { _, err := i.Cancel(ctx, none, ""); return err },
		"executor.Inspector.Delete":       func(ctx context.Context) error { _, err := i.Delete(ctx, none); return err },
		"executor.Inspector.KillFailed":   func(ctx context.Context) error { _, err := i.KillFailed(ctx, none); return err },
		"executor.Inspector.DeleteFailed": func(ctx context.Context) error { _, err := i.DeleteFailed(ctx, none); return err },
		"executor.Inspector.Requeue":      func(ctx context.Context) error { _, err := i.Requeue(ctx, all); return err },
		"executor.Inspector.DeleteDead":   func(ctx context.Context) error { _, err := i.DeleteDead(ctx, none); return err },

		"executor.Queue.Stats": func(ctx context.Context) error { _, err := v.q.Stats(ctx); return err },

		"cron.Add":             func(ctx context.Context) error { return v.add(ctx, "hourly") }, // or ErrConfig
		"cron.Cron.Pause":      func(ctx context.Context) error { return v.c.Pause(ctx, "hourly") },
		"cron.Cron.Remove":     func(ctx context.Context) error { return v.c.Remove(ctx, "none") },
		"cron.Cron.Resume":     func(ctx context.Context) error { return v.c.Resume(ctx, "hourly") },
		"cron.Cron.TriggerNow": func(ctx context.Context) error { _, err := v.c.TriggerNow(ctx, "hourly"); return err },
		"cron.Cron.Stop": func(ctx context.Context) error {
			if ctx != nil {
				return errIgnored // it would stop
			}
			return v.c.Stop(ctx)
		},

		"journal.Log.Arrived": func(ctx context.Context) error { _, err := v.log.Arrived(ctx, 1); return ignored(err) },
		"journal.Log.Append":  func(ctx context.Context) error { _, err := v.log.Append(ctx, entry, nil); return err },
		"journal.Log.Post":    func(ctx context.Context) error { _, err := v.log.Post(ctx, entry, nil); return err },
		"journal.Log.Compact": v.log.Compact,
		"journal.Log.Copy":    func(ctx context.Context) error { return v.log.Copy(ctx, filepath.Join(v.dir, "no", "such")) },
		"journal.Log.Flush":   func(ctx context.Context) error { return ignored(v.log.Flush(ctx)) }, // perhaps there is nothing to wait for
		"journal.Log.Settled": func(ctx context.Context) error { return ignored(v.log.Settled(ctx)) },
		"journal.Log.Put":     func(ctx context.Context) error { return v.log.Put(ctx, journal.Set{Key: "a/b", Value: []byte("x")}) },
		"journal.Log.Queue":   func(ctx context.Context) error { _, err := v.log.Queue(ctx, "q"); return err },
		"journal.Log.Rename":  func(ctx context.Context) error { return v.log.Rename(ctx, "q", "q") },
		"journal.Log.Restore": func(ctx context.Context) error {
			return v.log.Restore(ctx, 1, []journal.Position{9e9}, 0, func([]byte) uint32 { return 0 })
		},
		"journal.Ticket.Wait": func(ctx context.Context) error {
			ticket, err := v.log.Append(context.Background(), entry, nil)
			if err != nil {
				return err
			}
			return ignored(ticket.Wait(ctx)) // perhaps it is on disk already
		},

		"lock.Candidate.Campaign": v.rival.Campaign,
		"lock.Candidate.Context":  func(ctx context.Context) error { _, _, err := v.rival.Context(ctx); return err }, // ErrNotLeader
		"lock.Lease.Context": func(ctx context.Context) error {
			child, cancel := lock.Lease{}.Context(ctx)
			defer cancel()
			return context.Cause(child)
		},
		"lock.Slots.Reserve": func(ctx context.Context) error {
			r, err := v.slots.Reserve(ctx, lock.Options{})
			if err == nil {
				_ = r.Unlock()
			}
			return err
		},
		"lock.Table.Acquire": func(ctx context.Context) error {
			_, err := v.table.Acquire(ctx, lock.Options{}, "held")
			return err
		},
	}
}

// errIgnored is the outcome of a call that has no need of its context.
var errIgnored = errors.New("the context does not matter")

// A context that can't be used is an error of the call that it was given to, and
// hurts no other.
func TestHostileContexts(t *testing.T) {
	v := newVictims(t)
	boom := func() { panic("hostile") }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended, end := context.WithCancel(t.Context())
	end()
	back := func() { // calls the executor from inside
		_ = v.x.Err()
		_, _ = enqueueRaw(context.Background(), v.x, "q", "from inside", []byte("1"))
		_ = v.log.Err()
		_, _ = v.log.Post(context.Background(), []journal.Entry{{Queue: 1, ID: []byte("y")}}, nil)
		_ = v.table.List()
	}
	hostile := map[string]context.Context{
		"nil":             nil,
		"Done panics":     hostileContext{Context: ctx, done: boom},
		"all panic":       hostileContext{Context: ctx, done: boom, err: boom, value: boom},
		"Err panics":      hostileContext{Context: ended, err: boom, value: boom},
		"a nil interface": hostileContext{},
		"calls back":      hostileContext{Context: ended, done: back, err: back, value: back},
	}
	for name, call := range v.takesContext() {
		for kind, c := range hostile {
			what := name + " with a context: " + kind
			over := make(chan struct{})
			go func() {
				defer close(over)
				err := call(c)
				if kind == "nil" && !errors.Is(err, errIgnored) && !strings.HasSuffix(name, "Candidate.Context") {
					unusable := errors.Is(err, executor.ErrContext) || errors.Is(err, journal.ErrContext) || errors.Is(err, lock.ErrContext)
					assert.True(t, unusable, "%s: %v", what, err)
				}
				if kind == "Done panics" && errors.Is(err, executor.ErrUnknown) {
					assert.ErrorIs(t, err, executor.ErrContext, what)
				}
			}()
			select {
			case <-over:
			case <-time.After(time.Minute):
				t.Fatalf("%s does not return", what)
			}
		}
		v.work(t, name)
	}
	require.NoError(t, v.c.Stop(t.Context()))
	require.NoError(t, v.x.Stop(t.Context()))
	require.NoError(t, v.log.Close())
}

// Functions and values that panic, or are not there, are no more than that.
func TestHostileFunctions(t *testing.T) {
	v := newVictims(t)
	boom := func() { panic("hostile") }
	_, err := executor.HandleMerged[int](v.x, "nil", nil, executor.QueueConfig[int]{})
	require.ErrorIs(t, err, executor.ErrConfig)
	_, err = executor.HandleBatch[int](v.x, "nil", nil, executor.QueueConfig[int]{})
	require.ErrorIs(t, err, executor.ErrConfig)
	for _, score := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err = v.q.Enqueue(t.Context(), "a", 1, executor.Score(score))
		require.ErrorIs(t, err, executor.ErrInvalidItem)
	}
	_, err = v.q.Enqueue(t.Context(), strings.Repeat("x", executor.MaxIDBytes+1), 1)
	require.ErrorIs(t, err, executor.ErrInvalidID)
	var none *executor.Queue[int]
	_, err = none.Stats(t.Context())
	require.ErrorIs(t, err, executor.ErrState)
	v.work(t, "arguments")

	for _, wake := range []func(){nil, boom} {
		require.NoError(t, v.x.KeyLocks().Lock(t.Context(), "k"))
		_, locked := v.x.KeyLocks().Watch("k", wake)
		require.True(t, locked)
		require.NoError(t, v.x.KeyLocks().Unlock(t.Context(), "k"))
	}
	v.work(t, "Keys.Watch")

	entry := []journal.Entry{{Queue: 1, ID: []byte("x")}}
	next := v.log.Stats().Next
	require.Panics(t, func() {
		_, _ = v.log.Append(t.Context(), entry, func(journal.Position) []journal.Set { panic("hostile") })
	})
	require.Equal(t, next, v.log.Stats().Next, "nothing was accepted")
	v.work(t, "Append")

	l, err := v.table.TryAcquire(lock.Options{}, "w")
	require.NoError(t, err)
	l.OnEnd(nil)
	l.OnEnd(func(error) { panic("hostile") })
	require.Panics(t, func() { _ = l.Unlock() })
	v.work(t, "OnEnd")
	require.NoError(t, v.c.Stop(t.Context()))
	require.NoError(t, v.x.Stop(t.Context()))
	require.NoError(t, v.log.Close())
}

// A new function that takes a context needs a row in the table.
func TestHostileTableIsComplete(t *testing.T) {
	table := newVictims(t).takesContext()
	for m := range reflect.TypeFor[inspect.Inspector]().Methods() {
		if m.Type.NumIn() > 0 && m.Type.In(0) == reflect.TypeFor[context.Context]() {
			assert.Contains(t, table, "executor.Inspector."+m.Name)
		}
	}
	for pkg, dir := range map[string]string{"executor": ".", "journal": "../journal", "lock": "../lock", "cron": "cron"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			require.NoError(t, err)
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok || !f.Name.IsExported() || !slices.ContainsFunc(f.Type.Params.List, isContext) {
					continue
				}
				of := receiver(f)
				if pkg == "journal" && of != "" && !ast.IsExported(of) {
					of = "Log." // of a part that it embeds
				}
				if !strings.HasPrefix(of, "guarded") && !strings.HasPrefix(of, "asked") { // nobody can call these
					assert.Contains(t, table, pkg+"."+of+f.Name.Name)
				}
			}
		}
	}
}

func isContext(p *ast.Field) bool {
	s, ok := p.Type.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Context"
}

// receiver is the name of the type of a method, with a dot.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	switch generic := of.(type) {
	case *ast.IndexExpr:
		of = generic.X
	case *ast.IndexListExpr:
		of = generic.X
	}
	return of.(*ast.Ident).Name + "."
}
