package once

import (
	"slices"
	"sync"
)

// gates let one call at a time through under each name, from before it looks at the journal until
// it knows what became of what it wrote. A call that leaves without that knowledge leaves its gate
// open: the next one is inside when the outcome is known. A name takes memory only while a call
// uses it, or its outcome is open. No user code is called, and nothing waits but enter.
type gates struct {
	// mu guards what follows and the users of each gate. Nothing is called under
	// it.
	mu    sync.Mutex
	named map[string]*gate
	left  []*gate // by calls that did not learn their outcome; perhaps in use again
}

// gate is one name. It exists while a call uses it, or an outcome is open.
type gate struct {
	name  string
	turn  chan struct{} // holds a token while a call is inside
	users int           // inside, or waiting

	// The outcome that the last one inside did not learn; nil: it did. It belongs
	// to the call that is inside, or to mu when no call uses the gate.
	outcome <-chan struct{}
}

// enter waits until no call is inside and the last outcome is known, or until one of the channels
// is closed: nil then.
func (s *gates) enter(name string, over, lost <-chan struct{}) *gate {
	g := s.use(name)
	select {
	case g.turn <- struct{}{}:
	case <-over:
		s.quit(g)
		return nil
	}
	if g.outcome == nil {
		return g
	}
	select {
	case <-g.outcome:
		g.outcome = nil
		return g
	case <-over:
	case <-lost:
	}
	s.leave(g)
	return nil
}

// tryEnter is enter for a caller that has no need to. Nil: another one uses the
// gate.
func (s *gates) tryEnter(name string) *gate {
	g := s.use(name)
	select {
	case g.turn <- struct{}{}:
	default:
		s.quit(g)
		return nil
	}
	if g.outcome != nil {
		s.leave(g)
		return nil
	}
	return g
}

// leave lets the next one in.
func (s *gates) leave(g *gate) {
	<-g.turn
	s.quit(g)
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
	if g.outcome == nil {
		delete(s.named, g.name)
	} else if !slices.Contains(s.left, g) {
		s.left = append(s.left, g)
	}
}

// sweep forgets the gates whose outcome is known by now. The caller holds mu.
func (s *gates) sweep() {
	s.left = slices.DeleteFunc(s.left, func(g *gate) bool {
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
