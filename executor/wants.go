package executor

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/strandjobs/strand/executor/internal/limit"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/lock"
	"github.com/strandjobs/strand/shard"
)

// wants are the keys of a job.
type wants struct {
	blockedBy, unique []string
	set               []lock.Setting
	unlock            []unlocking
	limits            []limit.Need
	payloads          []any // if they are looked at, too
}

// job is a job as services and slots get it.
func (w *wants) job(q *queue, it *shard.Item) lock.Job {
	return lock.Job{Queue: q.name, ID: it.ID, Attempt: it.Retry + firstAttempt, Payloads: w.payloads}
}

// unlocking is a key that the success of a job unlocks, if it counts for one of its
// payloads. own: that payload locks it itself, and unlocks no lock but that.
type unlocking struct {
	lock.Setting
	own bool
}

func (w *wants) keysToSet() []string {
	keys := make([]string, len(w.set))
	for i, s := range w.set {
		keys[i] = s.Key
	}
	return keys
}

// keysOnEnqueue computes what a payload locks when it is accepted, and all that it
// will want before it runs: the caller hears of a bad key. The payload is decoded
// although Enqueue has the value: a key of what does not survive the codec (an int
// in an any, a field that is not encoded, the monotonic part of a time) would never
// be unlocked, because Unlock is computed from what the journal gives back, after a
// restart at any rate.
func (t *Queue[T]) keysOnEnqueue(id string, payload []byte, unique bool) (keys []string, err error) {
	c := &t.cfg.Locks
	value, err := t.decodeOne(payload)
	if err != nil && c.OnEnqueue == nil {
		return nil, nil // the morgue says so
	}
	if err != nil {
		return nil, fmt.Errorf("the keys to lock: %w", err)
	}
	_, err = keysOf("BlockedBy", c.BlockedBy, id, value)
	_, err2 := keysOf("OnRun", c.OnRun, id, value)
	_, err3 := keysOf("Unlock", c.Unlock, id, value)
	keys, err4 := keysOf("OnEnqueue", c.OnEnqueue, id, value)
	if err := errorsOf(err, err2, err3, err4); err != nil {
		return nil, err
	}
	if unique && t.cfg.Unique.Key != nil {
		_, err = t.uniqueKey(id, nil, value)
	}
	return keys, cmp.Or(err, t.needsOf(new(wants), id, value))
}

// wants computes the keys of a job that is about to run. Payloads that do not
// decode have none.
func (t *Queue[T]) wants(it *shard.Item, unique bool) (w wants, err error) {
	t.needsOfAll(&w)
	if !t.wantsByPayload(unique) {
		return w, nil
	}
	var e journal.Entry
	for i, p := range t.q.inHand(it) {
		if err := p.Ref.Read(&e); err != nil {
			return w, &unreadError{err}
		}
		if it.Folded != nil {
			if i > 0 {
				break // they became one
			}
			e.Payload = it.Folded
		}
		value, err := t.decodeOne(e.Payload)
		if err != nil {
			continue
		}
		if t.q.locking.described {
			w.payloads = append(w.payloads, value)
		}
		if err = cmp.Or(t.wantsOne(&w, it.ID, &e, value), t.needsOf(&w, it.ID, value)); err != nil {
			return w, err
		}
		if unique {
			key, err := t.uniqueKey(it.ID, &e, value)
			if err != nil {
				return w, err
			}
			w.unique = append(w.unique, key)
		}
	}
	slices.Sort(w.unique)
	w.unique = slices.Compact(w.unique)
	return w, nil
}

// wantsByPayload reports whether what a job wants depends on its payloads.
func (t *Queue[T]) wantsByPayload(unique bool) bool {
	c := &t.cfg.Locks
	return unique || t.q.locking.described || c.BlockedBy != nil || c.OnRun != nil || c.Unlock != nil || t.limitsByPayload()
}

// wantsOne adds the keys of a payload. Counted keys count for each payload, as they
// did when it was enqueued; a service decides itself whether its keys do. With
// UnlockOnBurial OnRun keys are the payload's, too: its burial ends no other lock, and
// under MergeSupersede neither does what takes its place.
func (t *Queue[T]) wantsOne(w *wants, id string, e *journal.Entry, value T) error {
	c := &t.cfg.Locks
	count := c.Counted || c.Service != nil
	blockedBy, err := keysOf("BlockedBy", c.BlockedBy, id, value)
	set, err2 := keysOf("OnRun", c.OnRun, id, value)
	unlock, err3 := keysOf("Unlock", c.Unlock, id, value)
	if err := errorsOf(err, err2, err3); err != nil {
		return err
	}
	for _, key := range blockedBy {
		w.blockedBy = with(w.blockedBy, key)
	}
	for _, key := range set {
		if count || c.UnlockOnBurial || t.q.supersedes() {
			w.set = append(w.set, lock.Setting{Key: key, Position: uint64(e.Position)})
		} else {
			w.set = with(w.set, lock.Setting{Key: key})
		}
	}
	if !count {
		for _, key := range unlock {
			w.unlock = with(w.unlock, unlocking{Setting: lock.Setting{Key: key}})
		}
		return nil
	}
	own := set
	if len(unlock) > 0 && c.Counted {
		enqueued, err := keysOf("OnEnqueue", c.OnEnqueue, id, value)
		if err != nil {
			return err
		}
		own = append(own, enqueued...)
	}
	for _, key := range unlock {
		w.unlock = append(w.unlock, unlocking{lock.Setting{Key: key, Position: uint64(e.Position)}, slices.Contains(own, key)})
	}
	return nil
}

func (t *Queue[T]) uniqueKey(id string, e *journal.Entry, value T) (string, error) {
	f := t.cfg.Unique.Key
	if f == nil {
		// Two payloads with one hash would exclude each other, no more.
		return fmt.Sprintf("%s#%016x", t.q.name, maphash.Bytes(t.q.x.seed, e.Payload)), nil
	}
	keys, err := keysOf("Unique.Key", func(id string, value T) []string { return []string{f(id, value)} }, id, value)
	if err != nil {
		return "", err
	}
	return keys[0], nil
}

// with adds v to a list unless it is there.
func with[E comparable](list []E, v E) []E {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// keysOf returns the keys of a payload, each once, from a function of the program
// that is set under name. Errors match ErrInvalidKey, and say the name.
func keysOf[T any](name string, f func(string, T) []string, id string, value T) (keys []string, err error) {
	if f == nil {
		return nil, nil
	}
	var all []string
	if err := guarded(func() error { all = f(id, value); return nil }); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalidKey, name, err)
	}
	for _, key := range all {
		if key == "" {
			return nil, fmt.Errorf("%w: %s: %w: return 1 to %d bytes", ErrInvalidKey, name, lock.ErrEmptyKey, maxKeyBytes)
		}
		if err := checkKey(key); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		keys = with(keys, key)
	}
	return keys, nil
}

func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: nil means no key", lock.ErrEmptyKey)
	}
	if len(key) > maxKeyBytes {
		return fmt.Errorf("%w: %q has %d bytes, it must have from 1 to %d", ErrInvalidKey, clip(key), len(key), maxKeyBytes)
	}
	return nil
}
