package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"time"
)

// What a server has room for.
const (
	maxConnections = 64
	maxCalls       = 16
	maxStreams     = 8
	maxRequest     = 1 << 20

	callTime  = 10 * time.Minute // a page of a long queue takes its time while there is work
	writeTime = 10 * time.Second
	sayTime   = 5 * time.Second // for a request, from its connection on
)

// Handler answers a call: it decodes its request by the function that it is given, and
// returns what is to be sent.
type Handler func(ctx context.Context, request func(v any) error) (any, error)

// Stream is a Handler that sends lines until ctx ends, or send says that the reader has
// gone.
type Stream func(ctx context.Context, request func(v any) error, send func(line any) error) error

// Verb makes a Handler of a function with types of the wire.
func Verb[Q, A any](f func(context.Context, Q) (A, error)) Handler {
	return func(ctx context.Context, request func(v any) error) (any, error) {
		var q Q
		if err := request(&q); err != nil {
			return nil, err
		}
		return f(ctx, q)
	}
}

// Server answers on a socket.
type Server struct {
	Verbs   map[string]Handler
	Streams map[string]Stream
	// Panicked is told of a handler that did.
	Panicked func(v any, stack []byte)

	crowd          *crowd
	calls, streams chan struct{}
	http           http.Server
	ctx            context.Context
	cancel         context.CancelFunc
	done           chan struct{}
}

// Serve answers on l until Close is called, on goroutines of its own. It is called once.
func (s *Server) Serve(l net.Listener) {
	s.calls, s.streams = make(chan struct{}, maxCalls), make(chan struct{}, maxStreams)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.done = make(chan struct{})
	s.crowd = newCrowd(maxConnections)
	s.http = http.Server{
		Handler:     http.HandlerFunc(s.serve),
		BaseContext: func(net.Listener) context.Context { return s.ctx },
		ConnState:   s.crowd.note,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		ReadHeaderTimeout: sayTime, ReadTimeout: sayTime, IdleTimeout: 30 * time.Second,
		MaxHeaderBytes: 8 << 10,
		ErrorLog:       log.New(io.Discard, "", 0), // what clients do wrong is theirs
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // until it is closed
	}()
}

// Close ends all calls and connections. It waits for no client and for no handler.
func (s *Server) Close() {
	s.cancel()
	_ = s.http.Close() // the listener's error is nobody's
	<-s.done
}

// connKey finds the connection of a request in its context.
type connKey struct{}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := read(w, r) // first of all: who says half of something is in nobody's way
	if err != nil {
		fail(w, http.StatusBadRequest, &failure{Message: err.Error()})
		return
	}
	s.crowd.said(r.Context().Value(connKey{}).(net.Conn))
	verb, ours := cutVersion(r.URL.Path)
	answer, stream := s.Verbs[verb], s.Streams[verb]
	switch {
	case !ours || answer == nil && stream == nil:
		fail(w, http.StatusNotFound, &failure{
			fmt.Sprintf("the process that has the journal knows no %.80q: it is of another version than this command", r.URL.Path), codeVersion,
		})
	case r.Method != http.MethodPost:
		fail(w, http.StatusMethodNotAllowed, &failure{Message: fmt.Sprintf("the method is %.20q, it must be POST", r.Method)})
	case stream != nil:
		s.enter(w, s.streams, func() { s.stream(w, r, body, stream) })
	default:
		s.enter(w, s.calls, func() { s.answer(w, r, body, answer) })
	}
}

func cutVersion(path string) (verb string, ok bool) {
	const prefix = "/" + version + "/"
	if len(path) <= len(prefix) || path[:len(prefix)] != prefix {
		return "", false
	}
	return path[len(prefix):], true
}

// enter calls f unless too many are at it.
func (s *Server) enter(w http.ResponseWriter, room chan struct{}, f func()) {
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
		f()
	default:
		fail(w, http.StatusServiceUnavailable, &failure{fmt.Sprintf("%d others are at it, which is the limit; try again", cap(room)), codeBusy})
	}
}

// answer sends what a handler returns: all of it is there before the first byte goes.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, body func(v any) error, f Handler) {
	ctx, cancel := context.WithTimeout(r.Context(), callTime)
	defer cancel()
	var v any
	err := s.contained(func() (err error) { v, err = f(ctx, body); return err })
	var text []byte
	if err == nil {
		text, err = json.Marshal(v)
	}
	if err != nil {
		s.refuse(w, err)
		return
	}
	limit(w)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // a reader that has gone needs no answer
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, body func(v any) error, f Stream) {
	sent := false
	flush := http.NewResponseController(w).Flush
	lines := json.NewEncoder(w)
	send := func(line any) error {
		sent = true
		limit(w) // anew for each line
		if line != nil {
			if err := lines.Encode(line); err != nil {
				return err
			}
		}
		return flush()
	}
	err := s.contained(func() error { return f(r.Context(), body, send) })
	if err != nil && !sent {
		s.refuse(w, err)
	}
}

// limit bounds the time that a reader may take for what is written next.
func limit(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
}

// read returns what decodes the request. It is read to its end: only then does the server
// hear of a client that goes.
func read(w http.ResponseWriter, r *http.Request) (func(v any) error, error) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		return nil, fmt.Errorf("the request could not be read: %w; it may have %d bytes", err, maxRequest)
	}
	return func(v any) error {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(v); err != nil {
			return &failure{Message: fmt.Sprintf("the request makes no sense: %v", err)}
		}
		if d.More() {
			return &failure{Message: "there is more behind the request"}
		}
		return nil
	}, nil
}

// contained calls a handler, whose panic is an error of its call.
func (s *Server) contained(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.Panicked(v, debug.Stack())
			err = fmt.Errorf("the call panicked: %.200v", v)
		}
	}()
	return f()
}

func (s *Server) refuse(w http.ResponseWriter, err error) {
	if f, ok := errors.AsType[*failure](err); ok {
		fail(w, http.StatusBadRequest, f)
		return
	}
	fail(w, http.StatusUnprocessableEntity, &failure{Message: err.Error()})
}

func fail(w http.ResponseWriter, status int, f *failure) {
	limit(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(f) // a reader that has gone needs no answer
}
