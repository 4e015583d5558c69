package metrics

import (
	"math"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
)

// Better says which direction of a figure is an improvement.
type Better string

// The directions.
const (
	Lower   Better = "lower"
	Higher  Better = "higher"
	Neither Better = "neither" // the better direction depends on the question
)

// Figure is one number of [Metrics].
type Figure struct {
	Key    string // the figure's JSON key in [Metrics]
	Label  string // the figure's name in tables
	Unit   string // "s", "jobs" and so on; empty for a ratio
	Better Better
	Of     func(*Metrics) Float
	// Meaning defines the figure for readers who see it for the first time.
	Meaning string
}

// Figures are the numbers that compare runs, in the order of their tables.
var Figures = []Figure{
	{"makespan_s", "makespan", "s", Lower, func(m *Metrics) Float { return m.MakespanSeconds },
		"from the first start of a job, or the begin of the window, to the last end"},
	{"utilization", "utilization", "", Higher, func(m *Metrics) Float { return m.Utilization },
		"the part of all processors that jobs held, on average from the first start, or the begin of the window, to the last end" +
			"; above 100 % if jobs share processors"},
	{"throughput_jobs_per_h", "throughput", "jobs/h", Higher, func(m *Metrics) Float { return m.ThroughputPerHour },
		"jobs that started and ended, for each hour from the first start, or the begin of the window, to the last end"},
	{"mean_queue_jobs", "mean queue", "jobs", Lower, func(m *Metrics) Float { return m.MeanQueue },
		"waiting jobs, on average from the first start, or the begin of the window, to the last end"},
	{"mean_wait_s", "mean wait", "s", Lower, func(m *Metrics) Float { return m.Wait.Mean },
		"the time from submission to start, on average over jobs; it depends mostly on a few long waits"},
	{"median_wait_s", "median wait", "s", Lower, func(m *Metrics) Float { return m.Wait.Median },
		"half of the jobs waited no longer"},
	{"p90_wait_s", "p90 wait", "s", Lower, func(m *Metrics) Float { return m.Wait.P90 },
		"nine of ten jobs waited no longer"},
	{"p99_wait_s", "p99 wait", "s", Lower, func(m *Metrics) Float { return m.Wait.P99 },
		"99 of 100 jobs waited no longer"},
	{"max_wait_s", "max wait", "s", Lower, func(m *Metrics) Float { return m.Wait.Max }, "the longest wait of all jobs"},
	{"mean_turnaround_s", "mean turnaround", "s", Lower, func(m *Metrics) Float { return m.Turnaround.Mean },
		"the time from submission to end, on average over jobs"},
	{"mean_slowdown", "mean slowdown", "", Lower, func(m *Metrics) Float { return m.Slowdown.Mean },
		"turnaround / run time, on average over jobs; 1 for a job that did not wait"},
	{"high_slowdown_jobs", "jobs with slowdown > 5", "", Lower, func(m *Metrics) Float { return Float(m.HighSlowdown) },
		"jobs that took more than five times their run time from submission to end"},
	{"mean_bounded_slowdown", "mean bounded slowdown", "", Lower, func(m *Metrics) Float { return m.BoundedSlowdown.Mean },
		"slowdown in which run times below τ count as τ, so that very short jobs do not decide it"},
	{"median_bounded_slowdown", "median bounded slowdown", "", Lower,
		func(m *Metrics) Float { return m.BoundedSlowdown.Median }, "half of the jobs had no higher bounded slowdown"},
	{"p90_bounded_slowdown", "p90 bounded slowdown", "", Lower, func(m *Metrics) Float { return m.BoundedSlowdown.P90 },
		"nine of ten jobs had no higher bounded slowdown"},
	{"completed_jobs", "completed jobs", "jobs", Neither, func(
		m *Metrics) Float {
		return Float(m.JobsByState[hpc.Completed])
	}, "jobs that ended by themselves with exit code 0"},
	{"rejected", "rejected", "jobs", Neither, func(m *Metrics) Float { return Float(m.Rejected) },
		"jobs that the resource manager refused at submission"},
}

// NodeFigures are the numbers that compare runs with named nodes.
var NodeFigures = []Figure{
	{"node_utilization", "node utilization", "", Higher, func(m *Metrics) Float { return m.NodeUtilization },
		"the part of all nodes that had jobs, on average over the same time as utilization; a node that jobs share counts " +
			"once"},
	{"idle_node_s", "idle node time", "s", Neither, func(m *Metrics) Float { return m.IdleNodeSeconds },
		"how long nodes had no job, summed over nodes, in the same time as utilization"},
}

