package dashboard

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/admin"
)

// apiPrefix begins the paths of the API.
const apiPrefix = "/api/"

// answer is what a program gets for a query.
type answer = func(*http.Request, *params) (any, error)

// look is the route of a query with parameters of some names.
func (s *site) apiLook(look answer, names ...string) route {
	about := anyQueue
	if slices.Contains(names, "queue") {
		about = namedQueue
	}
	return route{http.MethodGet, about, s.looking(func(w http.ResponseWriter, r *http.Request) error {
		p, err := paramsOf(r, names...)
		if err != nil {
			return err
		}
		answer, err := look(r, p)
		if err != nil {
			return err
		}
		return sendJSON(w, r, http.StatusOK, "application/json", answer)
	}), s.cfg.PageTimeout, names}
}

// table has the routes of the API.
func (s *site) apiTable() (all map[string]route) {
	look := s.apiLook
	all = map[string]route{
		apiPrefix + "v1/": look(func(*http.Request, *params) (any, error) { return endpointsOf(all), nil }),
		"/api/v1/stats":   look(s.total),
		"/api/v1/queues":  look(s.queues, "queue"),
		"/api/v1/jobs": look(s.list(inspect.Inspector.Jobs), "queue", "state", "order", "desc", "prefix", "error", "limit",
			"cursor", "patience"),
		"/api/v1/dead":      look(s.list(inspect.Inspector.Dead), "queue", "order", "desc", "prefix", "error", "limit", "cursor", "patience"),
		"/api/v1/job":       look(s.apiJob, "queue", "id"),
		"/api/v1/details":   look(s.details, "queue", "id"),
		"/api/v1/explain":   look(s.explain, "queue", "id"),
		"/api/v1/find":      look(s.apiFind, "queue", "id"),
		"/api/v1/running":   look(s.apiRunning, "queue", "stacks", "limit"),
		"/api/v1/locks":     look(keys(s, "keys", inspect.Inspector.LockedKeys, func(k inspect.KeyLockStatus) string { return k.Key }), "limit", "cursor"),
		"/api/v1/leases":    look(keys(s, "leases", inspect.Inspector.Leases, func(l inspect.LeaseStatus) string { return l.Key }), "limit", "cursor"),
		"/api/v1/slots":     look(s.slots, "limit"),
		"/api/v1/limits":    look(func(*http.Request, *params) (any, error) { return map[string]any{"limits": s.limits(math.MaxInt)}, nil }),
		"/api/v1/schedules": look(func(*http.Request, *params) (any, error) { return s.scheduled(), nil }),
		"/api/v1/journal":   look(func(r *http.Request, _ *params) (any, error) { return s.journaled(r) }),
		"/api/v1/copy":      {http.MethodPost, nil, s.sendCopy, 0, nil},
		"/api/v1/actions":   {http.MethodPost, nil, s.act, 0, nil},
	}
	return all
}

func sendJSON(w http.ResponseWriter, r *http.Request, status int, kind string, answer any) error {
	text, err := admin.Encode(answer)
	if err != nil {
		return err
	}
	send(w, r, status, kind, text)
	return nil
}

// params are those of a query, of which each name is known. The first that makes no sense is
// err.
type params struct {
	url.Values
	err error
}

// paramsOf reads the query of a request, which has no other names, and each once. Only
// state may come more often, and id where there may be several.
func paramsOf(r *http.Request, names ...string) (*params, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, wrong("the query can't be read: %v", err)
	}
	for name, values := range q {
		switch {
		case !slices.Contains(names, name):
			return nil, wrong("there is no parameter %q here; there are %s", clip(name, 40), cmp.Or(strings.Join(names, ", "), "none"))
		case len(values) > 1 && name != "state" && (name != "id" || !strings.HasSuffix(r.URL.Path, "/details")):
			return nil, wrong("%s is there %d times; once is what it may be", name, len(values))
		}
	}
	p := &params{Values: q}
	p.flag("desc") // what is there makes sense, or nothing is looked at
	p.flag("stacks")
	p.limit(inspect.MaxListLimit)
	p.patience()
	return p, p.err
}

// wrong notes the first value that makes no sense.
func (p *params) wrong(name, must string, args ...any) {
	p.err = cmp.Or(p.err, wrong("%s is %q; "+must, append([]any{name, clip(p.Get(name), 40)}, args...)...))
}

func (p *params) flag(name string) bool {
	on, err := strconv.ParseBool(p.Get(name))
	if err != nil && p.Has(name) {
		p.wrong(name, "it must be true or false")
	}
	return on
}

// limit is how many rows a page has, of so many at most.
func (p *params) limit(most int) int {
	n, err := strconv.Atoi(p.Get("limit"))
	switch {
	case !p.Has("limit"):
		return defaultRows
	case err != nil || !digits(p.Get("limit")) || n < 1 || n > most:
		p.wrong("limit", "a page has from 1 to %d rows", most)
	}
	return n
}

// patience is how long a list may take to be made; 0: as long as its answer.
func (p *params) patience() time.Duration {
	seconds, err := strconv.ParseFloat(p.Get("patience"), 64)
	switch {
	case !p.Has("patience"):
		return 0
	case err != nil || !(seconds > 0 && seconds <= mostPatience):
		p.wrong("patience", "it is in seconds, above 0 and up to %d", mostPatience)
	}
	return max(time.Duration(seconds*float64(time.Second)), 1)
}

// mostPatience is in seconds. Config.PageTimeout ends an answer anyhow.
const mostPatience = 3600

func statesOf(q url.Values) (all []inspect.JobState) {
	for _, text := range q["state"] {
		all = append(all, inspect.JobState(text))
	}
	return all
}

// id is one that there can be.
func (p *params) id() (id string, err error) {
	if id = p.Get("id"); id == "" || len(id) > executor.MaxIDBytes {
		err = wrong("id has %d bytes; it must have from 1 to %d", len(id), executor.MaxIDBytes)
	}
	return id, err
}
