package world

import (
	"fmt"

	"github.com/strandjobs/strand/executor/inspect"
)

// Requeue says of what it was to put back how many are back, how many of those come after
// later payloads of their ids, of how many that is not known, and how many stay away because
// of a newer state.
var requeueing = &feature{
	name: "requeue", always: true, claims: "Inspector.Requeue",
	ended: func(w *world, r *run, _ error) {
		for _, i := range r.items {
			i.ended = w.epoch
		}
	},
	calm: func(w *world, _ *census) { w.knew, w.booted = w.life, false },
}

// burial is what is known of the death of a payload that is dead.
type burial struct {
	after, by int  // the epochs of the censuses between which it died
	life      int  // in which it did
	vague     bool // that is not known: it may have come back and died again, say
}

// laid notes that a census has found a payload dead. What has died by the first census of a
// life did so in an earlier one, if nothing has run in this one, and it was not given up at its start.
func (w *world) laid(i *item) {
	switch {
	case i.place == dead && i.revive:
		i.grave = burial{after: i.grave.after, by: w.epoch, vague: true}
	case i.place == dead:
	case w.queueOf(i.queue).late == w.epoch: // it may have died before
		i.grave = burial{i.lived, w.epoch, w.term(i.id), true}
	case w.town != nil && !w.town.known(i.id): // it has moved since
		i.grave = burial{i.lived, w.epoch, w.term(i.id), true}
	case w.knew == w.life:
		i.grave = burial{i.lived, w.epoch, w.term(i.id), false}
	default:
		i.grave = burial{i.lived, w.epoch, w.term(i.id) - 1, !w.booted || w.conf.has("crashes")}
	}
}

// least and most of what is counted, as far as it is known.
type bounds struct{ least, most int }

func (b *bounds) count(certain, possible bool) {
	if certain {
		b.least++
	}
	if certain || possible {
		b.most++
	}
}

func (b bounds) has(n int) bool { return b.least <= n && n <= b.most }

func (b bounds) String() string { return fmt.Sprintf("%d to %d", b.least, b.most) }

// mayBe compares what a person was told, whatever else went on, with what it may have meant.
func (w *world) mayBe(q *queue, means func(*item) bool, back inspect.Requeued) {
	most := 0
	for _, i := range w.ledger.items {
		if i.state != refused && means(i) {
			most++
		}
	}
	aside := back.Superseded
	if q.conf.has("latest") {
		aside = back.Late + back.Unsure
	}
	if aside != 0 || back.Late+back.Unsure > back.Back || back.Back+back.Superseded > most {
		w.fail("told wrongly: %+v of %d payloads", back, most)
	}
}

// requeued compares what Requeue has said with what it meant: the payloads that were dead by
// then, when nothing else went on.
func (w *world) requeued(q *queue, meant []*item, back inspect.Requeued) {
	if q.conf.has("latest") && !q.conf.has("keep") {
		if back.Superseded > 0 || back.Back != len(meant) {
			w.fail("told wrongly: requeue said %+v of %d dead letters, and a newer state of none was on its way", back, len(meant))
		}
		return
	}
	if q.gathers() || q.conf.has("keep") {
		return // one may stand for several, or be kept no longer
	}
	var late, unsure bounds
	for _, i := range meant {
		here, earlier := !i.grave.vague && i.grave.life == w.term(i.id), !i.grave.vague && i.grave.life < w.term(i.id)
		unsure.count(earlier, !here)
		if !earlier {
			certain, possible := w.late(i)
			late.count(here && certain, possible)
		}
	}
	if !late.has(back.Late) || !unsure.has(back.Unsure) {
		w.fail("told wrongly: requeue said %+v, and %v are late, of %v it is not known", back, late, unsure)
	}
}

// late reports whether a later payload of the id was done since i died, runs, or has failed
// and goes first. What died may have the score of a clock that was ahead.
func (w *world) late(i *item) (certain, possible bool) {
	setBack := w.setBack()
	for _, other := range w.ledger.items {
		placed := i.pos != 0 && other.pos != 0 && !setBack
		if other == i || other.queue != i.queue || other.id != i.id || other.state == refused || placed && !i.before(other) {
			continue
		}
		runs := w.underWay(other)
		certain = certain || placed && (runs && w.queueOf(i.queue).conf.str("shape") != "batch" ||
			other.told == "done" && other.hintLife == w.term(other.id) && other.ended > i.grave.by)
		unrun := w.queueOf(i.queue).conf.has("when") // it may have ended, or failed, for a key
		possible = possible || runs || unrun || w.behind(other) || other.calls > 0 ||
			other.ended >= i.grave.after && other.ended > 0
	}
	return certain, possible
}
