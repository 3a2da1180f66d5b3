//go:build unix

package postgres

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/format"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// repartitioned is [Repartition] of a rig, which has to succeed.
func (r *rig) repartitioned(t testing.TB, to int, change ...func(*Config)) Moved {
	t.Helper()
	moved, err := Repartition(t.Context(), r.url, r.config(change...), to, true)
	require.NoError(t, err)
	checked, err := Check(t.Context(), r.url, r.config())
	require.NoError(t, err)
	moved.Keys = checked.Keys // those for several partitions are counted in each
	require.Equal(t, checked, moved)
	require.Equal(t, to, checked.Partitions)
	var aside int
	require.NoError(t, r.pool.QueryRow(t.Context(), in(r.schema, `SELECT (SELECT count(*) FROM {schema}.tail WHERE partition < 0)
		+ (SELECT count(*) FROM {schema}.block WHERE partition < 0) + (SELECT count(*) FROM {schema}.side WHERE partition < 0)`)).Scan(&aside))
	require.Zero(t, aside)
	return moved
}

// grownJournals makes the journals of n partitions in dir, as they would have grown: each has positions, numbers of
// queues and of locks, and an epoch of its own, and ids that belong to it.
func grownJournals(t testing.TB, dir string, n int, cfg Config, rng *rand.Rand) {
	t.Helper()
	names := []string{dir}
	if n > 1 {
		require.NoError(t, os.Mkdir(dir, 0o700))
		note, err := json.Marshal(partsNote{partsVersion, n})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, partsFile), note, 0o600))
		names = nil
		for p := range n {
			names = append(names, filepath.Join(dir, partName(p)))
		}
	}
	ids := make([][]string, n)
	divide := cfg.divide(n)
	for i := range 8 * n {
		for _, id := range []string{fmt.Sprintf("tenant-%d/%d", i%(2*n), i), hostile[i%len(hostile)] + fmt.Sprint(i)} {
			p, err := divide.OwnerOf(id)
			require.NoError(t, err)
			ids[p] = append(ids[p], id)
		}
	}
	for p, name := range names {
		grownJournal(t, name, ids[p], rng)
	}
}

func grownJournal(t testing.TB, dir string, ids []string, rng *rand.Rand) {
	t.Helper()
	many := 5 * len(ids)
	b, err := journal.NewBuilder(dir, journal.Position(3*many+rng.IntN(100)+10), uint64(rng.IntN(50)))
	require.NoError(t, err)
	queues := []string{"mails", "jobs", "états", "others"}
	rng.Shuffle(len(queues), func(i, j int) { queues[i], queues[j] = queues[j], queues[i] })
	queues = queues[:2+rng.IntN(3)]
	for i, name := range queues {
		require.NoError(t, b.Queue(name, uint32(i+1)))
	}
	of := make(map[string][]journal.Position)
	set := func(key string, value []byte) {
		require.NoError(t, b.Set(journal.Set{Key: key, Value: value}))
	}
	pick := func(id string) journal.Position { return of[id][rng.IntN(len(of[id]))] }
	for i := range many {
		if len(ids) == 0 {
			break
		}
		id, queue := ids[rng.IntN(len(ids))], uint32(rng.IntN(len(queues))+1)
		e := journal.Entry{Kind: journal.KindEnqueued, Queue: queue, Position: journal.Position(3*i + 1 + rng.IntN(3)), ID: []byte(id),
			Due: rng.Int64N(1e18), Score: rng.Float64(), Payload: fmt.Append(nil, rng.IntN(10)), Restored: rng.IntN(5) == 0}
		at := e.Position
		switch kind := rng.IntN(6); {
		case kind == 0 && of[id] != nil:
			e = journal.Entry{Kind: journal.KindState, Queue: queue, Position: at, ID: []byte(id), Due: e.Due, Retry: rng.IntN(9) - 1, Error: []byte("it failed")}
			e.Failed = [][]journal.Position{nil, {0}, {0, 5}, {0, 7e17, pick(id)}, {0, 7e17, 0}, {pick(id), pick(id)},
				{0, 0, journal.Position(math.Float64bits(-1.5)), pick(id)}}[rng.IntN(7)]
			require.NoError(t, b.Add(e))
			continue
		case kind == 1:
			require.NoError(t, b.Bury(journal.Buried{Entry: e, Retry: 3, Reason: "dead", At: e.Due}))
		default:
			require.NoError(t, b.Add(e))
		}
		of[id] = append(of[id], at)
		switch rng.IntN(4) {
		case 0:
			value := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 1e18), uint64(at)), 1)
			set(fmt.Sprintf("key/4/jobs/%d of %s", i, id), value)
		case 1:
			v := binary.AppendVarint(binary.AppendVarint(binary.AppendUvarint([]byte{1, 0}, uint64(at)), 5), 0)
			v = append(format.AppendText(format.AppendText(v, "jobs"), id), "lock of "+id...)
			set(string(binary.BigEndian.AppendUint64([]byte("lock/"), uint64(i+1))), v)
		case 2:
			set(fmt.Sprintf("suspect/%016x", uint64(at)), slices.Repeat([]byte{0, 0, 0, 0, 0, 0, 0, 1}, 2))
		case 3:
			set(fmt.Sprintf("pause/id/4/jobs/%s", id), []byte{1, 2})
		}
	}
	set("mark/feed", binary.BigEndian.AppendUint64(nil, uint64(rng.IntN(1000))))
	set("mark/cron/tick/daily", binary.BigEndian.AppendUint64(nil, uint64(rng.IntN(1000))))
	if rng.IntN(3) == 0 {
		set("pause/queue/mails", []byte{1, 2})
	}
	require.NoError(t, b.Finish())
}

