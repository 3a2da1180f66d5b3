package control

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/strandjobs/strand/executor/internal/admin"
	"github.com/strandjobs/strand/executor/internal/serving"
)

// ErrNobody is returned when no process answers on the socket of a journal.
var ErrNobody = errors.New("no process answers on the socket of the journal")

// errHungUp is returned when a stream ends: it has no end of its own.
var errHungUp = errors.New("the process has ended the connection: it has stopped, was killed, or had to wait " +
	serving.Stall.String() + " for this reader")

// connectTime is how long a client waits for a connection: nothing but the system is
// asked for it.
const connectTime = 2 * time.Second

// What an answer has at most, and a line of a stream: more than a page has with a payload of some
// tens of MiB, so that a peer that goes on for ever does not fill the memory.
const (
	maxAnswer = 128 << 20
	maxLine   = 1 << 20
)

// Client talks to the executor that has a journal. One goroutine uses it.
type Client struct {
	http http.Client
	wait time.Duration // for an answer
}

// Connect returns a client of the process that listens in a journal's directory, which
// has to answer within wait, each time. Calls return ErrNobody when there is none, and
// fs.ErrPermission when this user may not ask.
func Connect(dir string, wait time.Duration) *Client {
	dialer := &net.Dialer{Timeout: connectTime}
	return &Client{wait: wait, http: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, "unix", path(dir))
			switch {
			case errors.Is(err, fs.ErrPermission):
				return nil, fmt.Errorf("%w; ask as the user of the process that has the journal, or as root", err)
			case err != nil:
				return nil, fmt.Errorf("%w: %w", ErrNobody, err)
			}
			return conn, nil
		},
		DisableCompression: true,
	}}}
}

// Close lets go of the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call asks for one answer.
func Call[A any](ctx context.Context, c *Client, verb string, request any) (answer A, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.wait, fmt.Errorf("the process did not answer %s within %v", verb, c.wait))
	defer cancel()
	body, err := c.post(ctx, verb, request)
	if err != nil {
		return answer, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	switch {
	case err != nil:
		err = cutOff(err)
	case len(text) > maxAnswer:
		err = fmt.Errorf("it has more than %d bytes: this is no executor", maxAnswer)
	default:
		err = admin.Read(text, &answer)
	}
	if err != nil {
		return answer, told(ctx, fmt.Errorf("the answer to %s: %w", verb, err))
	}
	return answer, nil
}

// Follow calls f for each line of a stream, until f returns an error, or the process is
// gone.
func Follow[L any](ctx context.Context, c *Client, verb string, request any, f func(L) error) error {
	body, err := c.post(ctx, verb, request)
	if err != nil {
		return err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	for lines.Buffer(nil, maxLine); lines.Scan(); {
		var line L
		if err := admin.Read(lines.Bytes(), &line); err != nil {
			return told(ctx, err)
		}
		if err := f(line); err != nil {
			return err
		}
	}
	err = cmp.Or(lines.Err(), io.EOF)
	if _, broken := errors.AsType[*net.OpError](err); broken || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", errHungUp, err)
	}
	return told(ctx, err)
}

// post returns the body of a good answer.
func (c *Client) post(ctx context.Context, verb string, request any) (io.ReadCloser, error) {
	text, err := admin.Encode(request)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://strand/"+version+"/"+verb, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(r)
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err // its address is made up
	}
	if err != nil {
		return nil, told(ctx, cutOff(err))
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	f := &failure{}
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxRequest))
	if err == nil {
		err = admin.Read(said, f)
	}
	if err != nil || f.Message == "" {
		return nil, fmt.Errorf("the process answered %s with %s", verb, answer.Status)
	}
	return nil, f
}

// errCutOff is returned when the process, or its connection, has gone before it answered.
var errCutOff = errors.New("the process ended the connection before it answered: it has stopped, was killed, or has too many; " +
	"what it was asked to do may be done, look before you ask again")

// cutOff says so of an error that means it.
func cutOff(err error) error {
	at, broken := errors.AsType[*net.OpError](err)
	if broken && at.Op == "dial" || !broken && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return errCutOff
}

// told is why a call ended, in the words of who ended it.
func told(ctx context.Context, err error) error { return cmp.Or(context.Cause(ctx), err) }
