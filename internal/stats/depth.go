package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
)

// SpatialDepth returns how central each point is among the other points: 1 in the middle, and nearly
// 0 far outside (see the package comment). It returns an error for fewer than two points, and for
// points that [Distances] refuses.
func SpatialDepth(points [][]float64) ([]float64, error) {
	if err := checkPoints(points); err != nil {
		return nil, fmt.Errorf("spatial depth: %w", err)
	}
	if len(points) < 2 {
		return nil, fmt.Errorf("spatial depth: %d points (want two or more)", len(points))
	}
	d := newDirections(isometry(points))
	out := make([]float64, len(points))
	for i := range out {
		out[i] = 1 - floats.Norm(d.total[i], 2)/float64(len(points)-1)
	}
	return out, nil
}

// DepthTest is the result of [Depth].
type DepthTest struct {
	Test
	// QAB is Liu and Singh's quality index of the second set in the first set. QAB is the probability that a run of the
	// second set is at least as central in the first set as a run of the first set. QAB is 1/2 if the sets do not differ.
	// QAB is below 1/2 if the second set is shifted or spread wider, and above 1/2 if the second set is spread less. QBA
	// is the same probability with the sets exchanged.
	QAB, QBA float64
}

// Depth tests whether two sets of points come from one distribution, by the multivariate Wilcoxon
// test of Liu and Singh ("A Quality Index Based on Data Depth and Multivariate Rank Tests", JASA
// 88(421), 1993) with spatial depth. Each set is the reference once, as Shi, Zhang and Fu propose
// (Entropy 25(2), 2023). The statistic is 1/2 − min(QAB, QBA), so the result does not depend on
// the order of the sets. The effect equals the statistic, which is between 0 and 1/2. Depth
// returns an error for points that [Distances] refuses.
func Depth(a, b [][]float64, opts TestOptions) (DepthTest, error) {
	all := append(append([][]float64{}, a...), b...)
	if err := checkPoints(all); err != nil {
		return DepthTest{}, fmt.Errorf("depth test: %w", err)
	}
	if len(a) < 2 || len(b) < 2 {
		nan := math.NaN()
		return DepthTest{Test{Statistic: nan, P: nan, Effect: nan}, nan, nan}, nil
	}
	d := newDirections(isometry(all))
	na := len(a)
	out := DepthTest{}
	out.Test = permute(na, len(b), opts, func(order []int) float64 {
		qab, qba := d.qualities(order, na)
		return 0.5 - min(qab, qba)
	})
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	out.QAB, out.QBA = d.qualities(order, na)
	out.Effect = max(0, out.Statistic)
	return out, nil
}

// directions has the unit vectors from every point to every other point.
type directions struct {
	n, dim int
	unit   [][]float64 // unit[i][k*dim:] is the vector from i to k; zero if both points are equal
	total  [][]float64 // total[i] is the sum of all directions of point i
	sums   [][]float64 // the sums for the points of one set; each arrangement overwrites them
	own    []float64   // outlyingness in the point's own set; each arrangement overwrites it
	other  []float64
}

func newDirections(points [][]float64) *directions {
	d := &directions{n: len(points), dim: len(points[0])}
	d.own, d.other = make([]float64, d.n), make([]float64, d.n)
	for i := range points {
		row := make([]float64, d.n*d.dim)
		total := make([]float64, d.dim)
		for k := range points {
			to := row[k*d.dim : (k+1)*d.dim]
			floats.SubTo(to, points[k], points[i])
			if length := floats.Norm(to, 2); length > 0 {
				floats.Scale(1/length, to)
			}
			floats.Add(total, to)
		}
		d.unit = append(d.unit, row)
		d.total = append(d.total, total)
		d.sums = append(d.sums, make([]float64, d.dim))
	}
	return d
}

// sum sets sums to each point's sum of directions towards the points of a set.
func (d *directions) sum(set []int) {
	for i, sums := range d.sums {
		clear(sums)
		row := d.unit[i]
		for _, k := range set {
			floats.Add(sums, row[k*d.dim:(k+1)*d.dim])
		}
	}
}

// qualities returns QAB and QBA of an arrangement. A member of a set is compared only with the set's
// other members, because it would seem more central if it counted itself.
func (d *directions) qualities(order []int, na int) (qab, qba float64) {
	a, b := order[:na], order[na:]
	d.sum(a)
	// own and other have the outlyingness, 1 − depth, in a point's own set and in the other set.
	for place, i := range order {
		ownCount, otherCount := float64(na), float64(len(b))
		if place < na {
			ownCount--
		} else {
			otherCount--
		}
		inA, inB := 0.0, 0.0
		for c, v := range d.sums[i] {
			rest := d.total[i][c] - v
			inA += v * v
			inB += rest * rest
		}
		d.own[i] = math.Sqrt(inA) / ownCount
		d.other[i] = math.Sqrt(inB) / otherCount
	}
	return quality(d.own, a, b), quality(d.other, b, a)
}

// quality returns the share of pairs in which the member of the reference is not deeper than the
// member of the other set. Ties count half.
func quality(outlyingness []float64, reference, others []int) float64 {
	sum := 0.0
	for _, x := range reference {
		for _, y := range others {
			switch {
			case outlyingness[x] > outlyingness[y]+1e-12:
				sum++
			case outlyingness[x] >= outlyingness[y]-1e-12:
				sum += 0.5
			}
		}
	}
	return sum / float64(len(reference)*len(others))
}
