package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/quantity"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
)

// audit adds a warning for every input that the run did not carry out, and for every difference
// between the record and slurmdbd. It stores slurmdbd's records in the log directory. unfixed is the
// number of jobs whose priority could not be fixed, because the workload gives no priority for them.
func (e *slurmEngine) audit(p *Prepared, record *run.Writer, result replay.Result, report *slurm.Report,
	unfixed int) error {
	var never []string
	for _, ev := range report.NeverStart {
		never = append(never, ev.Job)
		if err := record.Event(ev); err != nil {
			return err
		}
	}
	warnings := append(p.undone(result, never), e.unlike(result, report.Unfinished, unfixed)...)
	warnings = append(warnings, p.unlikeRecord(record.Rows)...)
	for _, w := range warnings {
		if err := record.Warn(w); err != nil {
			return err
		}
	}
	for name, text := range report.Logs {
		if err := os.WriteFile(filepath.Join(record.LogDir(), name), []byte(text), 0o666); err != nil {
			return fmt.Errorf("storing the answers of slurmdbd: %w", err)
		}
	}
	if report.Jobs != nil {
		if err := record.Amend(report.Jobs.Amend); err != nil {
			return err
		}
	}
	for _, c := range report.Comparisons {
		if err := warnOfDifferences(record, c.Code, c.What, c.Differences, c.Err); err != nil {
			return err
		}
	}
	return nil
}

// unlike returns warnings about three differences from the recorded workload: rejected jobs,
// actions that have not ended, and jobs whose priority could not be fixed.
func (e *slurmEngine) unlike(result replay.Result, unfinished []string, unfixed int) (list []run.Warning) {
	list = append(list, e.foreseen.rejected(result)...)
	if n := len(unfinished); n > 0 {
		text := fmt.Sprintf("%d actions had not ended when the replay ended: %s", n, replay.Few(unfinished, 5))
		list = append(list, run.Warning{Code: "action-unfinished", Text: text, Count: n})
	}
	if unfixed > 0 {
		text := fmt.Sprintf("%d %s no recorded priority: Slurm computed the priority, although --fixed-priorities is set", unfixed,
			quantity.Plural(unfixed, "job has", "jobs have"))
		list = append(list, run.Warning{Code: "priority-not-fixed", Text: text, AffectsResult: true, Count: unfixed})
	}
	return list
}

// rejected returns a warning about rejected jobs. All engines use it. A rejected job that ran when it was recorded, or
// that has no record, always affects the result: its work is missing, and the waits of other jobs become too short.
func (f *foreseen) rejected(result replay.Result) []run.Warning {
	n := replay.RejectedJobs(result.Rejected)
	if n == 0 {
		return nil
	}
	text := fmt.Sprintf("%d %s rejected", n, quantity.Plural(n, "job was", "jobs were"))
	if never := n - replay.RejectedJobs(result.Missing); never > 0 {
		text += fmt.Sprintf(" (%d of them did not run when the workload was recorded either)", never)
	}
	text += ": " + f.rejections(result.Rejected)
	if slices.ContainsFunc(result.Rejected, forMaxTime) {
		text += " (to test a shorter MaxTime, do not change the cluster's MaxTime but lower the jobs' limits: " +
			"workload transform --max-time-limit [PARTITION=]DURATION)"
	}
	affects := len(result.Missing) > 0 || result.Refused == result.Submitted
	return []run.Warning{{Code: "jobs-rejected", Text: text, AffectsResult: affects, Count: n}}
}

// forMaxTime reports whether an engine, slurmctld, its model or the simulator, rejected a job for its time limit.
func forMaxTime(r replay.Rejection) bool {
	return strings.Contains(r.Reason, "TIME_LIMIT") || strings.Contains(r.Reason, "MaxTime") || strings.HasPrefix(r.Reason, "time limit")
}

// undone returns warnings about jobs that had not ended when the run ended. It also returns warnings about jobs that
// ran at the window's begin in the record but not in the run. The parameter never lists jobs with dependencies that can
// never be met. Jobs with such dependencies affect the result only if they ran in the record.
func (p *Prepared) undone(result replay.Result, never []string) (list []run.Warning) {
	never = replay.NeverStart(p.workload, result.Undrained, never)
	if n := len(never); n > 0 {
		text := fmt.Sprintf("%d %s can never start, because a dependency is never satisfied: %s", n,
			quantity.Plural(n, "job", "jobs"), replay.Few(never, 5))
		ran := p.ranWhenRecorded(never)
		if ran > 0 {
			text += fmt.Sprintf(" (%d ran when the workload was recorded)", ran)
		}
		list = append(list, run.Warning{Code: "dependency-never-satisfied", Text: text, AffectsResult: ran > 0, Count: n})
	}
	undrained := without(result.Undrained, never)
	if n := len(undrained); n > 0 {
		text := fmt.Sprintf("%d %s had not ended when the run stopped, because nothing had happened for %v: %s", n,
			quantity.Plural(n, "job", "jobs"),
			p.spec.DrainLimit, replay.Few(undrained, 5))
		if why := countsText(result.PendingReasons); why != "" {
			text += " (pending for " + why + ")"
		}
		list = append(list, run.Warning{Code: "queue-not-drained", Text: text, AffectsResult: true, Count: n})
	}
	for i := range p.workload.Reservations {
		r := &p.workload.Reservations[i].Reservation
		if !r.HasFlag(slurmspec.FlagMaint, "MAINTENANCE") || p.workload.Reservations[i].Action != "create" {
			continue
		}
		if n := p.workload.PresetsInto(r); n > 0 {
			text := fmt.Sprintf("%d %s when the window began, and still when the maintenance of %s began", n,
				quantity.Plural(n, "job ran", "jobs ran"), r.Start)
			list = append(list, run.Warning{Code: run.PresetInMaintenance, Text: text, Count: n})
		}
	}
	for _, d := range result.OfWindow() {
		list = append(list, run.Warning{Code: d.Code, Text: d.Text, AffectsResult: d.AffectsResult, Count: d.Count})
	}
	return list
}

// countsText lists names with their counts, the largest first: "12 Resources, 3 Priority".
func countsText(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return replay.Few(names, 5)
}

// without returns the elements of a list that are not in another list.
func without(list, others []string) []string {
	left := make(map[string]bool, len(others))
	for _, id := range others {
		left[id] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(id string) bool { return left[id] })
}

// ranWhenRecorded returns how many of the jobs ran when the workload was recorded.
func (p *Prepared) ranWhenRecorded(ids []string) (n int) {
	named := make(map[string]bool, len(ids))
	for _, id := range ids {
		named[id] = true
	}
	for _, job := range p.workload.Jobs.All() {
		if named[job.ID] && job.Recorded != nil && job.Recorded.Start != 0 {
			n++
		}
	}
	return n
}

// warnOfDifferences records a warning that slurmdbd's records differ from the facts that they are compared with. If
// err is not nil, the warning says that they could not be compared. The run is complete in both cases.
func warnOfDifferences(record *run.Writer, code, what string, differences []string, err error) error {
	n := len(differences)
	warning := run.Warning{Code: code, AffectsResult: true, Count: max(n, 1)}
	switch {
	case err != nil:
		warning.Code, warning.Text = "slurmdbd-not-compared", fmt.Sprintf("%s could not be compared with slurmdbd: %v", what,
			err)
	case n > 0:
		warning.Text = fmt.Sprintf("%s and slurmdbd differ in %d places: %s", what, n, replay.Few(differences, 5))
	default:
		return nil
	}
	return record.Warn(warning)
}
