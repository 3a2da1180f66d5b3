package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/strandjobs/strand/journal/internal/block"
	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/internal/pages"
	"github.com/strandjobs/strand/journal/internal/store"
)

// hostileEnv makes the test binary do everything there is to do with the journals
// in the directory that it names, one after the other, and end when it takes more
// memory than it may.
const hostileEnv = "STRAND_TEST_HOSTILE"

// hostileMemory is what each of these journals may take, in sizes of its file,
// and what every process takes.
const (
	hostileMemory = 48
	hostileBase   = 64 << 20
)

func meetHostile(root string) int {
	debug.SetGCPercent(20)
	dirs, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil {
		return 1
	}
	for _, dir := range dirs {
		info, err := os.Stat(filepath.Join(dir, directory.FileName))
		if err != nil {
			fmt.Println(err)
			return 1
		}
		end := watchMemory(hostileBase+hostileMemory*uint64(min(info.Size(), 16<<20)), dir) // the rest is a hole
		_, _ = Check(dir)
		if v, err := OpenView(dir); err == nil {
			_ = v.Close()
		}
		_, _ = Salvage(dir, "")
		if _, err := Salvage(dir, dir+"-saved"); err == nil {
			if _, err = describe(dir + "-saved"); err != nil {
				fmt.Println(dir, "was salvaged, and does not open:", err)
				return 1
			}
		}
		_ = Clone(dir, dir+"-clone")
		_, _, _ = Compact(dir + "-clone")
		_, _ = describe(dir)
		end()
	}
	fmt.Println("met", len(dirs))
	return 0
}

// watchMemory ends the process when the heap becomes larger than most.
func watchMemory(most uint64, what string) (end func()) {
	debug.FreeOSMemory()
	stop, stopped := make(chan struct{}), make(chan struct{})
	look := func() {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		if metrics.Read(s); s[0].Value.Uint64() > most {
			fmt.Printf("%s: %d MiB, it may have %d\n", what, s[0].Value.Uint64()>>20, most>>20)
			os.Exit(3)
		}
	}
	go func() {
		defer close(stopped)
		for {
			look()
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// forge changes a copy of a journal and makes every checksum and sum right again,
// except for those of the values that change writes.
func forge(t testing.TB, file []byte, change func(tx *bbolt.Tx, last *format.Manifest) error) []byte {
	dir := withFile(t, file)
	options := store.BoltOptions()
	options.NoSync = true
	db, err := bbolt.Open(filepath.Join(dir, directory.FileName), 0o600, options)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		last, err := format.ParseManifest(tx.Bucket([]byte(format.BucketMeta)).Get(format.KeyManifest))
		if err = errors.Join(err, change(tx, &last)); err != nil {
			return err
		}
		last.Sides = format.Sides{}
		for _, name := range format.SideBuckets {
			err = errors.Join(err, tx.Bucket([]byte(name)).ForEach(func(k, v []byte) error {
				last.Sides.Of(name).Add(k, v)
				return nil
			}))
		}
		return errors.Join(err, store.PutManifest(tx, last))
	}))
	require.NoError(t, db.Close())
	return mustRead(t, filepath.Join(dir, directory.FileName))
}

// stamp makes the header of a forged block right.
func stampForged(b []byte, seq uint64) []byte {
	copy(b, format.BlockMagic[:])
	b[4], b[5], b[6], b[7] = format.BlockVersion, 0, 0, 0
	binary.LittleEndian.PutUint32(b[12:], uint32(len(b)-16))
	binary.LittleEndian.PutUint64(b[16:], seq)
	binary.LittleEndian.PutUint32(b[8:], format.BlockChecksum(b))
	return b
}

