package lock

import "container/list"

// watchers are functions to be called once at the next occasion, in the order in which they came. The zero value is
// empty. It is guarded by the mutex of its owner.
type watchers struct{ list list.List }

func (w *watchers) add(wake func()) *list.Element {
	if wake == nil {
		wake = func() {}
	}
	return w.list.PushBack(wake)
}

// remove does nothing when the occasion has come before.
func (w *watchers) remove(at *list.Element) { w.list.Remove(at) }

// take moves all of them to the wakes of one taker.
func (w *watchers) take(all *wakes) {
	for e := w.list.Front(); e != nil; e = w.list.Front() {
		all.add(w.list.Remove(e).(func()))
	}
}
