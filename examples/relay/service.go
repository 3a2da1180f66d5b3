package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/strandjobs/strand/executor"
)

// webhook is what is written down of a request.
type webhook struct {
	Key  string // the sender's, which the receiver gets, too
	Type string // of Body
	Body []byte
}

// maxBody is the largest webhook. Written down it is a third larger, which is within Config.Advanced.MaxPayloadBytes.
const maxBody = 512 << 10

type service struct {
	x        *executor.Executor
	webhooks *executor.Queue[webhook]
	to       *url.URL
	client   http.Client
}

// newService registers what runs in the background.
func newService(x *executor.Executor, to string) (s *service, err error) {
	s = &service{x: x}
	if s.to, err = url.Parse(to); err != nil || s.to.Host == "" {
		return nil, fmt.Errorf("-to is %q, it must be a URL like https://example.com/hooks", to)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 20 // there is one host, and Go keeps two connections to it
	s.client.Transport = transport
	s.webhooks, err = executor.Handle(x, "webhooks", s.deliver, executor.QueueConfig[webhook]{
		Timeout: 10 * time.Second,
		RetryIn: retryIn,
	})
	return s, err
}

// retryIn is for a customer whose next webhooks wait meanwhile: a hiccup is over in a moment, and what is no hiccup
// takes minutes, hours, and in the end days.
func retryIn(n int) time.Duration {
	if n < 6 {
		return 50 * time.Millisecond << n
	}
	return executor.RetryIn(n - 6)
}

func (s *service) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /webhooks/{customer}", s.receive)
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /stats", s.stats)
	return mux
}

// receive answers when the webhook is on disk: from then on it is delivered, whatever happens to this process.
func (s *service) receive(w http.ResponseWriter, r *http.Request) {
	customer, key := r.PathValue("customer"), r.Header.Get("Idempotency-Key")
	if key == "" {
		http.Error(w, "the header Idempotency-Key is missing", http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	hook := webhook{Key: key, Type: r.Header.Get("Content-Type"), Body: body}
	// Two customers may send the same key.
	receipt, err := s.webhooks.Enqueue(r.Context(), customer, hook, executor.IdempotencyKey(customer+"/"+key))
	if err != nil {
		http.Error(w, err.Error(), statusOf(err))
		return
	}
	answer(w, http.StatusAccepted, map[string]any{"position": receipt.Position, "duplicate": receipt.Duplicate})
}

// statusOf says whether it helps to send the webhook again: at 503 it does, and the key keeps it from being delivered
// twice if it was accepted after all.
func statusOf(err error) int {
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case large, errors.Is(err, executor.ErrTooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, executor.ErrInvalidID), errors.Is(err, executor.ErrInvalidKey):
		return http.StatusBadRequest
	}
	return http.StatusServiceUnavailable // the disk is full, the service stops, the sender has gone
}

// deliver brings one webhook to its receiver. Those of the same customer that came later wait behind it.
func (s *service) deliver(ctx context.Context, job executor.Job[webhook]) error {
	to := *s.to
	to.RawQuery = url.Values{"customer": {job.ID}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(job.Payload.Body))
	if err != nil {
		return executor.Cancel(err)
	}
	request.Header.Set("Content-Type", job.Payload.Type)
	request.Header.Set("Idempotency-Key", job.Payload.Key) // it may come again after a crash
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxBody)) // so that the connection can be used again
	switch code := response.StatusCode; {
	case code < 300:
		return nil
	case code == http.StatusTooManyRequests:
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil { // no failure: it spends no retry
			return executor.Throttled(time.Duration(min(seconds, 3600))*time.Second, errors.New(response.Status))
		}
	case code < 500 && code != http.StatusRequestTimeout:
		return executor.Cancel(errors.New(response.Status)) // it would not be taken tomorrow either: to the morgue
	}
	return errors.New(response.Status) // again, after retryIn
}

// health is for a balancer: 200 while webhooks can be taken in and delivered.
func (s *service) health(w http.ResponseWriter, _ *http.Request) {
	if err := s.x.Err(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (s *service) stats(w http.ResponseWriter, r *http.Request) {
	stats, err := s.x.Stats(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	answer(w, http.StatusOK, stats)
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		slog.Info("answer not sent", "error", err)
	}
}
