package dashboard

import (
	"crypto/rand"
	"slices"
	"strings"
	"sync"

	"github.com/strandjobs/strand/executor/inspect"
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

// said is what an action has done.
func (o *order) said(n int) string {
	names := map[string][2]string{"id": {"id", "ids"}, "prefix": {"prefix", "prefixes"}, "queue": {"queue", "queues"}, "job": {"job", "jobs"},
		"payload": {"payload", "payloads"}}[o.what()]
	count, is := plural(n, names[0], names[1]), "are"
	if n == 1 {
		is = "is"
	}
	if o.what() == "executor" {
		return map[Verb]string{Pause: "Everything is paused.", Resume: "The executor goes on."}[o.Verb]
	}
	if toggles := []Verb{Pause, Resume, PauseSchedule, ResumeSchedule}; n == 0 && slices.Contains(toggles, o.Verb) {
		return "Nothing was to be done: it was so before."
	}
	return map[Verb]string{
		Pause: count + " " + is + " paused.", Resume: count + " resumed.", RunNow: count + " " + is + " due now.", RetryNow: count + " " + is + " due now.",
		Cancel: count + " cancelled: in the morgue, or there when the handler returns.", Delete: count + " deleted.",
		KillFailed: count + " sent to the morgue.", DeleteFailed: count + " deleted.",
		Requeue: o.saidBack(n), DeleteDead: count + " deleted from the morgue.",
		Unlock: "The key is unlocked.", Trigger: "The schedule was triggered.",
		PauseSchedule: "The schedule is paused.", ResumeSchedule: "The schedule goes on.",
	}[o.Verb]
}

// saidBack is what a Requeue has done.
func (o *order) saidBack(n int) string {
	back := inspect.Requeued{Back: n}
	if o.back != nil {
		back = *o.back
	}
	said := back.String()
	first, rest, more := strings.Cut(said, ";")
	if more {
		rest = ";" + rest
	}
	return first + " in the queue" + rest + "."
}
