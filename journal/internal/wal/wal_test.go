package wal

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal/internal/format"
)

// rig is a log in a file.
type rig struct {
	*Log
	t    testing.TB
	path string

	before uint64 // records of other generations
	want   [][]byte
}

func start(t testing.TB, size int64) *rig {
	r := &rig{t: t, path: filepath.Join(t.TempDir(), "log")}
	r.open(size)
	return r
}

func (r *rig) open(size int64) {
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = f.Close() })
	r.Log, err = Make(f, size, (*os.File).Sync)
	require.NoError(r.t, err)
}

func (r *rig) begin(end string) {
	r.Begin([]byte(end))
	r.before, r.want = r.Records, nil
}

// record returns one that is recognisable, of some sectors.
func record(n, size int) []byte {
	b := fmt.Appendf(nil, "record %d ", n)
	for len(b) < size {
		b = append(b, byte(n*31+len(b)))
	}
	return b
}

func (r *rig) append(record []byte) {
	r.t.Helper()
	require.True(r.t, r.Fits(len(record)))
	require.NoError(r.t, r.Append(record))
	r.want = append(r.want, record)
}

func (r *rig) image() []byte {
	b, err := os.ReadFile(r.path)
	require.NoError(r.t, err)
	return b
}

// found reads an image as it is opened.
func found(image []byte, id, before uint64, end string) (got [][]byte, err error) {
	err = Read(bytes.NewReader(image), id, before, []byte(end), func(record []byte) error {
		got = append(got, record)
		return nil
	}, func(err error) error { return err })
	return got, err
}

func (r *rig) requireFound(end string, want [][]byte) {
	r.t.Helper()
	got, err := found(r.image(), r.ID, r.before, end)
	require.NoError(r.t, err)
	require.Equal(r.t, want, got)
}

func TestRecordsComeBack(t *testing.T) {
	r := start(t, 64<<10)
	require.False(t, r.Fits(0), "it stands on nothing yet")
	r.begin("a")
	for i, size := range []int{0, 1, partSize - 1, partSize, partSize + 1, 5000, 3 * partSize} {
		r.append(record(i, size))
	}
	r.requireFound("a", r.want)
	got, err := found(r.image(), r.ID, r.Records, "b")
	require.NoError(t, err)
	require.Empty(t, got)
}

// What counts is what stands on the present commit, whatever others have left.
func TestAnotherGenerationVoidsAll(t *testing.T) {
	slow(t)
	r := start(t, 8<<10)
	for round := range 50 {
		end := fmt.Sprint("end ", round)
		r.begin(end)
		r.requireFound(end, nil)
		for i := 0; r.Fits(200 * i); i++ {
			r.append(record(round*100+i, 200*i))
			r.requireFound(end, r.want)
		}
		got, err := found(r.image(), r.ID, r.Records, "end of a later commit")
		require.NoError(t, err)
		require.Empty(t, got)
		for before := range r.Records { // the other file is as it was before that commit
			_, err = found(r.image(), r.ID, before, fmt.Sprint("end ", round-1))
			require.ErrorIs(t, err, format.ErrCorrupt)
		}
	}
}

// A log that is made of an old one voids that, also when it stands on the same.
func TestMadeAgain(t *testing.T) {
	r := start(t, 8<<10)
	for _, size := range []int64{8 << 10, 8 << 10, 16 << 10, 8 << 10} {
		r.open(size)
		r.begin("same")
		r.requireFound("same", nil)
		for i := range 5 {
			r.append(record(i, 600))
		}
		r.requireFound("same", r.want)
		_, err := found(r.image(), r.ID+1, r.before, "same")
		require.ErrorIs(t, err, format.ErrCorrupt, "another log")
	}
}

// Of a record that was not synced, any sectors may be on disk: it is not there then, and
// all before it is.
func TestTornRecordIsCut(t *testing.T) {
	r := start(t, 16<<10)
	r.begin("before")
	for i := 0; r.Fits(1200); i++ {
		r.append(record(i, 1200))
	}
	r.begin("now")
	for i := range 4 {
		r.append(record(i, 300*(i+1)))
	}
	const sectors = 5
	old := r.image()
	at := r.at
	r.append(record(9, sectors*partSize))
	for set := range 1 << sectors {
		image := bytes.Clone(old)
		for i := range sectors {
			if set>>i&1 == 1 {
				place := at + int64(i)*sectorSize
				copy(image[place:place+sectorSize], r.image()[place:])
			}
		}
		got, err := found(image, r.ID, r.before, "now")
		require.NoError(t, err)
		if set == 1<<sectors-1 {
			require.Equal(t, r.want, got)
		} else {
			require.Equal(t, r.want[:4], got)
		}
	}
}