// contents are what the partitions of a schema have, without the numbers that they give: what is of an id, in its order, and
// the state keys, each once. Positions are by their places among those of their id.
func contents(t testing.TB, r *rig, cfg Config) (ids map[string][]string, keys []string) {
	t.Helper()
	ids = make(map[string][]string)
	err := Look(t.Context(), r.url, r.config(), func(s Stats, views []*journal.View) error {
		divide := cfg.divide(len(views))
		for p, v := range views {
			u := alone(v)
			of, places := make(map[string][]journal.Position), make(map[journal.Position]string)
			var entries []journal.Entry
			var edits []string
			for p2, err := range u.pieces {
				require.NoError(t, err)
				if p2.entry == nil {
					continue
				}
				owner, err := divide.OwnerOf(string(p2.entry.ID))
				require.NoError(t, err)
				require.Equal(t, p, owner)
				require.Less(t, p2.entry.Position, v.Info().Next)
				e := *p2.entry
				e.ID, e.Payload, e.Failed = slices.Clone(e.ID), slices.Clone(e.Payload), slices.Clone(e.Failed)
				entries, edits = append(entries, e), append(edits, fmt.Sprint(p2.live(), u.queues[e.Queue-1]))
				of[string(e.ID)] = append(of[string(e.ID)], e.Position)
				require.NotContains(t, places, e.Position, "a position comes twice")
				places[e.Position] = ""
			}
			for id, all := range of {
				slices.Sort(all)
				for i, at := range all {
					places[at] = fmt.Sprintf("%q/%d", id, i)
				}
			}
			for i, e := range entries {
				failed := make([]string, len(e.Failed))
				for j, at := range e.Failed {
					times := map[int]int{1: 1, 2: 2, 3: 2, 4: 3}[len(e.Failed)] // and a score, if it begins with 0
					switch _, is := slices.BinarySearch(of[string(e.ID)], at); {
					case e.Failed[0] == 0 && j < times:
						failed[j] = fmt.Sprint(uint64(at))
					case is:
						failed[j] = places[at]
					default: // it has gone, or is of another id, which refers to nothing
						failed[j] = "gone"
					}
				}
				ids[string(e.ID)] = append(ids[string(e.ID)], fmt.Sprintf("%s %s: kind %d due %d score %v payload %q restored %v retry %d failed %v %s",
					places[e.Position], edits[i], e.Kind, e.Due, e.Score, e.Payload, e.Restored, e.Retry, failed, e.Error))
			}
			keys = append(keys, keysOf(t, v, places)...)
		}
		return nil
	})
	require.NoError(t, err)
	for _, all := range ids {
		slices.Sort(all)
	}
	slices.Sort(keys)
	return ids, slices.Compact(keys)
}

