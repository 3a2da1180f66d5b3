package chart

import (
	"errors"
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Line is one curve.
type Line struct {
	Name      string
	X, Y      []float64
	Low, High []float64 // where whiskers at the points begin and end; nil: there are none
	Color     color.Color
	Width     float64 // in points; 0: 1.2
}

// Axes say what a chart of curves shows.
type Axes struct {
	Title, X, Y string
	LogX, LogY  bool
	FromZero    bool                 // Y begins at zero, if it is not logarithmic
	Points      bool                 // mark each point
	XTicks      []float64            // nil: as the scale has them
	Label       func(float64) string // of a tick of Y; nil: Short
}

// Lines draws curves. On a logarithmic X axis, zero stands where the axis
// begins.
func Lines(a Axes, lines []Line) ([]byte, error) {
	p := newPlot(a.Title, a.X, a.Y)
	if a.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{Short}
	}
	if a.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{Short}
		if a.Label != nil {
			p.Y.Tick.Marker = decades{a.Label}
		}
	}
	if a.XTicks != nil {
		p.X.Tick.Marker = a.ticks()
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = faint, faint
	p.Add(grid)
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.TextStyle.Font, legend.Padding = true, true, p.X.Tick.Label.Font, vg.Points(2.5)
	drawn := 0
	for _, l := range lines {
		points, err := a.points(l)
		if err != nil {
			return nil, err
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, fmt.Errorf("chart: %q: %w", l.Name, err)
		}
		line.Color, line.Width = l.Color, vg.Points(1.2)
		if l.Width > 0 {
			line.Width = vg.Points(l.Width)
		}
		p.Add(line)
		if a.Points {
			dots, err := plotter.NewScatter(points)
			if err != nil {
				return nil, fmt.Errorf("chart: %q: %w", l.Name, err)
			}
			dots.Color, dots.Shape, dots.Radius = l.Color, draw.CircleGlyph{}, vg.Points(2.5)
			p.Add(dots)
		}
		if l.Low != nil {
			whiskers, err := l.whiskers(points)
			if err != nil {
				return nil, err
			}
			p.Add(whiskers)
		}
		if len(lines) > 1 {
			legend.Add(l.Name, line)
		}
		drawn++
	}
	if drawn == 0 {
		return nil, errors.New("chart: no curves")
	}
	if a.LogY { // whole decades, so that there are ticks
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))), math.Pow(10, math.Ceil(math.Log10(p.Y.Max)))
	} else if a.FromZero {
		p.Y.Min = 0
	}
	if a.LogX && p.X.Min == p.X.Max {
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	}
	if len(lines) == 1 {
		return svg(p, nil, tall)
	}
	return svg(p, &legend, tall)
}

func (a Axes) ticks() plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, x := range a.XTicks {
		tick := plot.Tick{Value: x, Label: Short(x)}
		if x < 10_000 {
			tick.Label = strconv.FormatFloat(x, 'f', -1, 64)
		}
		if a.LogX {
			tick.Value = max(1, x)
		}
		ticks = append(ticks, tick)
	}
	return ticks
}

func (l Line) whiskers(points plotter.XYs) (*plotter.YErrorBars, error) {
	if len(l.Low) != len(points) || len(l.High) != len(points) {
		return nil, fmt.Errorf("chart: %q has %d values and %d to %d ends of whiskers", l.Name, len(points), len(l.Low), len(l.High))
	}
	errors := make(plotter.YErrors, len(points))
	for i := range points {
		errors[i].Low, errors[i].High = l.Low[i]-points[i].Y, l.High[i]-points[i].Y
	}
	whiskers, err := plotter.NewYErrorBars(struct {
		plotter.XYs
		plotter.YErrors
	}{points, errors})
	if err != nil {
		return nil, fmt.Errorf("chart: %q: %w", l.Name, err)
	}
	whiskers.Color, whiskers.Width = ink, vg.Points(0.8)
	return whiskers, nil
}

func (a Axes) points(l Line) (plotter.XYs, error) {
	if len(l.X) != len(l.Y) || len(l.X) == 0 {
		return nil, fmt.Errorf("chart: %q has %d places and %d values", l.Name, len(l.X), len(l.Y))
	}
	points := make(plotter.XYs, len(l.X))
	for i := range points {
		points[i].X, points[i].Y = l.X[i], l.Y[i]
		if a.LogX {
			points[i].X = max(1, l.X[i])
		}
		if a.LogY && l.Y[i] <= 0 {
			return nil, fmt.Errorf("chart: %q is %v at %v; a logarithmic scale needs more than zero", l.Name, l.Y[i], l.X[i])
		}
	}
	return points, nil
}
