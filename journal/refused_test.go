package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// refusedRig is a log with a bit of everything in it, of which one call is refused.
type refusedRig struct {
	t    *testing.T
	disk *Memory
	log  *Log

	mu   sync.Mutex
	refs map[string]Ref // what was delivered, by id

	want []contentsByName // what may be there: more than one after a call whose outcome is unknown
}

// contentsByName is what is in a journal, by name, and where.
type contentsByName map[string]string

const (
	alive = "is alive"
	dead  = "is dead"
	isKey = "is a state key"
)

func startRefused(t *testing.T) *refusedRig {
	r := &refusedRig{t: t, disk: new(Memory), refs: make(map[string]Ref), want: []contentsByName{{}}}
	r.open()
	r.add("dead", "buried", "deleted", "ended", "parent", "failed", "failing", "rewritten", "stays")
	for _, id := range []string{"dead", "buried", "deleted"} {
		r.bury(id)
	}
	require.NoError(t, r.log.Flush(t.Context()))
	r.add("last") // what was accepted last has the last position
	return r
}

func (r *refusedRig) open() {
	l, err := OpenMemory(r.disk, tight(Config{Deliver: func(d *Delivery) {
		r.mu.Lock()
		var e Entry
		for i := range d.Len() {
			ref := must(d.Read(i, &e))
			r.refs[string(e.ID)] = ref
		}
		r.mu.Unlock()
		d.Done()
	}}))
	require.NoError(r.t, err)
	r.log = l
}

func (r *refusedRig) ref(id string) Ref {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refs[id]
}

func (r *refusedRig) position(id string) []Position { return []Position{r.ref(id).Position()} }

// is notes where something is now. Nowhere: it is gone.
func (r *refusedRig) is(name, where string) {
	for _, w := range r.want {
		if w[name] = where; where == "" {
			delete(w, name)
		}
	}
}

func named(ids ...string) (list []Entry) {
	for _, id := range ids {
		list = append(list, Entry{Queue: modelQueue, ID: []byte(id), Payload: []byte(id)})
	}
	return list
}

func (r *refusedRig) append(ctx context.Context, ids ...string) error {
	ticket, err := r.log.Append(ctx, named(ids...), nil)
	if err != nil {
		return err
	}
	return ticket.Wait(ctx)
}

func (r *refusedRig) add(ids ...string) {
	require.NoError(r.t, r.append(r.t.Context(), ids...))
	for _, id := range ids {
		r.is(id, alive)
	}
}

func (r *refusedRig) bury(id string) {
	r.log.Record(&Change{Buried: []Burial{{Ref: r.ref(id), Reason: "no luck"}}})
	r.is(id, dead)
}

func (r *refusedRig) result(key string) {
	r.log.Record(&Change{Sets: []Set{{Key: "test/" + key, Value: []byte("x")}}})
	r.is(key, isKey)
}

func (r *refusedRig) restore(ctx context.Context, id string) error {
	return r.log.Restore(ctx, modelQueue, r.position(id), 0, func([]byte) uint32 { return 0 })
}

// call makes a call that may be refused, and judges what may be there by its answer.
func (r *refusedRig) call(ctx context.Context, c refusable) error {
	before := len(r.want)
	for _, w := range r.want[:before] {
		r.want = append(r.want, maps.Clone(w))
	}
	for _, w := range r.want[before:] {
		for name, where := range c.then {
			if w[name] = where; where == "" {
				delete(w, name)
			}
		}
	}
	err := c.make(ctx, r)
	switch {
	case err == nil:
		r.want = r.want[before:]
	case !errors.Is(err, ErrUnknown):
		r.want = r.want[:before]
	}
	return err
}

// refusable is a call that a full disk, a context or a failure refuses.
type refusable struct {
	name string
	make func(ctx context.Context, r *refusedRig) error
	then contentsByName // what is different once it was made
}

var refusables = []refusable{
	{"append", func(ctx context.Context, r *refusedRig) error { return r.append(ctx, "new", "new too") },
		contentsByName{"new": alive, "new too": alive}},
	{"append with a key", func(ctx context.Context, r *refusedRig) error {
		ticket, err := r.log.Append(ctx, named("new"), func(p Position) []Set {
			return []Set{{Key: "test/key of it", Value: fmt.Append(nil, p)}}
		})
		if err != nil {
			return err
		}
		return ticket.Wait(ctx)
	}, contentsByName{"new": alive, "key of it": isKey}},
	{"restore", func(ctx context.Context, r *refusedRig) error { return r.restore(ctx, "dead") }, contentsByName{"dead": alive}},
	{"put", func(ctx context.Context, r *refusedRig) error {
		return r.log.Put(ctx, Set{Key: "test/new key", Value: []byte("x")})
	}, contentsByName{"new key": isKey}},
	{"delete", func(ctx context.Context, r *refusedRig) error {
		return remove(ctx, r.log, r.position("buried")...)
	}, contentsByName{"buried": ""}},
	{"new queue", func(ctx context.Context, r *refusedRig) error {
		_, err := r.log.Queue(ctx, "another")
		return err
	}, nil},
}

