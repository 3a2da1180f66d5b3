package executor

import (
	"context"
	"slices"
	"sync"

	"github.com/strandjobs/strand/journal"
)

// gates let one call at a time through under each name, from before it looks
// at the journal until it knows what became of what it wrote.
type gates struct {
	// mu guards what follows and the users of each gate. Nothing is called
	// under it.
	mu    sync.Mutex
	named map[string]*gate
	left  []*gate // by calls that did not learn their outcome; perhaps in use again
}

// gate is one name. It exists while somebody uses it, or an outcome is open.
type gate struct {
	name  string
	turn  chan struct{} // holds a token while somebody is inside
	users int           // inside, or waiting

	// The outcome that the last one inside did not learn. They belong to the
	// one who is inside, or to mu when nobody uses the gate.
	open   bool
	ticket journal.Ticket
}

// enter waits until nobody is inside and the last outcome is known. It returns
// the cause of ctx, and ErrFailed when that outcome will never be known.
func (x *Executor) enter(ctx context.Context, name string) (*gate, error) {
	over := done(ctx) // not inside
	g := x.gates.use(name)
	select {
	case g.turn <- struct{}{}:
	case <-over:
		x.gates.quit(g)
		return nil, ended(ctx)
	}
	if !g.open {
		return g, nil
	}
	select {
	case <-g.ticket.Done():
		g.open = false
		return g, nil
	case <-over:
		x.gates.leave(g)
		return nil, ended(ctx)
	case <-x.failed:
		x.gates.leave(g)
		return nil, x.failure()
	}
}

// tryEnter is enter for one who has no need to. Nil: somebody uses the gate.
func (s *gates) tryEnter(name string) *gate {
	g := s.use(name)
	s.mu.Lock()
	alone := g.users == 1 && !g.open
	s.mu.Unlock()
	if !alone {
		s.quit(g)
		return nil
	}
	select {
	case g.turn <- struct{}{}:
		return g
	default:
		s.quit(g)
		return nil
	}
}

// leave lets the next one in.
func (s *gates) leave(g *gate) {
	<-g.turn
	s.quit(g)
}

// leaveOpen is leave for one who does not know what becomes of ticket.
func (s *gates) leaveOpen(g *gate, ticket journal.Ticket) {
	g.open, g.ticket = true, ticket
	s.leave(g)
}

func (s *gates) use(name string) *gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	g := s.named[name]
	if g == nil {
		g = &gate{name: name, turn: make(chan struct{}, 1)}
		if s.named == nil {
			s.named = make(map[string]*gate)
		}
		s.named[name] = g
	}
	g.users++
	return g
}

func (s *gates) quit(g *gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.users--; g.users > 0 {
		return
	}
	if !g.open {
		delete(s.named, g.name)
	} else if !slices.Contains(s.left, g) {
		s.left = append(s.left, g)
	}
}

// sweep forgets the gates whose outcome is known by now. The caller holds mu.
func (s *gates) sweep() {
	s.left = slices.DeleteFunc(s.left, func(g *gate) bool {
		if g.users > 0 || s.named[g.name] != g {
			return true // whoever uses it leaves it here again, or has forgotten it
		}
		select {
		case <-g.ticket.Done():
			delete(s.named, g.name)
			return true
		default:
			return false
		}
	})
}
