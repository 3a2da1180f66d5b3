package lock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// lease asks for a lease on keys that have key-locks, too. No shell has both; the
// law of keys is the same.
func lease(k *KeyLocks, owner string, keys ...string) *Place {
	p := &Place{table: new(Table)}
	w := &p.waiter
	w.owner, w.place = Owner{ID: owner}, p
	if r := k.try(Options{Owner: owner}, keys, &k.op); r != nil {
		p.grant(r)
		return p
	}
	k.comes(w, &k.op)
	k.stand(w, keys...)
	return p
}

func TestLeasesAndKeyLocksOnOneKey(t *testing.T) {
	k := new(KeyLocks)
	k.At(0)
	job, other := Owner{"q", "1"}, Owner{"q", "2"}
	var woken []Owner
	enter := func(by Owner, keys ...string) (string, error) {
		r := Request{Owner: by, BlockedBy: keys, Lock: []Setting{{Key: keys[0]}}}
		_, blocked, err := k.Enter(r, func() func() { return func() { woken = append(woken, by) } })
		return blocked, err
	}
	first := lease(k, "x", "k")
	require.Equal(t, granted, first.state)
	blocked, err := enter(job, "k")
	require.NoError(t, err)
	require.Equal(t, "k", blocked, "by the lease")
	second := lease(k, "y", "k")
	require.Equal(t, waiting, second.state)
	blocked, err = enter(other, "k")
	require.NoError(t, err)
	require.Equal(t, "k", blocked)

	k.end(first.lease, unlocked, &k.op)
	_, wake := k.Drain()
	wake()
	require.Equal(t, []Owner{job}, woken, "in the order in which they came")
	require.Equal(t, waiting, second.state, "the key is kept for the job")
	blocked, err = enter(job, "k")
	require.NoError(t, err)
	require.Empty(t, blocked)
	k.Leave(job)
	require.Equal(t, waiting, second.state, "the job has locked it")
	k.Unlock("k", false, Owner{})
	require.Equal(t, granted, second.state)
	k.end(second.lease, unlocked, &k.op)
	_, wake = k.Drain()
	wake()
	require.Equal(t, []Owner{job, other}, woken)
}

// A cycle that goes over both kinds: the job waits for a lease, whose owner stands
// in line behind a key-lock of it.
func TestDeadlockOfAJobAndALease(t *testing.T) {
	k := new(KeyLocks)
	k.At(0)
	job := Owner{"q", "1"}
	wants := func(keys ...string) error {
		_, _, err := k.Enter(Request{Owner: job, BlockedBy: keys}, func() func() { return func() {} })
		return err
	}
	k.Lock("locked", job, 0)
	leased := lease(k, "x", "leased")
	require.NoError(t, wants("leased"), "x goes on")
	wide := lease(k, "x", "free", "locked")
	require.Equal(t, []Hop{{"x", "locked", "q/1"}, {"q/1", "leased", "x"}}, k.deadlock(&wide.waiter))
	require.EqualError(t, wants("leased"), `lock: deadlock: "q/1" waits for "leased" of "x", "x" waits for "locked" of "q/1"`)
	k.end(leased.lease, unlocked, &k.op)
	require.NoError(t, wants("locked", "free"), "the job came first")
	k.Leave(job)
	require.EqualError(t, wants("locked", "free"), `lock: deadlock: "q/1" waits for "free" of "x", "x" waits for "locked" of "q/1"`)
	k.Unlock("locked", false, Owner{})
	require.Equal(t, granted, wide.state)
}
