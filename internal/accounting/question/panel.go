package question

import (
	"cmp"
	"math"
	"time"

	"rmreplay/internal/waits"
)

// View is what a dashboard shows: the jobs of a [Filter] that ended in a range of time.
type View struct {
	Chosen      Filter
	From, Until time.Time
	Whole       bool // the view includes jobs that ended at any time; From and Until are ignored
	// Edges divide the range into buckets of time. For the panel utilization, the first and the
	// last edge are From and Until; for other panels these two may lie outside of the range.
	Edges []time.Time
	Zone  *time.Location
	By    string // column by which the panel "groups" groups jobs; empty means partition
}

// Clock returns the clock of the view.
func (v View) Clock() Clock { return Clock{v.Zone, v.From, v.Until} }

// Panel defines the questions of one panel of the dashboards.
type Panel struct {
	Questions func(v View) []Question
	// Rows combines several answers into one list of rows. It is nil for a panel with one question.
	Rows func(answers []Answer) [][]any
	// Lacking lists the reasons for which the panel omits jobs, or for which their values are missing.
	Lacking []Lacking
}

// Lack is a reason why a panel omits jobs: they never ran, or one of their values is unknown.
type Lack int

// The reasons. All but NeverRan are about jobs that ran.
const (
	NeverRan Lack = iota
	NoWait
	NoCPUs
	NoNodes
	NoGPUs
	NoLimit // the job has no time limit, or its record does not say the limit
)

// Lacking describes the jobs that a panel leaves out for one reason.
type Lacking struct {
	Which     Lack
	One, More string // texts that follow the number of jobs, in the singular and in the plural
	// Sum is the position of a sum in the panel's only row; 0 without a sum. If all jobs that ran
	// lack the value, the sum is shown as unknown. Jobs that did not run add 0 to the sum.
	Sum int
}

// Jobs reads the answer to [View.Lacks]. It returns the number of jobs that are left out for the reason l, and whether
// all jobs that ran are left out.
func (l Lacking) Jobs(answer Answer) (jobs int64, all bool) {
	if len(answer.Rows) == 0 {
		return 0, false
	}
	row := answer.Rows[0]
	jobs, _ = row[l.Which].(int64) // nil if the Elasticsearch cluster does not have the column
	every, _ := row[len(lacks)].(int64)
	never, _ := row[NeverRan].(int64)
	return jobs, jobs > 0 && jobs == every-never
}

// lacks has the filter of the jobs that each [Lack] leaves out.
var lacks = []Filter{
	NeverRan: Not{Of: started}, NoWait: without("wait_s"), NoCPUs: without("cpus"), NoNodes: without("nodes"),
	NoGPUs: without("gpus"), NoLimit: without("limit_s"),
}

func without(column string) Filter { return All{started, last, Not{Of: Known{Column: column}}} }

// Lacks returns the question for the number of the view's jobs for each [Lack], in the order of the
// constants, and then for the number of all jobs of the view.
func (v View) Lacks() Question {
	q := Question{Where: v.Ended(), Clock: v.Clock()}
	for _, f := range lacks {
		q.Measures = append(q.Measures, Measure{Kind: Count, Where: f})
	}
	q.Measures = append(q.Measures, countJobs)
	return q
}

// The reasons for which panels leave jobs out, with their texts.
var (
	neverRan   = neverIn("the panel")
	noWait     = noWaitIn("the panel")
	noMean     = []Lacking{neverIn("the mean wait"), noWaitIn("the mean wait")}
	noNodes    = notIn(NoNodes, "the panel", "how many nodes", 0)
	noLimit    = noLimitIn("the panel")
	noCPUHours = notIn(NoCPUs, "the CPU hours", "how many processors", 0)
	noUnused   = noLimitIn("the requested and unused CPU hours")
)

func notIn(l Lack, what, amount string, sum int) Lacking {
	return Lacking{l, "job that ran is not in " + what + ": its record does not say " + amount + " it had.",
		"jobs that ran are not in " + what + ": their records do not say " + amount + " they had.", sum}
}

func neverIn(what string) Lacking {
	return Lacking{NeverRan, "job never ran and is not in " + what + ".", "jobs never ran and are not in " + what + ".", 0}
}

func noWaitIn(what string) Lacking {
	return Lacking{NoWait, "job that ran is not in " + what + ": its wait is not known.",
		"jobs that ran are not in " + what + ": their waits are not known.", 0}
}

