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
		info, err := os.Stat(filepath.Join(dir, fileName))
		if err != nil {
			fmt.Println(err)
			return 1
		}
		end := watchMemory(hostileBase+hostileMemory*uint64(info.Size()), dir)
		_, _ = Check(dir)
		if v, err := OpenView(dir); err == nil {
			_ = v.Close()
		}
		_, _ = Salvage(dir, "")
		_, _ = Salvage(dir, dir+"-saved")
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
func forge(t testing.TB, file []byte, change func(tx *bbolt.Tx, last *tail) error) []byte {
	dir := withFile(t, file)
	options := boltOptions()
	options.NoSync = true
	db, err := bbolt.Open(filepath.Join(dir, fileName), 0o600, options)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		last, err := parseTail(tx.Bucket([]byte(bucketMeta)).Get(keyTail))
		if err = errors.Join(err, change(tx, &last)); err != nil {
			return err
		}
		last.sides = sides{}
		for _, name := range sideBuckets {
			err = errors.Join(err, tx.Bucket([]byte(name)).ForEach(func(k, v []byte) error {
				last.sides.of(name).add(k, v)
				return nil
			}))
		}
		return errors.Join(err, putTail(tx, last))
	}))
	require.NoError(t, db.Close())
	return mustRead(t, filepath.Join(dir, fileName))
}

// stamp makes the header of a forged block right.
func stampForged(b []byte, seq uint64) []byte {
	copy(b, blockMagic[:])
	b[4], b[5], b[6], b[7] = blockVersion, 0, 0, 0
	binary.LittleEndian.PutUint32(b[12:], uint32(len(b)-16))
	binary.LittleEndian.PutUint64(b[16:], seq)
	binary.LittleEndian.PutUint32(b[8:], blockChecksum(b))
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
		files = append(files, forge(t, file, func(tx *bbolt.Tx, last *tail) error {
			name := []bucket{bucketLog, bucketLog, bucketMorgue, bucketState, bucketQueues, bucketMeta}[random.IntN(6)]
			b := tx.Bucket([]byte(name))
			var keys, values [][]byte
			_ = b.ForEach(func(k, v []byte) error {
				keys, values = append(keys, bytes.Clone(k)), append(values, bytes.Clone(v))
				return nil
			})
			if len(keys) == 0 || name == bucketMeta {
				for _, field := range []*uint64{&last.oldest, &last.seq, (*uint64)(&last.next), &last.epoch} {
					if random.IntN(3) == 0 {
						*field = []uint64{0, 1, math.MaxUint64, math.MaxInt64, 1 << 40, *field + 1}[random.IntN(6)]
					}
				}
				return nil
			}
			k := random.IntN(len(keys))
			key, v := keys[k], values[k]
			switch name {
			case bucketLog:
				h := v[headerSize:]
				if random.IntN(3) == 0 {
					h = v[16:] // the header, too
				}
				copy(h, mutate(random, h))
				v = stampForged(v, binary.BigEndian.Uint64(key))
			case bucketMorgue:
				v = appendChecksum(mutate(random, v[:len(v)-checksumSize]), key)
			default:
				v = seal(name, key, mutate(random, v[:len(v)-sealSize]), random.Uint64())
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
	file := mustRead(t, filepath.Join(empty, fileName))
	block := func(fill func(b *writer)) {
		b := newWriter(nil, tail{next: 1 << 40})
		fill(&b)
		data := b.seal(1, false)
		files = append(files, forge(t, file, func(tx *bbolt.Tx, last *tail) error {
			var key [chunkKeySize]byte
			size := chunkFor(4096)
			for i := 0; i*size < len(data); i++ {
				if err := tx.Bucket([]byte(bucketLog)).Put(bytes.Clone(chunkKey(&key, 1, i)), data[i*size:min((i+1)*size, len(data))]); err != nil {
					return err
				}
			}
			last.oldest, last.seq, last.next = 1, 1, b.block.first+Position(b.block.count)
			return nil
		}))
	}
	const many = 1 << 16 / oneIn
	block(func(b *writer) { // marks far from each other
		b.beginMarks(many)
		for i := range Position(many) {
			b.markEnded(b.block.first - i*(1<<14))
		}
	})
	block(func(b *writer) { // a queue for each entry
		for i := range many {
			b.add(&Entry{Kind: KindEnqueued, Queue: uint32(i), Position: b.block.first + Position(i)}, false)
		}
	})
	block(func(b *writer) { // entries that were carried here
		for i := range many {
			b.add(&Entry{Kind: KindEnqueued, Queue: 1, Position: Position(i) * 1000}, true)
			b.block.count = i + 1
		}
		b.block.first, b.block.count = 1<<40, many
	})
	return append(files, overlapping(t, file))
}

// overlapping is a journal of one large page, whose values all lie on top of each
// other.
func overlapping(t testing.TB, file []byte) []byte {
	const size, pages, values = 4096, 512, 20_000
	file = forge(t, file, func(tx *bbolt.Tx, _ *tail) error {
		b := tx.Bucket([]byte(bucketLog))
		for i := range 4000 {
			var key [chunkKeySize]byte
			if err := b.Put(bytes.Clone(chunkKey(&key, 1, i)), make([]byte, 500)); err != nil {
				return err
			}
		}
		return nil
	})
	at := len(file)
	page := make([]byte, pages*size)
	n := binary.NativeEndian
	n.PutUint64(page, uint64(at/size))
	n.PutUint16(page[8:], leafPage)
	n.PutUint16(page[10:], values)
	n.PutUint32(page[12:], pages-1)
	for i := range values {
		element, key := page[pageHeader+i*elementHeader:], size*100+i*chunkKeySize
		var k [chunkKeySize]byte
		copy(page[key:], chunkKey(&k, 1, i))
		n.PutUint32(element[4:], uint32(key-pageHeader-i*elementHeader))
		n.PutUint32(element[8:], chunkKeySize)
		n.PutUint32(element[12:], 1<<20)
	}
	file = append(file, page...)
	m, _, err := readMetas(bytes.NewReader(file), "")
	require.NoError(t, err)
	setMetas(file, func(b []byte) { n.PutUint64(b[40:], uint64(len(file)/size)) })
	// The value of the bucket log in the root page begins with its root.
	root := file[int(m.root)*size : int(m.root+1)*size]
	i := bytes.Index(root, []byte("log"))
	require.Positive(t, i)
	n.PutUint64(root[i+3:], uint64(at/size))
	return file
}

// setMetas changes both meta pages and makes their checksums right.
func setMetas(file []byte, change func(b []byte)) {
	for at := range 2 {
		b := file[at*4096+pageHeader:]
		change(b)
		sum := fnv.New64a()
		sum.Write(b[:metaSummed])
		binary.NativeEndian.PutUint64(b[metaSummed:], sum.Sum64())
	}
}

// A journal that was made to do harm, with every checksum right, makes nothing
// panic, and takes memory by the size of its file only.
func TestHostileFiles(t *testing.T) {
	n := 60 / oneIn
	if long {
		n = 20_000
	}
	root := t.TempDir()
	for i, file := range append(bombs(t), forgeries(t, n)...) {
		dir := filepath.Join(root, fmt.Sprintf("%05d", i))
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, fileName), file, 0o600))
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), hostileEnv+"="+root)
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out[:min(len(out), 4000)])
	require.Contains(t, string(out), "met")
}
