package shard

import "github.com/strandjobs/strand/journal"

// entryReader reads what lanes stand for. An entry may have left memory, and then
// the disk may fail. The first error sticks: from then on nothing that is read
// means anything, and the core hands out, merges and records nothing any more.
type entryReader struct{ err error }

// read decodes an entry into e, and reports whether it could.
func (r *entryReader) read(ref journal.Ref, e *journal.Entry) bool {
	r.fail(ref.Read(e))
	return r.err == nil
}

// id returns the id of an entry.
func (r *entryReader) id(ref journal.Ref) []byte {
	id, err := ref.ID()
	r.fail(err)
	return id
}

func (r *entryReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}
