// Package dashboard shows an executor of package postgres in a browser: which partitions there
// are, who owns them, what waits in their inboxes, and the pages of executor/dashboard for the
// jobs of all of them, whichever node has the browser.
//
//	mux.Handle("/strand/", http.StripPrefix("/strand", dashboard.Handler(x, dashboard.Config{})))
//
//	GET /        the nodes, the partitions, and what keeps this node from serving
//	    /jobs/   queues and jobs of all partitions, with the API of executor/dashboard
//
// The pages of jobs ask the owners of all partitions, and wait for one that has none, until
// Config.PageTimeout. While the server does not answer, the list has the node's own partitions,
// with status 503.
//
// The list has names of nodes and figures, and nothing of jobs. Config.Authorize is asked for
// View before it is made, as for the other pages; Hosts and TrustedOrigins are of those only.
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
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
	"github.com/strandjobs/strand/journal/postgres"
)

// Config of the pages; Prefix is not heeded. The zero Config is usable: read-only, without payloads.
type Config = dashboard.Config

// Handler returns the pages of an executor of postgres.Open, to be mounted at the root, or with [http.StripPrefix]; any
// other executor has the pages of jobs alone. It may be called before Start; any goroutine may serve with it.
func Handler(x *executor.Executor, cfg Config) http.Handler {
	cfg.Prefix = ""
	h := &handler{x: x, n: postgres.NodeOf(x), cfg: cfg, log: cmp.Or(cfg.Logger, slog.Default())}
	mux := http.NewServeMux()
	list, jobs := h.list, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "./jobs/") // relative: nobody knows below which path this is mounted
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
	if h.n == nil {
		list = jobs
	}
	mux.HandleFunc("GET /{$}", list)
	mux.HandleFunc("GET /jobs", jobs)
	mux.Handle("/jobs/", http.StripPrefix("/jobs", dashboard.Handler(x, cfg)))
	return mux
}

type handler struct {
	x   *executor.Executor
	n   *postgres.Node
	cfg Config
	log *slog.Logger
}

//go:embed list.html
var text string

var page = template.Must(template.New("list").Parse(text))

// list shows the partitions.
func (h *handler) list(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	ctx, cancel := context.WithTimeout(r.Context(), cmp.Or(max(h.cfg.PageTimeout, 0), pageTime))
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
	status, owned := http.StatusOK, h.n.Partitions() // without the server they are lost before long
	asking, cancel := context.WithTimeout(ctx, statsTime)
	defer cancel()
	stats, err := h.n.Stats(asking)
	if err != nil { // what is known without the server
		status, stats.Partitions = http.StatusServiceUnavailable, nil
		for _, number := range slices.Sorted(maps.Keys(owned)) {
			stats.Partitions = append(stats.Partitions, postgres.PartitionStats{Partition: number})
		}
	}
	var made bytes.Buffer
	if failed := page.Execute(&made, map[string]any{"Stats": stats, "Own": owned, "Away": err,
		"Trouble": h.x.Err(), "Title": cmp.Or(h.cfg.Title, "Strand")}); failed != nil {
		h.log.Error("the list of partitions can't be made", slog.Any("error", failed))
		http.Error(w, "the list can't be made: see the log", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(made.Bytes()) // who asked may have gone
}

const (
	pageTime  = 10 * time.Second // is that of the pages of jobs
	statsTime = 2 * time.Second  // is how long the server has for its answer
	mostError = 4 << 10          // is how much of an error is shown
)

// ask asks whether a request may look.
func (h *handler) ask(r *http.Request) (err error) {
	if h.cfg.Authorize == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			h.log.Error("the authorizer of the dashboard panicked", slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
			err = errors.New("whether this is allowed is not known: the authorizer failed")
		}
	}()
	err = h.cfg.Authorize(r, dashboard.Action{Verb: dashboard.View})
	if r.Context().Err() != nil {
		err = errors.New("whether this is allowed was not said within PageTimeout: the authorizer is slow")
	}
	return err
}
