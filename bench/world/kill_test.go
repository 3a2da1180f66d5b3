package world

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/strandjobs/strand/bench/child"
	"github.com/strandjobs/strand/journal"
)

var (
	deaths = flag.Int("kills", 0, "how many processes TestKilled kills in each world; 0: 2, 3 with STRAND_PUSH=1 and 8 with STRAND_LONG=1")
	on     = flag.String("dir", child.FastDir(), "where the worlds of TestKilled have their files")
)

// TestLife is what a process does that TestKilled starts.
func TestLife(t *testing.T) {
	Life(t, func(dir string, cfg journal.Config) (*journal.Log, error) {
		return journal.Open(filepath.Join(dir, "jobs.strand"), cfg)
	}, nil)
}

// The same worlds on a file, in processes that are killed by SIGKILL at random moments: what
// was promised holds, and what a process was told before its death is true in the next one.
func TestKilled(t *testing.T) {
	k := Killed{From: *from, Worlds: 2, Kills: 2, Dir: *on, Recorded: true, Check: func(dir string) error {
		_, err := journal.Check(filepath.Join(dir, "jobs.strand"))
		if errors.Is(err, journal.ErrNotJournal) {
			return nil // it was killed before there was one
		}
		return err
	}}
	if os.Getenv("STRAND_PUSH") != "" {
		k.Worlds, k.Kills = 10, 3
	}
	if os.Getenv("STRAND_LONG") != "" {
		k.Worlds, k.Kills = 2000, 8
	}
	k.Worlds = max(k.Worlds/oneIn, 2)
	if *seeds != 0 {
		k.Worlds = *seeds
	}
	if *deaths != 0 {
		k.Kills = *deaths
	}
	if *swarm != "" {
		k.Swarm = strings.Split(*swarm, ",")
	}
	k.Play(t)
}
