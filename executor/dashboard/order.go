package dashboard

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
)

// order is an action as it was asked for.
type order struct {
	Verb  Verb
	Scope string // "id", "selected", "filtered", "all", "executor"
	Queue string
	ID    string
	Name  string // of a key or a schedule
	Index int    // of the Cron
	Picks []pick

	list    list               // where it was asked for, and what filtered means
	states  []inspect.JobState // of the jobs that filtered and all mean; none: any
	reason  string             // of a Cancel
	from    string             // the page
	confirm string             // "yes": it is meant

	back *inspect.Requeued // what a Requeue has done

	has map[string]bool // the fields that it was asked with, by the names of the API
}

// pick is a row that a person has ticked.
type pick struct {
	ID       string
	Position uint64 // 0: the job as a whole
	raw      string
}

// text is the field of a name that is a text; nil: there is none.
func (o *order) text(name string) *string {
	switch name {
	case "verb":
		return (*string)(&o.Verb)
	case "scope":
		return &o.Scope
	case "queue":
		return &o.Queue
	case "id":
		return &o.ID
	case "key", "schedule":
		return &o.Name
	case "prefix":
		return &o.list.Prefix
	case "error":
		return &o.list.Error
	case "reason":
		return &o.reason
	case "tab":
		return &o.list.Tab
	case "from":
		return &o.from
	case "confirm":
		return &o.confirm
	}
	return nil
}

// give notes that a field is there. One that says nothing is refused, and one that is
// there twice: what is left of an action without it may mean more.
func (o *order) give(name string, empty bool) error {
	switch {
	case o.has[name]:
		return wrong("%s is there twice; once is what it may be", name)
	case empty:
		return wrong("%s is empty: leave it out, or say what is meant", name)
	case o.has == nil:
		o.has = make(map[string]bool)
	}
	o.has[name] = true
	return nil
}

// set sets a field that is a text.
func (o *order) set(name, text string) error {
	to := o.text(name)
	if to == nil {
		return wrong("there is no field %q", clip(name, 40))
	}
	*to = text
	return o.give(name, text == "")
}

// unread says why a request could not be read to its end, or has no meaning there.
func unread(err error) error {
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return problem{http.StatusRequestTimeout, "the request did not come to its end within Config.PageTimeout"}
	}
	return wrong("the request can't be read: %v", err)
}

// orderOf reads an action of a page: its query, and its form.
func orderOf(r *http.Request) (o order, err error) {
	if err := r.ParseForm(); err != nil {
		return o, unread(err)
	}
	f := r.Form
	if verb := Verb(f.Get("verb")); slices.Contains(deeds[verb].needs, "schedule") && !f.Has("schedule") && f.Has("key") {
		f["schedule"] = f["key"] // as pages call it
		delete(f, "key")
	}
	if slices.Equal(f["reason"], []string{""}) { // a field of a page that nobody has filled in
		delete(f, "reason")
	}
	if err := o.readForm(f); err != nil {
		return o, err
	}
	o.list.Queue, o.list.Limit = o.Queue, defaultRows
	if o.has["tab"] {
		if _, err := listOf(url.Values{"name": {o.Queue}, "tab": {o.list.Tab}}); err != nil {
			return o, err
		}
		o.states = o.list.tab().states
	}
	if o.has["confirm"] && o.confirm != "yes" {
		return o, wrong("confirm is %q; it must be yes", clip(o.confirm, 40))
	}
	return o, o.meansOne(true)
}

// orderIn reads the action of a program: JSON, or a form.
func orderIn(kind string, body io.Reader) (o order, err error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return o, unread(err)
	}
	var form url.Values
	switch kind {
	case "application/json":
		form, err = formOf(text)
	case "application/x-www-form-urlencoded":
		if form, err = url.ParseQuery(string(text)); err != nil {
			err = unread(err)
		}
	default:
		err = problem{http.StatusUnsupportedMediaType, "Content-Type is " + strconv.Quote(clip(kind, 80)) +
			"; it must be application/json or application/x-www-form-urlencoded"}
	}
	if err == nil {
		err = o.readForm(form)
	}
	if err != nil {
		return o, err
	}
	return o, o.meansOne(false)
}

// readForm reads a form, whose texts are any bytes.
func (o *order) readForm(form url.Values) (err error) {
	for _, name := range slices.Sorted(maps.Keys(form)) {
		values := form[name]
		switch {
		case name == "sel":
			for _, raw := range values {
				p, err := pickOf(raw)
				if err != nil {
					return err
				}
				o.Picks = append(o.Picks, p)
			}
			err = o.give("selected", false)
		case name == "state":
			o.states = params(form).states()
			err = o.give(name, slices.Contains(values, ""))
		case len(values) > 1:
			return wrong("%s is there %d times; once is what it may be", name, len(values))
		case name == "cron":
			if o.Index, err = strconv.Atoi(values[0]); err != nil || !digits(values[0]) {
				return wrong("cron is %s; it must be a whole number from 0", clip(values[0], 40))
			}
			err = o.give(name, false)
		default:
			err = o.set(name, values[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// digits reports whether a number is written as one is: without a sign.
func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func pickOf(raw string) (p pick, err error) {
	at, id, found := strings.Cut(raw, ":")
	p.raw = raw
	if found && at != "" {
		if p.Position, err = strconv.ParseUint(at, 10, 64); p.Position == 0 {
			found = false
		}
	}
	if err == nil {
		p.ID, err = url.QueryUnescape(id)
	}
	if err != nil || !found || p.ID == "" {
		return p, wrong("sel is %q; it must be a position from 1, or none for the job as a whole, a colon and an id",
			clip(raw, 80))
	}
	return p, nil
}

// formOf is the action of a program in JSON as a form.
func formOf(text []byte) (url.Values, error) {
	form := make(url.Values)
	err := admin.Object(text, "the action", func(name string, value json.RawMessage) (err error) {
		said := string(value)
		switch name {
		case "cron":
		case "state":
			var all []string
			if json.Unmarshal(value, &all) != nil {
				return wrong("state must be a list of texts: [\"retrying\", \"halted\"]")
			}
			form[name] = append(all, make([]string, max(1-len(all), 0))...)
			return nil
		case "selected":
			return selectedIn(value, form)
		default:
			if new(order).text(name) == nil {
				return wrong("there is no field %q", clip(name, 40))
			}
			if said, err = admin.TextIn(value); err != nil {
				return wrong("%s must be a text: %v", clip(name, 40), err)
			}
		}
		form.Set(name, said)
		return nil
	})
	if _, said := errors.AsType[problem](err); err == nil || said {
		return form, err
	}
	return nil, wrong("%v", err)
}

// selectedIn adds each of selected to a form.
func selectedIn(value json.RawMessage, form url.Values) error {
	var all []json.RawMessage
	if json.Unmarshal(value, &all) != nil {
		return wrong("selected must be a list of objects: [{\"id\": \"order-7\"}]")
	}
	if len(all) == 0 {
		return wrong("selected is empty: leave it out, or say what is meant")
	}
	for _, each := range all {
		var one struct {
			ID       string `wire:",must"`
			Position *uint64
		}
		if err := admin.Decode(each, &one); err != nil {
			return wrong("one of selected: %v", err)
		}
		at := ""
		switch {
		case one.Position != nil && *one.Position == 0:
			return wrong("position is 0; it must be a whole number from 1, or left out for the job as a whole")
		case one.Position != nil:
			at = strconv.FormatUint(*one.Position, 10)
		}
		form.Add("sel", at+":"+url.QueryEscape(one.ID))
	}
	return nil
}
