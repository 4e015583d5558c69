package stats

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
)

// errShape says that points have different numbers of coordinates.
var errShape = errors.New("points of different dimensions")

// checkPoints returns an error unless all points have the same dimension and finite
// coordinates.
func checkPoints(points [][]float64) error {
	for i, p := range points {
		if len(p) != len(points[0]) {
			return fmt.Errorf("point %d: %w: %d and %d", i, errShape, len(p), len(points[0]))
		}
		for k, v := range p {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("point %d: coordinate %d is %v (want a number)", i, k, v)
			}
		}
	}
	return nil
}

// Distances returns the Euclidean distances between all points: a symmetric matrix with
// zeros on its diagonal. It returns an error if the points differ in dimension or if a
// coordinate is NaN or infinite.
func Distances(points [][]float64) ([][]float64, error) {
	if err := checkPoints(points); err != nil {
		return nil, fmt.Errorf("distances: %w", err)
	}
	matrix := make([][]float64, len(points))
	cells := make([]float64, len(points)*len(points))
	for i := range matrix {
		matrix[i] = cells[i*len(points) : (i+1)*len(points)]
		for k := range i {
			d := floats.Distance(points[i], points[k], 2)
			matrix[i][k], matrix[k][i] = d, d
		}
	}
	return matrix, nil
}

// Spread summarizes the distances between the pairs of runs in one block of a distance
// matrix, in the units of the distances.
type Spread struct {
	Pairs     int
	Mean      float64 // NaN if there is no pair
	Deviation float64 // standard deviation; not an error of the mean, because pairs share runs
}

// SpreadBetween summarizes the distances between two sets of rows of a matrix. It counts each pair
// once. If both sets are the same set, the distances are those within this set.
func SpreadBetween(distances [][]float64, a, b []int) Spread {
	seen := make(map[[2]int]bool)
	var list []float64
	for _, i := range a {
		for _, k := range b {
			pair := [2]int{min(i, k), max(i, k)}
			if i == k || seen[pair] {
				continue
			}
			seen[pair] = true
			list = append(list, distances[i][k])
		}
	}
	mean, deviation := stat.MeanStdDev(list, nil)
	return Spread{Pairs: len(list), Mean: mean, Deviation: deviation}
}

// isometry returns points with the same distances in at most len(points)−1 dimensions. There are
// always such points, and a run has many more jobs, which are the dimensions of the given points.
func isometry(points [][]float64) [][]float64 {
	n := len(points)
	if n < 2 || len(points[0]) < n {
		return points
	}
	d := len(points[0])
	differences := mat.NewDense(d, n-1, nil)
	column := make([]float64, d)
	for i := 1; i < n; i++ {
		floats.SubTo(column, points[i], points[0])
		differences.SetCol(i-1, column)
	}
	var qr mat.QR
	qr.Factorize(differences)
	var r mat.Dense
	qr.RTo(&r)
	out := make([][]float64, n)
	out[0] = make([]float64, n-1)
	for i := 1; i < n; i++ {
		out[i] = make([]float64, n-1)
		for k := range n - 1 {
			out[i][k] = r.At(k, i-1)
		}
	}
	return out
}