func noLimitIn(what string) Lacking {
	return Lacking{NoLimit, "job that ran is not in " + what + ": it has no time limit, or its record lacks the limit.",
		"jobs that ran are not in " + what + ": they have no time limit, or their records lack the limit.", 0}
}

// lacking sets the reasons for which the panel leaves jobs out.
func (p *Panel) lacking(list ...Lacking) *Panel {
	p.Lacking = list
	return p
}

// Filters and measures that several panels use.
var (
	completedJobs = Compare{Column: "state", Op: "=", Value: "COMPLETED"}
	otherJobs     = Not{Of: Any{completedJobs, Failed{}}}
	last          = Not{Of: Lost{}} // chooses the runs that are counted as jobs
	countRuns     = Measure{Kind: Count}
	countJobs     = Measure{Kind: Count, Where: last}
	countFailed   = Measure{Kind: Count, Where: All{Failed{}, last}}
	sumElapsed    = Measure{Kind: Sum, Column: "elapsed_s"}
	sumUsed       = Measure{Kind: Sum, Column: "cpu_hours"}
	sumFailed     = Measure{Kind: Sum, Column: "cpu_hours", Where: Failed{}}
	meanWait      = Measure{Kind: Mean, Column: "wait_s"}
	meanEligible  = Measure{Kind: Mean, Column: "wait_since_eligible_s"}
	unused        = Measure{Kind: Unused}
	started       = Known{Column: "start_time"} // a job that never ran has no start
)

// Ended returns the filter of the view's jobs. A job without an end is never in a view: it still
// waits or runs, or its end is not known.
func (v View) Ended() All {
	if v.Whole {
		return All{Compare{Column: "end_time", Op: ">=", Value: time.Unix(0, 0)}, v.Chosen}
	}
	return All{
		Compare{Column: "end_time", Op: ">=", Value: v.From},
		Compare{Column: "end_time", Op: "<", Value: v.Until},
		v.Chosen,
	}
}

// about returns a panel with one question about all jobs of the view.
func about(by func(v View) []Key, measures ...Measure) *Panel {
	return &Panel{Questions: func(v View) []Question {
		return []Question{{Where: v.Ended(), By: by(v), Measures: measures, Clock: v.Clock()}}
	}}
}

// fixed returns keys that are the same for every view.
func fixed(keys ...Key) func(View) []Key { return func(View) []Key { return keys } }

func overTime(more ...Key) func(v View) []Key {
	return func(v View) []Key { return append([]Key{Instants{Column: "end_time", Edges: v.Edges}}, more...) }
}

// aboutStarted returns a panel with one question about the runs that started and match where.
func aboutStarted(where Filter, measures []Measure, by ...Key) *Panel {
	return &Panel{Questions: func(v View) []Question {
		return []Question{{Where: All{v.Ended(), started, where}, By: by, Measures: measures, Clock: v.Clock()}}
	}}
}

// byClass returns a panel with the number of runs that started, and their CPU hours, in each class
// of a column. The parameter each is the number of classes per doubling. The parameter where is a
// filter of the runs.
func byClass(each int, column string, where Filter) *Panel {
	return aboutStarted(where, []Measure{countRuns, sumUsed}, Classes{Column: column, Each: each})
}

// byValue returns a panel of ten values of a column: the values for which the measure with the index by is highest.
func byValue(column string, by int) *Panel {
	return about(fixed(Values{Column: column, Most: 10, By: by, First: true}),
		countJobs, sumElapsed, sumUsed, meanWait, meanEligible, countFailed, unused, countRuns).lacking(noMean...)
}

// sumParts returns sums over jobs of each part of the wait, in the order of [waits.Parts].
func sumParts() (list []Measure) {
	for _, part := range waits.Parts {
		list = append(list, Measure{Kind: Sum, Column: "wait_" + string(part) + "_s"})
	}
	return list
}

