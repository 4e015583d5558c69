package model

import (
	"fmt"
	"math"

	"rmreplay/internal/predict/features"
)

// The median of [Boost] is a weighted mean of six predictions. Two of these are from its
// ensembles. Four are from simple rules, which react at once when a user's jobs change. The
// weights depend on the earlier errors of the predictions, mostly on the errors for jobs of the
// same user (exponential weights: Cesa-Bianchi and Lugosi, "Prediction, learning, and games",
// Cambridge 2006, section 2.2; with a discount, section 2.11).

// candidates are six predictions of one run time, in seconds: the two ensembles, the mean of the user's last two
// jobs, the average of the class, the last run time of the class, and the median of the user's similar jobs.
type candidates [6]float64

// candidates returns the predictions for features, each at least 0.
func (b *boosted) candidates(x []float32) candidates {
	guess := features.Guess(x)
	root := max(math.Sqrt(guess)+b.Root.Value(x), 0)
	c := candidates{guess + b.Seconds.Value(x), root * root, features.LastTwo(x), guess, features.LastOfClass(x),
		features.Similar(x)}
	for i := range c {
		c[i] = max(c[i], 0)
	}
	return c
}

// within returns the predictions. Predictions above the limit are replaced by the limit, which is in
// seconds; 0 means no limit.
func (c candidates) within(limit float64) candidates {
	for i := range c {
		if limit > 0 {
			c[i] = min(c[i], limit)
		}
	}
	return c
}

// mixture computes the weights of candidates. The loss of a candidate is its error less the error of
// the best candidate.
type mixture struct {
	Users map[string]candidates `json:"users"` // sums of losses for each user's jobs, discounted
	All   candidates            `json:"all"`   // sums of losses for all jobs, discounted
	// Error is the mean error of the candidates over the last Jobs jobs. Jobs is at most errorJobs.
	Error float64 `json:"error_s"`
	Jobs  float64 `json:"jobs"`
}

// Of several sets of values, these had the best scores on the first thirds of four logs. The scores
// of other values were a little worse.
const (
	userDiscount = 0.98  // of a user's losses, for each job of the user
	allDiscount  = 0.999 // of all losses, for each job
	allShare     = 0.1   // the weight of the losses of all jobs, relative to the losses of the user's jobs
	learning     = 0.25  // a loss of one mean error lowers a weight by the factor e^-0.25
	errorJobs    = 2000
)

// mean returns the weighted mean for a job of a user.
func (m *mixture) mean(user string, c candidates) float64 {
	own := m.Users[user]
	least := math.Inf(1)
	for i := range own {
		own[i] += allShare * m.All[i]
		least = min(least, own[i])
	}
	sum, weights := 0.0, 0.0
	for i, loss := range own {
		w := 1.0
		if m.Error > 0 {
			w = math.Exp(-learning * (loss - least) / m.Error)
		}
		sum, weights = sum+w*c[i], weights+w
	}
	return sum / weights
}

// learn adds the losses of a job. The parameter seconds is its run time.
func (m *mixture) learn(user string, c candidates, seconds float64) {
	if m.Users == nil {
		m.Users = map[string]candidates{}
	}
	best, mean := math.Inf(1), 0.0
	for i := range c {
		c[i] = math.Abs(c[i] - seconds)
		best, mean = min(best, c[i]), mean+c[i]/float64(len(c))
	}
	m.Jobs = min(m.Jobs+1, errorJobs)
	m.Error += (mean - m.Error) / m.Jobs
	own := m.Users[user]
	for i, e := range c {
		own[i] = userDiscount*own[i] + e - best
		m.All[i] = allDiscount*m.All[i] + e - best
	}
	m.Users[user] = own
}

// check returns an error if a mixture that was read is damaged.
func (m *mixture) check() error {
	sums := []float64{m.Error, m.Jobs}
	sums = append(sums, m.All[:]...)
	for _, own := range m.Users {
		sums = append(sums, own[:]...)
	}
	const most = 1e15 // seconds: far above any sum of losses
	for _, v := range sums {
		if !(0 <= v && v <= most) {
			return fmt.Errorf("the mixture has a loss of %g s (want 0 to %g)", v, most)
		}
	}
	return nil
}

// clone returns a copy. Learning with the copy does not change m.
func (m *mixture) clone() mixture {
	c := *m
	c.Users = make(map[string]candidates, len(m.Users))
	for user, losses := range m.Users {
		c.Users[user] = losses
	}
	return c
}
