package dashboard

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

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
