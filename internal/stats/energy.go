package stats

import "fmt"

// Energy tests whether two sets of points come from one distribution, by their energy
// distance
//
//	E = 2 mean‖a − b‖ − mean‖a − a'‖ − mean‖b − b'‖
//
// over all pairs, including each point with itself (Székely and Rizzo, "Energy statistics", J.
// Statist. Plann. Inference 143, 2013, section 6). The statistic is E × na nb / (na + nb). The
// effect is E / (2 mean‖a − b‖), the paper's coefficient of inhomogeneity, between 0 (no
// difference) and 1. Energy returns an error for points that [Distances] refuses.
func Energy(a, b [][]float64, opts TestOptions) (Test, error) {
	distances, err := Distances(append(append([][]float64{}, a...), b...))
	if err != nil {
		return Test{}, fmt.Errorf("energy test: %w", err)
	}
	return EnergyOf(distances, len(a), opts), nil
}

// EnergyOf is [Energy] for a matrix of distances. Its first na rows are the first set.
func EnergyOf(distances [][]float64, na int, opts TestOptions) Test {
	nb := len(distances) - na
	rows := make([]float64, len(distances)) // the sum of each row
	total := 0.0
	for i, row := range distances {
		for _, d := range row {
			rows[i] += d
		}
		total += rows[i]
	}
	// means returns the mean distances between the sets, within the first set and within
	// the second. The sum between the sets follows from the sums of the rows, and the sum
	// within the second set follows from the total.
	means := func(order []int) (between, first, second float64) {
		reach := 0.0
		for k, i := range order[:na] {
			reach += rows[i]
			row := distances[i]
			for _, j := range order[:k] {
				first += 2 * row[j]
			}
		}
		between = reach - first
		second = total - first - 2*between
		return between / float64(na*nb), first / float64(na*na), second / float64(nb*nb)
	}
	scale := float64(na*nb) / float64(na+nb)
	statistic := func(order []int) float64 {
		between, first, second := means(order)
		return scale * (2*between - first - second)
	}
	t := permute(na, nb, opts, statistic)
	order := make([]int, len(distances))
	for i := range order {
		order[i] = i
	}
	if between, first, second := means(order); between > 0 {
		t.Effect = max(0, (2*between-first-second)/(2*between))
	}
	return t
}
