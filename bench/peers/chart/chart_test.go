package chart

import (
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot"
)

// texts reads the words of an SVG document, and fails if it is not one.
func texts(t *testing.T, svg []byte) (all []string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		if words, is := token.(xml.CharData); is && strings.TrimSpace(string(words)) != "" {
			all = append(all, strings.TrimSpace(string(words)))
		}
	}
}

func TestBars(t *testing.T) {
	svg, err := Bars("Title & <more>", "jobs/s", []Bar{{"first", 1.5e6, 1e6, 2e6, "a note", Ours}, {"second", 50, 0, 0, "", Other(0)}})
	require.NoError(t, err)
	words := strings.Join(texts(t, svg), "|")
	for _, want := range []string{"Title & <more>", "jobs/s, logarithmic", "first", "1.5M, a note", "second", "50", "1k"} {
		assert.Contains(t, words, want)
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, err := Bars("", "", []Bar{{"x", bad, 0, 0, "", Ours}})
		assert.ErrorContains(t, err, "more than zero")
	}
	_, err = Bars("", "", nil)
	assert.ErrorContains(t, err, "no bars")
	alone, err := Bars("", "", []Bar{{"alone", 7, 0, 0, "", Ours}})
	require.NoError(t, err)
	whiskers, err := Bars("", "", []Bar{{"alone", 7, 6, 8, "", Ours}})
	require.NoError(t, err)
	assert.Greater(t, len(whiskers), len(alone))
}

func TestLines(t *testing.T) {
	lines := []Line{{Name: "one", X: []float64{0, 10, 1000}, Y: []float64{5, 50, 500}, Color: Ours}, {Name: "two", X: []float64{10}, Y: []float64{7}, Color: Other(1)}}
	for _, a := range []Axes{
		{Title: "log", X: "x", Y: "y", LogX: true, LogY: true, Points: true},
		{Title: "plain", X: "x", Y: "y", FromZero: true},
	} {
		svg, err := Lines(a, lines)
		require.NoError(t, err)
		words := texts(t, svg)
		for _, want := range []string{a.Title, "x", "y", "one", "two"} {
			assert.Contains(t, words, want)
		}
	}
	axes := Axes{LogX: true, LogY: true, XTicks: []float64{0, 37}, Label: func(v float64) string { return "at " + Short(v) }}
	lines[0].Low, lines[0].High = []float64{4, 40, 400}, []float64{6, 60, 600}
	svg, err := Lines(axes, lines)
	require.NoError(t, err)
	assert.Subset(t, texts(t, svg), []string{"0", "37", "at 10", "at 100"})
	lines[0].High = lines[0].High[1:]
	_, err = Lines(axes, lines)
	assert.ErrorContains(t, err, "3 values and 3 to 2 ends")
	_, err = Lines(Axes{}, nil)
	assert.ErrorContains(t, err, "no curves")
	_, err = Lines(Axes{}, []Line{{Name: "odd", X: []float64{1}}})
	assert.ErrorContains(t, err, "1 places and 0 values")
	_, err = Lines(Axes{LogY: true}, []Line{{Name: "flat", X: []float64{1}, Y: []float64{0}}})
	assert.ErrorContains(t, err, "more than zero")
}

func TestTicks(t *testing.T) {
	ticks := Axes{LogX: true, XTicks: []float64{0, 1024, 10_240}}.ticks()
	assert.Equal(t, plot.ConstantTicks{{Value: 1, Label: "0"}, {Value: 1024, Label: "1024"}, {Value: 10_240, Label: "10.2k"}}, ticks)
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 7: "7", 999: "999", 999.9: "1k", 1000: "1k", 1234: "1.23k", 56_789: "56.8k", 1.5e6: "1.5M", 2e9: "2G"} {
		assert.Equal(t, want, Short(v))
	}
}
