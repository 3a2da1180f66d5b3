package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
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
	goesOn := slices.ContainsFunc(c.List(), func(e cron.Entry) bool { return e.Name == o.Name && !e.Paused })
	switch {
	case o.Verb == PauseSchedule:
		return one(c.Pause(ctx, o.Name), goesOn)
	case o.Verb == ResumeSchedule && goesOn: // to resume it all the same would drop its outstanding ticks
		return 0, nil
	case o.Verb == ResumeSchedule:
		return one(c.Resume(ctx, o.Name), true)
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

// What makes sense is one table for pages and programs: they name things otherwise,
// and mean the same.

// fields are those that an action has to have, and those that it may have.
type fields struct {
	needs, may []string
	// beside is what a page has in its form whatever button is pressed: ticks, and where
	// it goes back to.
	beside []string
}

var ofSchedule = fields{needs: []string{"schedule"}, may: []string{"cron"}}

var scopes = map[string]fields{
	"executor": {beside: []string{"tab"}},
	"id":       {needs: []string{"queue", "id"}, beside: []string{"tab"}},
	"selected": {needs: []string{"queue", "selected"}, beside: []string{"tab", "prefix", "error", "id"}},
	"filtered": {needs: []string{"queue"}, may: []string{"prefix", "error"}, beside: []string{"tab", "selected"}},
	"all":      {needs: []string{"queue"}, beside: []string{"tab", "selected"}},
}

// why says what a field that is missing would have said.
var why = map[string]string{
	"id": "it says which job the action is about", "selected": "tick, or name, the rows that are meant",
	"tab": "it says which list the action is about",
}

func wrong(format string, args ...any) error {
	return problem{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// meansOne refuses what does not say which jobs it is about, and what the verb has
// nothing to do with, a filter of all of them for example: what is left of it would
// mean others.
func (o *order) meansOne(page bool) error {
	d, known := deeds[o.Verb]
	f := d.fields
	switch {
	case !o.has("verb"):
		return wrong("verb is missing; it must be one of %q", slices.Sorted(maps.Keys(deeds)))
	case !known:
		return wrong("verb is %q; it must be one of %q", clip(string(o.Verb), 40), slices.Sorted(maps.Keys(deeds)))
	case d.scopes == nil && o.Scope != "":
		return wrong("scope is given, and %s has no use for it", o.Verb)
	case d.scopes != nil && o.Scope == "":
		return wrong("scope is missing; of %s it must be one of %q", o.Verb, d.scopes)
	case d.scopes != nil && !slices.Contains(d.scopes, o.Scope):
		return wrong("scope is %q; of %s it must be one of %q", clip(o.Scope, 40), o.Verb, d.scopes)
	case d.scopes != nil:
		s := scopes[o.Scope]
		f.needs, f.may = slices.Concat(f.needs, s.needs), slices.Concat(f.may, s.may)
		if page {
			f.may = append(f.may, s.beside...)
		}
	}
	f.may = slices.Concat(f.may, []string{"verb", "scope"})
	if page {
		f.may = append(f.may, "from", "confirm")
	}
	if d.list != noList && (o.Scope == "filtered" || o.Scope == "all") {
		switch { // the list is a tab of a page, and to a program some states, of which the dead have none
		case page:
			f.needs = append(f.needs, "tab")
		case d.list == ofJobs:
			f.may = append(f.may, "state")
		}
	}
	if o.Scope != "id" && d.list != noList && o.has("tab") && (d.list == ofDead) != (o.list.Tab == morgue) {
		return wrong("tab is %s, and %s is about another list", o.list.Tab, o.Verb)
	}
	return cmp.Or(f.match(o.form, strings.TrimSpace(string(o.Verb)+" "+o.Scope)), o.picksOne(d))
}

// match returns an error if a needed field is missing, or a given one has no use.
func (f fields) match(has url.Values, what string) error {
	for _, name := range f.needs {
		if !has.Has(name) {
			if why[name] != "" {
				return wrong("%s is missing: %s", name, why[name])
			}
			return wrong("%s is missing", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if !slices.Contains(f.needs, name) && !slices.Contains(f.may, name) {
			return wrong("%s is given, and %s has no use for it", name, what)
		}
	}
	return nil
}

// maxPicks is how many rows an action may name.
const maxPicks = 1000

// picksOne refuses a choice of payloads of what is about jobs, one of too many, and a
// filter that is none.
func (o *order) picksOne(d deed) error {
	if len(o.Picks) > maxPicks {
		return wrong("%d are selected, and %d are the most; a filter can mean more", len(o.Picks), maxPicks)
	}
	if o.Scope == "filtered" && !o.list.Filtered() {
		return wrong("scope is filtered, without prefix or error; what means all says so: scope all")
	}
	if o.Scope == "filtered" && d.list == noList && o.has("error") {
		return wrong("error is given, and %s filtered is about the ids that begin with prefix", o.Verb)
	}
	for _, p := range o.Picks {
		if p.Position != 0 && !d.payloads {
			return wrong("selected has position %d, and %s is about whole jobs", p.Position, o.Verb)
		}
	}
	return nil
}
