package jobrows

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/stats"
)

// The rule of [Unlike]. A property says something about jobs if two jobs at random have the same value with at most
// the probability mostChance. It identifies jobs if the share of equal values, corrected for chance (Cohen's kappa), is
// at least enoughKappa, or if the rank correlation is at least enoughRanks.
const (
	fewestPairs      = 10
	fewestProperties = 3
	mostChance       = 0.5
	enoughKappa      = 0.5
	enoughRanks      = 0.8
)

// property is what identifies a job in its workload.
type property struct {
	name  string                              // in the plural
	text  func(*run.Row) string               // "" if it is not known
	value func(*run.Row) (v float64, ok bool) // nil if the order of the values says nothing about single jobs
}

var properties = []property{
	{"users", func(r *run.Row) string { return r.User }, nil},
	{"names", func(r *run.Row) string {
		if r.Name == r.Job { // then equal names say no more than equal IDs
			return ""
		}
		return r.Name
	}, nil},
	{"sizes", func(r *run.Row) string {
		if r.AskedTasks == 0 && r.AskedMinNodes == 0 && r.AskedCPUsPerTask == 0 {
			return ""
		}
		return fmt.Sprint(r.AskedMinNodes, r.AskedTasks, r.AskedCPUsPerTask)
	}, func(r *run.Row) (float64, bool) {
		v := float64(max(r.AskedTasks, r.AskedMinNodes, 1) * max(r.AskedCPUsPerTask, 1))
		return v, r.AskedTasks+r.AskedMinNodes+r.AskedCPUsPerTask > 0
	}},
	duration("time limits", func(r *run.Row) time.Duration { return r.TimeLimit }),
	duration("run times", func(r *run.Row) time.Duration { return r.AskedRunTime }),
	// Jobs are numbered in the order of their submission, so the ranks of submissions say nothing.
	{"submissions", func(r *run.Row) string {
		at := r.RecordedSubmit
		if at == 0 {
			at = r.Submit
		}
		if at == 0 {
			return ""
		}
		return fmt.Sprint(at.UnixSeconds())
	}, nil},
}

func duration(name string, of func(*run.Row) time.Duration) property {
	return property{name, func(r *run.Row) string {
		if of(r) == 0 {
			return ""
		}
		return of(r).String()
	}, func(r *run.Row) (float64, bool) { return of(r).Seconds(), of(r) != 0 }}
}

// Unlike finds out whether the IDs that two sides share name different jobs. It returns the number of these IDs, and
// the properties in which their jobs differ. The list is nil if the IDs name the same jobs, or if the rows do not show
// that they name different jobs.
//
// A transformation of a workload, such as scaled run times, changes one property of all jobs, or a few. So jobs are the
// same if any property agrees far more often than by chance, or if the order of its values agrees. Different jobs agree
// in no property.
func Unlike(baseline, set []run.Row) (equal int, differ []string) {
	own, others := firstRows(baseline), firstRows(set)
	var pairs [][2]*run.Row
	for _, id := range slices.Sorted(maps.Keys(others)) {
		if own[id] != nil {
			pairs = append(pairs, [2]*run.Row{own[id], others[id]})
		}
	}
	if len(pairs) < fewestPairs {
		return len(pairs), nil
	}
	for _, p := range properties {
		switch telling, same := p.agree(pairs); {
		case same:
			return len(pairs), nil
		case telling:
			differ = append(differ, p.name)
		}
	}
	if len(differ) < fewestProperties {
		return len(pairs), nil
	}
	return len(pairs), differ
}

// agree reports whether the property says something about the jobs, and whether it identifies them.
func (p property) agree(pairs [][2]*run.Row) (telling, same bool) {
	var counts [2]map[string]float64
	counts[0], counts[1] = map[string]float64{}, map[string]float64{}
	n, equal := 0.0, 0.0
	var values [2][]float64
	for _, pair := range pairs {
		x, y := p.text(pair[0]), p.text(pair[1])
		if x == "" || y == "" {
			continue
		}
		n++
		counts[0][x]++
		counts[1][y]++
		if x == y {
			equal++
		}
		if p.value != nil {
			v, known := p.value(pair[0])
			if w, also := p.value(pair[1]); known && also {
				values[0], values[1] = append(values[0], v), append(values[1], w)
			}
		}
	}
	chance := 0.0
	for _, text := range slices.Sorted(maps.Keys(counts[0])) { // in one order, so that sums are equal in all runs
		chance += counts[0][text] * counts[1][text] / (n * n)
	}
	if n < float64(len(pairs))/2 || n < fewestPairs || chance > mostChance {
		return false, false
	}
	same = (equal/n-chance)/(1-chance) >= enoughKappa
	return true, same || p.value != nil && stats.RankCorrelation(values[0], values[1]) >= enoughRanks
}

// Apart returns new IDs of the set's jobs for [Renamed], so that no ID of the baseline names them.
func Apart(baseline, set []run.Row) map[string]string {
	own, ids := firstRows(baseline), map[string]string{}
	for id := range firstRows(set) {
		if own[id] != nil {
			ids[id] = id + "@set"
		}
	}
	return ids
}

// ApartText returns a sentence about the result of [Unlike]; "" if the list is nil. The parameters a and b are the
// letters of the sides.
func ApartText(equal int, differ []string, a, b string) string {
	if differ == nil {
		return ""
	}
	last := len(differ) - 1
	text := strings.Join(differ[:last], ", ")
	ids := quantity.Plural(equal, "1 ID is", fmt.Sprint(equal, " IDs are"))
	return fmt.Sprintf("%s in both %s and %s, but the jobs with equal IDs are different jobs: they differ in %s and %s. "+
		"So %s and %s are compared as two samples without common jobs.", ids, a, b, text, differ[last], a, b)
}
