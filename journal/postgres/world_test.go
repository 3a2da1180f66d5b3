//go:build unix

package postgres

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strandjobs/strand/bench/child"
	"github.com/strandjobs/strand/bench/world"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// at is where a world has its partition.
type at struct {
	URL, Schema string
	Partition   int
}

const placeFile = "place"

// own is a store with the pool that its process has for it.
type own struct {
	*partitionStore
	pool *pgxpool.Pool
}

func (o own) Close() error {
	err := o.partitionStore.Close()
	o.pool.Close()
	return err
}

// TestLife is what a process does that TestWorlds starts: it takes the partition from the
// one that was killed, whose last commit may be under way.
func TestLife(t *testing.T) {
	world.Life(t, func(dir string, cfg journal.Config) (*journal.Log, error) {
		text, err := os.ReadFile(filepath.Join(dir, placeFile))
		if err != nil {
			return nil, err
		}
		var p at
		if err := json.Unmarshal(text, &p); err != nil {
			return nil, err
		}
		pool, err := newPool(context.Background(), p.URL, true, 4)
		if err != nil {
			return nil, err
		}
		epoch, err := take(context.Background(), pool, p.Schema, p.Partition)
		if err != nil {
			return nil, err
		}
		s, err := openStore(context.Background(), pool, p.Schema, p.Partition, epoch)
		if err != nil {
			return nil, err
		}
		return journal.OpenStore(own{s, pool}, cfg)
	})
}

// What the worlds of bench/world promise holds on the log of a partition, too, when the
// processes that have it are killed.
func TestWorlds(t *testing.T) {
	t.Parallel()
	worlds := times(4, 200)
	r := newRig(t, pgtest.Shared(t).URL(), worlds)
	world.Killed{
		From: 1, Worlds: worlds, Kills: 2, Dir: child.FastDir(),
		Prepare: func(dir string) error {
			text, err := json.Marshal(at{r.url, r.schema, int(r.next.Add(1)) - 1})
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, placeFile), text, 0o600)
		},
	}.Play(t)
}
