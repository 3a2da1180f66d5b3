package dashboard

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
)

// apiPrefix begins the paths of the API.
const apiPrefix = "/api/"

// apiRoutes are those of the API.
func (h *handler) apiRoutes() map[string]route {
	look := func(look func(*http.Request, params) (any, error), names ...string) route {
		about := anyQueue
		if slices.Contains(names, "queue") {
			about = namedQueue
		}
		return route{http.MethodGet, about, h.looking(func(w http.ResponseWriter, r *http.Request) error {
			p, err := paramsOf(r, names...)
			if err != nil {
				return err
			}
			answer, err := look(r, p)
			if err != nil {
				return err
			}
			return sendJSON(w, r, http.StatusOK, "application/json", answer)
		}), h.cfg.PageTimeout, names}
	}
	return map[string]route{
		apiPrefix + "v1/": look(h.apiIndex),
		"/api/v1/stats":   look(h.apiStats),
		"/api/v1/queues":  look(h.apiQueues, "queue"),
		"/api/v1/jobs": look(h.apiJobs, "queue", "state", "order", "desc", "prefix", "error", "limit",
			"cursor", "patience"),
		"/api/v1/dead":      look(h.apiDead, "queue", "order", "desc", "prefix", "error", "limit", "cursor", "patience"),
		"/api/v1/job":       look(h.apiJob, "queue", "id"),
		"/api/v1/details":   look(h.apiDetails, "queue", "id"),
		"/api/v1/explain":   look(h.apiExplain, "queue", "id"),
		"/api/v1/find":      look(h.apiFind, "queue", "id"),
		"/api/v1/running":   look(h.apiRunning, "queue", "stacks", "limit"),
		"/api/v1/locks":     look(h.apiLocks, "limit", "cursor"),
		"/api/v1/leases":    look(h.apiLeases, "limit", "cursor"),
		"/api/v1/slots":     look(h.apiSlots, "limit"),
		"/api/v1/limits":    look(h.apiLimits),
		"/api/v1/schedules": look(h.apiSchedules),
		"/api/v1/journal":   look(h.apiJournal),
		"/api/v1/copy":      {http.MethodPost, nil, h.copy, 0, nil},
		"/api/v1/actions":   {http.MethodPost, nil, h.apiAct, 0, nil},
	}
}

func sendJSON(w http.ResponseWriter, r *http.Request, status int, kind string, answer any) error {
	text, err := admin.Encode(answer)
	if err != nil {
		return err
	}
	send(w, r, status, kind, text, func() []byte { return squeeze(text) })
	return nil
}

// refuse sends a problem, after so many were affected.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error, affected int) {
	p := problemOf(err)
	if p.status == http.StatusInternalServerError {
		h.cfg.Logger.Error("the API of the dashboard failed", slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	again(w.Header(), p.status)
	answer := wireProblem{"about:blank", http.StatusText(p.status), p.status, p.plain(), affected}
	if err := sendJSON(w, r, p.status, "application/problem+json", answer); err != nil {
		panic(err) // there is JSON for it
	}
}

// params are those of a query, of which each name is known.
type params url.Values

// paramsOf reads the query of a request, which has no other names, and each once. Only
// state may come more often, and id where there may be several.
func paramsOf(r *http.Request, names ...string) (params, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, wrong("the query can't be read: %v", err)
	}
	for name, values := range q {
		switch {
		case !slices.Contains(names, name):
			return nil, wrong("there is no parameter %q here; %s", clip(name, 40), known(names))
		case len(values) > 1 && name != "state" && (name != "id" || !strings.HasSuffix(r.URL.Path, "/details")):
			return nil, wrong("%s is there %d times; once is what it may be", name, len(values))
		}
	}
	return params(q), nil
}

func known(names []string) string {
	if len(names) == 0 {
		return "there are none"
	}
	return "there are " + strings.Join(names, ", ")
}

func (p params) text(name string) string { return url.Values(p).Get(name) }

func (p params) flag(name string) (bool, error) {
	text := p.text(name)
	if text == "" && !url.Values(p).Has(name) {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, wrong("%s is %q; it must be true or false", name, clip(text, 40))
	}
	return on, nil
}

// limit is how many rows a page has.
func (p params) limit() (int, error) {
	if !url.Values(p).Has("limit") {
		return defaultRows, nil
	}
	n, err := strconv.Atoi(p.text("limit"))
	if err != nil || !digits(p.text("limit")) || n < 1 || n > inspect.MaxListLimit {
		return 0, wrong("limit is %q; a page has from 1 to %d rows", clip(p.text("limit"), 40), inspect.MaxListLimit)
	}
	return n, nil
}

// patience is how long a list may take to be made; 0: as long as its answer.
func (p params) patience() (time.Duration, error) {
	if !url.Values(p).Has("patience") {
		return 0, nil
	}
	seconds, err := strconv.ParseFloat(p.text("patience"), 64)
	if err != nil || !(seconds > 0 && seconds <= mostPatience) {
		return 0, wrong("patience is %q; it is in seconds, above 0 and up to %d", clip(p.text("patience"), 40), mostPatience)
	}
	return max(time.Duration(seconds*float64(time.Second)), 1), nil
}