// refusals have a call refused, or its outcome unknown.
var refusals = []struct {
	name string
	have func(r *refusedRig, c refusable) error
}{
	{"by a full disk", func(r *refusedRig, c refusable) error {
		r.disk.FailNext(ErrFull)
		return r.call(r.t.Context(), c)
	}},
	{"by a disk that stays full", func(r *refusedRig, c refusable) error {
		r.disk.FailNext(ErrFull, ErrFull, ErrFull)
		return r.call(r.t.Context(), c)
	}},
	{"by a disk that was full before", func(r *refusedRig, c refusable) error {
		r.disk.Limit(1)
		require.ErrorIs(r.t, r.append(r.t.Context(), "one before"), ErrFull)
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		defer cancel()
		return r.call(ctx, c)
	}},
	{"twice", func(r *refusedRig, c refusable) error {
		r.disk.FailNext(ErrFull)
		require.ErrorIs(r.t, r.append(r.t.Context(), "one before"), ErrFull)
		time.Sleep(time.Second)
		r.disk.FailNext(ErrFull)
		return r.call(r.t.Context(), c)
	}},
	{"together with a result", func(r *refusedRig, c refusable) error {
		r.log.committing.Lock()
		r.disk.FailNext(ErrFull)
		made := r.goCall(c)
		r.log.Record(&Change{Sets: []Set{{Key: "test/together", Value: []byte("x")}}})
		r.log.committing.Unlock()
		err := <-made
		r.is("together", isKey)
		return err
	}},
	{"behind a result", func(r *refusedRig, c refusable) error {
		made := make(chan (<-chan error), 1)
		r.disk.BeforeCommit(func() {
			r.disk.BeforeCommit(nil)
			made <- r.goCall(c)
			r.disk.FailNext(ErrFull)
		})
		r.log.Record(&Change{Sets: []Set{{Key: "test/before", Value: []byte("x")}}})
		err := <-<-made
		r.is("before", isKey)
		return err
	}},
	{"by a context", func(r *refusedRig, c refusable) error {
		ctx, cancel := context.WithCancel(r.t.Context())
		cancel()
		return r.call(ctx, c)
	}},
	{"by a context and a full disk", func(r *refusedRig, c refusable) error { return r.cut(c, ErrFull) }},
	{"by a context during its commit", func(r *refusedRig, c refusable) error { return r.cut(c, nil) }},
	{"by a failure", func(r *refusedRig, c refusable) error {
		r.disk.FailNext(errors.New("boom"))
		return r.call(r.t.Context(), c)
	}},
}

// goCall makes a call on a goroutine of its own, and returns when it is in the open
// block.
func (r *refusedRig) goCall(c refusable) <-chan error {
	made := make(chan error, 1)
	go func() { made <- r.call(r.t.Context(), c) }()
	for empty := true; empty; runtime.Gosched() { // to wait for a mutex would stop the bubble's clock
		r.log.mu.Lock()
		empty = r.log.open.empty()
		r.log.mu.Unlock()
	}
	return made
}

// cut ends the context of a call during its commit, which has an outcome of its own.
func (r *refusedRig) cut(c refusable, outcome error) error {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.disk.BeforeCommit(func() {
		r.disk.BeforeCommit(nil)
		cancel()
		time.Sleep(time.Millisecond) // so that the caller is gone
		r.disk.FailNext(outcome)
	})
	return r.call(ctx, c)
}

