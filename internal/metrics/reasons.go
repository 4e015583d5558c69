package metrics

import (
	"bytes"
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

// ReasonTotal is how long jobs waited for one reason.
type ReasonTotal struct {
	// Reason is Slurm's reason without its details. It is empty for waits without a recorded reason:
	// they were short, or between two queries of the queue.
	Reason string `json:"reason"`
	Jobs   int    `json:"jobs"` // jobs that had the reason at some time
	// Seconds is the sum of their waits with the reason, and Share its share of all waits.
	Seconds Float `json:"wait_s"`
	Share   Float `json:"share"`
	// NeverStarted counts the jobs that had this reason last and never started.
	NeverStarted int `json:"never_started_jobs"`
}

// ReasonsOf adds up the waits of a run by reason, the largest first, also the waits of jobs that
// never started. The parameter rows has the run's rows, with reasons ([run.Run.Histories]). Waits
// of preset jobs do not count. It returns nil for a run without reasons, and for runs of the
// simulator's own policies, whose reasons explain only some waits.
func ReasonsOf(rows []run.Row, m *run.Manifest) []ReasonTotal { return ReasonsOfAll(all(rows), m) }

// ReasonsOfAll is [ReasonsOf] for rows that are not in a slice.
func ReasonsOfAll(rows iter.Seq[*run.Row], m *run.Manifest) []ReasonTotal {
	if m.Engine == "sim" && !m.OfSlurm() {
		return nil
	}
	totals, all, given := map[string]*ReasonTotal{}, 0.0, false
	for row := range rows {
		given = given || row.HasReasons()
		if row.State == hpc.Rejected || row.Preset(m.WindowStart) {
			continue
		}
		had, last := map[string]bool{}, ""
		for _, s := range waits.Decompose(row, m.VirtualEnd) {
			name, _, _ := strings.Cut(s.Reason, ":")
			t := totals[name]
			if t == nil {
				t = &ReasonTotal{Reason: name}
				totals[name] = t
			}
			seconds := s.To.Sub(s.From).Seconds()
			t.Seconds += Float(seconds)
			all += seconds
			if !had[name] {
				t.Jobs++
			}
			had[name], last = true, name
		}
		if row.FirstStart() == 0 && len(had) > 0 {
			totals[last].NeverStarted++
		}
	}
	if !given {
		return nil
	}
	list := []ReasonTotal{}
	for _, t := range totals {
		if t.Share = Float(math.NaN()); all > 0 {
			t.Share = t.Seconds / Float(all)
		}
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b ReasonTotal) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}

// renderReasons writes the table of reasons.
func renderReasons(b *bytes.Buffer, list []ReasonTotal) {
	if len(list) == 0 {
		return
	}
	table := quantity.NewTable(30, 9, 16, 9, 15)
	table.Row("pending reason", "jobs", "waited", "share", "never started")
	for _, t := range list {
		name := t.Reason
		if name == "" {
			name = "(not recorded)"
		}
		table.Row(name, t.Jobs, clock(t.Seconds), percent(t.Share), t.NeverStarted)
	}
	b.WriteString("\n" + table.String())
}
