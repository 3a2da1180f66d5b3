package admit

import "github.com/strandjobs/strand/executor/internal/brief"

// Owner is who holds, locks or waits: a job by its queue and id, all others by an
// ID alone. The zero value is anonymous, or a person who locks by hand. An owner
// counts as one sequential party.
type Owner struct{ Queue, ID string }

// String names an owner for people: queue/id, or the ID as it is.
func (o Owner) String() string {
	if o.Queue == "" {
		return o.ID
	}
	return brief.Job(o.Queue, o.ID)
}
