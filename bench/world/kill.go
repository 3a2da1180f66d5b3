package world

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strandjobs/strand/bench/child"
)

// Killed are worlds in processes that are killed: see On a file, and killed. The program
// that plays them has a test with the name TestLife, which calls [Life].
type Killed struct {
	From     uint64   // the first seed
	Worlds   int      // as many seeds
	Kills    int      // from outside, in each world
	Swarm    []string // features that each world has; nil: they are drawn
	Dir      string   // of the directories of the worlds
	Recorded bool     // their journals know what ran when a process died

	// Prepare is called with the directory of each world, before its first life, by
	// several goroutines. Nil: there is nothing to do.
	Prepare func(dir string) error

	// Check is called with that directory after each life, in the same way. Nil: there is
	// nothing to look at.
	Check func(dir string) error
}

// Play plays the worlds, some at a time. One that fails is printed, and its directory stays.
func (k Killed) Play(t *testing.T) {
	t.Helper()
	began := time.Now()
	next := atomic.Uint64{}
	next.Store(k.From)
	var mu sync.Mutex
	var all tally
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := next.Add(1) - 1; seed < k.From+uint64(k.Worlds); seed = next.Add(1) - 1 {
				seen := k.world(t, seed)
				mu.Lock()
				all.add(seen)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%v in %v", &all, time.Since(began).Round(time.Millisecond))
}

// world plays the world of a seed.
func (k Killed) world(t *testing.T, seed uint64) tally {
	dir, err := os.MkdirTemp(k.Dir, "strand-world-")
	if err == nil && k.Prepare != nil {
		err = k.Prepare(dir)
	}
	if err != nil {
		t.Error(err)
		return tally{}
	}
	s := writeForFile(seed, k.Recorded, k.Swarm...)
	seen, failure := k.playOnFile(s, rand.New(rand.NewPCG(seed, uint64(time.Now().UnixNano()))), dir)
	if failure != "" {
		t.Errorf("seed %d, whose files are in %s: %s\n%s", seed, dir, failure, s)
		return seen
	}
	_ = os.RemoveAll(dir)
	return seen
}

// tally is what was seen of worlds on a file.
type tally struct {
	worlds, lives          int
	killed                 int // lives that were killed from outside; others killed themselves, or came to the end
	steps, calls           int // calls of handlers
	acked, refused, either int // payloads; either: killed before the caller was told
}

func (t *tally) add(more tally) {
	t.worlds += more.worlds
	t.lives += more.lives
	t.killed += more.killed
	t.steps += more.steps
	t.calls += more.calls
	t.acked += more.acked
	t.refused += more.refused
	t.either += more.either
}

func (t *tally) String() string {
	return fmt.Sprintf("%d worlds, %d lives, %d of them killed from outside, %d steps, %d payloads acknowledged, %d refused, %d unknown, %d calls of handlers",
		t.worlds, t.lives, t.killed, t.steps, t.acked, t.refused, t.either, t.calls)
}

// limits of a life, and of the lives of a world.
const (
	longestLife = 10 * time.Minute // on a busy machine
	mostLives   = 500
)

// mortal is a world on a file, as the process sees it that outlives it.
type mortal struct {
	tally
	dir     string
	rand    *rand.Rand
	memory  []byte // of the last process
	failure string
	over    bool
}

// playOnFile plays a script in processes, of which some are killed at random moments,
// until one comes to its end. dir is empty; what is wrong is returned.
func (k Killed) playOnFile(s script, r *rand.Rand, dir string) (tally, string) {
	m := &mortal{dir: dir, rand: r, tally: tally{worlds: 1}}
	err := os.WriteFile(filepath.Join(dir, scriptFile), []byte(s.String()), 0o600)
	for err == nil && !m.over && m.failure == "" {
		m.lives++
		if m.lives > mostLives {
			err = fmt.Errorf("%d lives, and no end", m.lives)
			break
		}
		err = m.live(m.killed < k.Kills)
		if err == nil && k.Check != nil {
			err = k.Check(dir)
		}
	}
	if err != nil && m.failure == "" {
		m.failure = err.Error()
	}
	if m.failure != "" {
		m.failure = fmt.Sprintf("life %d: %s", m.lives, m.failure)
	}
	m.count()
	return m.tally, m.failure
}

// live has a process live a life, and kills it, if that is asked for and it comes to that.
func (m *mortal) live(kill bool) error {
	if err := os.WriteFile(filepath.Join(m.dir, memoryFile), m.memory, 0o600); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	p, err := child.New([]string{lifeVariable + "=" + m.dir}, program, "-test.run=^TestLife$")
	if err != nil {
		return err
	}
	lines, moment := 0, 1+m.rand.IntN(1<<(1+m.rand.IntN(9)))
	late := time.Duration(m.rand.IntN(int(time.Millisecond)))
	var timer *time.Timer
	err = p.Start(func(line string) error {
		if lines++; kill && lines == moment {
			timer = time.AfterFunc(late, p.Kill)
		}
		return m.hear(line)
	})
	if err != nil {
		return err
	}
	broken, died := p.End(longestLife)
	if timer != nil && !timer.Stop() {
		m.killed++
	}
	switch {
	case broken != nil:
		return broken
	case m.failure == "" && (p.Crashed() || !m.over && (died == nil || !strings.Contains(died.Error(), "signal: killed"))):
		return fmt.Errorf("it ended with %v: %s", died, p.LastWords())
	}
	return nil
}

// hear takes in a line; the last one may have been cut off by the kill.
func (m *mortal) hear(line string) (err error) {
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case "w":
		size, text, _ := strings.Cut(rest, " ")
		if strconv.Itoa(len(text)) != size {
			return nil
		}
		m.memory, err = base64.StdEncoding.DecodeString(text)
	case "x":
		m.failure, err = strconv.Unquote(rest)
	case "z":
		m.over = true
	}
	return err
}

// count counts what the last process has left.
func (m *mortal) count() {
	if len(m.memory) == 0 {
		return
	}
	past, err := unpack(m.memory)
	if err != nil {
		m.failure = errors.Join(errors.New(m.failure), err).Error()
		return
	}
	m.steps = past.epoch
	for _, i := range past.ledger.items {
		m.calls += i.calls
		switch i.state {
		case acked:
			m.acked++
		case refused:
			m.refused++
		default:
			m.either++
		}
	}
}
