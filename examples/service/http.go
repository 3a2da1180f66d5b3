package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/strandjobs/strand/executor"
)

// maxBody is the largest request.
const maxBody = 64 << 10

func (s *service) routes(password string, scrape http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{id}", s.receive)
	mux.HandleFunc("GET /orders/{id}", s.show)
	mux.HandleFunc("GET /healthz", s.health)
	mux.Handle("GET /metrics", scrape)
	mux.Handle("/strand/", s.dashboard(password))
	mux.Handle("GET /{$}", http.RedirectHandler("/strand/", http.StatusSeeOther))
	return mux
}

// receive answers when the event is on disk: from then on it is applied, whatever happens to this process.
func (s *service) receive(w http.ResponseWriter, r *http.Request) {
	e := accepted{ID: rand.Text()}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	body.DisallowUnknownFields()
	if err := body.Decode(&e.event); err != nil {
		refuse(w, fmt.Errorf("the body is no event like {\"kind\": \"created\", \"cents\": 1200}: %w", err))
		return
	}
	if _, known := next[e.Kind]; !known || e.Cents < 0 {
		refuse(w, fmt.Errorf("kind is %q and cents are %d: it is one of created, paid, shipped and cancelled, and they are not below zero", e.Kind, e.Cents))
		return
	}
	id := r.PathValue("id")
	var options []executor.Option
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		e.ID = id + "/" + key // two senders may use the same one
		options = append(options, executor.IdempotencyKey(e.ID))
	}
	receipt, err := s.orders.Enqueue(r.Context(), id, e, options...)
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, http.StatusAccepted, map[string]any{"position": receipt.Position, "duplicate": receipt.Duplicate, "durable": receipt.Durable})
}

// refuse says what is wrong, and whether and when it helps to send the event again. With the same key it is not applied
// twice, if it was accepted after all.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusBadRequest
	full, isFull := errors.AsType[*executor.FullError](err)
	_, isLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case isFull && !full.Disk: // too much waits
		status = http.StatusTooManyRequests
	case isLarge, errors.Is(err, executor.ErrTooLarge):
		status = http.StatusRequestEntityTooLarge
	case isFull, errors.Is(err, executor.ErrClosed), errors.Is(err, executor.ErrFailed), errors.Is(err, executor.ErrUnknown):
		status = http.StatusServiceUnavailable
	}
	if isFull {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(full.RetryAfter.Seconds()))))
	} else if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	answer(w, status, map[string]any{"error": err.Error()})
}

// show says how an order stands, and whether there is more to come for it.
func (s *service) show(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	pending, err := s.orders.Pending(r.Context(), id) // before the database: what ends meanwhile is in there
	if err != nil {
		refuse(w, err)
		return
	}
	state, cents, err := find(r.Context(), s.db.db, id)
	if err != nil {
		answer(w, http.StatusServiceUnavailable, map[string]any{"error": err.Error()})
		return
	}
	status := http.StatusOK
	if state == "" && !pending {
		status = http.StatusNotFound
	}
	answer(w, status, map[string]any{"id": id, "state": state, "cents": cents, "pending": pending})
}

// health is for a balancer: 200 while events can be applied. A backlog that is full makes no
// difference until it stands still for a minute: callers get 429, and another instance could
// not take in their events, which belong to this one's journal.
func (s *service) health(w http.ResponseWriter, _ *http.Request) {
	if err := s.x.Err(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(value); err != nil {
		slog.Info("answer not sent", "error", err, "at", time.Now())
	}
}
