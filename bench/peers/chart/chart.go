// Package chart draws figures as SVG: bars on a logarithmic scale, curves, and
// distributions.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	width     = 8.5 * vg.Inch
	barHeight = 0.24 * vg.Inch
	margin    = 1.1 * vg.Inch // title, axis and legend
	tall      = 4 * vg.Inch
	edge      = 0.1 * vg.Inch
	gap       = 4 * vg.Length(1) // between a bar and its note

	legendWidth = 2.3 * vg.Inch
)

// Palette: our own figures stand out, the others are told apart.
var (
	Ours   = color.RGBA{R: 0xd0, G: 0x4a, B: 0x1f, A: 0xff}
	ink    = color.RGBA{R: 0x22, G: 0x22, B: 0x22, A: 0xff}
	faint  = color.RGBA{R: 0xdd, G: 0xdd, B: 0xdd, A: 0xff}
	others = []color.RGBA{
		{R: 0x1f, G: 0x5f, B: 0x99, A: 0xff}, {R: 0x3a, G: 0x8f, B: 0x5c, A: 0xff}, {R: 0x8a, G: 0x56, B: 0xa8, A: 0xff},
		{R: 0xb0, G: 0x8a, B: 0x1e, A: 0xff}, {R: 0x4f, G: 0xa3, B: 0xb8, A: 0xff}, {R: 0xa8, G: 0x3f, B: 0x66, A: 0xff},
		{R: 0x77, G: 0x77, B: 0x77, A: 0xff}, {R: 0x5b, G: 0x6e, B: 0x2e, A: 0xff}, {R: 0xc7, G: 0x8a, B: 0x6a, A: 0xff},
	}
)

// Other returns the i-th colour for what is not ours.
func Other(i int) color.Color { return others[i%len(others)] }

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Variant, p.X.Label.TextStyle.Font.Variant, p.Y.Label.TextStyle.Font.Variant = "Sans", "Sans", "Sans"
	p.X.Tick.Label.Font.Variant, p.Y.Tick.Label.Font.Variant, p.Legend.TextStyle.Font.Variant = "Sans", "Sans", "Sans"
	p.Title.TextStyle.Font.Size, p.Title.Padding = vg.Points(13), vg.Points(8)
	p.Title.TextStyle.Color = ink
	return p
}

// svg returns p as an SVG document, with its legend beside it.
func svg(p *plot.Plot, legend *plot.Legend, h vg.Length) ([]byte, error) {
	canvas := vgsvg.New(width, h)
	page := draw.New(canvas) // white up to its edges: what shows it may be dark, and the ink is not
	page.FillPolygon(color.White, []vg.Point{{}, {X: width}, {X: width, Y: h}, {Y: h}})
	area := draw.Crop(page, edge, -edge, edge, -edge)
	if legend != nil {
		legend.Draw(draw.Crop(area, area.Max.X-area.Min.X-legendWidth+edge, 0, 0, -vg.Points(30)))
		area = draw.Crop(area, 0, -legendWidth, 0, 0)
	}
	p.Draw(area)
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	return fit(out.Bytes())
}

// decades are the ticks of a logarithmic axis: powers of ten.
type decades struct{ label func(float64) string }

// Ticks implements plot.Ticker.
func (d decades) Ticks(low, high float64) (ticks []plot.Tick) {
	first, last := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	for e := first; e <= last; e++ {
		value := math.Pow(10, e)
		if value >= low*0.999 && value <= high*1.001 {
			ticks = append(ticks, plot.Tick{Value: value, Label: d.label(value)})
		}
	}
	return ticks
}

// Short writes a number with about three digits, and k, M or G.
func Short(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= unit.size*0.9995 {
			return strconv.FormatFloat(round(v/unit.size), 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(round(v), 'f', -1, 64)
}

// round keeps three digits.
func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	rounded, err := strconv.ParseFloat(fmt.Sprintf("%.3g", v), 64)
	if err != nil {
		return v
	}
	return rounded
}
