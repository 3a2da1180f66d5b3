package dashboard

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
)

// question is what is asked before an action.
type question struct {
	Text, Detail string
	Yes          string // on the button
	Danger       bool
	Reason       bool         // it may have one
	Query        template.URL // of the action, but for the picks
	Picks        []string     // as they came
	IDs          []string     // the first of them, for people
	More         int
	Back         string
}

// shownPicks is how many of what was ticked is shown again.
const shownPicks = 20

// ask answers an action with the question whether it is meant.
func (s *site) ask(w http.ResponseWriter, r *http.Request, o order) error {
	d := deeds[o.Verb]
	q := question{Yes: d.yes, Detail: d.detail, Danger: d.danger, Reason: o.Verb == Cancel, Back: o.origin()}
	if o.said("from") == "job" && o.ID != "" {
		q.Back = "job?" + string(query("queue", o.Queue, "id", o.ID))
	}
	q.Picks = o.form["selected"]
	for _, p := range o.Picks[:min(len(o.Picks), shownPicks)] {
		q.IDs = append(q.IDs, p.ID)
	}
	q.More = len(o.Picks) - len(q.IDs)
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.PageTimeout)
	defer cancel()
	what, err := s.meant(ctx, &o)
	if err != nil {
		return err
	}
	q.Text = strings.Replace(d.question, "{what}", what, 1)
	if it := cmp.Or(o.ID, o.Name); it != "" {
		q.IDs = []string{it}
	}
	again := maps.Clone(o.form)
	again.Del("selected")
	again.Set("confirm", "yes")
	q.Query = template.URL(again.Encode()) // all of it is escaped
	return s.show(w, r, "question.html", page{Title: q.Text, Content: q})
}

// meant says in words what an action is about.
func (s *site) meant(ctx context.Context, o *order) (string, error) {
	of := " of " + clip(o.Queue, 60)
	switch {
	case o.Queue == "":
		return "", nil
	case o.Scope == "id" && (o.Verb == DeleteDead || o.Verb == Requeue):
		d, err := s.x.Inspect().Job(ctx, o.Queue, o.ID)
		if err != nil {
			return "", err
		}
		switch n := len(d.Dead) + d.MoreDead; {
		case d.DeadUnread:
			return "all dead payloads of this id, of which there are at least " + number(n) + ",", nil
		case n == 1:
			return "the dead payload of this id", nil
		default:
			return "all " + number(n) + " dead payloads of this id", nil
		}
	case o.Scope == "id":
		return "this job", nil
	case o.Scope == "selected" && (o.list.Tab == morgue || o.Picks[0].Position != 0):
		return plural(len(o.Picks), "payload", "payloads") + of, nil
	case o.Scope == "selected":
		return plural(len(o.Picks), "job", "jobs") + of, nil
	}
	info, err := s.info(ctx, o.Queue)
	if err != nil {
		return "", err
	}
	t := o.list.tab()
	one, many := "job", "jobs"
	if t.Name == morgue {
		one, many = "dead payload", "dead payloads"
	}
	all := plural(t.Count(info), one, many) + of + t.those
	if o.Scope != "filtered" {
		return "all " + all, nil
	}
	p := queuePage{list: o.list}
	p.Limit, p.Whole = inspect.MaxListLimit, true
	switch err := s.fill(ctx, &p, time.Now()); {
	case errors.Is(err, context.DeadlineExceeded): // a person may go on without the number
		return "what matches the filter, of " + all, nil
	case err != nil:
		return "", err
	}
	least := ""
	if p.Next != "" {
		least = "at least "
	}
	return least + plural(len(p.Jobs)+len(p.Dead), one+" that matches", many+" that match") + " the filter, of " + all, nil
}
