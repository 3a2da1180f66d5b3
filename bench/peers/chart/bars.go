package chart

import (
	"errors"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Bar is one bar: a name, a value above zero, and a note behind it. A whisker
// goes from the lowest to the highest value, if they are not the same.
type Bar struct {
	Name             string
	Value, Low, High float64
	Note             string
	Color            color.Color
}

// Bars draws horizontal bars on a logarithmic scale, the first one on top.
func Bars(title, unit string, bars []Bar) ([]byte, error) {
	if len(bars) == 0 {
		return nil, errors.New("chart: no bars")
	}
	low := math.Inf(1)
	for _, b := range bars {
		if b.Value <= 0 || math.IsInf(b.Value, 0) || math.IsNaN(b.Value) {
			return nil, fmt.Errorf("chart: %q is %v; a logarithmic scale needs more than zero", b.Name, b.Value)
		}
		low = min(low, b.Value)
	}
	p := newPlot(title, unit+", logarithmic", "")
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{Short}
	p.X.Min = math.Pow(10, math.Floor(math.Log10(low)-0.3))
	p.X.Max = farEnd(bars, p.X.Min, p.X.Tick.Label.Font.Size)
	p.Y.Min, p.Y.Max = -0.6, float64(len(bars))-0.4
	p.Add(barPlotter(bars))
	var names []plot.Tick
	for i, b := range bars {
		names = append(names, plot.Tick{Value: float64(len(bars) - 1 - i), Label: b.Name})
	}
	p.Y.Tick.Marker, p.Y.Tick.Length, p.Y.LineStyle.Width = plot.ConstantTicks(names), 0, 0
	return svg(p, nil, margin+barHeight*vg.Length(len(bars)))
}

// farEnd is where the axis has to end so that each note has room behind its bar.
func farEnd(bars []Bar, begin float64, size vg.Length) float64 {
	names := vg.Length(0)
	for _, b := range bars {
		names = max(names, widthOf(b.Name, size))
	}
	room := width - 2*edge - names - 2*gap // for bars and notes
	span := 0.0                            // in decades
	for _, b := range bars {
		notes := min(0.9, float64((widthOf(b.note(), size)+2*gap)/room))
		span = max(span, math.Log10(max(b.Value, b.High)/begin)/(1-notes))
	}
	return begin * math.Pow(10, span)
}

// note is what stands behind a bar.
func (b Bar) note() string {
	if b.Note == "" {
		return Short(b.Value)
	}
	return Short(b.Value) + ", " + b.Note
}

type barPlotter []Bar

// Plot implements plot.Plotter.
func (b barPlotter) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	for _, tick := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		c.StrokeLine2(draw.LineStyle{Color: faint, Width: vg.Points(0.5)}, toX(tick.Value), c.Min.Y, toX(tick.Value), c.Max.Y)
	}
	label := text.Style{Color: ink, Font: p.X.Tick.Label.Font, YAlign: text.YCenter, Handler: p.TextHandler}
	for i, bar := range b {
		y := float64(len(b) - 1 - i)
		left, right, bottom, top := toX(p.X.Min), toX(bar.Value), toY(y-0.36), toY(y+0.36)
		c.FillPolygon(bar.Color, []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}})
		if bar.Low > 0 && bar.Low < bar.High {
			b.whisker(c, toX(bar.Low), toX(bar.High), toY(y))
			right = max(right, toX(bar.High))
		}
		c.FillText(label, vg.Point{X: right + gap, Y: toY(y) + vg.Points(1.5)}, bar.note())
	}
}

func (barPlotter) whisker(c draw.Canvas, from, to, y vg.Length) {
	style := draw.LineStyle{Color: ink, Width: vg.Points(0.8)}
	c.StrokeLine2(style, from, y, to, y)
	for _, x := range []vg.Length{from, to} {
		c.StrokeLine2(style, x, y-vg.Points(2.5), x, y+vg.Points(2.5))
	}
}
