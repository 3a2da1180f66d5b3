package journal

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/strandjobs/strand/journal/internal/directory"
	"github.com/stretchr/testify/require"
)

// walSizes are those of the log before the file: small ones are full all the time.
var walSizes = []int{8 << 10, 8 << 10, 32 << 10, 256 << 10, 0, -1}

// killRig drives a journal whose log has what its file lacks, and knows what a kill must leave.
type killRig struct {
	testing.TB
	*rand.Rand
	root  string
	dir   string
	log   *Log
	queue uint32
	next  int // number of the next entry

	mu   sync.Mutex
	refs map[Position]Ref
	walState
}

// walState is what a journal has: payloads by position, and state keys.
type walState struct {
	live, dead map[Position]string
	keys       map[string]string
}

func newWALState() walState {
	return walState{map[Position]string{}, map[Position]string{}, map[string]string{}}
}

func (s walState) String() string {
	var b strings.Builder
	for _, part := range []map[Position]string{s.live, s.dead} {
		for _, p := range slices.Sorted(maps.Keys(part)) {
			v := part[p]
			fmt.Fprintf(&b, "%d: %d bytes %.20q\n", p, len(v), v)
		}
		b.WriteString("\n")
	}
	for _, k := range slices.Sorted(maps.Keys(s.keys)) {
		fmt.Fprintf(&b, "%q: %q\n", k, s.keys[k])
	}
	return b.String()
}

func startKillRig(t testing.TB, seed uint64) *killRig {
	f := &killRig{TB: t, Rand: rand.New(rand.NewPCG(seed, 27)), root: t.TempDir(), walState: newWALState()}
	f.dir = filepath.Join(f.root, "j")
	f.open()
	return f
}

// config draws one, with a log of some size.
func (f *killRig) config() Config {
	cfg := Config{WALBytes: walSizes[f.IntN(len(walSizes))]}
	if f.IntN(2) == 0 {
		cfg = frugal(cfg)
	}
	if f.IntN(2) == 0 {
		cfg = tight(cfg)
	}
	return cfg
}

func (f *killRig) open() {
	cfg := f.config()
	cfg.Deliver = func(d *Delivery) {
		f.mu.Lock()
		for i := range d.Len() {
			r := must(d.Read(i, new(Entry)))
			f.refs[r.Position()] = r
		}
		f.mu.Unlock()
		d.Done()
	}
	f.refs = make(map[Position]Ref)
	var err error
	f.log, err = Open(f.dir, cfg)
	require.NoError(f, err)
	found, refs := readWAL(f, f.log.Queues(), f.log.PendingPages, f.morgueOf(f.log), f.log.Keys("", ""))
	require.Equal(f, f.walState.String(), found.String())
	maps.Copy(f.refs, refs)
	f.queue, err = f.log.Queue(f.Context(), "orders")
	require.NoError(f, err)
}

func (f *killRig) morgueOf(l *Log) func(uint32) iter.Seq2[Buried, error] {
	return func(queue uint32) iter.Seq2[Buried, error] { return l.Morgue(queue, 0) }
}

// readWAL is what a log or a view says.
func readWAL(t testing.TB, queues map[string]uint32, pages func(uint32) [][]Ref, morgue func(uint32) iter.Seq2[Buried, error], keys iter.Seq2[Set, error]) (walState, map[Position]Ref) {
	s, refs := newWALState(), make(map[Position]Ref)
	for _, queue := range queues {
		for _, r := range slices.Concat(pages(queue)...) {
			var e Entry
			require.NoError(t, r.Read(&e))
			s.live[e.Position], refs[e.Position] = string(e.Payload), r
		}
		for b, err := range morgue(queue) {
			require.NoError(t, err)
			s.dead[b.Entry.Position] = string(b.Entry.Payload)
		}
	}
	for kv, err := range keys {
		require.NoError(t, err)
		s.keys[kv.Key] = string(kv.Value)
	}
	return s, refs
}

// pick draws up to n live positions.
func (f *killRig) pick(n int) (ps []Position) {
	all := slices.Sorted(maps.Keys(f.live))
	f.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}

func (f *killRig) refsOf(ps []Position) (refs []Ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range ps {
		refs = append(refs, f.refs[p])
	}
	return refs
}

func (f *killRig) append(n, size int) {
	list := make([]Entry, n)
	for i := range list {
		f.next++
		list[i] = Entry{Queue: f.queue, ID: fmt.Append(nil, f.next%20), Payload: slices.Concat(fmt.Append(nil, "payload ", f.next, " "), make([]byte, f.IntN(size)))}
	}
	ticket, err := f.log.Append(f.Context(), list, func(first Position) []Set {
		for i := range list {
			f.live[first+Position(i)] = string(list[i].Payload)
		}
		return f.sets(1)
	})
	require.NoError(f, err)
	require.NoError(f, ticket.Wait(f.Context()))
}

// sets draws changes of state keys, and takes them in.
func (f *killRig) sets(n int) (sets []Set) {
	for range f.IntN(n + 1) {
		key := fmt.Sprintf("key/%02d", f.IntN(40))
		if f.IntN(3) == 0 {
			delete(f.keys, key)
			sets = append(sets, Set{Key: key})
			continue
		}
		f.keys[key] = fmt.Sprint("value ", f.Uint32())
		sets = append(sets, Set{Key: key, Value: []byte(f.keys[key])})
	}
	return sets
}