// mostPatience is in seconds. Config.PageTimeout ends an answer anyhow.
const mostPatience = 3600

// page reads what all lists have.
func (p params) page() (limit int, desc bool, patience time.Duration, err error) {
	if limit, err = p.limit(); err == nil {
		desc, err = p.flag("desc")
	}
	if err == nil {
		patience, err = p.patience()
	}
	return limit, desc, patience, err
}

func (p params) filter() inspect.JobFilter {
	return inspect.JobFilter{IDPrefix: p.text("prefix"), ErrorContains: p.text("error")}
}

func (p params) states() (all []inspect.JobState) {
	for _, text := range p["state"] {
		all = append(all, inspect.JobState(text))
	}
	return all
}

// apiIndex says what there is.
func (h *handler) apiIndex(*http.Request, params) (any, error) {
	type endpoint struct {
		Method, Path string // the path from here
		Params       []string
	}
	var all []endpoint
	for _, path := range slices.Sorted(maps.Keys(h.routes)) {
		if name, found := strings.CutPrefix(path, apiPrefix+"v1/"); found && name != "" {
			all = append(all, endpoint{h.routes[path].method, name, h.routes[path].params})
		}
	}
	return struct{ Endpoints []endpoint }{all}, nil
}

func (h *handler) apiStats(r *http.Request, _ params) (any, error) {
	stats, err := h.x.Stats(r.Context())
	if err != nil {
		return nil, err
	}
	queues, err := h.x.Inspect().Queues(r.Context())
	if err != nil {
		return nil, err
	}
	if queues, err = seen(h, r, queues, nameOf); err != nil {
		return nil, err
	}
	s := statsOf(stats, queues)
	s.Trouble = h.trouble()
	return s, nil
}

func (h *handler) trouble() string {
	if err := h.x.Err(); err != nil {
		return err.Error()
	}
	return ""
}

func nameOf(q inspect.QueueInfo) string { return q.Name }

func (h *handler) apiQueues(r *http.Request, p params) (any, error) {
	queues, err := h.x.Inspect().Queues(r.Context())
	if err != nil {
		return nil, err
	}
	if p["queue"] == nil {
		if queues, err = seen(h, r, queues, nameOf); err != nil {
			return nil, err
		}
	} else {
		queues = slices.DeleteFunc(queues, func(q inspect.QueueInfo) bool { return q.Name != p.text("queue") })
		if len(queues) == 0 {
			return nil, problem{http.StatusNotFound, fmt.Sprintf("there is no queue %q", clip(p.text("queue"), 80))}
		}
	}
	answer := struct{ Queues []wireQueue }{}
	for _, q := range queues {
		answer.Queues = append(answer.Queues, wireQueueOf(q))
	}
	return answer, nil
}

func (h *handler) apiJobs(r *http.Request, p params) (any, error) {
	limit, desc, patience, err := p.page()
	if err != nil {
		return nil, err
	}
	page, err := h.x.Inspect().Jobs(r.Context(), inspect.JobQuery{Queue: p.text("queue"), States: p.states(), Order: inspect.Order(p.text("order")),
		Descending: desc, Filter: p.filter(), Limit: limit, Cursor: p.text("cursor"), Patience: patience})
	return page, lateList(err)
}

func (h *handler) apiDead(r *http.Request, p params) (any, error) {
	limit, desc, patience, err := p.page()
	if err != nil {
		return nil, err
	}
	page, err := h.x.Inspect().Dead(r.Context(), inspect.DeadQuery{Queue: p.text("queue"), Order: inspect.Order(p.text("order")),
		Descending: desc, Filter: p.filter(), Limit: limit, Cursor: p.text("cursor"), Patience: patience})
	return page, lateList(err)
}

func (h *handler) apiJob(r *http.Request, p params) (any, error) {
	d, err := h.x.Inspect().Job(r.Context(), p.text("queue"), p.text("id"))
	if err != nil {
		return nil, err
	}
	left := shownAll
	return h.detailOf(r, &d, &left), r.Context().Err()
}

// apiDetails is apiJob for some ids: those of which there is nothing are left out.
func (h *handler) apiDetails(r *http.Request, p params) (any, error) {
	found, err := h.x.Inspect().JobsByID(r.Context(), p.text("queue"), p["id"]...)
	if err != nil {
		return nil, err
	}
	answer, left := struct{ Details []wireDetail }{}, shownAll
	for i := range found {
		answer.Details = append(answer.Details, h.detailOf(r, &found[i], &left))
	}
	return answer, r.Context().Err()
}

// detailOf is a job with its payloads as they may be seen, while there is room for them.
func (h *handler) detailOf(r *http.Request, d *inspect.JobDetail, left *int) wireDetail {
	shown := payloads{h, r, d.Queue, d.ID, *left}
	w := wireDetail{JobDetail: *d, InHand: shown.rows(d.InHand), Waiting: shown.rows(d.Waiting), Explanation: explanationOf(d.Explanation)}
	for _, p := range d.Dead {
		w.Dead = append(w.Dead, wireDeadPayload{shown.row(p.PayloadInfo), p.Attempt, p.Error, p.At, p.Failures})
	}
	*left = shown.left
	return w
}

