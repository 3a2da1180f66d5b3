// Package gate lets one call at a time through under each name, from before it
// looks at the journal until it knows what became of what it wrote. A call that
// leaves without that knowledge leaves its gate open: the next one is inside when
// the outcome is known.
//
// A name takes memory only while a call uses it, or its outcome is open. No user
// code is called, and nothing here waits but Enter.
package gate

import (
	"errors"
	"slices"
	"sync"
)

var (
	// ErrQuit is returned to a caller who waits no longer.
	ErrQuit = errors.New("gate: the caller has gone")

	// ErrLost is returned when the last outcome will never be known.
	ErrLost = errors.New("gate: an outcome is lost")
)

// Gates are all gates by name. The zero Gates is ready for use.
type Gates struct {
	// mu guards what follows and the users of each gate. Nothing is called under
	// it.
	mu    sync.Mutex
	named map[string]*Gate
	left  []*Gate // by calls that did not learn their outcome; perhaps in use again
}

// Gate is one name. It exists while a call uses it, or an outcome is open.
type Gate struct {
	name  string
	turn  chan struct{} // holds a token while a call is inside
	users int           // inside, or waiting

	// The outcome that the last one inside did not learn; nil: it did. It belongs
	// to the call that is inside, or to mu when no call uses the gate.
	outcome <-chan struct{}
}

// Enter waits until no call is inside and the last outcome is known, or until one
// of the channels is closed: over by the caller, lost when outcomes are known no
// more. It returns ErrQuit or ErrLost then.
func (s *Gates) Enter(name string, over, lost <-chan struct{}) (*Gate, error) {
	g := s.use(name)
	select {
	case g.turn <- struct{}{}:
	case <-over:
		s.quit(g)
		return nil, ErrQuit
	}
	if g.outcome == nil {
		return g, nil
	}
	select {
	case <-g.outcome:
		g.outcome = nil
		return g, nil
	case <-over:
		s.Leave(g)
		return nil, ErrQuit
	case <-lost:
		s.Leave(g)
		return nil, ErrLost
	}
}

// TryEnter is Enter for a caller that has no need to. Nil: another one uses the
// gate.
func (s *Gates) TryEnter(name string) *Gate {
	g := s.use(name)
	s.mu.Lock()
	alone := g.users == 1 && g.outcome == nil
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

// Leave lets the next one in.
func (s *Gates) Leave(g *Gate) {
	<-g.turn
	s.quit(g)
}

// LeaveOpen is Leave for a caller who does not know the outcome, which is known
// once that channel is closed.
func (s *Gates) LeaveOpen(g *Gate, outcome <-chan struct{}) {
	g.outcome = outcome
	s.Leave(g)
}

// Len counts the names in use, and those whose outcome is open.
func (s *Gates) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.named)
}

func (s *Gates) use(name string) *Gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	g := s.named[name]
	if g == nil {
		g = &Gate{name: name, turn: make(chan struct{}, 1)}
		if s.named == nil {
			s.named = make(map[string]*Gate)
		}
		s.named[name] = g
	}
	g.users++
	return g
}

func (s *Gates) quit(g *Gate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.users--; g.users > 0 {
		return
	}
	if g.outcome == nil {
		delete(s.named, g.name)
	} else if !slices.Contains(s.left, g) {
		s.left = append(s.left, g)
	}
}

// sweep forgets the gates whose outcome is known by now. The caller holds mu.
func (s *Gates) sweep() {
	s.left = slices.DeleteFunc(s.left, func(g *Gate) bool {
		if g.users > 0 || s.named[g.name] != g {
			return true // the call that uses it leaves it here again, or has forgotten it
		}
		select {
		case <-g.outcome:
			delete(s.named, g.name)
			return true
		default:
			return false
		}
	})
}