// Panels maps names to the panels of the dashboards. The table of jobs is not among them.
var Panels = map[string]*Panel{
	"summary": about(fixed(), countJobs, countFailed, Measure{Kind: Distinct, Column: "user_name"}, meanWait, meanEligible, sumElapsed,
		sumUsed, sumFailed, unused, Measure{Kind: Sum, Column: "node_hours"}, Measure{Kind: Sum, Column: "gpu_hours"}).
		lacking(append([]Lacking{notIn(NoCPUs, "the CPU hours", "how many processors", 6),
			notIn(NoNodes, "the node hours", "how many nodes", 9),
			notIn(NoGPUs, "the GPU hours", "how many GPUs", 10), noUnused}, noMean...)...),
	"jobs":        about(overTime(Values{Column: "state", Most: 100}), countRuns, countJobs),
	"utilization": (&Panel{Questions: askUtilization, Rows: rowsOfUtilization}).lacking(notIn(NoCPUs, "it", "how many processors", 0)),
	"shares": about(fixed(Values{Column: "partition", Most: 300, By: 1}, Values{Column: "qos", Most: 100}),
		sumUsed, countJobs, countRuns).lacking(noCPUHours),
	"users": byValue("user_name", 1), "accounts": byValue("account", 2),
	"partitions": byValue("partition", 2), "names": byValue("job_name", 7),
	"waits":   byClass(2, "wait_s", All{}).lacking(neverRan, noWait),
	"runs":    byClass(2, "elapsed_s", last).lacking(neverRan),
	"sizes":   byClass(1, "nodes", last).lacking(neverRan, noNodes),
	"reasons": about(fixed(), append([]Measure{meanWait}, sumParts()...)...).lacking(noMean...),
	"groups": about(func(v View) []Key {
		return []Key{Values{Column: cmp.Or(v.By, "partition"), Most: 10, By: 1, First: true}}
	},
		append(append([]Measure{countJobs, {Kind: Sum, Column: "wait_s"}, meanWait, meanEligible}, sumParts()...),
			countRuns)...).lacking(noMean...),
	"requested": aboutStarted(last, []Measure{countRuns, sumUsed}, Steps{Column: "limit_used", Width: 5, Count: 21}).
		lacking(neverRan, noLimit),
	"limits": aboutStarted(All{Compare{Column: "limit_s", Op: ">", Value: 0.0}, last}, []Measure{countRuns, sumUsed},
		Classes{Column: "limit_s", Each: 1}, Classes{Column: "elapsed_s", Each: 1}).lacking(neverRan, noLimit),
	"waste": about(overTime(), Measure{Kind: Sum, Column: "cpu_hours", Where: completedJobs}, sumFailed,
		Measure{Kind: Sum, Column: "cpu_hours", Where: otherJobs}, unused,
		Measure{Kind: Count, Where: completedJobs}, Measure{Kind: Count, Where: Failed{}},
		Measure{Kind: Count, Where: otherJobs}).
		lacking(noCPUHours, noUnused),
	"exits": (&Panel{Questions: func(v View) []Question {
		return []Question{{Where: All{v.Ended(), started, last}, By: overTime(Values{Column: Exit, Most: 500})(v),
			Measures: []Measure{countRuns}, Clock: v.Clock()}}
	}}).lacking(neverRan),
	"week": about(fixed(WeekHours{}), countJobs, meanWait).lacking(noMean...),
}

// askUtilization returns the questions for the numbers of processors that jobs acquired and
// released in each bucket of time, and before the first bucket.
func askUtilization(v View) []Question {
	first := v.Edges[0]
	side := func(column string) Question {
		return Question{
			Where: All{Compare{Column: "end_time", Op: ">=", Value: first}, Ran{}, v.Chosen},
			By:    []Key{Instants{Column: column, Edges: v.Edges, Before: true}},
			Measures: []Measure{
				{Kind: Sum, Column: "cpus"}, {Kind: Moment, Column: column, Times: "cpus", Since: first},
			},
			Clock: v.Clock(),
		}
	}
	return []Question{side("start_time"), side("end_time")}
}

// rowsOfUtilization returns the rows of both answers. Released processors are negative.
func rowsOfUtilization(answers []Answer) [][]any {
	rows := answers[0].Rows
	for _, row := range answers[1].Rows {
		for i, v := range row[1:] {
			if n, ok := v.(float64); ok {
				row[1+i] = -n
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// HighestClass is the highest class that has its own bucket when an Elasticsearch cluster answers a question with one
// class per doubling. Higher values share one bucket. 2^38 seconds are 8,700 years.
const HighestClass = 38

// ClassEdge returns the smallest integer in a class: 2^(class/each) - 1/2, rounded up. The parameter each is the
// number of classes per doubling. Because 1/2 is subtracted, 0 has a class too: the class -each.
func ClassEdge(class int64, each int) float64 {
	return max(0, math.Ceil(math.Exp2(float64(class)/float64(each))-0.5))
}