// commits are what may be committed next. They don't wait where that is possible, so
// that the next ones may be in the same block.
var commits = []struct {
	name string
	make func(r *refusedRig) error
}{
	{"nothing", func(*refusedRig) error { return nil }},
	{"a pause", func(r *refusedRig) error {
		return r.call(r.t.Context(), refusable{"", func(ctx context.Context, r *refusedRig) error {
			return r.log.Put(ctx, Set{Key: "test/pause", Value: []byte("x")})
		}, contentsByName{"pause": isKey}})
	}},
	{"a row of control", func(r *refusedRig) error { r.result("control"); return nil }},
	{"a delete", func(r *refusedRig) error {
		if err := remove(r.t.Context(), r.log, r.position("deleted")...); err != nil {
			return err
		}
		r.is("deleted", "")
		return nil
	}},
	{"a queue", func(r *refusedRig) error {
		_, err := r.log.Queue(r.t.Context(), "queue")
		return err
	}},
	{"an end", func(r *refusedRig) error {
		r.log.Record(&Change{Ended: []Ref{r.ref("ended")}})
		r.is("ended", "")
		return nil
	}},
	{"a state", func(r *refusedRig) error {
		r.log.Record(&Change{Ended: []Ref{r.ref("failed")}, States: []JobState{{Entry: Entry{Queue: modelQueue, ID: []byte("state")}}}})
		r.is("failed", "")
		r.is("state", alive)
		return nil
	}},
	{"a burial", func(r *refusedRig) error { r.bury("failing"); return nil }},
	{"a rewrite", func(r *refusedRig) error {
		r.log.Record(&Change{Rewritten: []Rewrite{{Ref: r.ref("rewritten"), Payload: []byte("again")}}})
		return nil
	}},
	{"a follow-up", func(r *refusedRig) error {
		r.log.Record(&Change{Ended: []Ref{r.ref("parent")}, FollowUps: named("after")})
		r.is("parent", "")
		r.is("after", alive)
		return nil
	}},
	{"an append", func(r *refusedRig) error { r.add("next"); return nil }},
	{"a restore", func(r *refusedRig) error {
		if err := r.restore(r.t.Context(), "dead"); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		r.is("dead", alive)
		return nil
	}},
	{"a compacting", func(r *refusedRig) error { return r.log.Compact(r.t.Context()) }},
}

// A call that was refused is as if it had not been made, whatever is committed next, and
// so does one whose outcome is unknown or it is there as a whole: all that was accepted
// is there after the next start, and nothing else, and no account counts anything else.
func TestRefusedIsAsIfNeverCalled(t *testing.T) {
	for _, c := range refusables {
		for _, refusal := range refusals {
			t.Run(c.name+" refused "+refusal.name, func(t *testing.T) {
				for i, next := range commits {
					synctest.Test(t, func(t *testing.T) {
						r := startRefused(t)
						defer func() { _ = r.log.Close() }()
						err := refusal.have(r, c)
						t.Log(next.name, "after:", err)
						failed := errors.Is(r.log.Err(), ErrFailed)
						if !failed {
							r.room()
							require.NoError(t, r.log.Err())
							require.NoError(t, next.make(r))
							require.NoError(t, commits[(i+5)%len(commits)].make(r))
							r.account()
						}
						image := r.disk.Crash()
						require.Equal(t, failed, r.log.Close() != nil)
						r.look()
						if r.disk = image; failed {
							r.look()
						}
					})
				}
			})
		}
	}
}

// room ends the faults of the disk, and waits until the log knows.
func (r *refusedRig) room() {
	time.Sleep(time.Millisecond)
	r.disk.Limit(0)
	r.disk.Heal()
	time.Sleep(time.Second)
}

// account compares the accounts of the open log with what is in it.
func (r *refusedRig) account() {
	require.NoError(r.t, r.log.Flush(r.t.Context()))
	again, err := OpenMemory(r.disk.Crash(), Config{})
	require.NoError(r.t, err)
	require.Equal(r.t, again.Stats().LiveBytes, r.log.Stats().LiveBytes)
	require.Equal(r.t, again.Stats().Next, r.log.Stats().Next)
	require.Equal(r.t, again.Buried(modelQueue), r.log.Buried(modelQueue))
	require.Equal(r.t, again.Buried(modelQueue), r.log.Listed(modelQueue))
	require.NoError(r.t, again.Close())
}

// look opens the log, and holds it against what may be there.
func (r *refusedRig) look() {
	r.open()
	found := make(contentsByName)
	for _, ref := range slices.Concat(r.log.PendingPages(modelQueue)...) {
		var e Entry
		require.NoError(r.t, ref.Read(&e))
		found[string(e.ID)] = alive
	}
	for b, err := range r.log.Morgue(modelQueue, 0) {
		require.NoError(r.t, err)
		found[string(b.Entry.ID)] = dead
	}
	for s, err := range r.log.Keys("test/", "") {
		require.NoError(r.t, err)
		found[s.Key[len("test/"):]] = isKey
	}
	require.NoError(r.t, r.log.Close())
	require.Contains(r.t, r.want, found)
}

// remove deletes from the morgue, and waits until that is on disk.
func remove(ctx context.Context, l *Log, ps ...Position) error {
	if err := l.Err(); err != nil && !errors.Is(err, ErrFull) {
		return err
	}
	l.Record(&Change{Queue: modelQueue, Exhumed: ps})
	return l.Settled(ctx)
}
