package evaluate

import (
	"math"
	"slices"

	"rmreplay/internal/predict"
)

// Floor bounds from below what any predictor can reach that knows only a job's class: its user,
// name, size and limit; see [predict.Class]. Jobs of one class are the same to such a predictor.
// The best constant for a class is the median of its run times, which only the future tells.
type Floor struct {
	// ClassMAE is the mean absolute error, in seconds, of an oracle that knows each class's
	// median over the whole log. The job itself is left out of the median, so a class of one
	// job has the error of its user's median.
	ClassMAE float64 `json:"class_oracle_mae_s"`
	// NeighbourMAE is the mean absolute error, in seconds, of an oracle that predicts the run
	// time of the job of the same class that was submitted next before, whether or not it had
	// ended. Jobs without one are left out: Neighbours counts the others.
	NeighbourMAE float64 `json:"neighbour_oracle_mae_s"`
	Neighbours   int     `json:"neighbour_jobs"`
	// Resubmitted is the share of jobs that have an earlier one of their class.
	Resubmitted float64 `json:"resubmitted"`
}

// floor computes the bounds. It looks at all run times, as no predictor may.
func floor(cases *predict.Cases) *Floor {
	classes := map[predict.ClassKey][]float64{}
	users := map[string][]float64{}
	f := new(Floor)
	scored := 0.0
	for i := range cases.List {
		c := &cases.List[i]
		if !c.Ran() {
			continue
		}
		y, key := c.Seconds(), predict.Class(c.Request)
		if before := classes[key]; len(before) > 0 {
			f.Neighbours++
			f.NeighbourMAE += math.Abs(y - before[len(before)-1])
		}
		classes[key] = append(classes[key], y)
		users[c.Request.User] = append(users[c.Request.User], y)
		scored++
	}
	f.Resubmitted = float64(f.Neighbours) / scored
	if f.Neighbours > 0 {
		f.NeighbourMAE /= float64(f.Neighbours)
	}
	for _, list := range classes {
		slices.Sort(list)
	}
	for _, list := range users {
		slices.Sort(list)
	}
	for i := range cases.List {
		c := &cases.List[i]
		if !c.Ran() {
			continue
		}
		y, list := c.Seconds(), classes[predict.Class(c.Request)]
		if len(list) == 1 {
			list = users[c.Request.User]
		}
		f.ClassMAE += math.Abs(y-medianWithout(list, y)) / scored
	}
	return f
}

// medianWithout returns the median of sorted values without one of those that equal y. It returns
// y if there is no other value.
func medianWithout(sorted []float64, y float64) float64 {
	n := len(sorted) - 1
	if n == 0 {
		return y
	}
	at, _ := slices.BinarySearch(sorted, y)
	value := func(i int) float64 {
		if i >= at {
			i++
		}
		return sorted[i]
	}
	return (value((n-1)/2) + value(n/2)) / 2
}
