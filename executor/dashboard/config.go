package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/lock"
)

// Config of a dashboard. The zero Config is usable: read-only, without payloads.
type Config struct {
	// Authorize decides whether a request may do something: nil is yes, and the text
	// of an error, 4 KiB of it, is shown to who asked, with 403. See Who may see what; it is
	// also asked for the verbs of a page, to know which buttons to show: of a request about
	// each Action once, one after the other. What it takes for a request, all in all, is
	// bounded by PageTimeout: the context of the request that it is given ends then, it is
	// asked no more, and the answer is 503. It may be called by many requests at a time; a
	// panic is a no. Default: only View is allowed.
	Authorize func(*http.Request, Action) error

	// ShowPayload returns what people may see of a payload, as text: 64 KiB of it are
	// shown, and of all payloads of an answer a MiB, and then it is asked no more. It may
	// be called by many requests at a time, with a context that ends with PageTimeout;
	// what panics is not shown. Default: no payload is shown. [PlainPayload] shows it as
	// it is.
	ShowPayload func(r *http.Request, p Payload) string

	// ShowPreview returns the line that lists show of a payload. It works like ShowPayload,
	// but gets less: Raw has the first 256 bytes, and there is neither Value nor Metadata.
	// What finds secrets in a whole payload may miss them in a part. Default: lists have
	// positions and sizes of payloads.
	ShowPreview func(r *http.Request, p Payload) string

	// Title is at the top of each page. Default "Strand".
	Title string

	// Prefix is the part of the path before the pages, "/strand" for example, without
	// wildcards, and without percent-encoding: "/a b". Default: that of the pattern under
	// which an [http.ServeMux] has the handler, with what its wildcards stand for.
	Prefix string

	// Hosts are all names, without a port, by which browsers may ask for the pages; "*" is any. That
	// keeps out, with 403, a page of another site whose name was made to point here (DNS rebinding).
	// Default: where the server is reached at a loopback address localhost and IP addresses only,
	// elsewhere any: give the names when a proxy on the same machine is in front.
	Hosts []string

	// TrustedOrigins are whose pages may send requests, beside those of the dashboard
	// itself: "https://admin.example.com" for example, as
	// [http.CrossOriginProtection.AddTrustedOrigin] takes them. Default none.
	TrustedOrigins []string

	// Crons and Elections are shown with their schedules and leaders. Default none.
	Crons     []*cron.Cron
	Elections []Election

	// PageTimeout bounds the making of a page, with all that Authorize is asked for it,
	// what Authorize takes for an action, and how long a client takes to send its request,
	// which is answered with 408 then; ActionTimeout bounds an action.
	// An action that was ended has done a part, and says how much. Default, and below
	// zero: 10 s and 60 s.
	PageTimeout   time.Duration
	ActionTimeout time.Duration

	// User names who asks, for the log of actions: from what a middleware has found out.
	// It may be called by many requests at a time; of one that panics there is no name.
	// Default: none, and the log has the address that the request came from.
	User func(*http.Request) string

	// Logger gets each action, those that were refused, and what panicked; see Actions.
	// Default [slog.Default], as it is when Handler is called.
	Logger *slog.Logger
}

// Election is a leader flag with the name that people know it by.
type Election struct {
	Name string
	*lock.Election
}

// Action is what a request wants to do.
type Action struct {
	Verb  Verb
	Queue string // that it is about; "": the executor as a whole, or no queue in particular
	// Name is the schedule or the key. It is empty for the other verbs, and when a page asks which buttons to show: say
	// yes then if the verb may be allowed for any name.
	Name string
}

// Verb is a kind of action.
type Verb string

const (
	View           Verb = "view"            // to look
	Pause          Verb = "pause"           // a queue, ids or a prefix of it, or the executor
	Resume         Verb = "resume"          // the same
	RunNow         Verb = "run"             // see [inspect.Inspector.RunNow]
	RetryNow       Verb = "retry"           // see [inspect.Inspector.RetryNow]
	Cancel         Verb = "cancel"          // to the morgue
	Delete         Verb = "delete"          // for good
	KillFailed     Verb = "kill-failed"     // to the morgue, what failed
	DeleteFailed   Verb = "delete-failed"   // for good, what failed
	Requeue        Verb = "requeue"         // from the morgue
	DeleteDead     Verb = "delete-dead"     // from the morgue, for good
	Unlock         Verb = "unlock"          // a key
	Trigger        Verb = "trigger"         // a schedule, now
	PauseSchedule  Verb = "pause-schedule"  // its ticks are dropped
	ResumeSchedule Verb = "resume-schedule" // they fire again
	CopyJournal    Verb = "copy"            // a copy of the journal, with all payloads
)

// errReadOnly is what a request that would change something gets without a
// Config.Authorize.
var errReadOnly = errors.New("dashboard: read-only: set Config.Authorize to allow actions")

// Insecure, as Config.Authorize, allows everything to everyone who reaches the
// handler: for a machine of one's own, or behind a middleware that has asked already.
func Insecure(*http.Request, Action) error { return nil }

func readOnly(_ *http.Request, a Action) error {
	if a.Verb == View {
		return nil
	}
	return errReadOnly
}

// Payload is what Config.ShowPayload and Config.ShowPreview are asked about.
type Payload struct {
	Queue, ID string
	inspect.PayloadInfo
}

// withDefaults returns the configuration as it is used, or what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	c.Title = cmp.Or(c.Title, "Strand")
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.PageTimeout = cmp.Or(max(c.PageTimeout, 0), 10*time.Second)
	c.ActionTimeout = cmp.Or(max(c.ActionTimeout, 0), time.Minute)
	if c.Authorize == nil {
		c.Authorize = readOnly
	}
	if c.Prefix = strings.TrimSuffix(c.Prefix, "/"); c.Prefix != "" && c.Prefix[0] != '/' {
		return c, fmt.Errorf("dashboard: Config.Prefix is %q, it must begin with a slash", c.Prefix)
	}
	for _, host := range c.Hosts {
		u, err := url.Parse("//" + host)
		if _, notAddr := netip.ParseAddr(strings.Trim(host,
			"[]")); notAddr != nil && host != "*" && (err != nil || host == "" || u.Host != host || u.Port() != "") {
			return c, fmt.Errorf("dashboard: Config.Hosts has %q, which is no name of a host without a port", host)
		}
	}
	if i := slices.Index(c.Crons, nil); i >= 0 {
		return c, fmt.Errorf("dashboard: Config.Crons[%d] is nil", i)
	}
	if i := slices.IndexFunc(c.Elections, func(e Election) bool { return e.Election == nil }); i >= 0 {
		return c, fmt.Errorf("dashboard: Config.Elections[%d], %q, has no election", i, c.Elections[i].Name)
	}
	return c, nil
}
