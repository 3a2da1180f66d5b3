package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/inspect"
)

// deed is what there is to know of a verb: what it has to be told, what it does, and what
// pages say of it.
type deed struct {
	fields
	scopes   []string                                           // none: what it needs says it all
	list     kind                                               // of which scopes filtered and all are
	payloads bool                                               // it may be about some of a job's
	danger   bool                                               // it is always asked about first
	asks     []string                                           // the scopes of which it is asked first otherwise
	counts   string                                             // what it affects; "": what its scope names
	do       func(context.Context, *board, *order) (int, error) // nil: what package admin does

	// In these, {what}, {n} and {is} stand for what is meant, and for how many were affected.
	button, question, detail, yes, said string
}

// kind is what a list has.
type kind int

const (
	noList kind = iota
	ofJobs
	ofDead
)

var (
	lists  = []string{"id", "selected", "filtered", "all"}
	whole  = append(lists[:4:4], "executor")
	inBulk = []string{"filtered", "all"}
)

const forGood = "Delete {what} for good?"

var deeds = map[Verb]deed{
	Pause: {
		scopes: whole, asks: []string{"executor"},
		question: "Pause everything?", yes: "Pause everything", said: "{n} {is} paused.",
		detail: "No queue starts a job until the executor is resumed, over restarts, too. What runs goes on.",
	},
	Resume: {scopes: whole, said: "{n} resumed."},
	RunNow: {
		scopes: lists, list: ofJobs, asks: inBulk, counts: "job",
		question: "Run {what} now?", yes: "Run now", button: "Run", said: "{n} {is} due now.",
		detail: "What is due later becomes due at once, with all retries given back. No pause, lock or limit is overridden.",
	},
	RetryNow: {
		scopes: lists, list: ofJobs, asks: inBulk, counts: "job",
		question: "Retry {what} now?", yes: "Retry now", said: "{n} {is} due now.",
		detail: "What is due later becomes due at once, with the retries that are left. No pause, lock or limit is overridden.",
	},
	Cancel: {
		scopes: lists, list: ofJobs, payloads: true, danger: true, fields: fields{may: []string{"reason"}}, counts: "payload",
		question: "Cancel {what}?", yes: "Yes, cancel", button: "Cancel",
		detail: "What is cancelled goes to the morgue, from where it can be put back. A handler that runs has its context ended.",
		said:   "{n} cancelled: in the morgue, or there when the handler returns.",
	},
	Delete: {
		scopes: lists, list: ofJobs, payloads: true, danger: true, counts: "payload",
		question: forGood, yes: "Delete for good", button: "Delete", said: "{n} deleted.",
		detail: "This can’t be taken back. A handler that runs has its context ended.",
	},
	KillFailed: {
		scopes: lists, list: ofJobs, danger: true, counts: "payload",
		question: "Send {what} to the morgue?", yes: "Send to the morgue", button: "Kill", said: "{n} sent to the morgue.",
		detail: "What has failed goes there, and can be put back; what waits behind it goes on.",
	},
	DeleteFailed: {
		scopes: lists, list: ofJobs, danger: true, counts: "payload",
		question: forGood, yes: "Delete for good", button: "Delete", said: "{n} deleted.",
		detail: "What has failed is deleted, which can’t be taken back; what waits behind it goes on.",
	},
	Requeue: {
		scopes: lists, list: ofDead, payloads: true, asks: inBulk, counts: "payload",
		question: "Put {what} back?", yes: "Requeue", button: "Requeue", // what is said of it is in back
		detail: "What is put back gets its old place, and runs again.",
	},
	DeleteDead: {
		scopes: lists, list: ofDead, payloads: true, danger: true, counts: "payload",
		question: forGood, yes: "Delete for good", button: "Delete", said: "{n} deleted from the morgue.",
		detail: "This can’t be taken back.",
	},
	Unlock: {
		fields: fields{needs: []string{"key"}}, danger: true, counts: "key", said: "The key is unlocked.",
		do: func(ctx context.Context, b *board, o *order) (int, error) {
			return one(b.x.KeyLocks().Unlock(ctx, o.Name), true)
		},
		question: "Unlock the key?", yes: "Unlock",
		detail: "Jobs that wait for it go on, although the job that has locked it is not done.",
	},
	Trigger:        {fields: ofSchedule, counts: "schedule", do: schedule, said: "The schedule was triggered."},
	PauseSchedule:  {fields: ofSchedule, counts: "schedule", do: schedule, said: "The schedule is paused."},
	ResumeSchedule: {fields: ofSchedule, counts: "schedule", do: schedule, said: "The schedule goes on."},
}

// schedule does something with a schedule.
func schedule(ctx context.Context, b *board, o *order) (int, error) {
	if !o.has("cron") && len(b.cfg.Crons) > 1 {
		return 0, wrong("cron is missing: Config.Crons has %d, from 0", len(b.cfg.Crons))
	}
	if o.Index < 0 || o.Index >= len(b.cfg.Crons) {
		return 0, problem{http.StatusNotFound, fmt.Sprintf("there is no Cron %d in Config.Crons", o.Index)}
	}
	c := b.cfg.Crons[o.Index]
	paused := slices.ContainsFunc(c.List(), func(e cron.Entry) bool { return e.Name == o.Name && e.Paused })
	switch o.Verb {
	case PauseSchedule:
		return one(c.Pause(ctx, o.Name), !paused)
	case ResumeSchedule:
		return one(c.Resume(ctx, o.Name), paused)
	}
	_, err := c.TriggerNow(ctx, o.Name)
	return one(err, true)
}

// one is how many were affected by what does all or nothing, unless it was so before.
func one(err error, changed bool) (int, error) {
	if err != nil || !changed {
		return 0, err
	}
	return 1, nil
}

// paused is what scopes name when they are paused.
var paused = map[string]string{"id": "id", "selected": "id", "filtered": "prefix", "all": "queue", "executor": "executor"}

// what an action counts.
func (o *order) what() string { return cmp.Or(deeds[o.Verb].counts, paused[o.Scope]) }

// told is what an action has done, in words.
func (o *order) told(did inspect.Requeued) string {
	n, what, is := did.Back, o.what(), "are"
	if n == 1 {
		is = "is"
	}
	switch {
	case what == "executor" && o.Verb == Pause:
		return "Everything is paused."
	case what == "executor":
		return "The executor goes on."
	case n == 0 && (paused[o.Scope] == what || o.Verb == PauseSchedule || o.Verb == ResumeSchedule):
		return "Nothing was to be done: it was so before."
	case o.Verb == Requeue:
		return strings.Replace(did.String(), "back", "back in the queue", 1) + "."
	}
	many := strings.Replace(what+"s", "xs", "xes", 1)
	return strings.NewReplacer("{n}", plural(n, what, many), "{is}", is).Replace(deeds[o.Verb].said)
}
