package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGuardJudges(t *testing.T) {
	g := guard{"w", 1, []floor{{"elapsed", elapsed, 0.75}, {"processor", processor, 0.75}, {"objects", lowest, 0.5}}, 0}
	theirs := sample{value: 3, seconds: 1, cpu: time.Second}
	for _, c := range []struct {
		mine sample
		want string // the names of what is too slow
	}{
		{sample{5, 1, time.Second}, ""},
		{sample{5, 2, time.Second}, "elapsed"},
		{sample{5, 1, 2 * time.Second}, "processor"},
		{sample{7, 1, time.Second}, "objects"},
		{sample{7, 2, 2 * time.Second}, "elapsed processor objects"},
	} {
		var out strings.Builder
		err := g.judge(c.mine, theirs, &out)
		assert.Len(t, strings.Split(strings.TrimSpace(out.String()), "\n"), 3)
		if c.want == "" {
			assert.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, errGate)
		for name := range strings.FieldsSeq(c.want) {
			assert.ErrorContains(t, err, "w, "+name+": ")
		}
		assert.Len(t, strings.Split(err.Error(), "\n"), len(strings.Fields(c.want)))
	}
}

func TestSampleKeepsTheBest(t *testing.T) {
	var s sample
	l := &lab{dir: t.TempDir()}
	for _, round := range []measured{{[]float64{5}, 2}, {[]float64{7}, 1}, {[]float64{4}, 3}} {
		require.NoError(t, s.add(t.Context(), l, func(context.Context, *lab) (measured, error) { return round, nil }, 0))
	}
	assert.Equal(t, 4.0, s.value)
	assert.Equal(t, 1.0, s.seconds)
	assert.Positive(t, s.cpu)
}

func TestGateNeedsItsWorkloads(t *testing.T) {
	t.Parallel()
	slow(t)
	for _, g := range guards {
		g.n = 10
		_, _, err := g.measure(t.Context(), t.TempDir())
		assert.NoError(t, err, g.workload)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	assert.ErrorIs(t, gate(ctx, t.TempDir(), io.Discard), enough)
	assert.ErrorContains(t, gate(t.Context(), "/not/there", io.Discard), "-dir")
}
