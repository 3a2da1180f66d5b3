package dashboard

import (
	"net/http"

	"github.com/strandjobs/strand/executor/inspect"
)

// locksPage is what jobs have that others may wait for.
type locksPage struct {
	Keys                 []inspect.KeyLockStatus
	MoreKeys             int
	Leases               []inspect.LeaseStatus
	MoreLeases           int
	Slots                []inspect.SlotHeld
	MoreSlots            int
	Limits               []wireLimit
	AfterKey, AfterLease string
}

// What the page of locks shows.
const (
	lockRows  = 100
	limitKeys = 10
)

func (h *handler) locks(w http.ResponseWriter, r *http.Request) (err error) {
	q, in := r.URL.Query(), h.x.Inspect()
	p := locksPage{AfterKey: q.Get("key"), AfterLease: q.Get("lease")}
	if p.Keys, p.MoreKeys, err = in.LockedKeys(p.AfterKey, lockRows); err != nil {
		return err
	}
	if p.Leases, p.MoreLeases, err = in.Leases(p.AfterLease, lockRows); err != nil {
		return err
	}
	if p.Slots, p.MoreSlots, err = in.Slots(lockRows); err != nil {
		return err
	}
	for _, l := range h.x.Limits() {
		keys := l.Keys()
		p.Limits = append(p.Limits, wireLimit{l.Name(), l.Stats(), keys[:min(len(keys), limitKeys)]})
	}
	can, err := h.can(r, "", Unlock)
	if err != nil {
		return err
	}
	return h.show(w, r, http.StatusOK, "locks.html", page{Title: "Locks", Here: "locks", Content: p, Can: can})
}

// LastKey and LastLease are what the next page is behind.
func (p locksPage) LastKey() string {
	if len(p.Keys) == 0 {
		return ""
	}
	return p.Keys[len(p.Keys)-1].Key
}

func (p locksPage) LastLease() string {
	if len(p.Leases) == 0 {
		return ""
	}
	return p.Leases[len(p.Leases)-1].Key
}
