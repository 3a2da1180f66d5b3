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
	"unicode/utf8"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/internal/serving"
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

	list    list                // where it was asked for, and what filtered means
	states  []executor.JobState // of the jobs that filtered and all mean; none: any
	reason  string              // of a Cancel
	from    string              // the page
	confirm string              // "yes": it is meant

	back *executor.Requeued // what a Requeue has done

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
	switch kind {
	case "application/json":
		err = o.readJSON(text)
	case "application/x-www-form-urlencoded":
		var form url.Values
		if form, err = url.ParseQuery(string(text)); err != nil {
			return o, unread(err)
		}
		err = o.readForm(form)
	default:
		err = problem{http.StatusUnsupportedMediaType, "Content-Type is " + strconv.Quote(clip(kind, 80)) +
			"; it must be application/json or application/x-www-form-urlencoded"}
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
				return wrong("cron is %q; it must be a whole number from 0", clip(values[0], 40))
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

// readJSON reads an object.
func (o *order) readJSON(text []byte) error {
	if !utf8.Valid(text) {
		return wrong("the action is no UTF-8: what is no text is given in base64, as id_base64 for example")
	}
	return object(text, "the action", o.setJSON)
}

// object reads an object of which each field is set.
func object(text []byte, what string, set func(name string, value json.RawMessage) error) error {
	err := serving.Object(text, what, set)
	if _, said := errors.AsType[problem](err); err == nil || said {
		return err
	}
	return wrong("%v", err)
}

// setJSON sets a field.
func (o *order) setJSON(name string, value json.RawMessage) error {
	switch name {
	case "cron":
		if json.Unmarshal(value, &o.Index) != nil || o.Index < 0 {
			return wrong("cron is %s; it must be a whole number from 0", clip(string(value), 40))
		}
		return o.give(name, false)
	case "state":
		if json.Unmarshal(value, &o.states) != nil {
			return wrong("state must be a list of texts: [\"retrying\", \"halted\"]")
		}
		return o.give(name, len(o.states) == 0)
	case "selected":
		var all []json.RawMessage
		if json.Unmarshal(value, &all) != nil {
			return wrong("selected must be a list of objects: [{\"id\": \"order-7\"}]")
		}
		for _, each := range all {
			p, err := pickIn(each)
			if err != nil {
				return err
			}
			o.Picks = append(o.Picks, p)
		}
		return o.give(name, len(all) == 0)
	}
	name, text, err := textOf(name, value, "queue", "id", "key", "prefix", "schedule")
	if err != nil {
		return err
	}
	return o.set(name, text)
}

// pickIn reads one of selected.
func pickIn(text json.RawMessage) (p pick, err error) {
	var o order // to see what is there twice
	err = object(text, "one of selected", func(name string, value json.RawMessage) error {
		if name == "position" {
			if json.Unmarshal(value, &p.Position) != nil || p.Position == 0 {
				return wrong("position is %s; it must be a whole number from 1, or left out for the job as a whole",
					clip(string(value), 40))
			}
			return o.give(name, false)
		}
		name, text, err := textOf(name, value, "id")
		if err == nil && name != "id" {
			err = wrong("there is no field %q of selected", clip(name, 40))
		}
		if err != nil {
			return err
		}
		return o.set(name, text)
	})
	if p.ID = o.ID; err == nil && p.ID == "" {
		err = wrong("one of selected has no id")
	}
	return p, err
}

// textOf reads a text, of some names also in base64, and returns the name without that.
// One with U+FFFD is what the API says in place of other bytes, so it is refused.
func textOf(field string, value json.RawMessage, exact ...string) (name, text string, err error) {
	name, coded := strings.CutSuffix(field, "_base64")
	switch {
	case coded && slices.Contains(exact, name):
		var b []byte
		if json.Unmarshal(value, &b) != nil {
			return "", "", wrong("%s must be a text in base64", field)
		}
		return name, string(b), nil
	case new(order).text(field) == nil:
		return "", "", wrong("there is no field %q", clip(field, 40))
	case json.Unmarshal(value, &text) != nil:
		return "", "", wrong("%s must be a text", field)
	case slices.Contains(exact, field) && strings.ContainsRune(text, utf8.RuneError):
		return "", "", wrong("%s has U+FFFD, which stands for bytes that are no text: give them in %s_base64", field, field)
	}
	return field, text, nil
}
