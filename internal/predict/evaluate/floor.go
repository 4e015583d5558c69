package evaluate

import (
	"context"
	"math"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
)

// Floor is a lower bound for the error of predictors that know only a job's class: its user, name,
// size and limit; see [predict.Class]. Such a predictor cannot tell jobs of one class apart. The
// best constant for a class is the median of its run times, but the median is known only
// afterwards.
type Floor struct {
	// ClassMAE is the mean absolute error, in the target's unit, of an oracle that knows each class's
	// median over the whole log. The job itself is left out of the median, so a job that is alone in
	// its class gets its user's median.
	ClassMAE float64 `json:"class_oracle_mae"`
	// NeighbourMAE is the mean absolute error of an oracle that predicts the run time of the job of
	// the same class that was submitted just before, whether or not that job had ended. Neighbours
	// counts the jobs that have such an earlier job. All other jobs are left out.
	NeighbourMAE float64 `json:"neighbour_oracle_mae"`
	Neighbours   int     `json:"neighbour_jobs"`
	// Resubmitted is the share of jobs with an earlier job of their class.
	Resubmitted float64 `json:"resubmitted"`
	// TwinMAE is the mean absolute distance of twins from the median of their group. Twins are jobs of
	// one class between whose submissions no job of their user ended. For all twins of a group, a
	// predictor knows the same request and the same ended jobs of the user, so it can tell them apart
	// only by other events. The median is the group's own, which makes the distance too small, not too
	// large. Twins counts the jobs; [Result] has the models' errors for them.
	TwinMAE float64 `json:"twin_floor_mae"`
	Twins   int     `json:"twin_jobs"`

	twins map[int64]bool // the numbers of the cases
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
	ended int // jobs of the user
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
	f.twins = map[int64]bool{}
	ran := map[int64]float64{}
	for i := range cases.List {
		if c := &cases.List[i]; c.Observed() {
			ran[c.Number] = c.Value()
		}
	}
	var distances []float64 // sorted, so that the sum does not depend on the order of the map
	for _, group := range t.groups {
		group = slices.DeleteFunc(group, func(number int64) bool { _, ok := ran[number]; return !ok })
		if len(group) < 2 {
			continue
		}
		var list []float64
		for _, number := range group {
			f.twins[number] = true
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

// floor computes the bounds. It uses all run times, also those that a predictor could not know yet.
// It returns the context's error.
func floor(ctx context.Context, cases *predict.Cases) (*Floor, error) {
	classes := map[predict.ClassKey][]float64{}
	users := map[string][]float64{}
	f := new(Floor)
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
		if !c.Observed() {
			continue
		}
		y, list := c.Value(), classes[predict.Class(c.Request)]
		if len(list) == 1 {
			list = users[c.Request.User]
		}
		f.ClassMAE += math.Abs(y-medianWithout(list, y)) / scored
	}
	return f, f.addTwins(ctx, cases)
}

// medianWithout returns the median of sorted values after one value that equals y is left out. It
// returns y if there is no other value.
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
