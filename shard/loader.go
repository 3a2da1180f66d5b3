package shard

import (
	"cmp"
	"runtime"
	"slices"
	"sync"

	"github.com/strandjobs/strand/journal"
)

// loader has the cores of a queue take in what was pending when the journal was
// opened, a stride at a time and in position order. Every processor takes part:
// each reads some entries of the stride, then each goes through all of them for
// its own cores. So what is not in memory is read back once, as it stands on
// the disk.
type loader struct {
	cores []*Core
	route func(id []byte) int
	see   func([]journal.Entry)

	// Of the stride.
	refs    []journal.Ref
	entries []journal.Entry
	coreOf  []int

	weights []Weight // by processor
}

// strideBytes bounds the entries of a stride, which is a part of a page: their
// readers should still have them at hand when they take them in.
const strideBytes = 2 << 20

// LoadAll has new cores take in the pending entries of their queue, before [New] gets
// them, and lets go of the pages. It returns what the payloads weigh. route returns
// the index of the core for an id; see is shown each entry once, some at a time. Both
// are called by several goroutines. When an entry can't be read, LoadAll returns the
// error of the [journal], and the cores are of no use.
func LoadAll(cores []*Core, pending [][]journal.Ref, route func(id []byte) int, see func([]journal.Entry)) (all Weight, err error) {
	l := &loader{cores: cores, route: route, see: see, weights: make([]Weight, runtime.GOMAXPROCS(0))}
	for i, page := range pending {
		if err := l.page(page); err != nil {
			return Weight{}, err
		}
		pending[i] = nil
	}
	for _, w := range l.weights {
		all = all.Plus(w)
	}
	return all, nil
}

// page has the cores take in a page, in strides.
func (l *loader) page(refs []journal.Ref) error {
	l.entries = slices.Grow(l.entries[:0], len(refs))[:len(refs)]
	l.coreOf = slices.Grow(l.coreOf[:0], len(refs))[:len(refs)]
	for len(refs) > 0 {
		n := stride(refs)
		l.refs, refs = refs[:n], refs[n:]
		if err := l.together(l.read); err != nil {
			return err
		}
		if err := l.together(l.takeIn); err != nil {
			return err
		}
	}
	return nil
}

// stride returns how many entries the next stride has.
func stride(refs []journal.Ref) (n int) {
	for bytes := 0; n < len(refs) && bytes < strideBytes; n++ {
		bytes += refs[n].Size()
	}
	return n
}

// together has every processor do its part.
func (l *loader) together(do func(part int) error) error {
	errs := make([]error, len(l.weights))
	var group sync.WaitGroup
	for part := range errs {
		group.Go(func() { errs[part] = do(part) })
	}
	group.Wait()
	return cmp.Or(errs...)
}

// read reads a part of the stride and finds out whose the entries are.
func (l *loader) read(part int) error {
	parts, weight := len(l.weights), Weight{}
	from, to := part*len(l.refs)/parts, (part+1)*len(l.refs)/parts
	for i := from; i < to; i++ {
		e := &l.entries[i]
		if err := l.refs[i].Read(e); err != nil {
			return err
		}
		if e.Kind == journal.KindEnqueued {
			weight = weight.Plus(weightOf(l.refs[i]))
		}
		l.coreOf[i] = l.route(e.ID)
	}
	l.weights[part] = l.weights[part].Plus(weight)
	l.see(l.entries[from:to])
	return nil
}

// takeIn has a part of the cores take in what is theirs, some entries at a time:
// what each begins with is seldom in the cache.
func (l *loader) takeIn(part int) error {
	mine := make([]int, 0, 64)
	for i := 0; i < len(l.refs); mine = mine[:0] {
		for ; i < len(l.refs) && len(mine) < cap(mine); i++ {
			if s := l.coreOf[i]; s%len(l.weights) == part {
				l.cores[s].prefetchID(l.entries[i].ID)
				mine = append(mine, i)
			}
		}
		for _, i := range mine {
			l.cores[l.coreOf[i]].Load(&l.entries[i], l.refs[i])
		}
	}
	return nil
}
