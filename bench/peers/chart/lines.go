package chart

import (
	"errors"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Line is one curve.
type Line struct {
	Name  string
	X, Y  []float64
	Color color.Color
	Width float64 // in points; 0: 1.2
}

// Axes say what a chart of curves shows.
type Axes struct {
	Title, X, Y string
	LogX, LogY  bool
	FromZero    bool // Y begins at zero, if it is not logarithmic
	Points      bool // mark each point
}

// Lines draws curves. On a logarithmic X axis, zero stands where the axis
// begins.
func Lines(a Axes, lines []Line) ([]byte, error) {
	p := newPlot(a.Title, a.X, a.Y)
	if a.LogX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	}
	if a.LogY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
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
