package journal

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
	"github.com/stretchr/testify/require"
)

// FuzzBlock reads arbitrary bytes as a block, with a checksum that is right:
// what an attacker could write, and no accident. It never panics, and all that
// is returned lies inside.
func FuzzBlock(f *testing.F) {
	b := block.NewWriter(nil, format.Manifest{Seq: 6, Next: 100})
	for i := range 5 {
		b.Add(&Entry{Kind: KindEnqueued, Queue: 1, Position: Position(100 + i), ID: []byte("id"), Payload: []byte("payload"), Score: float64(i)}, i == 3)
	}
	b.Add(&Entry{Kind: KindState, Queue: 1 << 31, Position: 105, Failed: []Position{1, 2, 1 << 60}, Error: []byte("no")}, false)
	b.Add(&Entry{Kind: KindEnqueued, Queue: 1, Position: 106, ID: []byte("id"), Metadata: NewMetadata(map[string]string{"a": "b", "c": ""})}, false)
	b.Add(&Entry{Kind: KindState, Queue: 1, Position: 107, Error: []byte("no"), History: History(nil).Add("", Failure{Attempt: 1, At: 2, Text: "yes"}).Add("yes", Failure{Attempt: 3, At: 4, Text: "no"})}, false)
	b.BeginMarks(2)
	b.MarkEnded(101)
	b.MarkEnded(3)
	whole := b.Seal(3)
	f.Add(whole)
	f.Add(whole[:format.HeaderSize])
	f.Add([]byte{})
	f.Add([]byte("STRB"))
	f.Fuzz(func(t *testing.T, data []byte) {
		// As it is: an error or, with luck, a block.
		if err := block.NewSurvey().Block(7, data); err != nil {
			require.Error(t, err)
		}
		if len(data) < format.HeaderSize {
			return
		}
		data = slices.Clone(data)
		copy(data, format.BlockMagic[:])
		data[4], data[5], data[6], data[7] = format.BlockVersion, 0, 0, 0
		binary.LittleEndian.PutUint32(data[12:], uint32(len(data)-16))
		binary.LittleEndian.PutUint64(data[16:], 7)
		binary.LittleEndian.PutUint32(data[8:], format.BlockChecksum(data))
		h, err := format.ParseHeader(data, 7)
		if err != nil {
			return
		}
		inside := 0
		err = h.Scan(data, func(off uint32, size int, e *Entry) {
			require.Equal(t, format.HeaderSize+inside, int(off), "entries follow each other")
			inside += size
			require.LessOrEqual(t, len(e.ID)+len(e.Payload)+len(e.Error)+len(e.Metadata)+len(e.History), size)
			for range e.Metadata.All() {
			}
			_ = e.History.Add("last", Failure{Attempt: 3, At: 4, Text: "new"}).Failures("new")
		}, func(Position) {})
		require.LessOrEqual(t, inside, h.Entries)
		if err == nil {
			require.Equal(t, inside, h.Entries)
		} else {
			require.ErrorIs(t, err, ErrCorrupt)
		}
		_, _ = format.ParseBuried(nil, format.AppendChecksum(data, nil))
		_, _ = format.ParseManifest(data)
	})
}

