package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
)

// divide says which of so many partitions an id belongs to: the remainder of a hash, so that with
// a multiple of them those of one are divided, and none has ids of two; see router. No other hash may take its
// place: nodes of two versions must agree.
func (cfg Config) divide(partitions int) executor.Splitter {
	return executor.Splitter{Nodes: partitions, Owner: func(id string) int {
		if cfg.Partition != nil {
			id = cfg.Partition(id)
		}
		h := fnv.New64a()                                      // RFC 9923
		_, _ = h.Write([]byte(id))                             // does not fail
		high, low := bits.Mul64(h.Sum64(), 0x9e3779b97f4a7c15) // its low bits heed only those of each byte
		return int((high ^ low) % uint64(partitions))
	}}
}

// probes are ids of many shapes, on which two functions Config.Partition that differ are likely
// to: names with each of some separators, twice or thrice, in upper and lower case, and what is
// odd. What a schema has of them is compared, and so new ones may be added at the end, and none
// changed.
var probes = func() (ids []string) {
	for _, between := range []string{"/", ":", "-", "_", ".", "|", "#", "@", " "} {
		for i, name := range []string{"a", "b", "A", "Tenant", "tenant", "7", "42", "é"} {
			ids = append(ids, strings.Join([]string{name, fmt.Sprint(i)}, between),
				strings.Join([]string{name, "7", "x"}, between))
		}
		ids = append(ids, between, between+"a", "a"+between)
	}
	for i := range 16 {
		ids = append(ids, fmt.Sprint(i), fmt.Sprint("order", i), fmt.Sprintf("%08X-0000-4000-8000-%012x", i*2654435761, i))
	}
	ids = append(ids, "", "\xff", "{\"tenant\":7}", strings.Repeat("long", 50), "a/"+strings.Repeat("b/", 100))
	for _, between := range []string{",", ";", "=", "::", "--", "\t", "\\", "+", "~", "$", "%", "&", "\x00", "→"} {
		ids = append(ids, "a"+between+"7", "Tenant"+between+"7"+between+"x")
	}
	return ids
}()

// noPartition stands for that of a probe for which Config.Partition panics.
const noPartition = -1

// divisionOf returns the partitions of the probes.
func divisionOf(divide executor.Splitter) []int32 {
	division := make([]int32, len(probes))
	for i, id := range probes {
		division[i] = noPartition
		_ = guarded(func() error {
			number, err := divide.OwnerOf(id)
			if err == nil {
				division[i] = int32(number)
			}
			return err
		})
	}
	return division
}

// Of several that write at a time the first counts: the others read it.
const (
	settleRead  = "SELECT division, coalesce(divider, ''), made FROM {schema}.version"
	settleWrite = "UPDATE {schema}.version SET division = $1, divider = $2 WHERE division IS NULL"
)

// settle compares the partitions that ids belong to by cfg with those that the schema was
// divided by, and returns what it has of the probes, and the statements for it. The first that
// settles it divides it; without first that is left to another call.
func (cfg Config) settle(ctx context.Context, q querier, divide executor.Splitter, first bool) (division []int32, texts texts, err error) {
	mine, done := [2][]int32{}, make(chan struct{})
	go func() { // the function is the user's: it may block
		defer close(done)
		mine[0], mine[1] = divisionOf(divide), divisionOf(divide)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return nil, texts, context.Cause(ctx)
	}
	if i := differs(mine[0], mine[1]); i >= 0 {
		return nil, texts, fmt.Errorf("%w: Partition has id %.40q in %s and then in %s; it has to return the same each time",
			ErrConfig, probes[i], named(mine[0][i]), named(mine[1][i]))
	}
	if !slices.ContainsFunc(mine[0], func(p int32) bool { return p != noPartition }) {
		return nil, texts, fmt.Errorf("%w: Partition panics for each id that was tried, as %.40q", executor.ErrConfig, probes[0])
	}
	var divider string
	var made time.Time
	read := func() error { return q.QueryRow(ctx, in(cfg.Schema, settleRead)).Scan(&division, &divider, &made) }
	if err = read(); err == nil && division == nil && first {
		if _, err = q.Exec(ctx, in(cfg.Schema, settleWrite), mine[0], cfg.Name); err == nil {
			err = read()
		}
	}
	if err == nil && division == nil && first {
		err = errors.New("its table version takes no division")
	}
	if err != nil {
		return nil, texts, fmt.Errorf("postgres: schema %q: its division is compared: %w", cfg.Schema, err)
	}
	if i := differs(division, mine[0]); i >= 0 {
		return nil, texts, fmt.Errorf("%w: schema %q was opened first by node %q, whose Config.Partition has id %.40q in %s, and that of this program in %s; "+
			"give both the same, or Repartition to 1 with the old one, and from there with the new one",
			ErrPartitions, cfg.Schema, divider, probes[i], named(division[i]), named(mine[0][i]))
	}
	return division, textsFor(cfg.Schema, made, divide.Nodes), nil
}

// differs returns the first probe in which two divisions do, or -1.
func differs(a, b []int32) int {
	for i := range min(len(a), len(b), len(probes)) {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

func named(partition int32) string {
	if partition == noPartition {
		return "none (it panics)"
	}
	return fmt.Sprint("partition ", partition)
}

// otherSchema is the SQLSTATE of the function same.
const otherSchema = "SD002"

// errRemade is what a node says when the schema is no longer the one that it has opened.
var errRemade = fmt.Errorf("%w: the schema was made anew, migrated, or divided in another way while this node had it open; open it again", ErrPartitions)
