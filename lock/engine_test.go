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
	enter := func(by Owner, keys ...string) string {
		r := Request{Owner: by, BlockedBy: keys, Lock: []Setting{{Key: keys[0]}}}
		_, blocked := k.Enter(r, func() func() { return func() { woken = append(woken, by) } })
		return blocked
	}
	first := lease(k, "x", "k")
	require.Equal(t, granted, first.state)
	blocked := enter(job, "k")
	require.Equal(t, "k", blocked, "by the lease")
	second := lease(k, "y", "k")
	require.Equal(t, waiting, second.state)
	blocked = enter(other, "k")
	require.Equal(t, "k", blocked)

	k.end(first.lease, unlocked, &k.op)
	_, wake := k.Drain()
	wake()
	require.Equal(t, []Owner{job}, woken, "in the order in which they came")
	require.Equal(t, waiting, second.state, "the key is kept for the job")
	blocked = enter(job, "k")
	require.Empty(t, blocked)
	k.Leave(job, true)
	require.Equal(t, waiting, second.state, "the job has locked it")
	k.Unlock("k", false, Owner{})
	require.Equal(t, granted, second.state)
	k.end(second.lease, unlocked, &k.op)
	_, wake = k.Drain()
	wake()
	require.Equal(t, []Owner{job, other}, woken)
}