// FuzzEntry writes an entry in every way and reads it back.
func FuzzEntry(f *testing.F) {
	f.Add(uint32(1), uint64(1), uint64(0), int64(0), int64(0), 0.0, []byte("id"), []byte("payload"), 0, uint8(0))
	f.Add(uint32(0), uint64(1), uint64(1), int64(math.MinInt64), int64(math.MaxInt64), math.Copysign(0, -1), []byte{}, []byte{}, -1, uint8(1))
	f.Add(uint32(math.MaxUint32), uint64(math.MaxUint64), uint64(5), int64(math.MaxInt64), int64(-1), math.SmallestNonzeroFloat64, []byte{0}, []byte{0xff}, math.MinInt, uint8(2))
	f.Add(uint32(7), uint64(1<<63), uint64(5), int64(1e18), int64(1e18), 1e9, []byte(nil), []byte(nil), math.MaxInt, uint8(7))
	f.Add(uint32(7), uint64(1<<63), uint64(5), int64(1e18), int64(1e18), math.NaN(), []byte(nil), []byte(nil), 3, uint8(0))
	f.Add(uint32(7), uint64(9), uint64(5), int64(2e18), int64(1e18), 1.6e9, []byte("id"), []byte("payload"), 3, uint8(8))
	f.Add(uint32(7), uint64(9), uint64(5), int64(2e18), int64(1e18), 1.6e9+1/3., []byte("id"), []byte("payload"), 3, uint8(16))
	f.Fuzz(func(t *testing.T, queue uint32, position, first uint64, due, base int64, score float64, id, payload []byte, retry int, flags uint8) {
		enqueued := Entry{Kind: KindEnqueued, Queue: queue, Position: Position(position), ID: id, Due: due, Score: score, Payload: payload, Restored: flags&1 != 0}
		state := Entry{Kind: KindState, Queue: queue, Position: Position(position), ID: id, Due: due, Retry: retry, Halted: flags&1 != 0, Error: payload}
		if flags&2 != 0 {
			state.Failed = []Position{Position(position), Position(first)}
		}
		if flags&8 != 0 {
			enqueued.Metadata, enqueued.Accepted = Metadata(payload), base
			state.History = History(id)
		}
		if flags&16 != 0 {
			enqueued.Accepted = format.TimeOf(score)
		}
		for _, want := range []Entry{enqueued, state} {
			moved := flags&4 != 0 || position < first
			b := format.AppendEntry([]byte("before"), &want, moved, Position(first), base)
			require.LessOrEqual(t, len(b)-len("before"), format.EntryBound(&want))
			require.GreaterOrEqual(t, len(b)-len("before"), 5, "marks need that much")
			d := format.Decoder{B: append(b, "after"...), Off: len("before")}
			var got Entry
			d.Entry(&got, Position(first), base)
			require.NoError(t, d.Err)
			require.Equal(t, len(b), d.Off)
			require.Equal(t, math.Float64bits(want.Score), math.Float64bits(got.Score))
			require.Equal(t, string(want.ID), string(got.ID))
			require.Equal(t, string(want.Payload), string(got.Payload))
			require.Equal(t, string(want.Error), string(got.Error))
			require.Equal(t, string(want.Metadata), string(got.Metadata))
			require.Equal(t, string(want.History), string(got.History))
			if off := want.AcceptedAt() - got.AcceptedAt(); want.Kind == KindEnqueued {
				require.Less(t, max(off, -off), int64(time.Microsecond))
			}
			again := format.AppendEntry(nil, &got, moved, Position(first), base)
			require.Equal(t, b[len("before"):], again, "nothing changes as it is carried on")
			got.Score, got.ID, got.Payload, got.Error = want.Score, want.ID, want.Payload, want.Error
			got.Metadata, got.History, got.Accepted = want.Metadata, want.History, want.Accepted
			require.Equal(t, show(want), show(got))
		}
	})
}

// FuzzPages changes a journal file. Checking its pages never panics, and where
// it finds nothing, neither bbolt nor the replay does.
func FuzzPages(f *testing.F) {
	file := readFile(f, sample(f))
	f.Add(uint16(0), []byte{0})
	f.Add(uint16(2*4096+8), []byte{1, 0, 4})
	f.Add(uint16(3*4096+12), []byte{1})
	f.Add(uint16(5*4096+16), []byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, at uint16, patch []byte) {
		changed := slices.Clone(file)
		copy(changed[int(at)%len(changed):], patch)
		dir := withFile(t, changed)
		if err := pages.Check(filepath.Join(dir, directory.FileName)); err != nil {
			return
		}
		if _, err := describe(dir); err != nil {
			require.NotContains(t, err.Error(), "bbolt:", "a panic that was contained")
		}
	})
}
