//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal/postgres"
	"github.com/strandjobs/strand/journal/postgres/dashboard"
)

var numbersConfig = executor.QueueConfig[int]{
	// An id's job has a lease while it runs, for the sake of its token: see counting.run.
	Conditions: executor.Conditions[int]{
		Unique: executor.Unique[int]{Key: func(id string, _ int) string { return id }},
	},
	// The server may be away for a while. A number is not given up then: those behind it have to wait.
	MaxRetries: 1 << 20,
	RetryIn:    func(n int) time.Duration { return 20 * time.Millisecond << min(n, 6) },
}

// serve is a node: all there is to take part. It takes numbers over HTTP, for whichever partition, and runs the jobs of
// the partitions that it owns, until ctx ends. At its address are pages for people, and figures for Prometheus.
func serve(ctx context.Context, cfg config) error {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", cfg.node)
	if !cfg.log {
		logger = slog.New(slog.DiscardHandler)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	at, err := url.Parse(cfg.url)
	if err != nil {
		return err
	}
	query := at.Query()
	query.Set("application_name", fmt.Sprintf("%s, process %d", cfg.node, os.Getpid())) // for pg_stat_activity
	at.RawQuery = query.Encode()
	setup, figures, err := observe()
	if err != nil {
		return err
	}
	x, err := postgres.Open(ctx, at.String(), postgres.Config{
		Name:         cfg.node,
		Lease:        cfg.lease,
		SingleServer: !strings.Contains(at.Host, ","), // one on your laptop; with a standby, leave that out
		Executor:     executor.Config{Workers: 4, StopTimeout: 5 * time.Second, Logger: logger},
		Setup:        setup,
	})
	if err != nil {
		return err
	}
	node := postgres.NodeOf(x)
	stats, err := node.Stats(ctx)
	if err != nil {
		return err
	}
	db, err := pgxpool.New(ctx, at.String())
	if err != nil {
		return err
	}
	defer db.Close()

	counting := &counting{db: db, node: stats.Node, partitionOf: node.PartitionOf}
	numbers, err := executor.Handle(x, "numbers", watched(counting.run), numbersConfig)
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.HandleFunc("PUT /{id}/{number}", accept(numbers))
	if cfg.deploy {
		extra, err := handleExtra(x, counting)
		if err != nil {
			return err
		}
		mux.HandleFunc("PUT /extra/{id}/{number}", accept(extra))
	}
	mux.Handle("GET /metrics", figures)
	mux.Handle("/", dashboard.Handler(x, dashboard.Config{}))
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()

	// The process that started this one reads where it is, and holds its stdin open for as long as it lives itself.
	fmt.Println(stats.Node, listener.Addr())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return x.Run(ctx)
}

// accept enqueues what is called.
func accept(queue *executor.Queue[int]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		number, err := strconv.Atoi(r.PathValue("number"))
		if err == nil {
			_, err = queue.Enqueue(r.Context(), r.PathValue("id"), number)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

// watched has a handler tell the process that started this one when its context has ended.
func watched(handler func(context.Context, executor.Job[int]) error) func(context.Context, executor.Job[int]) error {
	return func(ctx context.Context, job executor.Job[int]) error {
		err := handler(ctx, job)
		if ctx.Err() != nil {
			fmt.Println("cancelled")
		}
		return err
	}
}
