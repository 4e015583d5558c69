package figure

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// Frame is the position of the data area of a figure's first plot in the picture, so that a page can
// put links and selections over the data. All positions are shares of the picture's width or height,
// from its upper left corner.
type Frame struct {
	Left, Right, Top, Bottom float64 // the edges of the area within the axes

	plot *plot.Plot
}

// Frame returns the frame of a figure. The figure must be complete, because its data decide the axes.
func (f *Figure) Frame() Frame {
	height := f.height()
	whole := draw.NewCanvas(&recorder.Canvas{}, f.Width, height)
	data := f.Plots[0].DataCanvas(f.layout(whole)[0])
	return Frame{
		Left: float64(data.Min.X / f.Width), Right: float64(data.Max.X / f.Width),
		Top: 1 - float64(data.Max.Y/height), Bottom: 1 - float64(data.Min.Y/height),
		plot: f.Plots[0],
	}
}

// X returns the position of a value of the horizontal axis.
func (f Frame) X(value float64) float64 {
	return f.Left + (f.Right-f.Left)*f.plot.X.Norm(value)
}

// Y returns the position of a value of the vertical axis.
func (f Frame) Y(value float64) float64 {
	return f.Bottom + (f.Top-f.Bottom)*f.plot.Y.Norm(value)
}
