package dashboard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// apiAct does what a POST asks for. It asks nothing back: a program means what it says.
func (h *handler) apiAct(w http.ResponseWriter, r *http.Request) error {
	if h.readOnly {
		return problem{http.StatusForbidden, ErrReadOnly.Error()}
	}
	if _, err := paramsOf(r); err != nil {
		return err
	}
	wire, err := readOrder(r)
	if err != nil {
		return err
	}
	o, err := wire.order()
	if err != nil {
		return err
	}
	heard(w)
	if err := h.may(r, Action{Verb: o.Verb, Queue: o.Queue, Name: o.Name}); err != nil {
		return err
	}
	n, err := h.perform(r, o)
	if err != nil {
		h.refuse(w, r, err, n)
		return nil
	}
	return sendJSON(w, r, http.StatusOK, "application/json", wireAffected{n, o.what()})
}

// readOrder reads the body of a request: JSON, or a form.
func readOrder(r *http.Request) (o wireOrder, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return o, err
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err = d.Decode(&o); err == nil && len(bytes.TrimSpace(body[d.InputOffset():])) > 0 {
			err = fmt.Errorf("there is more behind it, at byte %d", d.InputOffset())
		}
	case "application/x-www-form-urlencoded":
		var form url.Values
		if form, err = url.ParseQuery(string(body)); err == nil {
			o, err = formOrder(form)
		}
	default:
		return o, problem{http.StatusUnsupportedMediaType,
			fmt.Sprintf("Content-Type is %q; it must be application/json or application/x-www-form-urlencoded",
				clip(kind, 80))}
	}
	if err != nil {
		return o, problem{http.StatusBadRequest, "the action can't be read: " + err.Error()}
	}
	return o, nil
}

// formOrder reads a form, whose texts are any bytes.
func formOrder(form url.Values) (o wireOrder, err error) {
	texts := map[string]*[]byte{"queue": &o.QueueBase64, "id": &o.IDBase64, "key": &o.KeyBase64, "prefix": &o.PrefixBase64,
		"schedule": &o.ScheduleBase64}
	words := map[string]*string{"verb": (*string)(&o.Verb), "scope": &o.Scope, "error": &o.Error, "reason": &o.Reason}
	for name, values := range form {
		if len(values) > 1 && name != "state" && name != "sel" {
			return o, fmt.Errorf("%s is there %d times; once is what it may be", name, len(values))
		}
		switch {
		case texts[name] != nil:
			*texts[name] = []byte(values[0])
		case words[name] != nil:
			*words[name] = values[0]
		case name == "state":
			o.State = params(form).states()
		case name == "sel":
			for _, raw := range values {
				p, err := pickOf(raw)
				if err != nil {
					return o, err
				}
				o.Selected = append(o.Selected, wirePick{wireID{IDBase64: []byte(p.ID)}, p.Position})
			}
		case name == "cron":
			i, err := strconv.Atoi(values[0])
			if err != nil {
				return o, fmt.Errorf("cron is %q; it must be a number", clip(values[0], 40))
			}
			o.Cron = &i
		default:
			return o, fmt.Errorf("there is no field %q", clip(name, 40))
		}
	}
	return o, nil
}

// exactly is a text that was given as it is or in base64. One in JSON with U+FFFD is
// what the API says in place of other bytes, so it is refused.
func exactly(name, text string, exact []byte) (string, error) {
	switch {
	case text != "" && len(exact) > 0:
		return "", problem{http.StatusBadRequest,
			fmt.Sprintf("%s and %s_base64 are both there; give one of them", name, name)}
	case strings.ContainsRune(text, utf8.RuneError):
		return "", problem{http.StatusBadRequest,
			fmt.Sprintf("%s has U+FFFD, which stands for bytes that are no text: give them in %s_base64", name, name)}
	case text != "":
		return text, nil
	}
	return string(exact), nil
}

// order is what was asked for, if it makes sense: what an action has no use for is
// refused, lest it does more than was meant.
func (w *wireOrder) order() (o order, err error) {
	o = order{Verb: w.Verb, Scope: w.Scope, states: w.State, reason: w.Reason, list: list{Error: w.Error}}
	var schedule string
	for _, each := range [...]struct {
		name, text string
		exact      []byte
		to         *string
	}{{"queue", w.Queue, w.QueueBase64, &o.Queue}, {"id", w.ID, w.IDBase64, &o.ID}, {"key", w.Key, w.KeyBase64, &o.Name},
		{"prefix", w.Prefix, w.PrefixBase64, &o.list.Prefix}, {"schedule", w.Schedule, w.ScheduleBase64, &schedule}} {
		if *each.to, err = exactly(each.name, each.text, each.exact); err != nil {
			return order{}, err
		}
	}
	for _, s := range w.Selected {
		id, err := exactly("id", s.ID, s.IDBase64)
		if err != nil {
			return order{}, err
		}
		o.Picks = append(o.Picks, pick{ID: id, Position: s.Position})
	}
	if err := o.meansOne(map[string]bool{"queue": o.Queue != "", "id": o.ID != "", "selected": o.Picks != nil,
		"state": o.states != nil, "prefix": o.list.Prefix != "", "error": o.list.Error != "", "reason": o.reason != "",
		"key": o.Name != "", "cron": w.Cron != nil, "schedule": schedule != ""}, false); err != nil {
		return order{}, err
	}
	if schedule != "" {
		o.Name = schedule
	}
	if w.Cron != nil {
		o.Index = *w.Cron
	}
	return o, nil
}
