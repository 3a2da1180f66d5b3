// Service is a small web service as one would write it with Strand inside: it takes the events of orders in, answers
// when they are on disk, writes those of an order to SQLite one after the other, and sends mails. It has a dashboard,
// metrics and a health check. It is a module of its own, because it needs a database and an exporter.
//
//	cd examples/service && go run . -load 200
//	curl -d '{"kind": "created", "cents": 1200}' -H 'Idempotency-Key: 1' localhost:8080/orders/42
//	curl localhost:8080/orders/42
//
// Then look at http://localhost:8080/strand/, http://localhost:8080/metrics and http://localhost:8080/healthz. The
// dashboard is for everybody to look at; with -password it asks for that, and the user admin may change something.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/metrics"
)

// config is what the flags say.
type config struct {
	listen   string
	dir      string
	password string
	load     int
	backlog  int
}

func main() {
	var cfg config
	flag.StringVar(&cfg.listen, "listen", "localhost:8080", "`address` to listen on")
	flag.StringVar(&cfg.dir, "dir", "service.data", "`directory` of the journal and the database")
	flag.StringVar(&cfg.password, "password", "", "of the user admin, who alone may see the dashboard then, and change something; empty: everybody may look")
	flag.IntVar(&cfg.load, "load", 0, "`events` a second that the service sends to itself")
	flag.IntVar(&cfg.backlog, "backlog", 100_000, "`events` that may wait, before callers get 429")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(flag.CommandLine.Output(), "service: there are arguments that are no flags:", flag.Args())
		flag.Usage()
		os.Exit(2)
	}
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore) // the second signal ends the process at once
	if err := run(ctx, cfg, func(addr string) { slog.Info("ready", "url", "http://"+addr) }); err != nil {
		slog.Error("service failed", "error", err)
		os.Exit(1)
	}
}

// stopTime is how long requests and handlers have to end.
const stopTime = 20 * time.Second

// run serves until ctx ends or the journal fails. What is left then, the next start goes on with.
func run(ctx context.Context, cfg config, ready func(addr string)) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if err := os.MkdirAll(cfg.dir, 0o700); err != nil {
		return err
	}
	db, err := openStore(filepath.Join(cfg.dir, "orders.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	provider, scrape, err := newExporter()
	if err != nil {
		return err
	}
	m, err := metrics.New(metrics.Config{MeterProvider: provider})
	if err != nil {
		return err
	}
	x, err := executor.Open(filepath.Join(cfg.dir, "journal"), executor.Config{
		OnFatal: fail, ControlSocket: true, MaxBacklog: executor.BacklogLimit{Payloads: cfg.backlog}, Middleware: []executor.Middleware{m.Middleware()},
	})
	if err != nil {
		return err
	}
	s, err := newService(x, db)
	if err == nil {
		err = m.Observe(x)
	}
	if err == nil {
		err = s.serve(ctx, cfg, scrape, ready)
	}
	// Not before serve has returned: first those who bring work, then those who do it.
	grace, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	return errors.Join(err, x.Stop(grace))
}

// serve answers requests until ctx ends, and then those that are under way.
func (s *service) serve(ctx context.Context, cfg config, scrape http.Handler, ready func(addr string)) error {
	l, err := net.Listen("tcp", cfg.listen)
	if err != nil {
		return err
	}
	if err := s.x.Start(ctx); err != nil {
		return errors.Join(err, l.Close())
	}
	ready(l.Addr().String())
	server := http.Server{Handler: s.routes(cfg.password, scrape), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		load(ctx, "http://"+l.Addr().String(), cfg.load)
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	<-stopped
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return server.Shutdown(grace)
}