func (h *handler) apiExplain(r *http.Request, p params) (any, error) {
	if err := p.id(); err != nil {
		return nil, err
	}
	e, err := h.x.Explain(r.Context(), p.text("queue"), p.text("id"))
	if err == nil && e.State == inspect.JobUnknown {
		err = inspect.ErrUnknownJob
	}
	return explanationOf(e), err
}

// id refuses what can be none.
func (p params) id() error {
	if id := p.text("id"); id == "" || len(id) > executor.MaxIDBytes {
		return wrong("id has %d bytes; it must have from 1 to %d", len(id), executor.MaxIDBytes)
	}
	return nil
}

func (h *handler) apiFind(r *http.Request, p params) (any, error) {
	if err := p.id(); err != nil {
		return nil, err
	}
	all, queues, late, err := h.lookFor(r, p.text("queue"), p.text("id"))
	switch {
	case err != nil:
		return nil, err
	case p["queue"] != nil && !slices.Equal(queues, p["queue"]):
		return nil, problem{http.StatusNotFound, fmt.Sprintf("there is no queue %q", clip(p.text("queue"), 80))}
	}
	answer := struct {
		Found []wireExplanation
		Late  bool // not all queues were asked in time
	}{Late: late}
	for _, f := range all {
		answer.Found = append(answer.Found, explanationOf(f.Explanation))
	}
	return answer, nil
}

func (h *handler) apiRunning(r *http.Request, p params) (any, error) {
	limit, err := p.limit()
	if err != nil {
		return nil, err
	}
	stacks, err := p.flag("stacks")
	if err != nil {
		return nil, err
	}
	return h.inHand(r, inspect.RunningQuery{Queue: p.text("queue"), Stacks: stacks, Limit: limit})
}

// keysPage reads a part of a list of keys: its cursor is the last key, as it may be in
// an address.
func keysPage[S any](p params, read func(after string, limit int) ([]S, int, error), key func(S) string) (
	page []S, more int, next string, err error) {
	limit, err := p.limit()
	if err != nil {
		return nil, 0, "", err
	}
	after, err := base64.RawURLEncoding.DecodeString(p.text("cursor"))
	if err != nil {
		return nil, 0, "", fmt.Errorf("%w: %q", inspect.ErrInvalidCursor, clip(p.text("cursor"), 40))
	}
	page, more, err = read(string(after), limit)
	if more > 0 && len(page) > 0 {
		next = base64.RawURLEncoding.EncodeToString([]byte(key(page[len(page)-1])))
	}
	return page, more, next, err
}

func (h *handler) apiLocks(_ *http.Request, p params) (any, error) {
	page, more, next, err := keysPage(p, h.x.Inspect().LockedKeys, func(k inspect.KeyLockStatus) string { return k.Key })
	return struct {
		Keys []inspect.KeyLockStatus
		More int
		Next string `wire:",omit"`
	}{page, more, next}, err
}

func (h *handler) apiLeases(_ *http.Request, p params) (any, error) {
	page, more, next, err := keysPage(p, h.x.Inspect().Leases, func(l inspect.LeaseStatus) string { return l.Key })
	return struct {
		Leases []inspect.LeaseStatus
		More   int
		Next   string `wire:",omit"`
	}{page, more, next}, err
}

func (h *handler) apiSlots(_ *http.Request, p params) (any, error) {
	limit, err := p.limit()
	if err != nil {
		return nil, err
	}
	held, more, err := h.x.Inspect().Slots(limit)
	return struct {
		Slots []inspect.SlotHeld
		More  int
	}{held, more}, err
}

func (h *handler) apiLimits(*http.Request, params) (any, error) {
	answer := struct{ Limits []wireLimit }{}
	for _, l := range h.x.Limits() {
		answer.Limits = append(answer.Limits, wireLimit{l.Name(), l.Stats(), l.Keys()})
	}
	return answer, nil
}

func (h *handler) apiSchedules(*http.Request, params) (any, error) {
	type crons struct {
		Cron      int // in Config.Crons
		Leads     bool
		Schedules []cron.Entry
	}
	answer := struct {
		Crons   []crons
		Leaders []wireLeader
	}{}
	for i, c := range h.cfg.Crons {
		answer.Crons = append(answer.Crons, crons{i, c.Leads(), c.List()})
	}
	for _, e := range h.cfg.Elections {
		l, _ := e.Leader()
		answer.Leaders = append(answer.Leaders, wireLeader{e.Name, l.ID, l.Epoch, l.Since, l.Until})
	}
	return answer, nil
}

func (h *handler) apiJournal(r *http.Request, _ params) (any, error) {
	stats, err := h.x.Stats(r.Context())
	if err != nil {
		return nil, err
	}
	return wireJournal{h.trouble(), stats.Journal.UUID == "", stats.Journal, stats.Backlog}, nil
}