// mutate changes a few bytes, mostly to what a length is that is a lie.
func mutate(random *rand.Rand, b []byte) []byte {
	b = bytes.Clone(b)
	lies := [][]byte{
		{0xff, 0xff, 0xff, 0xff, 0x0f}, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, {0x80, 0x80, 0x80, 0x04}, {0}, {0x7f}, {0xff},
		bytes.Repeat([]byte{0xff}, 8), {0, 0, 0, 0x80},
	}
	for range 1 + random.IntN(3) {
		if len(b) > 0 {
			copy(b[random.IntN(len(b)):], lies[random.IntN(len(lies))])
		}
	}
	return b
}

// forgeries are n journals with lies in them.
func forgeries(t testing.TB, n int) (files [][]byte) {
	histories := history(t, 40)
	base := [][]byte{readFile(t, sample(t)), histories[len(histories)-1]}
	random := rand.New(rand.NewPCG(11, 12))
	for i := range n {
		file := base[i%len(base)]
		files = append(files, forge(t, file, func(tx *bbolt.Tx, last *format.Manifest) error {
			name := []format.Bucket{format.BucketLog, format.BucketLog, format.BucketMorgue, format.BucketState, format.BucketQueues, format.BucketMeta}[random.IntN(6)]
			b := tx.Bucket([]byte(name))
			var keys, values [][]byte
			_ = b.ForEach(func(k, v []byte) error {
				keys, values = append(keys, bytes.Clone(k)), append(values, bytes.Clone(v))
				return nil
			})
			if len(keys) == 0 || name == format.BucketMeta {
				for _, field := range []*uint64{&last.Oldest, &last.Seq, (*uint64)(&last.Next), &last.Epoch} {
					if random.IntN(3) == 0 {
						*field = []uint64{0, 1, math.MaxUint64, math.MaxInt64, 1 << 40, *field + 1}[random.IntN(6)]
					}
				}
				return nil
			}
			k := random.IntN(len(keys))
			key, v := keys[k], values[k]
			switch name {
			case format.BucketLog:
				h := v[format.HeaderSize:]
				if random.IntN(3) == 0 {
					h = v[16:] // the header, too
				}
				copy(h, mutate(random, h))
				v = stampForged(v, binary.BigEndian.Uint64(key))
			case format.BucketMorgue:
				v = format.AppendChecksum(mutate(random, v[:len(v)-format.ChecksumSize]), key)
			default:
				v = format.Seal(name, key, mutate(random, v[:len(v)-format.SealSize]), random.Uint64())
			}
			return b.Put(key, v)
		}))
	}
	return files
}

// bombs are journals that are right, as far as checksums go, and small for what
// they ask for.
func bombs(t testing.TB) (files [][]byte) {
	empty := filepath.Join(t.TempDir(), "empty.strand")
	l, err := Open(empty, Config{})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	file := mustRead(t, filepath.Join(empty, directory.FileName))
	add := func(fill func(b *block.Writer)) {
		b := block.NewWriter(nil, format.Manifest{Next: 1 << 40})
		fill(&b)
		data := b.Seal(1)
		files = append(files, forge(t, file, func(tx *bbolt.Tx, last *format.Manifest) error {
			var key [format.ChunkKeySize]byte
			size := store.ChunkFor(4096)
			for i := 0; i*size < len(data); i++ {
				if err := tx.Bucket([]byte(format.BucketLog)).Put(bytes.Clone(store.ChunkKey(&key, 1, i)), data[i*size:min((i+1)*size, len(data))]); err != nil {
					return err
				}
			}
			last.Oldest, last.Seq, last.Next = 1, 1, b.Block.First+Position(b.Block.Count)
			return nil
		}))
	}
	many := 1 << 16 / oneIn
	add(func(b *block.Writer) { // marks far from each other
		b.BeginMarks(many)
		for i := range Position(many) {
			b.MarkEnded(b.Block.First - i*(1<<14))
		}
	})
	add(func(b *block.Writer) { // a queue for each entry
		for i := range many {
			b.Add(&Entry{Kind: KindEnqueued, Queue: uint32(i), Position: b.Block.First + Position(i)}, false)
		}
	})
	add(func(b *block.Writer) { // entries that were carried here
		for i := range many {
			b.Add(&Entry{Kind: KindEnqueued, Queue: 1, Position: Position(i) * 1000}, true)
			b.Block.Count = i + 1
		}
		b.Block.First, b.Block.Count = 1<<40, many
	})
	for _, end := range []uint64{1 << 63, math.MaxUint64, 1 << 62, 1 << 40, 1<<28 - 1, 1 << 22} {
		lies := bytes.Clone(file)
		setMetas(lies, func(b []byte) { binary.NativeEndian.PutUint64(b[40:], end) })
		files = append(files, lies)
	}
	return append(files, file, overlapping(t, file))
}

