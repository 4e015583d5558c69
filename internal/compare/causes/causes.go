// Package causes lists the usual causes of a difference between a replay and the record of its workload. A cause is
// listed only if it can act in the direction of the difference of the mean waits.
package causes

import (
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// The codes of missing data that can make jobs wait longer in production than in a replay (holdBack), or longer in
// a replay than in production (setFree).
var (
	holdBack = []string{"constraints", "qos", "accounts", "reservations", "node-events", "usage", "dependencies", "users",
		"window"}
	setFree = []string{"time-limits", "usage", "partitions", "qos", "accounts"}
	// seldom are codes that most records lack.
	seldom = []string{"reservations", "node-events", "window"}
)

// fates say what became of jobs that did not start in a replay, by [FateOf].
var fates = [...]string{"rejected", "cancelled while waiting",
	"not eligible to the end, because a dependency was never satisfied", "still waiting when the replay ended", "not submitted"}

// Fates counts jobs by what became of them ([FateOf]).
type Fates [len(fates)]int

// FateOf returns what became of a job that did not start in the replay, as an index of [Fates]. The row is nil if the
// replay does not have the job.
func FateOf(row *run.Row) int {
	switch {
	case row == nil:
		return 4
	case row.State == hpc.Rejected:
		return 0
	case row.End != 0:
		return 1
	case row.AskedDependency && row.Eligible == 0:
		return 2
	}
	return 3
}

// Facts are the facts that causes follow from.
type Facts struct {
	// Ended counts the jobs that ran only in production.
	Ended Fates
	// Lacks are texts about what the replayed workload does not have, by their codes without [run.LackPrefix].
	Lacks map[string]string
	// Held is the largest number of processors that jobs held at once in the record.
	Held int
	// Later is a text about jobs that may have waited for submissions after the window; "" without such jobs.
	Later              string
	Recorded, Replayed *run.Manifest
}

// Longer reports whether jobs waited longer in the replay than in production, on average.
func Longer(v *run.Verdict) bool { return v.ReplayedMean > v.RecordedMean }

// List returns usual causes of a verdict's difference, the most likely first. If jobs waited longer in production,
// something that the replay lacks delayed them there, such as a limit. If they waited longer in the replay, production
// had resources or data that the replay lacks.
func List(v *run.Verdict, f *Facts) []string {
	codes, known := holdBack, "limits of QOS, accounts and users that the cluster's accounts.sacctmgr does not have"
	if Longer(v) {
		codes, known = setFree, "nodes, CPUs or memory that production had and slurm.conf does not, and time limits that "+
			"users raised"
	}
	list, others := []string{}, 0 // others: without the data that most records lack
	for _, code := range codes {
		// These change the order of the queue in Slurm only. Their limits can make only production's waits longer.
		ofSlurm := code == "usage" || code == "qos" || code == "accounts"
		if text := f.Lacks[code]; text != "" && (!ofSlurm || !Longer(v) || f.Replayed.OfSlurm()) {
			list = append(list, text)
			if !slices.Contains(seldom, code) {
				others++
			}
		}
	}
	place := len(list)
	if others == 0 {
		place = 0
	}
	list = slices.Insert(list, place, "another configuration or release of Slurm in production")
	first := func(text string) {
		if text != "" {
			list = slices.Insert(list, 0, text)
		}
	}
	if !Longer(v) && v.FreeNodes > 0.8 {
		first(fmt.Sprintf("if production had the replay's nodes, enough nodes "+
			"for the jobs were free during %s of their waits: the record does not say why the jobs waited",
			metrics.Float(v.FreeNodes).Percent()))
	}
	if v.OnlyRecorded > v.Jobs/100 {
		first(f.onlyRecorded(Longer(v)))
	}
	if Longer(v) {
		first(f.smaller())
	} else {
		first(f.emptier())
		first(f.Later)
	}
	for _, w := range f.Replayed.Warnings {
		if w.Code == run.EndsAtLimit && w.AffectsResult {
			first(w.Text)
		}
	}
	return append(list, known, "priorities that an administrator set by hand")
}

// onlyRecorded returns a text about the jobs that ran only in production. Jobs that a replay rejects or lacks make its
// waits shorter, so that they do not count if its waits are longer.
func (f *Facts) onlyRecorded(longer bool) string {
	var list []string
	all := 0
	for i, n := range f.Ended {
		if n > 0 && (!longer || i != 0 && i != 4) {
			all += n
			list = append(list, fmt.Sprintf("%d %s %s", n, quantity.Plural(n, "was", "were"), fates[i]))
		}
	}
	if all == 0 {
		return ""
	}
	return quantity.Regular(all, "job") + " ran in production but not in the replay: " + strings.Join(list, ", ")
}

// smaller returns a text if the jobs of the record held more processors at once than the machine of the replay has.
func (f *Facts) smaller() string {
	machine := f.Replayed.Cluster.Processors
	if machine == 0 || f.Held <= machine {
		return ""
	}
	return fmt.Sprintf("in the record, jobs held up to %s at once, but the machine of the replay has %d",
		quantity.Regular(f.Held, "processor"), machine)
}

// emptier returns a text about the jobs that ran when the window began and are left out.
func (f *Facts) emptier() string {
	rules := f.Recorded.Workload.Rules
	if other := f.Replayed.Workload.Rules; other[workload.RuleLeftRunning] > rules[workload.RuleLeftRunning] {
		rules = other
	}
	left := workload.LeftRunning(rules)
	if left == "" {
		return ""
	}
	return fmt.Sprintf("%s that ran when the window began %s left out, because the record has no "+
		"nodes: the machine is emptier than it was (workload complete --cluster gives them nodes)",
		left, quantity.Plural(rules[workload.RuleLeftRunning], "is", "are"))
}
