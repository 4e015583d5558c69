package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm"
	"rmreplay/internal/run"
)

// forSize matches the reasons for which Slurm rejects a job that needs a larger machine, or
// that depends on such a job.
var forSize = regexp.MustCompile(`ESLURM_(REQUESTED_NODES_NOT_IN_PARTITION|TOO_MANY_REQUESTED_(CPUS|NODES)|INVALID_NODE_COUNT|` +
	`REQUESTED_(NODE|PART)_CONFIG_UNAVAILABLE|INVALID_NODE_NAME)|which was rejected`)

// audit warns of every input that the run did not carry out, and of every difference between the
// record and slurmdbd. It keeps slurmdbd's records among the logs. unfixed is the number of jobs
// without a recorded priority, if priorities are fixed.
func (e *slurmEngine) audit(p *Prepared, record *run.Writer, result replay.Result, report *slurm.Report, unfixed int) error {
	warnings := append(undone(result, p.spec.DrainLimit), e.unlike(result, report.Unfinished, unfixed)...)
	for _, w := range warnings {
		if err := record.Warn(w); err != nil {
			return err
		}
	}
	for name, text := range report.Logs {
		if err := os.WriteFile(filepath.Join(record.LogDir(), name), []byte(text), 0o666); err != nil {
			return fmt.Errorf("keeping what slurmdbd said: %w", err)
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

// unlike warns of jobs and actions that did not take the intended course.
func (e *slurmEngine) unlike(result replay.Result, unfinished []string, unfixed int) (list []run.Warning) {
	if n := len(result.Rejected); n > 0 {
		text := fmt.Sprintf("%d jobs were rejected, of which %d ran when the workload was recorded or have no record: %s", n, len(result.Missing), few(result.Rejected, 5))
		// With another number of nodes some jobs no longer fit. The user asked for their
		// rejection.
		unasked := func(why string) bool { return e.spec.NodeFactor == 0 || !forSize.MatchString(why) }
		affects := slices.ContainsFunc(result.Missing, unasked) || result.Refused == result.Submitted
		list = append(list, run.Warning{Code: "jobs-rejected", Text: text, AffectsResult: affects, Count: n})
	}
	if n := len(unfinished); n > 0 {
		text := fmt.Sprintf("%d actions had not ended when the replay did: %s", n, few(unfinished, 5))
		list = append(list, run.Warning{Code: "action-unfinished", Text: text, Count: n})
	}
	if unfixed > 0 {
		text := fmt.Sprintf("%d jobs have no recorded priority to be fixed: Slurm computed theirs", unfixed)
		list = append(list, run.Warning{Code: "priority-not-fixed", Text: text, AffectsResult: true, Count: unfixed})
	}
	return list
}

// undone warns of jobs that a run gave up or started late.
func undone(result replay.Result, limit time.Duration) (list []run.Warning) {
	if n := len(result.Undrained); n > 0 {
		text := fmt.Sprintf("%d jobs had not ended when nothing had happened for %v, and were given up: %s", n, limit, few(result.Undrained, 5))
		list = append(list, run.Warning{Code: "queue-not-drained", Text: text, AffectsResult: true, Count: n})
	}
	if n := len(result.LatePresets); n > 0 {
		text := fmt.Sprintf("%d jobs that ran when the window began do not run here: %s", n, few(result.LatePresets, 5))
		list = append(list, run.Warning{Code: "preset-late", Text: text, AffectsResult: true, Count: n})
	}
	return list
}

// warnOfDifferences warns that slurmdbd's records differ from the facts compared with them, or
// that err made the comparison impossible. The run is complete in either case.
func warnOfDifferences(record *run.Writer, code, what string, differences []string, err error) error {
	n := len(differences)
	warning := run.Warning{Code: code, AffectsResult: true, Count: max(n, 1)}
	switch {
	case err != nil:
		warning.Code, warning.Text = "slurmdbd-not-compared", fmt.Sprintf("%s could not be compared with slurmdbd: %v", what, err)
	case n > 0:
		warning.Text = fmt.Sprintf("%s and slurmdbd differ in %d places: %s", what, n, few(differences, 5))
	default:
		return nil
	}
	return record.Warn(warning)
}

// few returns the names of the first n elements of a list.
func few(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:n], ", ") + fmt.Sprintf(" and %d more", len(list)-n)
}
