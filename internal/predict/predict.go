// Package predict has the parts that all predictors of run times share: the prediction, the data
// about a job that a predictor may use, and the stream of events from which it learns. The same
// predictors also predict the memory and the I/O of jobs: see [Target].
//
// # No leakage
//
// A predictor must not use anything that is unknown at the submission. Three rules ensure this:
//
//   - A predictor sees a [Submission]: an instant and an [hpc.Request]. The job's behaviour (its
//     run time, its exit code) is another type, which no method of [Predictor] takes.
//   - At a job's end, it receives the run time through [Predictor.Start] and [Predictor.End], and
//     the value of another target through [Measurer.Measure].
//   - [Play] calls the methods in the order of time. If a job ends at the instant of a submission,
//     the predictor receives the end first, as in the simulator.
//
// So the prediction for a job that is submitted at t depends only on events until t.
package predict

import (
	"math"
	"time"

	"gonum.org/v1/gonum/mathext"

	"rmreplay/internal/hpc"
)

// Submission has the data about a job that are known when its user submits it.
type Submission struct {
	// Number names the job in the calls for its start and its end. No two jobs may have the same
	// number at the same time, from submission to end.
	Number int64
	At     hpc.Time
	// Request is the user's request. A predictor must not store the pointer.
	Request *hpc.Request
}

// Predictor predicts run times while a workload is played. The calls must be in the order of
// time. A Predictor is for one goroutine.
type Predictor interface {
	// Predict predicts the run time of a job that could be submitted now. It does not change the
	// predictor.
	Predict(s Submission) Prediction
	// Submit predicts the run time of a submitted job, and stores the job until its end.
	Submit(s Submission) Prediction
	// Start says that a submitted job starts.
	Start(number int64, at hpc.Time)
	// End says that a submitted job ends. A job that ends without a start has no run time. The state [hpc.Pending] means
	// that the job is requeued. A requeued job is submitted again with a different number, and the run that ended does not
	// count as a run time either.
	End(number int64, at hpc.Time, state hpc.State)
}

// Prediction is the predicted distribution of a run time, by three of its quantiles. All are in
// seconds, at least 0, and ascending. If the prediction is a single number, all three are equal.
type Prediction struct {
	P10 float64 `json:"p10_s"`
	P50 float64 `json:"p50_s"`
	P90 float64 `json:"p90_s"`
	// Limit is the job's time limit in seconds, or 0 for no limit. No quantile exceeds it.
	Limit float64 `json:"limit_s,omitempty"`
}

// Point returns the prediction of a single number of seconds. If it is above the request's limit,
// the limit replaces it.
func Point(seconds float64, r *hpc.Request) Prediction {
	return RunTime.Point(seconds, r)
}

// Limit returns the time limit of a request in seconds; 0 if the request has no limit.
func Limit(r *hpc.Request) float64 {
	if r.TimeLimit <= 0 || r.TimeLimit == hpc.Unlimited {
		return 0
	}
	return r.TimeLimit.Seconds()
}

// Sound returns the prediction with its quantiles in ascending order around the median, at least
// 0 and at most the limit.
func (p Prediction) Sound() Prediction {
	most := math.Inf(1)
	if p.Limit > 0 {
		most = p.Limit
	}
	p.P50 = within(p.P50, 0, most)
	p.P10 = within(p.P10, 0, p.P50)
	p.P90 = within(p.P90, p.P50, most)
	return p
}

// within returns x if it is between the bounds, and otherwise the nearer bound. For NaN it returns
// the lower bound.
func within(x, lowest, highest float64) float64 {
	if !(x > lowest) {
		return lowest
	}
	return min(x, highest)
}

// A run time is drawn from a log-normal distribution (of seconds + 1), with a different spread on
// either side of the median. As a function of the normal quantile, log(seconds + 1) is a straight
// line from P10 to P50, and another line from P50 to P90. Both lines continue with the same slopes
// into the tails, up to the limit.

// deviates is the 90 % quantile of the standard normal distribution.
const deviates = 1.2815515655446004

// Quantile returns the quantile q of the run time in seconds. The parameter q is between 0 and 1. A
// uniform random q gives a random run time.
func (p Prediction) Quantile(q float64) float64 {
	z := math.Sqrt2 * math.Erfinv(2*within(q, 0, 1)-1)
	median := math.Log1p(p.P50)
	slope := math.Log1p(p.P90) - median
	if z < 0 {
		slope = median - math.Log1p(p.P10)
	}
	if slope == 0 {
		return p.P50
	}
	most := math.Inf(1)
	if p.Limit > 0 {
		most = p.Limit
	}
	return within(math.Expm1(median+slope*z/deviates), 0, most)
}

// Probability returns the probability that the run time is at most the given number of seconds.
func (p Prediction) Probability(seconds float64) float64 {
	switch {
	case seconds < 0:
		return 0
	case p.Limit > 0 && seconds >= p.Limit:
		return 1
	}
	distance := math.Log1p(seconds) - math.Log1p(p.P50)
	slope := math.Log1p(p.P90) - math.Log1p(p.P50)
	if distance < 0 {
		slope = math.Log1p(p.P50) - math.Log1p(p.P10)
	}
	if slope == 0 {
		if distance >= 0 {
			return 1
		}
		return 0
	}
	return 0.5 * math.Erfc(-distance/slope*deviates/math.Sqrt2)
}

// QuantileAfter is [Prediction.Quantile] for a job that has already run for elapsed seconds. The result is the quantile
// of the whole run time, among the run times longer than elapsed. If the distribution has no longer run times, the
// result is elapsed. For an elapsed time above the median, QuantileAfter computes with the share s of longer run times,
// because 1-s rounds to 1 in the far tail. The share s(1-q) of all run times is longer than the result.
func (p Prediction) QuantileAfter(q, elapsed float64) float64 {
	q = within(q, 0, 1)
	ran := p.Probability(elapsed)
	if ran <= 0.5 {
		return max(elapsed, p.Quantile(ran+q*(1-ran)))
	}
	const least = 1e-290 // its product with any share is still a normal float64
	median := math.Log1p(p.P50)
	slope := math.Log1p(p.P90) - median
	longer := 0.5 * math.Erfc((math.Log1p(elapsed)-median)/slope*deviates/math.Sqrt2)
	if slope == 0 || p.Limit > 0 && elapsed >= p.Limit || longer < least {
		return elapsed
	}
	seconds := math.Expm1(median - slope*mathext.NormalQuantile(longer*(1-q))/deviates)
	if p.Limit > 0 {
		seconds = min(seconds, p.Limit)
	}
	return max(elapsed, seconds)
}

// Processors returns the number of processors of a request: the larger of the number of tasks and
// nodes x tasks per node, times the processors per task. The result is at least 1.
func Processors(r *hpc.Request) float64 {
	tasks := max(float64(r.Tasks), float64(r.MinNodes)*float64(max(r.TasksPerNode, 1)), 1)
	return tasks * float64(max(r.CPUsPerTask, 1))
}

// seconds converts a duration to seconds, at least 0.
func seconds(d time.Duration) float64 { return max(d.Seconds(), 0) }