// LossFigures are the numbers that compare runs in which the work of a job's run was lost.
var LossFigures = []Figure{
	{"requeues", "requeues", "", Lower, func(m *Metrics) Float { return Float(m.Requeues) },
		"runs that ended in a requeue of their job"},
	{"preemptions", "preemptions", "", Lower, func(m *Metrics) Float { return Float(m.Preemptions) },
		"runs that another job ended, with or without a requeue"},
	{"interrupted_processor_s", "processor time of interrupted runs", "s", Lower, func(m *Metrics) Float { return m.InterruptedProcessorSeconds },
		"processor time of requeued and preempted runs; it is lost unless the jobs write checkpoints"},
}

// LostFigures are the numbers that compare the work that is lost for any reason.
var LostFigures = []Figure{
	{"lost_processor_s", "lost processor time", "s", Lower, (*Metrics).Lost,
		"processor time of runs that did not complete: they failed, reached their limit, or were cancelled, requeued or " +
			"preempted"},
}

// FeedbackFigure is one number of [Feedback].
type FeedbackFigure struct {
	Figure // the field Of below hides Figure.Of
	Of     func(*Feedback) Float
}

// FeedbackFigures are the numbers that compare runs with reacting users. Waits are not among them:
// a user who is served faster submits earlier.
var FeedbackFigures = []FeedbackFigure{
	{Figure{Key: "mean_lateness_s", Label: "mean lateness", Unit: "s", Better: Lower,
		Meaning: "how much later than recorded a job was submitted, on average; negative if earlier"},
		func(f *Feedback) Float { return f.Mean }},
	{Figure{Key: "relative_lateness", Label: "relative lateness", Better: Lower,
		Meaning: "the factor by which the submissions are stretched in time"}, func(f *Feedback) Float { return f.Relative }},
	{Figure{Key: "additional_lateness_s", Label: "additional lateness", Unit: "s", Better: Lower,
		Meaning: "the lateness that each submission of a user adds"}, func(f *Feedback) Float { return f.Additional }},
	{Figure{Key: "submit_makespan_s", Label: "makespan from submission", Unit: "s", Better: Lower,
		Meaning: "from the first submission to the last end"}, func(f *Feedback) Float { return f.SubmitMakespan }},
}

// IOFigure is one number of a run whose jobs share file systems.
type IOFigure struct {
	Figure // the field Of below hides Figure.Of
	// Of returns the number. The I/O may be nil.
	Of func(*Metrics, *IO) Float
}

// IOFigures are the numbers that compare runs whose jobs share file systems. The key of a number
// about one file system ends in a colon and the file system's name.
func IOFigures(fileSystems []string) []IOFigure {
	list := []IOFigure{
		{FigureOf("makespan_s"), func(m *Metrics, _ *IO) Float { return m.MakespanSeconds }},
		{FigureOf("throughput_jobs_per_h"), func(m *Metrics, _ *IO) Float { return m.ThroughputPerHour }},
	}
	for _, f := range ioFigures {
		list = append(list, IOFigure{f.Figure, func(_ *Metrics, io *IO) Float {
			if io == nil {
				return NoValue()
			}
			return f.of(io)
		}})
	}
	for _, name := range fileSystems {
		for _, f := range fileSystemFigures {
			figure := f.Figure
			figure.Key, figure.Label = figure.Key+":"+name, name+" "+figure.Label
			list = append(list, IOFigure{figure, func(_ *Metrics, io *IO) Float {
				if io != nil {
					for i := range io.FileSystems {
						if io.FileSystems[i].Name == name {
							return f.of(&io.FileSystems[i])
						}
					}
				}
				return NoValue()
			}})
		}
	}
	return list
}

// ioFigures are the numbers of [IO] itself.
var ioFigures = []struct {
	Figure
	of func(*IO) Float
}{
	{Figure{Key: "awrt_s", Label: "AWRT", Unit: "s", Better: Lower,
		Meaning: "the mean turnaround, weighted with nodes x run time"}, func(io *IO) Float { return io.AWRT }},
	{Figure{Key: "aspwas_s", Label: "ASpWAS", Unit: "s", Better: Lower,
		Meaning: "the time since submission of running jobs, on average over time, weighted by nodes x this time"},
		func(io *IO) Float { return io.ASpWAS }},
	{Figure{Key: "mean_stretch", Label: "mean stretch", Better: Lower,
		Meaning: "run time / run time alone, on average over the jobs with I/O; 1 for a job that never waited for a file system"}, func(io *IO) Float { return io.MeanStretch }},
	{Figure{Key: "max_stretch", Label: "max stretch", Better: Lower, Meaning: "the largest stretch of a job"},
		func(io *IO) Float { return io.MaxStretch }},
	{Figure{Key: "stretched_jobs", Label: "stretched jobs", Unit: "jobs", Better: Lower,
		Meaning: "jobs that ran more than a second longer than alone"}, func(io *IO) Float {
		if len(io.FileSystems) == 0 {
			return NoValue()
		}
		return Float(io.Stretched)
	}},
	{Figure{Key: "lost_node_s", Label: "node time lost to I/O", Unit: "s", Better: Lower,
		Meaning: "nodes x (run time - run time alone), summed over the stretched jobs"}, func(io *IO) Float { return io.LostNodeSeconds }},
}

