package rest

import (
	"maps"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/strandjobs/strand/journal/internal/wal"
)

// findLog takes the records that stand on the end mark, and moves it to where they end.
func (r *rescue) findLog() {
	if r.manifest.Log == 0 {
		return
	}
	lost := func(cause error) {
		r.lose(0, "%s; some of what was accepted last may be missing", reasonOf(cause))
		r.skip = slackAfterLoss
	}
	f, err := directory.OpenFile(r.log)
	if err != nil {
		lost(err)
		return
	}
	defer f.Close()
	err = wal.Read(f, r.manifest.Log, r.manifest.Records, r.manifest.Encode(), func(record []byte) error {
		t, err := store.ParseRecord(record)
		if err != nil {
			lost(err)
			return nil
		}
		r.late[t.Seq] = t.Block
		r.edits = append(r.edits, t.Changes...)
		end := t.Manifest
		end.Sides, end.Version = r.manifest.Sides, r.manifest.Version // they are of what the file has
		r.manifest = end
		return nil
	}, func(damage error) error { lost(damage); return nil })
	if err != nil {
		lost(err)
	}
}

// editQueues changes the names of queues as the records do.
func (r *rescue) editQueues() {
	for _, c := range r.edits {
		if c.Bucket != format.BucketQueues {
			continue
		}
		maps.DeleteFunc(r.names, func(_ uint32, name string) bool { return name == string(c.Key) })
		if number, err := format.ParseQueue(c.Key, c.Value); err == nil { // else it is deleted
			r.names[number] = string(c.Key)
		}
	}
}
