package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// forSize matches the reasons for which Slurm rejects a job that would fit a larger machine,
// or that depends on such a job.
var forSize = regexp.MustCompile(`ESLURM_(REQUESTED_NODES_NOT_IN_PARTITION|TOO_MANY_REQUESTED_(CPUS|NODES)|INVALID_NODE_COUNT|` +
	`REQUESTED_(NODE|PART)_CONFIG_UNAVAILABLE|INVALID_NODE_NAME)|which was rejected`)

// audit warns of what the run left undone and of every difference between the record and
// slurmdbd, and keeps what slurmdbd says among the logs.
func (e *slurmEngine) audit(p *Prepared, record *run.Writer, result replay.Result, said report) error {
	warnings := append(undone(result, p.spec.DrainLimit), e.unlike(result, said.unfinished)...)
	for _, w := range warnings {
		if err := record.Warn(w); err != nil {
			return err
		}
	}
	have := said.accounting
	if have.jobs == "" {
		return nil
	}
	for _, file := range []struct{ name, text string }{{"sacct.txt", have.jobs}, {"outages.txt", have.outages}, {"reservations.txt", have.reservations}} {
		if err := os.WriteFile(filepath.Join(record.LogDir(), file.name), []byte(file.text), 0o644); err != nil {
			return fmt.Errorf("keeping what slurmdbd said: %w", err)
		}
	}
	var differences []string
	sacct, err := slurm.ParseSacct(have.jobs)
	if err == nil {
		differences = sacct.Compare(record.Rows)
		record.Amend(sacct.Amend)
	}
	if err := warnOfDifferences(record, "sacct-differs", "the record", differences, err); err != nil {
		return err
	}
	differences, err = eventDifferences(have, p.workload, said.end)
	return warnOfDifferences(record, "events-differ", "the workload's events", differences, err)
}

// unlike warns of jobs and actions that did not take the course that they should.
func (e *slurmEngine) unlike(result replay.Result, unfinished []string) (list []run.Warning) {
	if n := len(result.Rejected); n > 0 {
		text := fmt.Sprintf("%d jobs were rejected, of which %d ran when the workload was recorded or have no record: %s", n, len(result.Missing), few(result.Rejected, 5))
		// With another number of nodes some jobs no longer fit. Their rejection was asked for.
		unasked := func(why string) bool { return e.spec.NodeFactor == 0 || !forSize.MatchString(why) }
		affects := slices.ContainsFunc(result.Missing, unasked) || result.Refused == result.Submitted
		list = append(list, run.Warning{Code: "jobs-rejected", Text: text, AffectsResult: affects, Count: n})
	}
	if n := len(unfinished); n > 0 {
		text := fmt.Sprintf("%d actions had not ended when the replay did: %s", n, few(unfinished, 5))
		list = append(list, run.Warning{Code: "action-unfinished", Text: text, Count: n})
	}
	if n := result.WithoutPriority; n > 0 {
		text := fmt.Sprintf("%d jobs have no recorded priority to be fixed: Slurm computed theirs", n)
		list = append(list, run.Warning{Code: "priority-not-fixed", Text: text, AffectsResult: true, Count: n})
	}
	return list
}

// undone warns of jobs that a run, replayed or simulated, gave up or started late.
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

// warnOfDifferences warns that slurmdbd has something else than what is compared with it, or
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

// eventDifferences compares the workload's events up to end with the nodes' outages and the
// reservations that slurmdbd has.
func eventDifferences(have accounting, w *workload.Workload, end hpc.Time) ([]string, error) {
	nodeEvents := slices.DeleteFunc(slices.Clone(w.NodeEvents), func(ev hpc.NodeEvent) bool { return ev.At > end })
	differences, err := slurm.CompareOutages(have.outages, nodeEvents, w.Begin(), len(w.Actions) > 0)
	if err != nil || len(w.Actions) > 0 { // actions may change reservations
		return differences, err
	}
	booked := slices.DeleteFunc(slices.Clone(replay.Reservations(w)), func(ev hpc.ReservationEvent) bool { return ev.At > end })
	more, err := slurm.CompareReservations(have.reservations, booked)
	return append(differences, more...), err
}

// few names the first n of a list.
func few(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:n], ", ") + fmt.Sprintf(" and %d more", len(list)-n)
}