// fileSystemFigures are the numbers of each file system.
var fileSystemFigures = []struct {
	Figure
	of func(*FileSystemUse) Float
}{
	{Figure{Key: "io_utilization", Label: "used", Better: Higher,
		Meaning: "the bytes that jobs moved, divided by the bytes that the file system could have moved"},
		func(f *FileSystemUse) Float { return f.Utilization }},
	{Figure{Key: "io_demand", Label: "asked for", Better: Neither,
		Meaning: "the rate that jobs requested, divided by the bandwidth; if it is above the utilization, jobs waited for the file system"}, func(f *FileSystemUse) Float { return f.Demand }},
	{Figure{Key: "io_oversubscribed", Label: "oversubscribed", Better: Lower,
		Meaning: "the part of the time in which jobs requested more than the bandwidth"},
		func(f *FileSystemUse) Float { return f.Oversubscribed }},
}

// IsShare reports whether the figure of a key is a part of a whole, so that tables print it as percentages.
func IsShare(key string) bool {
	return key == "utilization" || key == "node_utilization" || strings.HasPrefix(key, "io_")
}

// totalWait is the sum of the waits. Only the sums of groups of one workload's jobs can be compared.
var totalWait = Figure{"total_wait_s", "waited in all", "s", Lower, func(m *Metrics) Float {
	if m.Waited == 0 {
		return 0
	}
	return m.Wait.Mean * Float(m.Waited)
}, "the sum of the waits of the jobs"}

// GroupFigures are the [Figures] that are meaningful for a group of jobs, and the sum of its waits.
var GroupFigures = append(pick("utilization", "mean_wait_s", "median_wait_s", "p90_wait_s", "mean_bounded_slowdown"),
	totalWait)

// OfGroups reports whether the figure is defined for a group of jobs. [Groups] computes all groups over the same time,
// so a makespan says nothing about a group. Figures of nodes are about all jobs on a node.
func (f Figure) OfGroups() bool {
	return f.Key != "makespan_s" && !slices.ContainsFunc(NodeFigures, func(n Figure) bool { return n.Key == f.Key })
}

// OfNone returns the figure of a group of which a run has no job: 0 for the sum of waits, and no value for a mean.
func (f Figure) OfNone() Float {
	if f.Key == totalWait.Key {
		return 0
	}
	return NoValue()
}

// MeaningOf returns the meaning of the figure of a key. The parameter windows says that the runs are windows that are
// compared. Figures over time then end with the last submission ([Options.To]), but the makespan does not.
func MeaningOf(key string, windows bool) string {
	meaning := FigureOf(key).Meaning
	if windows && slices.Contains([]string{"utilization", "throughput_jobs_per_h", "mean_queue_jobs"}, key) {
		return strings.Replace(meaning, "to the last end", "to the last submission", 1)
	}
	return meaning
}

// FigureOf returns the figure of a key. Of is nil if the figure is not a number of [Metrics]. The
// figure is empty for an unknown key.
func FigureOf(key string) Figure {
	if key == totalWait.Key {
		return totalWait
	}
	for _, list := range [][]Figure{Figures, NodeFigures, LossFigures, LostFigures, WaitFigures} {
		for _, f := range list {
			if f.Key == key {
				return f
			}
		}
	}
	for _, f := range FeedbackFigures {
		if f.Key == key {
			return f.Figure
		}
	}
	for _, f := range FairnessFigures {
		if f.Key == key {
			return f.Figure
		}
	}
	for _, f := range FairStartFigures {
		if f.Key == key {
			return f.Figure
		}
	}
	for _, f := range ioFigures {
		if f.Key == key {
			return f.Figure
		}
	}
	for _, f := range fileSystemFigures {
		if of, _, _ := strings.Cut(key, ":"); f.Key == of {
			return f.Figure
		}
	}
	return Figure{}
}

func pick(keys ...string) []Figure {
	var list []Figure
	for _, key := range keys {
		list = append(list, FigureOf(key))
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
