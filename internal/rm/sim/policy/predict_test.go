package policy

import (
	"slices"
	"strings"

	"rmreplay/internal/rm/sim"
)

// refForecast makes the predictions of the reference. It keeps every job and searches all of them.
type refForecast struct {
	predict, correct string
	known            []*refJob // all submitted jobs, in the order of their submission
}

// newRefForecast reads the options of a policy. It returns nil if the policy does not predict.
func newRefForecast(name, options string) *refForecast {
	f := &refForecast{correct: "incremental"}
	if name == "easy++" {
		f.predict = "last-two"
	}
	for option := range strings.SplitSeq(options, ",") {
		switch key, value, _ := strings.Cut(option, "="); key {
		case "predict":
			f.predict = value
		case "correct":
			f.correct = value
		}
	}
	if f.predict == "" {
		return nil
	}
	return f
}

// predict predicts the run times of the jobs that are submitted now and fit the machine.
func (r *reference) predict(jobs []*refJob, ties sim.Ties) {
	if r.forecast == nil {
		return
	}
	for _, j := range jobs {
		if j.submit != r.now || j.size > r.processors || slices.Contains(r.forecast.known, j) {
			continue
		}
		switch r.forecast.predict {
		case "clairvoyant":
			j.expected = min(j.run, j.limit)
		case "last-two":
			if mean, known := r.lastTwo(j.user, ties); known {
				j.expected = mean
			}
		}
		j.expected = min(max(j.expected, 1), j.limit)
		r.forecast.known = append(r.forecast.known, j)
	}
}

// lastTwo returns the mean of the last two run times of a user's jobs that have ended. With
// arrivals first, jobs that end now do not count.
func (r *reference) lastTwo(user int, ties sim.Ties) (int, bool) {
	var over []*refJob
	for _, j := range r.forecast.known {
		if j.user == user && j.started && (j.end < r.now || ties == sim.EndsFirst && !slices.Contains(r.running, j)) {
			over = append(over, j)
		}
	}
	if len(over) < 2 {
		return 0, false
	}
	slices.SortFunc(over, func(a, b *refJob) int {
		if a.end != b.end {
			return b.end - a.end
		}
		return b.order - a.order
	})
	return (over[0].end - over[0].start + over[1].end - over[1].start) / 2, true
}

// correct corrects the predictions that running jobs exceed now.
func (r *reference) correct() {
	minutes := []int{1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000}
	for _, j := range r.running {
		if j.due != r.now || j.end <= r.now {
			continue
		}
		switch r.forecast.correct {
		case "requested":
			j.expected = j.limit
		case "doubling":
			j.expected *= 2
		case "incremental":
			if j.corrections > 0 {
				j.expected -= 60 * minutes[j.corrections-1]
			}
			j.expected += 60 * minutes[j.corrections]
		}
		j.expected = min(j.expected, j.limit)
		j.corrections++
		j.due = j.start + j.expected
	}
}
