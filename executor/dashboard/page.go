package dashboard

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/serving"
)

//go:embed pages
var pageFiles embed.FS

//go:embed assets
var assetFiles embed.FS

// page is what each template gets.
type page struct {
	Site     string // Config.Title
	Title    string // of this page
	Here     string // its address in the menu
	Health   string // what keeps the executor from its work; "": nothing
	Paused   bool   // the executor as a whole
	Notice   string // what the last action has done
	Now      time.Time
	Can      map[Verb]bool // what the request may do with what the page is about
	ReadOnly bool
	Content  any

	verbs  []Verb // that it has buttons for
	of     string // the queue that they are about
	status int    // 0: OK
	to     string // another page, which is the answer; "": this one is
}

// May reports whether the request may do something with what the page is about.
func (p page) May(verb string) bool { return p.Can[Verb(verb)] }

// MayAny reports whether it may do anything with it.
func (p page) MayAny() bool { return slices.Contains(slices.Collect(maps.Values(p.Can)), true) }

// site is a dashboard: its pages, and what else it answers.
type site struct {
	*board
	routes   map[string]route
	notices  notices
	looks    *serving.Room // bytes of answers, being made or on their way
	acts     *serving.Room // actions at a time
	copies   sync.Mutex    // held while a copy is made and sent
	readOnly bool          // for want of an authorizer
}

// templates are the pages by name, each with the frame around it.
var templates = sync.OnceValue(func() map[string]*template.Template {
	frame := template.Must(template.New("frame").Funcs(shown).ParseFS(pageFiles, "pages/frame.html", "pages/parts.html"))
	all := make(map[string]*template.Template)
	for _, file := range must(pageFiles.ReadDir("pages")) {
		all[file.Name()] = template.Must(template.Must(frame.Clone()).ParseFS(pageFiles, path.Join("pages", file.Name())))
	}
	return all
})

// paged answers with a page, and the buttons that the request may use.
func (s *site) paged(name string, look func(*http.Request) (page, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		p, err := look(r)
		if err == nil && p.Can == nil {
			p.Can, err = s.can(r, p.of, p.verbs...)
		}
		if err != nil {
			return err
		}
		if p.to == "" {
			return s.show(w, r, name, p)
		}
		w.Header().Set("Location", p.to)
		w.WriteHeader(http.StatusSeeOther)
		return nil
	}
}

// show sends a page. It is made in memory first: a client that does not read holds
// nothing but that.
func (s *site) show(w http.ResponseWriter, r *http.Request, name string, p page) error {
	p.Site, p.Now, p.status = s.cfg.Title, time.Now(), cmp.Or(p.status, http.StatusOK)
	if p.ReadOnly = s.readOnly; p.status != http.StatusForbidden { // who may not look is told nothing
		p.Health = s.trouble()
		p.Paused, _ = s.x.Inspect().Paused()
		p.Notice = s.notices.take(r.URL.Query().Get("done"))
	}
	var b bytes.Buffer
	if err := templates()[name].ExecuteTemplate(&b, "frame", p); err != nil {
		return err
	}
	again(w.Header(), p.status)
	send(w, r, p.status, "text/html; charset=utf-8", b.Bytes())
	return nil
}

// pages are the board as people see it.
type pages struct{ *board }

func (s pages) overview(r *http.Request) (p page, err error) {
	stats, err := s.stats(r)
	return page{Title: "Overview", Here: "./", Content: stats, verbs: []Verb{Pause, Resume}}, err
}

// running shows what all workers have in hand.
func (s pages) running(r *http.Request) (page, error) {
	stacks := r.URL.Query().Get("stacks") != ""
	list, err := s.inHand(r, inspect.RunningQuery{Stacks: stacks, Limit: maxRows})
	// Running answers when shards are stuck, and so does this page: without the figures.
	stats, _ := s.x.Stats(r.Context())
	return page{Title: "Running", Here: "running", Content: struct {
		inspect.RunningList
		inspect.Stats
		Stacks bool
	}{list, stats, stacks}}, err
}

// locksPage is what jobs have that others may wait for.
type locksPage struct {
	Keys                 []inspect.KeyLockStatus
	MoreKeys             int
	Leases               []inspect.LeaseStatus
	MoreLeases           int
	Slots                []inspect.SlotHeld
	MoreSlots            int
	Limits               []inspect.LimitStats
	AfterKey, AfterLease string
	LastKey, LastLease   string // what the next page is behind
}

// What the page of locks shows.
const (
	lockRows  = 100
	limitKeys = 10
)

func (s pages) locks(r *http.Request) (_ page, err error) {
	q, in := r.URL.Query(), s.x.Inspect()
	p := locksPage{AfterKey: q.Get("key"), AfterLease: q.Get("lease"), Limits: in.Limits()}
	p.Keys, p.MoreKeys, err = in.LockedKeys(p.AfterKey, lockRows)
	if err == nil {
		p.Leases, p.MoreLeases, err = in.Leases(p.AfterLease, lockRows)
	}
	if err == nil {
		p.Slots, p.MoreSlots, err = in.Slots(lockRows)
	}
	for i, l := range p.Limits {
		p.Limits[i].Keys = l.Keys[:min(len(l.Keys), limitKeys)]
	}
	for _, k := range p.Keys {
		p.LastKey = k.Key
	}
	for _, l := range p.Leases {
		p.LastLease = l.Key
	}
	return page{Title: "Locks", Here: "locks", Content: p, verbs: []Verb{Unlock}}, err
}

func (s pages) schedules(*http.Request) (page, error) {
	return page{Title: "Schedules", Here: "schedules", Content: s.scheduled(), verbs: []Verb{Trigger, PauseSchedule, ResumeSchedule}}, nil
}

func (s pages) journal(r *http.Request) (page, error) {
	j, err := s.journaled(r)
	return page{Title: "Journal", Here: "journal", Content: j, verbs: []Verb{CopyJournal}}, err
}

// asset is a file that pages load, as it is sent.
type asset struct {
	kind    string
	content []byte
	version string // of its content: what has the same is the same for ever
}

// kinds are what files are, by their ending: the system's table may say anything.
var kinds = map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".LICENSE": "text/plain; charset=utf-8"}

// assets are made when the first page is.
var assets = sync.OnceValue(func() map[string]asset {
	all := make(map[string]asset)
	for _, file := range must(assetFiles.ReadDir("assets")) {
		content := must(assetFiles.ReadFile("assets/" + file.Name()))
		sum := sha256.Sum256(content)
		all[file.Name()] = asset{kinds[path.Ext(file.Name())], content, hex.EncodeToString(sum[:6])}
	}
	return all
})

// must is for what is in the binary.
func must[T any](v T, err error) T {
	if err != nil {
		panic("dashboard: bug: " + err.Error())
	}
	return v
}

func serveAsset(w http.ResponseWriter, r *http.Request) error {
	a, found := assets()[path.Base(r.URL.Path)]
	if !found {
		return problem{http.StatusNotFound, "there is no such file"}
	}
	if r.URL.Query().Get("v") == a.version {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	send(w, r, http.StatusOK, a.kind, a.content)
	return nil
}

// worthSqueezing is where gzip begins to save a packet.
const worthSqueezing = 1400

// send sends an answer that is all there.
func send(w http.ResponseWriter, r *http.Request, status int, kind string, content []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Add("Vary", "Accept-Encoding")
	if len(content) > worthSqueezing && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(content) // to memory
		_ = z.Close()
		content = b.Bytes()
	}
	if r.Method == http.MethodHead {
		content = nil
	}
	serving.Send(w, status, content)
}
