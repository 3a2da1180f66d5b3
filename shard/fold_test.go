package shard

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// folder drives cores that fold. A payload is a list of numbers, in the order of their
// acceptance, and to fold is to write one list behind the other: so a number that is lost,
// there twice or out of order shows.
type folder struct {
	*rig
	r     *rand.Rand
	asked []*Fold
	next  map[string]int
	done  map[string]string
	runs  map[*Run]*Core
	again bool // something came back from the morgue
}

func newFolder(t *testing.T, r *rand.Rand, cfg Config) *folder {
	f := &folder{r: r, next: make(map[string]int), done: make(map[string]string), runs: make(map[*Run]*Core)}
	cfg.Fold, cfg.foldEach, cfg.Weighed = func(f *Fold) {}, 4, true
	f.rig = newRig(t, cfg, 2)
	return f
}

func (f *folder) accept(n int) {
	id := fmt.Sprint("id ", f.r.IntN(3))
	var list []journal.Entry
	for range n {
		f.next[id]++
		list = append(list, journal.Entry{
			ID: []byte(id), Payload: fmt.Appendf(nil, "%d,", f.next[id]), Due: f.now + int64(f.r.IntN(3)), Score: float64(f.r.IntN(3)),
		})
	}
	f.put(list...)
	for _, c := range f.cores {
		f.asked = append(f.asked, c.takeFolds()...)
	}
}

// text is what the payloads of a list say, one after the other.
func (f *folder) text(refs []journal.Ref) (s string) {
	for _, ref := range refs {
		var e journal.Entry
		mustRead(ref, &e)
		s += string(e.Payload)
	}
	return s
}

// fold folds what a core has asked for, though some of it may have gone; some don't go
// together.
func (f *folder) fold() {
	if len(f.asked) == 0 {
		return
	}
	i := f.r.IntN(len(f.asked))
	fold := f.asked[i]
	f.asked = slices.Delete(f.asked, i, i+1)
	for i := range fold.Len() {
		var e journal.Entry
		if found, err := fold.Read(i, &e); err != nil || !found {
			require.NoError(f.t, err)
			fold.Groups = nil
			break
		}
		if last := len(fold.Groups) - 1; last < 0 || f.r.IntN(9) == 0 {
			fold.Groups = append(fold.Groups, FoldGroup{From: i, To: i + 1, Payload: slices.Clone(e.Payload)})
		} else {
			g := &fold.Groups[last]
			g.To, g.Payload = i+1, append(g.Payload, e.Payload...)
		}
	}
	fold.Groups = slices.DeleteFunc(fold.Groups, func(g FoldGroup) bool { return g.To-g.From < 2 })
	c := f.core(fold.ID)
	c.folded(fold)
	c.Record(f)
}

func (f *folder) take() {
	c := f.cores[f.r.IntN(len(f.cores))]
	run := c.NewRun()
	if !c.Take(f.now, run) {
		return
	}
	for i := range run.Items {
		require.True(f.t, run.Items[i].start(0))
	}
	f.runs[run] = c
}

func (f *folder) finish() {
	for run, c := range f.runs {
		for i := range run.Items {
			f.run(&run.Items[i])
		}
		c.Finish(f.now, run)
		c.Record(f)
		delete(f.runs, run)
		return
	}
}

// run is what a worker does.
func (f *folder) run(it *Item) {
	n := len(it.Payloads)
	if f.r.IntN(3) == 0 {
		n = 1 + f.r.IntN(n)
	}
	var refs []journal.Ref
	for _, p := range it.Payloads[:n] {
		refs = append(refs, p.Ref)
	}
	if text := f.text(refs); n > 1 {
		it.Fold(n, []byte(text))
	} else {
		it.Fold(n, nil)
	}
	switch it.Outcome.Verdict = Verdict(1 + f.r.IntN(5)); it.Outcome.Verdict {
	case VerdictDone:
		f.done[it.ID] += f.text(refs)
	case VerdictFailed:
		it.Outcome.Delay, it.Outcome.Error = 2, "no"
	case VerdictSnoozed:
		it.Outcome.Delay = 1
	}
}

// conserved checks that each number is in one place, and that those which wait are in
// order.
func (f *folder) conserved() {
	f.t.Helper()
	where := maps.Clone(f.done)
	for _, b := range f.morgue() {
		where[string(b.Entry.ID)] += string(b.Entry.Payload)
	}
	live := f.live()
	waiting := make(map[string]string)
	for _, p := range slices.Sorted(maps.Keys(live)) {
		if e := live[p]; e.Kind == journal.KindEnqueued {
			waiting[string(e.ID)] += string(e.Payload)
		}
	}
	for id, n := range f.next {
		list := numbers(waiting[id])
		if !f.again { // what was folded stays together, also when a part of what is between comes back
			require.IsIncreasing(f.t, append([]int{-1, 0}, list...), "%s waits", id)
			require.IsIncreasing(f.t, append([]int{-1, 0}, numbers(f.done[id])...), "%s is done", id)
		}
		all := append(numbers(where[id]), list...)
		slices.Sort(all)
		require.Len(f.t, all, n, id)
		require.Equal(f.t, n, all[n-1], id)
		require.Len(f.t, slices.Compact(all), n, id)
	}
}

