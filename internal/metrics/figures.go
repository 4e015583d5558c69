package metrics

import (
	"math"

	"rmreplay/internal/hpc"
)

// Better says which direction of a figure is an improvement.
type Better string

// The directions.
const (
	Lower   Better = "lower"
	Higher  Better = "higher"
	Neither Better = "neither" // it depends on the question
)

// Figure is one number of [Metrics].
type Figure struct {
	Key    string // its JSON key in [Metrics]
	Label  string // its name in tables
	Unit   string // "s", "jobs" and so on; empty for a ratio
	Better Better
	Of     func(*Metrics) Float
}

// Figures are the numbers by which runs are compared, in the order of their tables.
var Figures = []Figure{
	{"makespan_s", "makespan", "s", Lower, func(m *Metrics) Float { return m.MakespanSeconds }},
	{"utilization", "utilization", "", Higher, func(m *Metrics) Float { return m.Utilization }},
	{"throughput_jobs_per_h", "throughput", "jobs/h", Higher, func(m *Metrics) Float { return m.ThroughputPerHour }},
	{"mean_queue_jobs", "mean queue", "jobs", Lower, func(m *Metrics) Float { return m.MeanQueue }},
	{"mean_wait_s", "mean wait", "s", Lower, func(m *Metrics) Float { return m.Wait.Mean }},
	{"median_wait_s", "median wait", "s", Lower, func(m *Metrics) Float { return m.Wait.Median }},
	{"p90_wait_s", "p90 wait", "s", Lower, func(m *Metrics) Float { return m.Wait.P90 }},
	{"p99_wait_s", "p99 wait", "s", Lower, func(m *Metrics) Float { return m.Wait.P99 }},
	{"max_wait_s", "max wait", "s", Lower, func(m *Metrics) Float { return m.Wait.Max }},
	{"mean_turnaround_s", "mean turnaround", "s", Lower, func(m *Metrics) Float { return m.Turnaround.Mean }},
	{"mean_slowdown", "mean slowdown", "", Lower, func(m *Metrics) Float { return m.Slowdown.Mean }},
	{"high_slowdown_jobs", "jobs with slowdown > 5", "", Lower, func(m *Metrics) Float { return Float(m.HighSlowdown) }},
	{"mean_bounded_slowdown", "mean bounded slowdown", "", Lower, func(m *Metrics) Float { return m.BoundedSlowdown.Mean }},
	{"median_bounded_slowdown", "median bounded slowdown", "", Lower, func(m *Metrics) Float { return m.BoundedSlowdown.Median }},
	{"p90_bounded_slowdown", "p90 bounded slowdown", "", Lower, func(m *Metrics) Float { return m.BoundedSlowdown.P90 }},
	{"completed_jobs", "completed jobs", "jobs", Neither, func(m *Metrics) Float { return Float(m.JobsByState[hpc.Completed]) }},
	{"rejected", "rejected", "jobs", Neither, func(m *Metrics) Float { return Float(m.Rejected) }},
}

// FeedbackFigure is one number of [Feedback].
type FeedbackFigure struct {
	Figure // without its Of
	Of     func(*Feedback) Float
}

// FeedbackFigures are the numbers by which runs with reacting users are compared. Waits are
// not among them: a user who is served faster submits earlier.
var FeedbackFigures = []FeedbackFigure{
	{Figure{Key: "mean_lateness_s", Label: "mean lateness", Unit: "s", Better: Lower}, func(f *Feedback) Float { return f.Mean }},
	{Figure{Key: "relative_lateness", Label: "relative lateness", Better: Lower}, func(f *Feedback) Float { return f.Relative }},
	{Figure{Key: "additional_lateness_s", Label: "additional lateness", Unit: "s", Better: Lower}, func(f *Feedback) Float { return f.Additional }},
	{Figure{Key: "submit_makespan_s", Label: "makespan from submission", Unit: "s", Better: Lower}, func(f *Feedback) Float { return f.SubmitMakespan }},
}

// GroupFigures are the [Figures] that are meaningful for a group of jobs.
var GroupFigures = pick("utilization", "mean_wait_s", "median_wait_s", "p90_wait_s", "mean_bounded_slowdown")

func pick(keys ...string) []Figure {
	var list []Figure
	for _, key := range keys {
		for _, f := range Figures {
			if f.Key == key {
				list = append(list, f)
			}
		}
	}
	return list
}

// NoValue returns the [Float] without a value, which is NaN.
func NoValue() Float { return Float(math.NaN()) }

// Clock formats seconds as [days-]hours:minutes:seconds, or "-" without a value.
func (f Float) Clock() string { return clock(f) }

// Text formats a number with a readable number of digits, or "-" without a value.
func (f Float) Text() string { return number(f) }

// Percent formats a ratio as a percentage, or "-" without a value.
func (f Float) Percent() string { return percent(f) }