func keysOf(t testing.TB, v *journal.View, places map[journal.Position]string) (keys []string) {
	t.Helper()
	for s, err := range v.Keys() {
		require.NoError(t, err)
		text := fmt.Sprintf("%q %x", s.Key, s.Value)
		switch kind, _, _ := strings.Cut(s.Key, "/"); kind {
		case "key":
			place := places[journal.Position(binary.BigEndian.Uint64(s.Value[8:]))]
			if place == "" { // in another partition
				continue
			}
			text = fmt.Sprintf("%q: %s", s.Key, place)
		case "lock":
			l, err := parseLock(s)
			require.NoError(t, err)
			text = fmt.Sprintf("lock of %q: %q", places[journal.Position(l.at)], l.rest)
		case "suspect":
			var at uint64
			_, err := fmt.Sscanf(s.Key, "suspect/%016x", &at)
			require.NoError(t, err)
			require.NotEmpty(t, places[journal.Position(at)])
			text = "suspect " + places[journal.Position(at)]
		case "mark":
			continue
		}
		keys = append(keys, text)
	}
	return keys
}

// With one partition another function may divide the ids from then on.
func TestRepartitionByAnotherFunction(t *testing.T) {
	t.Parallel()
	r, dir, tenant := newRig(t, pgtest.Shared(t).URL(), 3), filepath.Join(t.TempDir(), "journals"), func(cfg *Config) { cfg.Partition = tenantOf("/") }
	grownJournals(t, dir, 3, r.config(), rand.New(rand.NewPCG(3, 3)))
	_, err := Import(t.Context(), r.url, r.config(), dir)
	require.NoError(t, err)
	ids, keys := contents(t, r, r.config())
	_, err = Repartition(t.Context(), r.url, r.config(tenant), 5, true)
	require.ErrorIs(t, err, ErrPartitions)
	r.repartitioned(t, 1)
	r.repartitioned(t, 5, tenant)
	gotIDs, gotKeys := contents(t, r, r.config(tenant))
	require.Equal(t, ids, gotIDs)
	require.Equal(t, keys, gotKeys)
	_, err = Open(t.Context(), r.url, r.config())
	require.ErrorIs(t, err, ErrPartitions)
}

// Whatever partitions have becomes what any other number of them has: what is of an id in its order, with what refers
// to it.
func TestRepartition(t *testing.T) {
	t.Parallel()
	url := pgtest.Shared(t).URL()
	tenant := func(cfg *Config) { cfg.Partition = tenantOf("/") }
	for i, numbers := range [][]int{{1, 7, 3}, {7, 3, 5}, {16, 5, 16}, {3, 16, 4, 8}, {4, 2, 1}, {2, 3, 2, 4, 1, 6}} {
		for name, change := range map[string]func(*Config){"by id": func(*Config) {}, "by tenant": tenant} {
			if times(1, 2) == 1 && (name == "by id") != (i%2 == 0) {
				continue // each numbers one way, and all of them both ways in the long tier
			}
			t.Run(fmt.Sprint(numbers, " ", name), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(uint64(i), 7))
				r, dir := newRig(t, url, numbers[0]), filepath.Join(t.TempDir(), "journals")
				cfg := r.config(change)
				grownJournals(t, dir, numbers[0], cfg, rng)
				first, err := Import(t.Context(), url, cfg, dir)
				require.NoError(t, err)
				ids, keys := contents(t, r, cfg)
				require.NotEmpty(t, ids)
				for _, n := range numbers[1:] {
					moved := r.repartitioned(t, n, change)
					require.Equal(t, []int{first.Live, first.Buried, first.Queues}, []int{moved.Live, moved.Buried, moved.Queues})
					gotIDs, gotKeys := contents(t, r, cfg)
					require.Equal(t, ids, gotIDs)
					require.Equal(t, keys, gotKeys)
				}
				if numbers[len(numbers)-1] > 1 {
					_, err = Open(t.Context(), url, r.config(func(cfg *Config) { cfg.Partition = tenantOf(":") }))
					require.ErrorIs(t, err, ErrPartitions)
				}
				x, err := Open(t.Context(), url, cfg)
				require.NoError(t, err)
				require.NoError(t, x.Stop(t.Context()))
			})
		}
	}
}