// overlapping is a journal of one large page, whose values all lie on top of each
// other.
func overlapping(t testing.TB, file []byte) []byte {
	const size, many, values = 4096, 512, 20_000
	file = forge(t, file, func(tx *bbolt.Tx, _ *format.Manifest) error {
		b := tx.Bucket([]byte(format.BucketLog))
		for i := range 4000 {
			var key [format.ChunkKeySize]byte
			if err := b.Put(bytes.Clone(store.ChunkKey(&key, 1, i)), make([]byte, 500)); err != nil {
				return err
			}
		}
		return nil
	})
	at := len(file)
	page := make([]byte, many*size)
	n := binary.NativeEndian
	n.PutUint64(page, uint64(at/size))
	n.PutUint16(page[8:], pages.LeafPage)
	n.PutUint16(page[10:], values)
	n.PutUint32(page[12:], many-1)
	for i := range values {
		element, key := page[pages.PageHeader+i*pages.ElementHeader:], size*100+i*format.ChunkKeySize
		var k [format.ChunkKeySize]byte
		copy(page[key:], store.ChunkKey(&k, 1, i))
		n.PutUint32(element[4:], uint32(key-pages.PageHeader-i*pages.ElementHeader))
		n.PutUint32(element[8:], format.ChunkKeySize)
		n.PutUint32(element[12:], 1<<20)
	}
	file = append(file, page...)
	m, _, err := pages.ReadMetas(bytes.NewReader(file), "")
	require.NoError(t, err)
	setMetas(file, func(b []byte) { n.PutUint64(b[40:], uint64(len(file)/size)) })
	// The value of the bucket log in the root page begins with its root.
	root := file[int(m.Root)*size : int(m.Root+1)*size]
	i := bytes.Index(root, []byte("log"))
	require.Positive(t, i)
	n.PutUint64(root[i+3:], uint64(at/size))
	return file
}

// setMetas changes both meta pages and makes their checksums right.
func setMetas(file []byte, change func(b []byte)) {
	for at := range 2 {
		b := file[at*4096+pages.PageHeader:]
		change(b)
		sum := fnv.New64a()
		sum.Write(b[:pages.MetaSummed])
		binary.NativeEndian.PutUint64(b[pages.MetaSummed:], sum.Sum64())
	}
}

// A journal that was made to do harm, with every checksum right, makes nothing
// panic, and takes memory by the size of its file only.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	slow(t)
	n := 60 / oneIn
	if long {
		n = 20_000
	}
	root := t.TempDir()
	write := func(name string, file []byte, hole int64) {
		path := filepath.Join(root, name, directory.FileName)
		require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, file, 0o600))
		if err := os.Truncate(path, int64(len(file))+hole); hole > 0 && err != nil {
			require.NoError(t, os.RemoveAll(filepath.Dir(path)), "a hole of that size: %v", err)
		}
	}
	for i, file := range bombs(t) {
		write(fmt.Sprintf("bomb %05d", i), file, 0)
		if i%3 == 0 {
			write(fmt.Sprintf("hole %05d", i), file, 1<<40)
		}
	}
	for i, file := range forgeries(t, n) {
		write(fmt.Sprintf("%05d", i), file, 0)
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), hostileEnv+"="+root)
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out[:min(len(out), 4000)])
	require.Contains(t, string(out), "met")
}
