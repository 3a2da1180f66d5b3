package dashboard

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
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

	list   list               // where it was asked for, and what filtered means
	states []inspect.JobState // of the jobs that filtered and all mean; none: any
	form   url.Values         // what it was asked with, by the names of the API
}

// has reports whether a field is there, and said is its text.
func (o *order) has(name string) bool    { return o.form.Has(name) }
func (o *order) said(name string) string { return o.form.Get(name) }

// pick is a row that a person has ticked.
type pick struct {
	ID       string
	Position uint64 // 0: the job as a whole
}

// texts are the fields that are one.
var texts = []string{"verb", "scope", "queue", "id", "key", "schedule", "prefix", "error", "reason", "tab", "from", "confirm"}

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
	if err := o.read(f); err != nil {
		return o, err
	}
	o.list.Queue, o.list.Limit = o.Queue, defaultRows
	if o.has("tab") {
		t, err := tabOf(o.list.Tab)
		if err != nil {
			return o, err
		}
		if deeds[o.Verb].list != noList {
			o.states = t.states
		}
	}
	if o.has("confirm") && o.said("confirm") != "yes" {
		return o, wrong("confirm is %q; it must be yes", clip(o.said("confirm"), 40))
	}
	return o, o.meansOne(true)
}

// orderIn reads the action of a program: JSON, or a form.
func orderIn(r *http.Request) (o order, err error) {
	if _, err := paramsOf(r); err != nil {
		return o, err
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	text, err := io.ReadAll(r.Body)
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
		err = o.read(form)
	}
	if err != nil {
		return o, err
	}
	return o, o.meansOne(false)
}

// read reads a form, whose texts are any bytes. A field that says nothing is refused, and one
// that is there twice: what is left of an action without it may mean more.
func (o *order) read(form url.Values) (err error) {
	for _, name := range slices.Sorted(maps.Keys(form)) {
		switch values := form[name]; {
		case name == "sel":
			for _, raw := range values {
				p, err := pickOf(raw)
				if err != nil {
					return err
				}
				o.Picks = append(o.Picks, p)
			}
		case name != "state" && name != "cron" && !slices.Contains(texts, name):
			return wrong("there is no field %q", clip(name, 40))
		case name != "state" && len(values) > 1:
			return wrong("%s is there %d times; once is what it may be", name, len(values))
		case slices.Contains(values, ""):
			return wrong("%s is empty: leave it out, or say what is meant", name)
		case name == "cron":
			if o.Index, err = strconv.Atoi(values[0]); err != nil || !digits(values[0]) {
				return wrong("cron is %s; it must be a whole number from 0", clip(values[0], 40))
			}
		}
	}
	if sel, ticked := form["sel"]; ticked {
		form["selected"] = sel
		delete(form, "sel")
	}
	o.form, o.Verb, o.Scope, o.Queue, o.ID = form, Verb(form.Get("verb")), form.Get("scope"), form.Get("queue"), form.Get("id")
	o.Name, o.states = cmp.Or(form.Get("key"), form.Get("schedule")), statesOf(form)
	o.list = list{Tab: form.Get("tab"), Prefix: form.Get("prefix"), Error: form.Get("error")}
	return nil
}

// digits reports whether a number is written as one is: without a sign.
func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func pickOf(raw string) (p pick, err error) {
	at, id, found := strings.Cut(raw, ":")
	p.Position, err = strconv.ParseUint(cmp.Or(at, "0"), 10, 64)
	id, odd := url.QueryUnescape(id)
	if p.ID = id; err != nil || odd != nil || !found || id == "" || at != "" && p.Position == 0 {
		return p, wrong("sel is %q; it must be a position from 1, or none for the job as a whole, a colon and an id",
			clip(raw, 80))
	}
	return p, nil
}

// formOf is the action of a program in JSON as a form.
func formOf(text []byte) (url.Values, error) {
	form := make(url.Values)
	err := admin.Object(text, "the action", func(name string, value json.RawMessage) error {
		each, of, read := []json.RawMessage{value}, "a text", admin.TextIn
		switch {
		case name == "cron":
			form.Set(name, string(value))
			return nil
		case name == "state":
			of = "a list of texts: [\"retrying\", \"halted\"]"
		case name == "selected":
			of, read = "a list of objects: [{\"id\": \"order-7\"}]", pickIn
		case !slices.Contains(texts, name):
			return wrong("there is no field %q", clip(name, 40))
		}
		if of != "a text" && json.Unmarshal(value, &each) != nil {
			return wrong("%s must be %s", name, of)
		} else if len(each) == 0 {
			return wrong("%s is empty: leave it out, or say what is meant", name)
		}
		for _, one := range each {
			said, err := read(one)
			if err != nil {
				return wrong("%s must be %s: %v", name, of, err)
			}
			form.Add(strings.Replace(name, "selected", "sel", 1), said)
		}
		return nil
	})
	if _, said := errors.AsType[problem](err); err == nil || said {
		return form, err
	}
	return nil, wrong("%v", err)
}

// pickIn is one of selected, as a form has it.
func pickIn(value json.RawMessage) (string, error) {
	var one struct {
		ID       string `wire:",must"`
		Position *uint64
	}
	err := admin.Decode(value, &one)
	switch {
	case err != nil || one.Position == nil:
		return ":" + url.QueryEscape(one.ID), err
	case *one.Position == 0:
		return "", errors.New("position is 0; it must be a whole number from 1, or left out for the job as a whole")
	}
	return list{}.Pick(one.ID, *one.Position), nil
}
