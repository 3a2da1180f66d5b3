// Package dashboard shows a node of package postgres in a browser: which partitions there are,
// who owns them, what waits in their inboxes, and, for those that the node owns itself, the
// pages of executor/dashboard.
//
//	mux.Handle("/strand/", http.StripPrefix("/strand", dashboard.Handler(node, dashboard.Config{})))
//
//	GET /        the nodes, the partitions, and what keeps this node from serving
//	    /p/3/    the pages of partition 3, with its API, or where they are
//
// Partitions come and go: a page of one that has gone says where it is now, as far as the server
// tells. While that does not answer, the list has the node's own partitions, with status 503.
//
// The list has names of nodes and figures, and nothing of jobs. Config.Executor.Authorize is
// asked for View before it is made, as for the other pages; Hosts and TrustedOrigins are of
// those only.
package dashboard

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
	"github.com/strandjobs/strand/journal/postgres"
)

// Config of the pages of a node. The zero Config is usable: read-only, without payloads.
type Config struct {
	// Executor is that of the pages of each partition. Prefix is not heeded.
	Executor dashboard.Config

	// Address returns the URL of the list of another node, ending in a slash, by its name,
	// which is postgres.Config.Name; "": it is not known. Any goroutine calls it; a panic is
	// logged. Default: none is known.
	Address func(name string) string
}

// Handler returns the pages of a node, to be mounted at the root, or with [http.StripPrefix].
// It may be called before Start; any goroutine may serve with it.
func Handler(n *postgres.Node, cfg Config) http.Handler {
	cfg.Executor.Prefix = ""
	h := &handler{n: n, cfg: cfg, pages: make(map[int]pages), log: cmp.Or(cfg.Executor.Logger, slog.Default())}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.list)
	mux.HandleFunc("/p/{partition}/", h.partition)
	mux.HandleFunc("GET /p/{partition}", below)
	return mux
}

type handler struct {
	n   *postgres.Node
	cfg Config
	log *slog.Logger

	mu    sync.Mutex
	pages map[int]pages // of partitions that the node owned when it was last asked for one
}

// pages are those of one ownership.
type pages struct {
	x *executor.Executor
	http.Handler
}

// below adds the slash. The address is relative: nobody knows below which path this is mounted.
func below(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Location", "./"+url.PathEscape(r.PathValue("partition"))+"/")
	w.WriteHeader(http.StatusTemporaryRedirect)
}

// partition serves the pages of a partition, if the node owns it.
func (h *handler) partition(w http.ResponseWriter, r *http.Request) {
	number, err := strconv.Atoi(r.PathValue("partition"))
	if err == nil && strconv.Itoa(number) != r.PathValue("partition") {
		err = strconv.ErrSyntax // one page has one address
	}
	owned := h.n.Partitions()
	h.mu.Lock()
	maps.DeleteFunc(h.pages, func(number int, p pages) bool { return owned[number] != p.x })
	var p pages
	if x := owned[number]; err == nil && x != nil {
		if p = h.pages[number]; p.x == nil {
			p = pages{x, dashboard.Handler(x, h.cfg.Executor)}
			h.pages[number] = p
		}
	}
	h.mu.Unlock()
	if p.x == nil {
		h.show(w, r, http.StatusNotFound, r.PathValue("partition"))
		return
	}
	p.ServeHTTP(w, r)
}

func (h *handler) list(w http.ResponseWriter, r *http.Request) { h.show(w, r, http.StatusOK, "") }

// row is a partition of the list.
type row struct {
	postgres.PartitionStats
	Own  bool
	Link string // to the list of the owner; empty: it is not known
}

//go:embed list.html
var text string

var page = template.Must(template.New("list").Parse(text))

// show shows the list; missing is the partition that was asked for in vain.
func (h *handler) show(w http.ResponseWriter, r *http.Request, status int, missing string) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	ctx, cancel := context.WithTimeout(r.Context(), timeout(h.cfg.Executor.PageTimeout))
	defer cancel()
	if err := h.ask(r.WithContext(ctx)); err != nil {
		refused := http.StatusForbidden
		if ctx.Err() != nil {
			refused = http.StatusServiceUnavailable
		}
		text := err.Error()
		http.Error(w, strings.ToValidUTF8(text[:min(len(text), mostError)], ""), refused)
		return
	}
	owned, rows := h.n.Partitions(), []row(nil) // without the server they are lost before long
	asking, cancel := context.WithTimeout(ctx, statsTime)
	defer cancel()
	stats, err := h.n.Stats(asking)
	if err != nil {
		status = http.StatusServiceUnavailable
	}
	for _, p := range stats.Partitions {
		each := row{PartitionStats: p, Own: owned[p.Partition] != nil}
		if each.Name != "" && h.cfg.Address != nil {
			each.Link = h.address(each.Name)
		}
		rows = append(rows, each)
	}
	if err != nil { // what is known without the server
		for _, number := range slices.Sorted(maps.Keys(owned)) {
			rows = append(rows, row{PartitionStats: postgres.PartitionStats{Partition: number}, Own: true})
		}
	}
	none := err == nil && !slices.ContainsFunc(rows, func(r row) bool { return strconv.Itoa(r.Partition) == missing })
	var made bytes.Buffer
	if failed := page.Execute(&made, map[string]any{"Missing": missing, "None": none, "Stats": stats, "Rows": rows, "Away": err,
		"Trouble": h.n.Err(), "Title": cmp.Or(h.cfg.Executor.Title, "Strand")}); failed != nil {
		h.log.Error("the list of partitions can't be made", slog.Any("error", failed))
		http.Error(w, "the list can't be made: see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(made.Bytes()) // who asked may have gone
}

// statsTime is how long the server has for its answer.
const statsTime = 2 * time.Second

// mostError is how much of an error is shown.
const mostError = 4 << 10

// ask asks whether a request may look.
func (h *handler) ask(r *http.Request) (err error) {
	if h.cfg.Executor.Authorize == nil {
		return nil
	}
	defer h.contain("the authorizer of the dashboard panicked", func() {
		err = errors.New("whether this is allowed is not known: the authorizer failed")
	})
	err = h.cfg.Executor.Authorize(r, dashboard.Action{Verb: dashboard.View})
	if r.Context().Err() != nil {
		err = errors.New("whether this is allowed was not said within PageTimeout: the authorizer is slow")
	}
	return err
}

func (h *handler) address(name string) (link string) {
	defer h.contain("the function of addresses panicked", func() { link = "" })
	return h.cfg.Address(name)
}

// contain is deferred by what calls a function of the user's.
func (h *handler) contain(message string, otherwise func()) {
	if v := recover(); v != nil {
		h.log.Error(message, slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
		otherwise()
	}
}

func timeout(d time.Duration) time.Duration {
	if d <= 0 {
		return 10 * time.Second // as the pages of a partition
	}
	return d
}
