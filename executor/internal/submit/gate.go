package submit

import "sync"

// gates let one call at a time through under each name, from before it looks at the journal until it
// is known what became of what it wrote. A name takes memory only meanwhile. No user code is called,
// and nothing waits but enter.
type gates struct {
	// mu guards what follows and the users of each gate. Nothing is called under it.
	mu    sync.Mutex
	named map[string]*gate
}

// gate is one name. It exists while a call uses it.
type gate struct {
	name  string
	turn  chan struct{} // holds a token while a call is inside
	users int           // inside, or waiting
}

// enter waits until no call is inside, or until one of the channels is closed: nil then.
func (s *gates) enter(name string, over, lost <-chan struct{}) *gate {
	g := s.use(name)
	select {
	case g.turn <- struct{}{}:
		return g
	case <-over:
	case <-lost:
	}
	s.quit(g)
	return nil
}

// tryEnter is enter for a caller that has no need to. Nil: another one uses the gate.
func (s *gates) tryEnter(name string) *gate {
	g := s.use(name)
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

func (s *gates) use(name string) *gate {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	if g.users--; g.users == 0 {
		delete(s.named, g.name)
	}
}
