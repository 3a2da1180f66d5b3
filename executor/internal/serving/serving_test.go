package serving

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Those who come first are let in first, those who give up leave their place in line, and
// nobody waits for longer than InLine.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRoom(10)
		first, err := r.Enter(t.Context(), 99)
		require.NoError(t, err, "what is larger than the room takes all of it")
		var mu sync.Mutex
		var names []string
		note := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			names = append(names, name)
		}
		in := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(names)
		}
		enter := func(name string, n int64, ctx context.Context) {
			go func() {
				switch share, err := r.Enter(ctx, n); {
				case err != nil:
					note(name + ": " + err.Error())
				default:
					note(name)
					time.Sleep(time.Second)
					share.Leave()
					share.Leave()
				}
			}()
			synctest.Wait()
		}
		gone, cancel := context.WithCancelCause(t.Context())
		enter("large", 10, t.Context())
		enter("gone", 1, gone)
		enter("small", 1, t.Context())
		require.Empty(t, in())
		cancel(errors.New("enough"))
		synctest.Wait()
		require.Equal(t, []string{"gone: enough"}, in())
		first.Resize(1)
		synctest.Wait()
		require.Len(t, in(), 1, "the large one stands in front of the small one")
		first.Leave()
		synctest.Wait()
		require.Equal(t, "large", in()[1])
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, "small", in()[2])

		time.Sleep(time.Second)
		first, err = r.Enter(t.Context(), 1)
		require.NoError(t, err)
		first.Resize(30) // it is larger than it was let in for
		began := time.Now()
		_, err = r.Enter(t.Context(), 1)
		require.ErrorIs(t, err, ErrBusy)
		require.Equal(t, InLine, time.Since(began))
		first.Leave()
		_, err = r.Enter(t.Context(), 10)
		require.NoError(t, err, "all of it is there again")
		small, err := NewRoom(1).Enter(gone, 1)
		require.NoError(t, err, "nobody has waited")
		small.Leave()
	})
}

// A client that takes nothing is cut off after Stall, one that takes a little at a time
// after Whole, and one that reads gets all.
func TestReaders(t *testing.T) {
	for name, c := range map[string]struct {
		pause, lives time.Duration
		whole        bool
	}{
		"takes nothing":  {time.Hour, Stall, false},
		"takes a little": {Stall - time.Second, Whole, false},
		"reads":          {time.Millisecond, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := NewRoom(Making)
			content := bytes.Repeat([]byte("x"), 20*piece)
			done := make(chan time.Duration, 1)
			began := time.Now()
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				assert.NoError(t, r.Look(w, req, func(w http.ResponseWriter) error { Send(w, http.StatusOK, content); return nil }))
				done <- time.Since(began)
			})}
			here, there := net.Pipe()
			l := make(one, 1)
			l <- there
			go func() { _ = server.Serve(l) }()
			_, err := io.WriteString(here, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			var client sync.WaitGroup
			client.Go(func() {
				lines := bufio.NewReaderSize(here, piece)
				if c.whole {
					answer, err := http.ReadResponse(lines, nil)
					assert.NoError(t, err)
					n, err := io.Copy(io.Discard, answer.Body)
					assert.NoError(t, err)
					assert.EqualValues(t, len(content), n)
					return
				}
				for {
					time.Sleep(c.pause)
					if _, err := io.ReadFull(lines, make([]byte, piece)); err != nil {
						return
					}
				}
			})
			require.Equal(t, c.lives, <-done, name)
			share, err := r.Enter(t.Context(), Making)
			require.NoError(t, err)
			share.Leave()
			require.NoError(t, server.Close())
			_ = here.Close()
			client.Wait()
		})
	}
}

// one is a listener in a bubble.
type one chan net.Conn

func (o one) Accept() (net.Conn, error) {
	if c, open := <-o; open {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (o one) Close() error { close(o); return nil }
func (one) Addr() net.Addr { return new(net.UnixAddr) }
