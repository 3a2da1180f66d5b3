//go:build unix

package main

import (
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
)

// proxy stands between a node and the server: it cuts connections, and holds what the node sends.
type proxy struct {
	listeners []net.Listener // one for each host of the server's URL
	gate      sync.RWMutex   // held for writing while what the node sends is

	mu    sync.Mutex
	pairs map[*pair]bool
}

type pair struct{ node, server *net.TCPConn }

func (p *pair) close() { _, _ = p.node.Close(), p.server.Close() }

// newProxy starts a proxy before the server at a URL, and returns its own.
func newProxy(server string) (p *proxy, through string, err error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, "", err
	}
	p = &proxy{pairs: make(map[*pair]bool)}
	var hosts []string
	for host := range strings.SplitSeq(u.Host, ",") {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.close()
			return nil, "", err
		}
		p.listeners, hosts = append(p.listeners, l), append(hosts, l.Addr().String())
		go p.accept(l, host)
	}
	u.Host = strings.Join(hosts, ",")
	return p, u.String(), nil
}

func (p *proxy) accept(l net.Listener, host string) {
	for {
		node, err := l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", host)
		if err != nil {
			_ = node.Close()
			continue
		}
		c := &pair{node.(*net.TCPConn), server.(*net.TCPConn)}
		p.mu.Lock()
		p.pairs[c] = true
		p.mu.Unlock()
		go p.send(c)
		go p.answer(c)
	}
}

// send passes what a node sends, once nothing is held: also when the node has gone meanwhile.
func (p *proxy) send(c *pair) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := c.node.Read(buffer)
		p.gate.RLock()
		//lint:ignore SA2001 it was open: that is all
		p.gate.RUnlock()
		if _, failed := c.server.Write(buffer[:n]); err != nil || failed != nil {
			_ = c.server.CloseWrite() // what came before is done all the same
			return
		}
	}
}

// answer passes what the server answers, and drops what no node waits for.
func (p *proxy) answer(c *pair) {
	_, _ = io.Copy(c.node, c.server)
	_, _ = io.Copy(io.Discard, c.server)
	c.close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, c)
}

// hold holds what the node sends, on all its connections, until release.
func (p *proxy) hold()    { p.gate.Lock() }
func (p *proxy) release() { p.gate.Unlock() }

// cut cuts each connection with a chance of a half: what is on its way is lost, in both directions.
func (p *proxy) cut() (count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		if rand.IntN(2) == 0 {
			c.close()
			count++
		}
	}
	return count
}

func (p *proxy) close() {
	for _, l := range p.listeners {
		_ = l.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.close()
	}
}
