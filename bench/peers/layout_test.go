package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/bench/peers/chart"
)

const checkedIn = "../report"

// box is what an element takes of a page; y points upwards.
type box struct {
	what                     string
	left, bottom, right, top float64
}

func (b box) meets(c box) bool {
	return b.left < c.right && c.left < b.right && b.bottom < c.top && c.bottom < b.top
}

var (
	sheet  = regexp.MustCompile(`viewBox="0 0 ([\d.]+) ([\d.]+)"`)
	filled = regexp.MustCompile(`<path d="M([\d.]+),([\d.]+)L([\d.]+),[\d.]+L[\d.]+,([\d.]+)L[^"]*Z" style="fill:#([0-9A-F]{6})"`)
)

type textElement struct {
	X      float64 `xml:"x,attr"`
	Y      float64 `xml:"y,attr"`
	Length float64 `xml:"textLength,attr"`
	Adjust string  `xml:"lengthAdjust,attr"`
	Style  string  `xml:"style,attr"`
	Words  string  `xml:",chardata"`
}

// boxes returns where the upright words of a chart stand in any font, since
// each says how long it is, and where its bars are.
func boxes(t *testing.T, svg []byte) (words, bars []box, page box) {
	t.Helper()
	number := func(text []byte) float64 {
		v, err := strconv.ParseFloat(string(text), 64)
		require.NoError(t, err)
		return v
	}
	size := sheet.FindSubmatch(svg)
	require.NotNil(t, size)
	page = box{"page", 0, 0, number(size[1]), number(size[2])}
	for _, p := range filled.FindAllSubmatch(svg, -1) {
		if string(p[5]) != "FFFFFF" {
			bars = append(bars, box{"bar", number(p[1]), number(p[2]), number(p[3]), number(p[4])})
		}
	}
	height := regexp.MustCompile(`font-size:([\d.]+)px`)
	upright := true // but for the name of the axis on the left
	for decoder := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := decoder.Token()
		if err != nil {
			break
		}
		start, is := token.(xml.StartElement)
		if end, closes := token.(xml.EndElement); closes && end.Name.Local == "g" {
			upright = true
		}
		if is && start.Name.Local == "g" {
			upright = !strings.Contains(start.Attr[0].Value, "rotate")
		}
		if !is || start.Name.Local != "text" {
			continue
		}
		var e textElement
		require.NoError(t, decoder.DecodeElement(&e, &start))
		assert.Positive(t, e.Length, e.Words)
		assert.Equal(t, "spacingAndGlyphs", e.Adjust, e.Words)
		if upright {
			tall := number(height.FindSubmatch([]byte(e.Style))[1])
			words = append(words, box{e.Words, e.X, -e.Y, e.X + e.Length, -e.Y + 0.7*tall})
		}
	}
	require.NotEmpty(t, words)
	return words, bars, page
}

// In every chart each word stands on the page, and on no other word and no bar.
func TestWordsOfChartsAreApart(t *testing.T) {
	long, err := chart.Bars("Long names & notes", "jobs/s", []chart.Bar{
		{Name: "a <name> that is as long as WWWWWWWWWWWWWW", Value: 1e6, Low: 9e5, High: 2e6, Note: "not fsynced, order broken", Color: chart.Ours},
		{Name: "i", Value: 10, Note: "fsynced", Color: chart.Other(0)}, {Name: "m", Value: 999, Color: chart.Other(1)},
	})
	require.NoError(t, err)
	charts := map[string][]byte{"long names": long}
	files, err := filepath.Glob(filepath.Join(checkedIn, "*.svg"))
	require.NoError(t, err)
	require.Len(t, files, 13)
	for _, file := range files {
		charts[file], err = os.ReadFile(file)
		require.NoError(t, err)
	}
	for name, svg := range charts {
		words, bars, page := boxes(t, svg)
		paper := filled.FindSubmatch(svg)
		assert.Equal(t, fmt.Sprintf("0,0 %v,%v FFFFFF", page.right, page.top), fmt.Sprintf("%s,%s %s,%s %s", paper[1], paper[2], paper[3], paper[4], paper[5]), "%s: legible on a dark page", name)
		for i, w := range words {
			assert.True(t, w.left >= 0 && w.right <= page.right && w.bottom >= 0 && w.top <= page.top, "%s: %q is not on the page", name, w.what)
			for _, other := range append(words[i+1:], bars...) {
				assert.False(t, w.meets(other), "%s: %v on %v", name, w, other)
			}
		}
	}
}

// TestChartsAreThoseOfTheData: what is checked in was drawn from the data beside it.
func TestChartsAreThoseOfTheData(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile(filepath.Join(checkedIn, "report.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "report.json"), data, 0o600))
	require.NoError(t, redraw(dir))
	files, err := filepath.Glob(filepath.Join(checkedIn, "*"))
	require.NoError(t, err)
	for _, file := range files {
		want, err := os.ReadFile(filepath.Join(dir, filepath.Base(file)))
		require.NoError(t, err)
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got), "%s: go run -C bench/peers . -redraw %s", file, checkedIn)
	}
	assert.ErrorContains(t, redraw(t.TempDir()), "no such file")
}

// TestReadmeSetsLikeBesideLike: bench/README.md has what the report says of one job per call,
// with as many callers.
func TestReadmeSetsLikeBesideLike(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	r, err := readReport(checkedIn)
	require.NoError(t, err)
	for _, s := range r.Against {
		if s.Of == "Strand, in memory" && s.Case == alone.Describe() {
			assert.Contains(t, string(text), fmt.Sprintf("| %s | %.2f", s.Peer, s.Ratio))
		}
	}
}
