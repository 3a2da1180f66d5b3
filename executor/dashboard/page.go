package dashboard

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"path"
	"sync"
	"time"
)

//go:embed pages
var pageFiles embed.FS

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
}

// May reports whether the request may do something with what the page is about.
func (p page) May(verb string) bool { return p.Can[Verb(verb)] }

// MayAny reports whether it may do anything with it.
func (p page) MayAny() bool {
	for _, may := range p.Can {
		if may {
			return true
		}
	}
	return false
}

// menu are the pages that each page leads to.
func menu() []struct{ Name, Href string } {
	return []struct{ Name, Href string }{
		{"Overview", "./"}, {"Running", "running"}, {"Locks", "locks"}, {"Schedules", "schedules"}, {"Journal", "journal"},
	}
}

// templates are the pages by name, each with the frame around it.
var templates = sync.OnceValue(func() map[string]*template.Template {
	frame := template.Must(template.New("frame").Funcs(shown).ParseFS(pageFiles, "pages/frame.html", "pages/parts.html"))
	all := make(map[string]*template.Template)
	files, err := pageFiles.ReadDir("pages")
	if err != nil {
		panic("dashboard: bug: " + err.Error()) // they are in the binary
	}
	for _, file := range files {
		all[file.Name()] = template.Must(template.Must(frame.Clone()).ParseFS(pageFiles, path.Join("pages", file.Name())))
	}
	return all
})

// show sends a page. It is made in memory first: a client that does not read holds
// nothing but that.
func (h *handler) show(w http.ResponseWriter, r *http.Request, status int, name string, p page) error {
	p.Site, p.Now = h.cfg.Title, time.Now()
	if p.ReadOnly = h.readOnly; status != http.StatusForbidden { // who may not look is told nothing
		if err := h.x.Err(); err != nil {
			p.Health = err.Error()
		}
		p.Paused, _ = h.x.Inspect().Paused()
		p.Notice = h.notices.take(r.URL.Query().Get("done"))
	}
	var b bytes.Buffer
	if err := templates()[name].ExecuteTemplate(&b, "frame", p); err != nil {
		return err
	}
	send(w, r, status, "text/html; charset=utf-8", b.Bytes(), func() []byte { return squeeze(b.Bytes()) })
	return nil
}