// Damage is found wherever it is, unless it can't matter.
func TestDamage(t *testing.T) {
	slow(t)
	r := start(t, 16<<10)
	r.begin("before")
	for i := 0; r.Fits(1200); i++ {
		r.append(record(i, 1200))
	}
	r.begin("now")
	for i := range 6 {
		r.append(record(i, 300*(i+1)))
	}
	image, random := r.image(), rand.New(rand.NewPCG(1, 2))
	last := spanOf(1800)
	ways := map[string]func(b []byte, place int64){
		"flip": func(b []byte, place int64) { b[place+random.Int64N(sectorSize)] ^= 1 << random.IntN(8) },
		"swap": func(b []byte, place int64) {
			other := max(place^sectorSize, sectorSize) // not the first
			if other == place {
				other += sectorSize
			}
			one := bytes.Clone(b[place : place+sectorSize])
			copy(b[place:place+sectorSize], b[other:other+sectorSize])
			copy(b[other:other+sectorSize], one)
		},
		"lost": func(b []byte, place int64) { clear(b[place : place+sectorSize]) },
	}
	for name, harm := range ways {
		for place := int64(0); place < r.at; place += sectorSize {
			hurt := bytes.Clone(image)
			harm(hurt, place)
			got, err := found(hurt, r.ID, r.before, "now")
			if name == "lost" && place >= r.at-last { // as if it had not been written
				require.NoError(t, err)
				require.Equal(t, r.want[:5], got)
				continue
			}
			require.ErrorIs(t, err, format.ErrCorrupt, "%s at %d", name, place)
			require.ErrorContains(t, err, "journal.wal", "%s at %d", name, place)
		}
	}
	for size := range int64(len(image)) {
		_, err := found(image[:size], r.ID, r.before, "now")
		require.ErrorIs(t, err, format.ErrCorrupt, size)
	}
	_, err := found(append(image, 0), r.ID, r.before, "now")
	require.ErrorIs(t, err, format.ErrCorrupt)
}

// Who goes on behind damage finds every record that is intact.
func TestReadBehindDamage(t *testing.T) {
	r := start(t, 16<<10)
	r.begin("now")
	for i := range 8 {
		r.append(record(i, 100+300*i))
	}
	for place := int64(sectorSize); place < r.at; place += sectorSize {
		image, lost := r.image(), 0
		image[place+77] ^= 4
		var got [][]byte
		require.NoError(t, Read(bytes.NewReader(image), r.ID, r.before, []byte("now"), func(record []byte) error {
			got = append(got, record)
			return nil
		}, func(error) error {
			lost++
			return nil
		}))
		require.Equal(t, 1, lost)
		require.Len(t, got, 7)
		require.Subset(t, r.want, got)
	}
}

// After a write that failed nothing more is written until another commit has voided it.
func TestAfterAFailedWrite(t *testing.T) {
	r := start(t, 8<<10)
	r.begin("now")
	r.append(record(1, 100))
	require.NoError(t, r.f.Close())
	require.Error(t, r.Append(record(2, 100)))
	require.False(t, r.Fits(0))
	r.requireFound("now", r.want)
}

func TestTakeMayRefuse(t *testing.T) {
	r := start(t, 8<<10)
	r.begin("now")
	r.append(record(1, 100))
	refused := errors.New("refused")
	require.ErrorIs(t, Read(bytes.NewReader(r.image()), r.ID, r.before, []byte("now"), func([]byte) error { return refused }, nil), refused)
}

// No bytes make a reader panic or take more memory than they have; what is whole of a
// log comes back as it was written.
func FuzzRead(f *testing.F) {
	r := start(f, 8<<10)
	r.begin("now")
	for i := range 4 {
		r.append(record(i, 300*i))
	}
	image := r.image()
	f.Add(image, uint16(0), uint8(0))
	f.Add(image[:1000], uint16(700), uint8(3))
	f.Fuzz(func(t *testing.T, b []byte, at uint16, bit uint8) {
		if len(b) > 0 {
			b = bytes.Clone(b)
			b[int(at)%len(b)] ^= 1 << (bit % 8)
		}
		total := 0
		err := Read(bytes.NewReader(b), r.ID, r.before, []byte("now"), func(record []byte) error {
			total += len(record)
			return nil
		}, func(err error) error { return nil })
		require.NoError(t, err)
		require.LessOrEqual(t, total, len(b))
		got, err := found(b, r.ID, r.before, "now")
		if err == nil {
			require.LessOrEqual(t, len(got), len(b)/sectorSize)
		} else {
			require.ErrorIs(t, err, format.ErrCorrupt)
		}
	})
}

// slow leaves a test that takes seconds to .ci/run, which sets CI, and to those who name tests.
func slow(t *testing.T) {
	t.Helper()
	if flag.Lookup("test.run").Value.String() == "" && os.Getenv("CI") == "" && os.Getenv("STRAND_LONG") == "" {
		t.Skip("takes seconds: CI=1 makes it")
	}
}
