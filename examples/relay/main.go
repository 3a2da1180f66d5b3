// Relay is a web service with Strand inside: it takes webhooks in, answers when they are on disk, and delivers
// those of a customer one after the other, each until it has arrived.
//
//	go run ./examples/relay -to https://example.com/hooks
//	curl -d '{"paid": true}' -H 'Idempotency-Key: 1' localhost:8080/webhooks/customer-7
//	curl localhost:8080/stats
//
// A sender that gets no answer, or one of 500 and above, sends the same webhook again, with the same key.
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
	"syscall"
	"time"

	"github.com/strandjobs/strand/executor"
)

func main() {
	listen := flag.String("listen", "localhost:8080", "`address` to listen on")
	journal := flag.String("journal", "webhooks.strand", "`directory` of the journal")
	to := flag.String("to", "", "`URL` that the webhooks are delivered to, with ?customer=")
	flag.Parse()
	if *to == "" || flag.NArg() > 0 {
		fmt.Fprintln(flag.CommandLine.Output(), "relay: -to is missing, or there are other arguments:", flag.Args())
		flag.Usage()
		os.Exit(2)
	}
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, restore) // the second signal ends the process at once
	if err := run(ctx, *listen, *journal, *to); err != nil {
		slog.Error("relay failed", "error", err)
		os.Exit(1)
	}
}

// stopTime is how long requests and deliveries have to end.
const stopTime = 20 * time.Second

// run serves until ctx ends or the journal fails. What is left then, the next start goes on with.
func run(ctx context.Context, listen, journal, to string) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	x, err := executor.Open(journal, executor.Config{OnFatal: fail})
	if err != nil {
		return err
	}
	s, err := newService(x, to)
	if err == nil {
		err = s.serve(ctx, listen)
	}
	// Not before serve has returned: first those who bring work, then those who do it.
	grace, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	return errors.Join(err, x.Stop(grace))
}

// serve answers requests until ctx ends, and then those that are under way.
func (s *service) serve(ctx context.Context, listen string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	if err := s.x.Start(ctx); err != nil {
		return errors.Join(err, l.Close())
	}
	slog.Info("ready", "address", l.Addr().String())
	server := http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return server.Shutdown(grace)
}
