package admin

import (
	"maps"
	"time"

	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/each"
	"github.com/strandjobs/strand/journal"
)

// FirstAttempt is what makes a Retry the number of an attempt: the Retry of a job that has
// not failed is -1, and its attempt is the first.
const FirstAttempt = 2

// PayloadOf shows a payload of the journal. Its bytes are the journal's.
func PayloadOf(e *journal.Entry) inspect.PayloadInfo {
	return inspect.PayloadInfo{
		Position: uint64(e.Position), Score: e.Score, EnqueuedAt: time.Unix(0, e.AcceptedAt()), Restored: e.Restored,
		Metadata: MetadataOf(e), Bytes: len(e.Payload), Raw: e.Payload,
	}
}

// MetadataOf returns the metadata of a payload, nil if it has none.
func MetadataOf(e *journal.Entry) map[string]string {
	if len(e.Metadata) == 0 {
		return nil
	}
	return maps.Collect(e.Metadata.All())
}

// DeadOf shows a dead letter of a queue, as PayloadOf does its payload.
func DeadOf(queue string, b *journal.Buried) inspect.DeadPayload {
	return inspect.DeadPayload{
		Queue: queue, ID: string(b.Entry.ID), PayloadInfo: PayloadOf(&b.Entry), Attempt: b.Retry + FirstAttempt, Error: b.Reason,
		At: time.Unix(0, b.At), Failures: append([]inspect.Failure{}, FailuresOf(b.History, b.Reason)...),
	}
}

// FailuresOf are the last ones of a job, oldest first, of which last is the text of the newest.
func FailuresOf(h journal.History, last string) []inspect.Failure {
	return each.Of(h.Failures(last), func(f journal.Failure) inspect.Failure {
		return inspect.Failure{Attempt: f.Attempt, At: time.Unix(0, f.At), Error: f.Text}
	})
}

// PayloadsOf are those of a detail, in hand, waiting and dead.
func PayloadsOf(d *inspect.JobDetail) (all []*inspect.PayloadInfo) {
	for _, list := range [...][]inspect.PayloadInfo{d.InHand, d.Waiting} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	for i := range d.Dead {
		all = append(all, &d.Dead[i].PayloadInfo)
	}
	return all
}

// Hide takes from a payload what not everybody may see, bytes, metadata, and why it does not
// decode, and returns it as it was.
func Hide(p *inspect.PayloadInfo) (all inspect.PayloadInfo) {
	all = *p
	p.Raw, p.Clipped, p.Metadata, p.Value, p.Decode = nil, false, nil, nil, nil
	return all
}

// PreviewOf keeps the first 256 bytes of a payload, without metadata, as lists have it.
func PreviewOf(p inspect.PayloadInfo) inspect.PayloadInfo {
	const most = 256
	if p.Metadata = nil; len(p.Raw) > most {
		p.Raw, p.Clipped = p.Raw[:most], true
	}
	p.Raw = append([]byte{}, p.Raw...)
	return p
}
