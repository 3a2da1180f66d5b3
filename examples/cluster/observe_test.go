//go:build unix

package main

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a node shows is of the partitions that it owns: with another node each of them has its own, and the pages of one
// lead to those of the other.
func TestNodesShowWhatTheyOwn(t *testing.T) {
	cfg := newConfig()
	cfg.nodes, cfg.callers = 2, 0
	c, err := newCluster(t.Context(), cfg, t.Output())
	if errors.Is(err, errMissing) {
		t.Skip(err)
	}
	t.Cleanup(c.close)
	require.NoError(t, err)
	var living sync.WaitGroup
	t.Cleanup(living.Wait) // when the context has ended

	at := func(i int) string { return "http://" + c.members[i].life.Load().address + "/" }
	get := func(url string) string {
		answer, err := http.Get(url)
		if err != nil {
			return ""
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		assert.NoError(t, err)
		return string(text)
	}
	workers := regexp.MustCompile(`strand_workers{partition="(\d+)"}`)
	scrape := func(i int) (partitions []string) {
		for _, found := range workers.FindAllStringSubmatch(get(at(i)+"metrics"), -1) {
			partitions = append(partitions, found[1])
		}
		return partitions
	}
	start := func(i int) {
		living.Go(func() { c.members[i].live(t.Context()) })
		require.Eventually(t, func() bool { return c.members[i].life.Load() != nil }, time.Minute, 10*time.Millisecond)
	}
	start(0)
	require.Eventually(t, func() bool { return len(scrape(0)) == cfg.partitions }, time.Minute, 20*time.Millisecond)
	serves := func(i, partitions int) { // a partition has figures a moment before it is served
		t.Helper()
		require.Eventually(t, func() bool { return strings.Count(get(at(i)), "<td>this node") == partitions }, time.Minute, 20*time.Millisecond)
	}
	serves(0, cfg.partitions)

	start(1)
	var ours, theirs []string
	require.Eventually(t, func() bool {
		ours, theirs = scrape(0), scrape(1)
		return len(theirs) > 0 && len(ours)+len(theirs) == cfg.partitions
	}, time.Minute, 20*time.Millisecond, "what was given away is shown no longer")
	serves(1, len(theirs))
	require.NotContains(t, ours, theirs[0])
	require.Contains(t, get(at(0)), "<td>node 2")
	require.Contains(t, get(at(1)+"jobs/"), "numbers", "the queue of all partitions")
}