func (f *killRig) end(n int) {
	ps := f.pick(n)
	c := Change{Ended: f.refsOf(ps), Sets: f.sets(3)}
	for _, p := range ps {
		delete(f.live, p)
	}
	if ps = f.pick(1); len(ps) > 0 && f.IntN(3) == 0 {
		f.dead[ps[0]] = f.live[ps[0]]
		delete(f.live, ps[0])
		c.Buried = []Burial{{Ref: f.refsOf(ps)[0], Reason: "broken"}}
	}
	f.log.Record(&c)
}

// step makes a call, and waits until it is acknowledged.
func (f *killRig) step() {
	switch f.IntN(20) {
	case 0:
		f.append(1, 200<<10)
	case 1:
		f.append(200, 300)
	case 2:
		require.NoError(f, f.log.Compact(f.Context()))
	case 3:
		if ps := slices.Sorted(maps.Keys(f.dead)); len(ps) > 0 {
			f.live[ps[0]] = f.dead[ps[0]]
			delete(f.dead, ps[0])
			require.NoError(f, f.log.Restore(f.Context(), f.queue, ps[:1], 0, func([]byte) uint32 { return 0 }))
		}
	case 4, 5, 6, 7:
		f.append(1+f.IntN(4), 3000)
	case 8, 9, 10:
		f.end(1 + f.IntN(5))
		f.end(f.IntN(40))
	case 11, 12, 13:
		require.NoError(f, f.log.Put(f.Context(), f.sets(10)...))
	default:
		f.append(1, 300)
	}
	require.NoError(f, f.log.Flush(f.Context()))
}

// look reads some of what waits and all beside the log, while it is open.
func (f *killRig) look() {
	for _, r := range f.refsOf(f.pick(3)) {
		var e Entry
		require.NoError(f, r.Read(&e))
		require.Equal(f, f.live[r.Position()], string(e.Payload))
	}
	s, _ := readWAL(f, f.log.Queues(), func(uint32) [][]Ref { return nil }, f.morgueOf(f.log), f.log.Keys("", ""))
	s.live = f.live
	require.Equal(f, f.walState.String(), s.String())
	for key, value := range f.keys {
		got, err := f.log.Get(key)
		require.NoError(f, err)
		require.Equal(f, value, string(got))
	}
	got, err := f.log.Get("key/none")
	require.NoError(f, err)
	require.Nil(f, got)
}

// killed is a copy of what a kill leaves.
func (f *killRig) killed() (dir string) {
	dir, err := os.MkdirTemp(f.root, "killed")
	require.NoError(f, err)
	require.NoError(f, os.CopyFS(dir, os.DirFS(f.dir)))
	return dir
}

// lookAt reads a journal as it lies there, in some way.
func (f *killRig) lookAt(dir string) {
	_, err := Check(dir)
	require.NoError(f, err)
	before := tree(f, dir)
	to := dir + "-to"
	switch f.IntN(4) {
	case 0:
		s, err := Salvage(dir, to)
		require.NoError(f, err)
		require.Empty(f, s.Losses)
	case 1:
		require.NoError(f, Clone(dir, to))
	case 2:
		require.NoError(f, f.log.Copy(f.Context(), to))
	default:
		to = dir
	}
	v, err := OpenView(to)
	require.NoError(f, err)
	s, _ := readWAL(f, v.Queues(), v.PendingPages, func(queue uint32) iter.Seq2[Buried, error] { return v.Morgue(queue) }, v.Keys())
	require.NoError(f, v.Close())
	require.Equal(f, f.walState.String(), s.String())
	after := tree(f, dir)
	delete(before, filepath.Join(dir, directory.LockName))
	for name, sum := range before {
		require.Equal(f, sum, after[name], "%s is left alone", name)
	}
	if to != dir {
		require.NoFileExists(f, filepath.Join(to, directory.WALFile))
	}
}

// Of a journal that is killed after any call everything that was acknowledged is there, and
// nothing else: for who opens it, who looks at it, copies or salvages it. What waits in the
// log before the file is read as if it were in it.
func TestKilledWithALog(t *testing.T) {
	t.Parallel()
	seeds := 60 / oneIn
	if long {
		seeds = 3000
	}
	for seed := range uint64(max(seeds, 3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := startKillRig(t, seed)
			for range 60 {
				f.step()
				switch f.IntN(8) {
				case 0:
					f.look()
				case 1:
					f.lookAt(f.killed())
				case 2:
					old := f.log
					f.dir = f.killed()
					f.open()
					require.NoError(t, old.Close())
				case 3:
					require.NoError(t, f.log.Close())
					if f.IntN(2) == 0 { // it has nothing that counts
						require.NoError(t, os.RemoveAll(filepath.Join(f.dir, directory.WALFile)))
					}
					f.open()
				}
			}
			require.NoError(t, errors.Join(f.log.Err(), f.log.Close()))
		})
	}
}
