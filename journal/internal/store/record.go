package store

import (
	"encoding/binary"
	"slices"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
)

// kept and deleted are what a change does to its key, in a record.
const kept, deleted = 0, 1

// record is t as a log has it: numbers of varying length, and before each text how long it
// is. What a log stands on says the rest of the end mark.
func (t *Transaction) record() []byte {
	b := make([]byte, 0, t.takes()+64+16*(len(t.Drop)+len(t.Changes)))
	m := &t.Manifest
	for _, n := range []uint64{m.Oldest, m.Seq, uint64(m.Next), m.Epoch, t.Seq, uint64(len(t.Drop)), uint64(len(t.Changes))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, d := range t.Drop {
		b = binary.AppendUvarint(binary.AppendUvarint(b, d.Seq), uint64(d.Size))
	}
	for _, c := range t.Changes {
		what := byte(kept)
		if c.Value == nil {
			what = deleted
		}
		b = append(b, byte(slices.Index(format.SideBuckets, c.Bucket)), what)
		b = format.AppendText(format.AppendText(b, c.Key), c.Value)
	}
	return format.AppendText(b, t.Block)
}

// ParseRecord reads a record, whose bytes the transaction keeps.
func ParseRecord(b []byte) (*Transaction, error) {
	t, d := new(Transaction), format.Decoder{B: b}
	m := &t.Manifest
	m.Oldest, m.Seq, m.Next, m.Epoch = d.Uvarint(), d.Uvarint(), format.Position(d.Uvarint()), d.Uvarint()
	t.Seq = d.Uvarint()
	drops, changes := d.Uvarint(), d.Uvarint()
	for ; drops > 0 && d.Err == nil; drops-- {
		t.Drop = append(t.Drop, Dropped{Seq: d.Uvarint(), Size: int(d.Uvarint())})
	}
	sound := true
	for ; changes > 0 && d.Err == nil; changes-- {
		bucket, what := d.Byte(), d.Byte()
		c := format.Edit{Key: d.Bytes(d.Uvarint()), Value: d.Bytes(d.Uvarint())}
		if what == deleted {
			c.Value = nil
		}
		if sound = sound && int(bucket) < len(format.SideBuckets); sound {
			c.Bucket = format.SideBuckets[bucket]
			sound = c.Bucket != format.BucketMorgue
		}
		t.Changes = append(t.Changes, c)
	}
	t.Block = d.Bytes(d.Uvarint())
	if d.Err != nil || !sound || d.Off != len(b) || t.Seq == 0 || len(t.Block) == 0 {
		return nil, format.Damaged("%s: what is in a record makes no sense", directory.WALFile)
	}
	return t, nil
}
