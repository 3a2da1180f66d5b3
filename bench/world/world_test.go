package world

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cmap "github.com/orcaman/concurrent-map"
	"github.com/stretchr/testify/require"
)

// A life has an actor system of its own, whose registry is 1,024 maps of so many parts: with
// 32, as is the default, they are a third of what a world takes.
func init() { cmap.SHARD_COUNT = 1 }

var (
	seeds   = flag.Int("seeds", 0, "how many worlds TestWorld plays; 0: 20, 2,000 with STRAND_PUSH=1 and 20,000 with STRAND_LONG=1")
	from    = flag.Uint64("from", 1, "the first seed of TestWorld")
	swarm   = flag.String("swarm", "", "features that each world has, instead of a draw, with commas")
	shown   = flag.Int("shrink", 3, "how many failing worlds TestWorld shrinks")
	patient = flag.Duration("for", 20*time.Second, "how long it shrinks each")
	file    = flag.String("script", "", "a script that TestReplay plays")
)

// Each seed draws some features and faults and what happens, and what was promised holds.
func TestWorld(t *testing.T) { playSeeds(t, 1, write) }

// The same without a disk: payloads that come alone are in no commit there.
func TestWorldInMemory(t *testing.T) { playSeeds(t, 4, writeForMemory) }

// The same on several nodes, whose partitions move.
func TestWorldOnCluster(t *testing.T) { playSeeds(t, 5, writeForCluster) }

// playSeeds plays worlds; without -seeds, one in some of them.
func playSeeds(t *testing.T, each int, write func(uint64, ...string) script) {
	var only []string
	if *swarm != "" {
		only = strings.Split(*swarm, ",")
	}
	worlds := *seeds
	if worlds == 0 {
		worlds = 20 / oneIn
		if os.Getenv("STRAND_PUSH") != "" {
			worlds = 1000 / oneIn
		}
		if os.Getenv("STRAND_LONG") != "" {
			worlds = 20_000 / oneIn
		}
		worlds = max(worlds/each, 1)
	}
	next := atomic.Uint64{}
	next.Store(*from)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(256 << 20))
	began := time.Now()
	var mu sync.Mutex
	var workers sync.WaitGroup
	failures := 0
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				seed := next.Add(1) - 1
				if seed >= *from+uint64(worlds) {
					return
				}
				s := write(seed, only...)
				late := time.AfterFunc(5*time.Minute, func() { panic(fmt.Sprintf("seed %d does not come to its end", seed)) })
				failure := perform(t, s, nil)
				late.Stop()
				if failure == "" {
					continue
				}
				mu.Lock()
				if failures++; failures <= *shown {
					s, failure = shrink(t, s, failure, *patient)
					t.Errorf("seed %d: %s\n%s", seed, failure, s)
				} else {
					t.Errorf("seed %d: %s", seed, failure)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d worlds, %.0f a second", worlds, float64(worlds)/time.Since(began).Seconds())
}

// A script is what a failure of TestWorld prints. Those of testdata have shown faults that
// are mended.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/*.script")
	if *file != "" {
		files, err = []string{*file}, nil
	}
	require.NoError(t, err)
	for _, name := range files {
		short := strings.TrimSuffix(filepath.Base(name), ".script")
		if *file == "" && slices.ContainsFunc(pending, func(e exception) bool { return e.script == short }) {
			continue
		}
		t.Run(short, func(t *testing.T) {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			s, err := parse(string(text))
			require.NoError(t, err)
			require.Empty(t, perform(t, s, t.Output()))
		})
	}
}

// A script can be written down and read again.
func TestScripts(t *testing.T) {
	for seed := range uint64(50) {
		s := write(seed)
		again, err := parse(s.String())
		require.NoError(t, err)
		require.Equal(t, s.String(), again.String())
	}
}