func numbers(text string) (list []int) {
	for s := range strings.SplitSeq(strings.Trim(text, ","), ",") {
		if s != "" {
			var n int
			must(fmt.Sscan(s, &n))
			list = append(list, n)
		}
	}
	return list
}

// However payloads are folded, where they wait and as they run, and whatever comes of
// their runs, each is in one place on any disk that a crash leaves, in its order.
func TestFoldedPayloadsAreWhole(t *testing.T) {
	applied := 0
	for seed := range uint64(60 / oneIn) {
		r := rand.New(rand.NewPCG(seed, 1))
		exhausted, due := r.IntN(3), r.IntN(3)
		f := newFolder(t, r, Config{
			MaxRetries: 2, Concurrency: 2, Block: r.IntN(2) == 1, BuryAll: exhausted == 1, Halt: exhausted == 2,
			DuePull: due == 1, DuePush: due == 2,
		})
		f.record = func(c *journal.Change) { applied += len(c.Rewritten) }
		for range 150 {
			switch f.r.IntN(10) {
			case 0, 1, 2:
				f.accept(1 + f.r.IntN(5))
			case 3, 4:
				f.fold()
			case 5:
				f.take()
			case 6, 7:
				f.finish()
			case 8:
				f.now += int64(f.r.IntN(4))
			case 9:
				if dead := slices.Sorted(maps.Keys(f.morgue())); len(dead) > 0 {
					f.again = true
					f.restore(dead[f.r.IntN(len(dead))], f.now)
				}
				for _, c := range f.cores {
					c.RunNow("id 0", f.now, true)
					c.Record(f)
				}
			}
			f.check()
			if f.r.IntN(15) == 0 {
				f.conserved()
			}
			if f.r.IntN(60) == 0 {
				f.flush()
				f.crash(1 + f.r.IntN(3))
				f.asked = nil
				clear(f.runs)
			}
		}
		f.conserved()
		f.close()
	}
	require.Greater(t, applied, 100/oneIn, "folds that counted")
}

// A fold does not count when something has become of what it is about, and is not about
// what stands before a run that may come back.
func TestFoldsThatAreTooLate(t *testing.T) {
	setUp := func(t *testing.T) (*folder, *Core, journal.Position) {
		f := newFolder(t, rand.New(rand.NewPCG(1, 1)), Config{})
		f.cores = f.cores[:1]
		c := f.cores[0]
		first := f.put(journal.Entry{ID: []byte("a"), Payload: []byte("1,")})[0].entry.Position
		_, _ = c.Remove(0, "a", &Removal{Verdict: VerdictCanceled})
		c.Record(f)
		return f, c, first
	}
	come := func(f *folder, from, n int) {
		for i := range n {
			f.put(journal.Entry{ID: []byte("a"), Payload: fmt.Appendf(nil, "%d,", from+i)})
		}
	}
	fold := func(f *folder, c *Core, fold *Fold) bool {
		fold.Groups = []FoldGroup{{From: 0, To: fold.Len(), Payload: []byte("all")}}
		applied := c.folded(fold)
		c.Record(f)
		f.check()
		return applied
	}
	for name, change := range map[string]func(*folder, *Core, journal.Position){
		"run": func(f *folder, _ *Core, _ journal.Position) { f.take() },
		"deleted": func(f *folder, c *Core, p journal.Position) {
			c.Remove(0, "a", &Removal{Verdict: VerdictDeleted, Of: []journal.Position{p + 2}})
			c.Record(f)
		},
		"back": func(f *folder, _ *Core, p journal.Position) { f.restore(p, 0) },
	} {
		f, c, first := setUp(t)
		come(f, 2, 4)
		asked := c.takeFolds()
		require.Len(t, asked, 1, name)
		change(f, c, first)
		require.False(t, fold(f, c, asked[0]), name)
	}
	f, c, first := setUp(t)
	come(f, 2, 2)
	f.take()
	f.restore(first, 0)
	come(f, 4, 4)
	asked := c.takeFolds()
	require.Len(t, asked, 1)
	require.Equal(t, 3, asked[0].Len(), "without what came back, and what came after the third")
	require.True(t, fold(f, c, asked[0]))
}

// What waits for an id that is held, because it may have ended the process, is not folded meanwhile: the fold may be
// what does that.
func TestASuspectIsNotFolded(t *testing.T) {
	g := newRig(t, Config{Merge: MergeKeepAll, Fold: func(*Fold) {}, foldEach: 4}, 1)
	t.Cleanup(func() { g.close() })
	c := g.cores[0]
	c.Hold("a", HoldSuspect)
	put := func() (folds int) {
		for i := range 10 {
			g.put(journal.Entry{ID: []byte("a"), Payload: fmt.Append(nil, i)})
			folds += len(c.takeFolds())
		}
		return folds
	}
	require.Zero(t, put())
	c.Let("a", HoldSuspect)
	require.NotZero(t, put())
}
