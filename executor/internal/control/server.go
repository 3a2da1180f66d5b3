package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/serving"
)

// What a server has room for.
const (
	maxConnections = 64
	maxLooks       = 8 * serving.Making // bytes of answers
	maxActs        = 8
	maxChores      = 2
	maxStreams     = 8
	maxRequest     = 1 << 20

	callTime = 10 * time.Minute // a page of a long queue takes its time while there is work
	sayTime  = 5 * time.Second  // for a request, from its connection on
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
	// Hello is the answer to VerbHello, for which there is always room.
	Hello Hello
	// Looks, Acts, Chores and Streams are what there is to call, each kind in a room of its own.
	Looks, Acts, Chores map[string]Handler
	Streams             map[string]Stream
	// Panicked is told of a handler that did.
	Panicked func(v any, stack []byte)

	crowd                        *crowd
	looks, acts, chores, streams *serving.Room
	http                         http.Server
	ctx                          context.Context
	cancel                       context.CancelFunc
	running                      sync.WaitGroup
}

// Serve answers on l until Close is called, on goroutines of its own. It is called once.
func (s *Server) Serve(l net.Listener) {
	s.looks, s.acts = serving.NewRoom(maxLooks), serving.NewRoom(maxActs)
	s.chores, s.streams = serving.NewRoom(maxChores), serving.NewRoom(maxStreams)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.crowd = &crowd{most: maxConnections, busy: make(map[net.Conn]bool)}
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
	s.running.Go(func() { _ = s.http.Serve(l) }) // until it is closed
}

// Close ends all calls and connections. It waits for no client and for no handler.
func (s *Server) Close() {
	s.cancel()
	_ = s.http.Close() // the listener's error is nobody's
	s.running.Wait()
}

// connKey finds the connection of a request in its context.
type connKey struct{}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	// It is read to its end first of all: who says half of something is in nobody's way, and
	// only then does the server hear of a client that goes.
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		refuse(w, failed(http.StatusBadRequest, "the request could not be read: %v; it may have %d bytes", err, maxRequest))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), callTime)
	defer cancel()
	verb, ours := strings.CutPrefix(r.URL.Path, "/"+version+"/")
	switch {
	case ours && r.Method != http.MethodPost:
		err = failed(http.StatusMethodNotAllowed, "the method is %.20q, it must be POST", r.Method)
	case ours && verb == VerbHello:
		err = send(w, http.StatusOK, s.Hello)
	case ours && s.Looks[verb] != nil:
		err = s.looks.Look(w, r.WithContext(ctx), func(w http.ResponseWriter) error {
			answer, err := s.call(ctx, text, s.Looks[verb])
			if err != nil {
				return err
			}
			return send(w, http.StatusOK, answer)
		})
	case ours && s.Acts[verb] != nil:
		err = s.act(ctx, w, text, s.acts, s.Acts[verb])
	case ours && s.Chores[verb] != nil:
		err = s.act(ctx, w, text, s.chores, s.Chores[verb])
	case ours && s.Streams[verb] != nil:
		err = s.streams.Act(r.Context(), func() error { return s.stream(w, r, text, s.Streams[verb]) })
	default:
		err = failed(http.StatusNotFound, "the process that has the journal knows no %.80q: it is of another version than this command", r.URL.Path)
	}
	if err != nil {
		refuse(w, err)
	}
}

// act does what has a place in a room, and says what came of it when it has left that.
func (s *Server) act(ctx context.Context, w http.ResponseWriter, text []byte, room *serving.Room, f Handler) error {
	var answer any
	err := room.Act(ctx, func() (err error) {
		answer, err = s.call(ctx, text, f)
		return err
	})
	if err != nil {
		return err
	}
	return send(w, http.StatusOK, answer)
}

// call has a handler answer.
func (s *Server) call(ctx context.Context, text []byte, f Handler) (answer any, err error) {
	defer s.crowd.at(ctx.Value(connKey{}).(net.Conn))()
	err = s.contained(func() (err error) {
		answer, err = f(ctx, decoder(text))
		return err
	})
	return answer, err
}

// stream sends lines as they come. After the first one an error ends it.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, text []byte, f Stream) error {
	defer s.crowd.at(r.Context().Value(connKey{}).(net.Conn))()
	sent := false
	flush := http.NewResponseController(w).Flush
	out := serving.Endless(w)
	line := func(line any) (err error) {
		var text []byte
		if sent = true; line != nil {
			text, err = admin.Encode(line)
			text = append(text, '\n')
		}
		if err == nil {
			_, err = out.Write(text)
		}
		return cmp.Or(err, flush())
	}
	if err := s.contained(func() error { return f(r.Context(), decoder(text), line) }); !sent {
		return err
	}
	return nil
}

// decoder returns what decodes a request.
func decoder(text []byte) func(v any) error {
	return func(v any) error {
		if err := admin.Decode(text, v); err != nil {
			return failed(http.StatusBadRequest, "the request makes no sense: %v", err)
		}
		return nil
	}
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

// failed is why there is no answer, with its status of HTTP.
func failed(status int, format string, args ...any) error {
	return &failure{Message: fmt.Sprintf(format, args...), status: status}
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusUnprocessableEntity
	if f, ok := errors.AsType[*failure](err); ok {
		status = f.status
	} else if errors.Is(err, serving.ErrBusy) {
		status = http.StatusServiceUnavailable
	}
	if err := send(w, status, failure{Message: err.Error()}); err != nil {
		panic("control: bug: " + err.Error()) // it is a text
	}
}

// send sends an answer: all of it is there before the first byte goes.
func send(w http.ResponseWriter, status int, answer any) error {
	text, err := admin.Encode(answer)
	if err == nil {
		w.Header().Set("Content-Type", "application/json")
		serving.Send(w, status, text)
	}
	return err
}

// crowd bounds the connections: those for which nothing is done make room for those that
// come after them. Fewer calls are worked on than there may be connections.
type crowd struct {
	most int

	mu    sync.Mutex
	quiet []net.Conn // that no call is on, the oldest first
	busy  map[net.Conn]bool
}

// note is told what becomes of connections. It closes the one that has to leave, if there are
// too many.
func (c *crowd) note(conn net.Conn, state http.ConnState) {
	if state == http.StateActive {
		return // there is the head of a request, and maybe no more
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(conn)
	if state == http.StateNew || state == http.StateIdle {
		c.quiet = append(c.quiet, conn)
		if len(c.quiet)+len(c.busy) > c.most {
			_ = c.quiet[0].Close() // it may have gone by itself
			c.quiet = c.quiet[1:]
		}
	}
}

// at is told of a connection with a call that is worked on, and returns what says that it
// is over: a client that does not read its answer makes room as one that says nothing.
func (c *crowd) at(conn net.Conn) (over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(conn)
	c.busy[conn] = true
	return func() { c.note(conn, http.StateIdle) }
}

func (c *crowd) drop(conn net.Conn) {
	if i := slices.Index(c.quiet, conn); i >= 0 {
		c.quiet = slices.Delete(c.quiet, i, i+1)
	}
	delete(c.busy, conn)
}
