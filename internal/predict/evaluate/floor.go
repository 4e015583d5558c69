package evaluate

import (
	"context"
	"math"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
)

// Floor has the errors of oracles that use a job's class and some data from the future. A class is
// one user, name, size and limit; see [predict.Class]. Each error is over the jobs that the oracle
// can predict; [Result] has the models' errors for the same jobs.
type Floor struct {
	// ClassMAE is the mean absolute error, in the target's unit, of an oracle that predicts the median
	// of the other jobs of the class, over the whole log. Classmates counts the jobs that are not alone
	// in their class. All other jobs are left out.
	ClassMAE   float64 `json:"class_oracle_mae"`
	Classmates int     `json:"class_jobs"`
	// NeighbourMAE is the mean absolute error of an oracle that predicts the run time of the previous job of the same
	// class, even if that job had not ended. Neighbours counts the jobs that have an earlier job of the same class. All
	// other jobs are left out.
	NeighbourMAE float64 `json:"neighbour_oracle_mae"`
	Neighbours   int     `json:"neighbour_jobs"`
	// Resubmitted is the share of jobs with an earlier job of their class.
	Resubmitted float64 `json:"resubmitted"`
	// TwinMAE is the mean absolute distance of twins from the median of their group. Twins are jobs of one class between
	// whose submissions no job of their user ended. For all twins of a group, a predictor sees the same request and the
	// same ended jobs of the user, so it can distinguish them only by other events. The median is computed from the group
	// itself, so the distance is too small rather than too large. Twins counts the twins.
	TwinMAE float64 `json:"twin_floor_mae"`
	Twins   int     `json:"twin_jobs"`

	in map[int64]beside // by the number of the case
}

// beside says which figures of a [Floor] include a job.
type beside struct{ class, neighbour, twin bool }

// put changes the entry of a job.
func (f *Floor) put(number int64, change func(b *beside)) {
	b := f.in[number]
	change(&b)
	f.in[number] = b
}

// twinGroups groups the submissions of a workload by class and by the user's ended jobs. It is a
// [predict.Predictor] that predicts nothing.
type twinGroups struct {
	users  map[int64]string
	ended  map[string]int
	groups map[twinKey][]int64
}

type twinKey struct {
	class predict.ClassKey
	user  string
	ended int // ended jobs of the user
}

func (t *twinGroups) Predict(predict.Submission) predict.Prediction { return predict.Prediction{} }
func (t *twinGroups) Start(int64, hpc.Time)                         {}

func (t *twinGroups) Submit(s predict.Submission) predict.Prediction {
	user := s.Request.User
	t.users[s.Number] = user
	key := twinKey{predict.Class(s.Request), user, t.ended[user]}
	t.groups[key] = append(t.groups[key], s.Number)
	return predict.Prediction{}
}

func (t *twinGroups) End(number int64, _ hpc.Time, _ hpc.State) { t.ended[t.users[number]]++ }

// addTwins computes the figures about twins.
func (f *Floor) addTwins(ctx context.Context, cases *predict.Cases) error {
	t := &twinGroups{users: map[int64]string{}, ended: map[string]int{}, groups: map[twinKey][]int64{}}
	if err := predict.Play(ctx, cases.List, t, nil); err != nil {
		return err
	}
	ran := map[int64]float64{}
	for i := range cases.List {
		if c := &cases.List[i]; c.Observed() {
			ran[c.Number] = c.Value()
		}
	}
	var distances []float64 // sorted later, so that the sum does not depend on the order of the map
	for _, group := range t.groups {
		group = slices.DeleteFunc(group, func(number int64) bool { _, ok := ran[number]; return !ok })
		if len(group) < 2 {
			continue
		}
		var list []float64
		for _, number := range group {
			f.put(number, func(b *beside) { b.twin = true })
			list = append(list, ran[number])
		}
		slices.Sort(list)
		for _, y := range list {
			distances = append(distances, math.Abs(y-list[len(list)/2]))
		}
	}
	slices.Sort(distances)
	f.Twins = len(distances)
	for _, d := range distances {
		f.TwinMAE += d / float64(f.Twins)
	}
	return nil
}

// floor computes the errors of the oracles. The oracles use all run times, including the run times of later jobs. floor
// returns the context's error.
func floor(ctx context.Context, cases *predict.Cases) (*Floor, error) {
	classes := map[predict.ClassKey][]float64{}
	f := &Floor{in: map[int64]beside{}}
	scored := 0.0
	for i := range cases.List {
		c := &cases.List[i]
		if !c.Observed() {
			continue
		}
		y, key := c.Value(), predict.Class(c.Request)
		if before := classes[key]; len(before) > 0 {
			f.Neighbours++
			f.NeighbourMAE += math.Abs(y - before[len(before)-1])
			f.put(c.Number, func(b *beside) { b.neighbour = true })
		}
		classes[key] = append(classes[key], y)
		scored++
	}
	f.Resubmitted = float64(f.Neighbours) / scored
	if f.Neighbours > 0 {
		f.NeighbourMAE /= float64(f.Neighbours)
	}
	for _, list := range classes {
		slices.Sort(list)
	}
	for i := range cases.List {
		c := &cases.List[i]
		if list := classes[predict.Class(c.Request)]; c.Observed() && len(list) > 1 {
			f.Classmates++
			f.ClassMAE += math.Abs(c.Value() - medianWithout(list, c.Value()))
			f.put(c.Number, func(b *beside) { b.class = true })
		}
	}
	if f.Classmates > 0 {
		f.ClassMAE /= float64(f.Classmates)
	}
	return f, f.addTwins(ctx, cases)
}

// medianWithout returns the median of sorted values after removing one value that equals y.
func medianWithout(sorted []float64, y float64) float64 {
	n := len(sorted) - 1
	at, _ := slices.BinarySearch(sorted, y)
	value := func(i int) float64 {
		if i >= at {
			i++
		}
		return sorted[i]
	}
	return (value((n-1)/2) + value(n/2)) / 2
}
