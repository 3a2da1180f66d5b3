package dashboard

import (
	"crypto/rand"
	"sync"
)

// notices are what pages will say of actions: each once, to who has its name. That is in
// the address where the browser goes next, and nobody can guess one: a link says nothing
// that was not done.
type notices struct {
	mu    sync.Mutex
	texts map[string]string
	names []string // in the order in which they were kept
}

// mostNotices is how many wait for their page: the latest ones.
const mostNotices = 256

// keep keeps a text, and returns its name.
func (n *notices) keep(text string) (name string) {
	name = rand.Text()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.texts == nil {
		n.texts = make(map[string]string)
	}
	n.texts[name] = text
	if n.names = append(n.names, name); len(n.names) > mostNotices {
		delete(n.texts, n.names[0])
		n.names = n.names[1:]
	}
	return name
}

// take returns the text of a name, once.
func (n *notices) take(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := n.texts[name]
	delete(n.texts, name)
	return text
}
