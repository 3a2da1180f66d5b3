//go:build unix

package postgres

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Proxy stands between clients and a server, and hurts their connections. Its methods may be
// called from any goroutine.
type Proxy struct {
	listener net.Listener
	target   atomic.Pointer[string]
	working  sync.WaitGroup

	mu    sync.Mutex
	rules rules
	pairs map[*pair]bool
	over  bool
}

// rules are what happens to what passes.
type rules struct {
	requests int64   // bytes to the server until a cut; below zero: no end
	swallow  bool    // answers do not pass
	cut      bool    // once an answer comes, its connection is cut instead
	refuse   bool    // new connections end
	hold     *holdUp // what has a text waits
	rate     int     // bytes in a second, on each connection and way; 0: as they come
}

// holdUp is for one piece of what is sent.
type holdUp struct {
	text           []byte
	held, released chan struct{}
}

type pair struct{ client, server net.Conn }

func (p *pair) close() {
	_ = p.client.Close()
	_ = p.server.Close()
}

// NewProxy starts a proxy before a server at host and port, until the end of the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{listener: l, rules: rules{requests: -1}, pairs: make(map[*pair]bool)}
	p.target.Store(&target)
	p.working.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
		p.Cut()
		p.working.Wait()
	})
	return p
}

// URL is that of the server, through the proxy.
func (p *Proxy) URL(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		panic(err)
	}
	u.Host = p.listener.Addr().String()
	return u.String()
}

// Target has new connections go to another server.
func (p *Proxy) Target(address string) { p.target.Store(&address) }

// Cut cuts all connections. New ones are let through.
func (p *Proxy) Cut() {
	p.mu.Lock()
	pairs := p.pairs
	p.pairs = make(map[*pair]bool)
	p.mu.Unlock()
	for c := range pairs {
		c.close()
	}
}

// CutAfter cuts the connection that sends the byte of that number from now on: it, and what
// comes after it, does not reach the server.
func (p *Proxy) CutAfter(bytes int64) { p.set(func(r *rules) { r.requests = bytes }) }

// CutAnswer cuts, once, the connection on which the next answer comes, which is lost: the
// server has done what it was asked.
func (p *Proxy) CutAnswer() { p.set(func(r *rules) { r.cut = true }) }

// Swallow has answers vanish, on connections that stay open.
func (p *Proxy) Swallow() { p.set(func(r *rules) { r.swallow = true }) }

// Throttle has no more bytes than that pass in a second, on each connection in each direction. It
// is for connections that are made after it, whose buffers are small then.
func (p *Proxy) Throttle(rate int) { p.set(func(r *rules) { r.rate = rate }) }

// Hold delays what has a text in it on the way to the server, and what comes after it on its
// connection, until it is released: then it arrives, whether its sender has gone or not. held is
// closed when it is there. It has to be released before the end of the test.
func (p *Proxy) Hold(text string) (held <-chan struct{}, release func()) {
	h := &holdUp{[]byte(text), make(chan struct{}), make(chan struct{})}
	p.set(func(r *rules) { r.hold = h })
	return h.held, func() { close(h.released) }
}

// Refuse has new connections end at once.
func (p *Proxy) Refuse() { p.set(func(r *rules) { r.refuse = true }) }

// Heal ends all that, and cuts the connections that were hurt.
func (p *Proxy) Heal() {
	p.set(func(r *rules) { *r = rules{requests: -1} })
	p.Cut()
}

func (p *Proxy) set(change func(*rules)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.rules)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", *p.target.Load())
		c := &pair{client, server}
		p.mu.Lock()
		if err != nil || p.rules.refuse || p.over {
			p.mu.Unlock()
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			continue
		}
		p.pairs[c] = true
		rate := p.rules.rate
		p.mu.Unlock()
		if rate > 0 {
			for _, end := range []net.Conn{client, server} {
				_ = end.(*net.TCPConn).SetReadBuffer(8 * slowBuffer)
			}
		}
		p.working.Go(func() { p.pass(c, client, server, p.request) })
		p.working.Go(func() { p.pass(c, server, client, p.answer) })
	}
}

// slowBuffer is what is read at a time from a connection that is slow.
const slowBuffer = 16 << 10

// pass copies until the connection is over. judge says how much of what came passes, and
// whether the connection is cut then.
func (p *Proxy) pass(c *pair, from, to net.Conn, judge func(n int) (pass int, cut bool)) {
	defer func() {
		c.close()
		p.mu.Lock()
		delete(p.pairs, c)
		p.mu.Unlock()
	}()
	buffer := make([]byte, 64<<10)
	for {
		p.mu.Lock()
		rate := p.rules.rate
		p.mu.Unlock()
		if rate > 0 {
			buffer = buffer[:slowBuffer]
		}
		n, err := from.Read(buffer)
		if from == c.client {
			p.wait(buffer[:n])
		}
		pass, cut := judge(n)
		if rate > 0 {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
		}
		if _, failed := to.Write(buffer[:pass]); failed != nil || err != nil || cut {
			return
		}
	}
}

// wait waits with what is to be held.
func (p *Proxy) wait(sent []byte) {
	p.mu.Lock()
	h := p.rules.hold
	if h == nil || !bytes.Contains(sent, h.text) {
		p.mu.Unlock()
		return
	}
	p.rules.hold = nil
	p.mu.Unlock()
	close(h.held)
	<-h.released
}

func (p *Proxy) request(n int) (pass int, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rules.requests < 0 {
		return n, false
	}
	if p.rules.requests >= int64(n) {
		p.rules.requests -= int64(n)
		return n, false
	}
	pass = int(p.rules.requests)
	p.rules.requests = -1
	return pass, true
}

func (p *Proxy) answer(n int) (pass int, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.rules.swallow:
		return 0, false
	case p.rules.cut && n > 0:
		p.rules.cut = false
		return 0, true
	}
	return n, false
}
