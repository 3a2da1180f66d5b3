//go:build unix

package main

import (
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
)

// proxy stands between the nodes and the server, to cut their connections.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	pairs map[[2]net.Conn]bool
}

// newProxy starts a proxy before the server at a URL, and returns its own.
func newProxy(server string) (p *proxy, through string, err error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, "", err
	}
	p = &proxy{target: u.Host, pairs: make(map[[2]net.Conn]bool)}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, "", err
	}
	go p.accept()
	u.Host = p.listener.Addr().String()
	return p, u.String(), nil
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		pair := [2]net.Conn{client, server}
		p.mu.Lock()
		p.pairs[pair] = true
		p.mu.Unlock()
		for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
			go func() {
				_, _ = io.Copy(way[0], way[1])
				p.end(pair)
			}()
		}
	}
}

func (p *proxy) end(pair [2]net.Conn) {
	_, _ = pair[0].Close(), pair[1].Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, pair)
}

// cut cuts each connection with a chance of a half: what is on its way is lost, in both directions.
func (p *proxy) cut() (count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pair := range p.pairs {
		if rand.IntN(2) == 0 {
			_, _ = pair[0].Close(), pair[1].Close()
			count++
		}
	}
	return count
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for pair := range p.pairs {
		_, _ = pair[0].Close(), pair[1].Close()
	}
}
