package capture

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/forecast"
	"rmreplay/internal/forecast/periodic"
	"rmreplay/internal/formats/sacct"
	"rmreplay/internal/hpc"
	"rmreplay/internal/input"
	"rmreplay/internal/lines"
	"rmreplay/internal/predict"
	"rmreplay/internal/quantity"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// Read reads the directory of a capture as a queue. Its error names the file and the line, and says what would be
// right.
func Read(dir string) (*forecast.Queue, error) {
	q, err := read(dir)
	if err != nil {
		info, gone := os.Stat(dir)
		if _, no := os.Stat(filepath.Join(dir, "manifest.json")); no == nil {
			return nil, fmt.Errorf("reading the capture %s: this is the record of a run (want --freeze %s --at TIME)", dir, dir)
		}
		if gone == nil && !info.IsDir() {
			return nil, fmt.Errorf("reading the capture %s: a file (want the directory that rmreplay forecast capture makes; to "+
				"forecast from a workload, rmreplay simulate or replay it to a RUN, and give --freeze RUN --at TIME)", dir)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading the capture %s: %w (want the directory that rmreplay forecast capture makes)", dir, err)
		}
		return nil, fmt.Errorf("reading the capture %s: %w", dir, err)
	}
	return q, nil
}

func read(dir string) (*forecast.Queue, error) {
	at, zone, missing, err := readIndex(dir)
	if err != nil {
		return nil, err
	}
	jobs, notes, err := readJobs(dir, at, zone)
	if err != nil {
		return nil, err
	}
	for _, what := range slices.Sorted(maps.Keys(missing)) {
		notes = append(notes, fmt.Sprintf("not captured: %s: %s", what, missing[what]))
	}
	doubt := func(err error, without string) { // adds a note about an error in a file that may also be missing
		if err != nil {
			notes = append(notes, fmt.Sprintf("%v: %s", err, without))
		}
	}
	stopped, err := stoppedPartitions(dir)
	doubt(err, "the forecast assumes that all partitions are up")
	opts := workload.ReadOptions{Start: at, Zone: zone}
	w, more, err := build(filepath.Base(dir), jobs, stopped, opts)
	if err != nil {
		return nil, err
	}
	notes = append(notes, more...)
	if w.NodeEvents, err = readNodes(dir, opts); err != nil {
		return nil, err
	}
	w.Reservations, err = readReservations(dir, opts)
	doubt(err, "the forecast has no reservations")
	w.Usage, err = readUsage(dir)
	doubt(err, "fair-share begins at zero")
	history, err := readHistory(dir, at, zone)
	if doubt(err, "there is no history"); err == nil && len(history.List) == 0 {
		notes = append(notes, "no history of finished jobs (history.sacct)")
	}
	if len(history.List) == 0 {
		notes[len(notes)-1] += ": run times are drawn from the whole time limit"
	}
	q := forecast.NewQueue(w, history, estimates(jobs), notes)
	q.Reasons = reasons(jobs)
	q.Phase, err = readPhase(dir, at, zone)
	doubt(err, "slurmctld's periodic work has a random phase")
	q.Notes = notes
	return q, nil
}

// build makes a workload from the jobs. The parameter stopped has the partitions that start no
// jobs.
func build(source string, jobs []*job, stopped map[string]bool, opts workload.ReadOptions) (w *workload.Workload,
	notes []string, err error) {
	if len(jobs) == 0 { // the queue may be empty
		return &workload.Workload{Source: source, Start: opts.Start, Epoch: opts.Start, Jobs: workload.JobsOf()}, nil, nil
	}
	b := finished.NewBuilder(source, opts)
	held := 0
	for _, j := range jobs {
		record, stops := j.record(stopped)
		if stops {
			held++
		}
		b.Row()
		if err := b.Add(&record, j.ID); err != nil {
			return nil, nil, err
		}
	}
	if held > 0 {
		notes = append(notes, fmt.Sprintf("%d pending jobs are in partitions whose State starts no jobs now (scontrol "+
			"show partition), so they start in no realization", held))
	}
	if w, err = b.Finish(); err != nil {
		return nil, nil, err
	}
	w.Start = opts.Start
	if n := len(w.Unusable); n > 0 {
		notes = append(notes, fmt.Sprintf("%d %s left out (the first is %s: %s)", n,
			quantity.Plural(n, "job is", "jobs are"), w.Unusable[0].Text,
			w.Unusable[0].Rule))
	}
	if n := w.Rules[finished.RuleBadSubmitLine] + w.Rules[finished.RuleSubmitLineOption]; n > 0 {
		notes = append(notes, fmt.Sprintf("%d %s options that are unknown, invalid or contradictory; the forecast leaves these options out", n,
			quantity.Plural(n, "job has", "jobs have")))
	}
	return w, notes, nil
}

// readPhase reads when slurmctld started, and when the last backfill cycle began.
func readPhase(dir string, at hpc.Time, zone *time.Location) (p periodic.Phase, err error) {
	err = optional(dir, configFile, func(r io.Reader) error {
		return lines.Each(r, configFile, func(_ int, line []byte) error {
			key, value, _ := strings.Cut(lines.UTF8(line), "=")
			if strings.TrimSpace(key) != "BOOT_TIME" {
				return nil
			}
			if p.Began, err = slurmspec.ParseInstant(strings.TrimSpace(value), zone); err != nil {
				return fmt.Errorf("reading BOOT_TIME: %w", err)
			}
			return nil
		})
	})
	if err != nil || p.Began == 0 || p.Began > at {
		return periodic.Phase{}, err
	}
	err = optional(dir, schedulerFile, func(r io.Reader) error {
		return lines.Each(r, schedulerFile, func(_ int, line []byte) error {
			if last, ok := forecast.LastBackfill(lines.UTF8(line)); ok && last <= at {
				p.Backfilled = last
			}
			return nil
		})
	})
	return p, err
}

// readJobs reads the jobs that wait or run.
func readJobs(dir string, at hpc.Time, zone *time.Location) (list []*job, notes []string, err error) {
	f, err := input.Open(filepath.Join(dir, jobsFile))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() // only read
	suspended, components, lossy, skipped := 0, 0, 0, 0
	lost := map[string]bool{}
	var first error
	err = eachJob(f, jobsFile, func(s *shown) error {
		j, err := s.job(zone)
		switch {
		case errors.Is(err, errEnded):
			return nil
		case err != nil:
			if skipped++; first == nil {
				first = fmt.Errorf("%s:%d: job %.20s: %w", jobsFile, s.line, s.values["JobId"], err)
			}
			return nil
		case j.Submit > at:
			return fmt.Errorf("job %s: SubmitTime=%s is not before the instant of the capture, %s (want the capture's time zone)",
				j.ID, s.values["SubmitTime"], at)
		case j.Start > at:
			return fmt.Errorf("job %s: StartTime=%s: the job runs, but its start is after the instant of the capture, %s", j.ID,
				s.values["StartTime"], at)
		}
		if j.Start == at { // the job started in the second of the capture
			j.Start = at.Add(-time.Second)
			j.Submit = min(j.Submit, j.Start)
		}
		if j.Submit == at {
			j.Submit = at.Add(-time.Second)
		}
		if j.suspended {
			suspended++
		}
		if j.component && j.State == hpc.Pending {
			components++
		}
		if len(j.unheld) > 0 {
			lossy++
		}
		for _, key := range j.unheld {
			lost[key] = true
		}
		list = append(list, j)
		return nil
	})
	switch {
	case err != nil:
		return nil, nil, err
	case skipped > 0 && len(list) == 0:
		return nil, nil, first
	case skipped > 0:
		notes = append(notes, fmt.Sprintf("%d %s cannot be read and are left out; the first is %v", skipped,
			quantity.Plural(skipped, "job", "jobs"), first))
	}
	if suspended > 0 {
		notes = append(notes, fmt.Sprintf("the forecast treats %d suspended jobs as running", suspended))
	}
	if components > 0 {
		notes = append(notes, fmt.Sprintf("%d pending components of heterogeneous jobs start independently of each other",
			components))
	}
	if lossy > 0 {
		notes = append(notes, fmt.Sprintf("%d %s for something that forecasts ignore (%s)", lossy,
			quantity.Plural(lossy, "job asks", "jobs ask"),
			strings.Join(slices.Sorted(maps.Keys(lost)), ", ")))
	}
	return list, notes, nil
}

// estimates returns the starts that Slurm expects.
func estimates(jobs []*job) map[forecast.Key]hpc.Time {
	of := map[forecast.Key]hpc.Time{}
	for _, j := range jobs {
		switch {
		case j.estimate == 0:
		case j.ArrayJob == 0:
			of[forecast.Key{Job: j.ID, Task: -1}] = j.estimate
		case j.ArrayTask >= 0:
			of[forecast.Key{Job: strconv.FormatUint(uint64(j.ArrayJob), 10), Task: j.ArrayTask}] = j.estimate
		default: // if a record has several tasks, the estimate is for the first task
			if array, err := hpc.ParseArray(j.ArrayRest); err == nil {
				of[forecast.Key{Job: strconv.FormatUint(uint64(j.ArrayJob), 10), Task: array.Tasks[0]}] = j.estimate
			}
		}
	}
	return of
}

// reasons returns Slurm's reasons why jobs wait.
func reasons(jobs []*job) map[forecast.Key]string {
	of := map[forecast.Key]string{}
	for _, j := range jobs {
		if j.State != hpc.Pending || j.reason == "" {
			continue
		}
		tasks := []int{-1}
		if array, err := hpc.ParseArray(j.ArrayRest); err == nil && j.ArrayRest != "" {
			tasks = array.Tasks
		} else if j.ArrayTask >= 0 {
			tasks = []int{j.ArrayTask}
		}
		for _, task := range tasks {
			id := j.ID
			if task >= 0 {
				id = strconv.FormatUint(uint64(j.ArrayJob), 10)
			}
			of[forecast.Key{Job: id, Task: task}] = j.reason
		}
	}
	return of
}

// stoppedPartitions returns the partitions that start no jobs.
func stoppedPartitions(dir string) (map[string]bool, error) {
	stopped := map[string]bool{}
	err := optional(dir, partitionsFile, func(r io.Reader) error {
		name := ""
		return lines.Each(r, partitionsFile, func(_ int, line []byte) error {
			for word := range strings.FieldsSeq(lines.UTF8(line)) {
				switch key, value, _ := strings.Cut(word, "="); key {
				case "PartitionName":
					name = value
				case "State":
					if value == "DOWN" || value == "INACTIVE" {
						stopped[name] = true
					}
				}
			}
			return nil
		})
	})
	return stopped, err
}

// readNodes reads which nodes are out of service.
func readNodes(dir string, opts workload.ReadOptions) (list []hpc.NodeEvent, err error) {
	err = optional(dir, nodesFile, func(r io.Reader) error {
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		list, err = workload.ReadNodeStates(strings.NewReader(nodeState.ReplaceAllStringFunc(string(text), unresponsive)),
			nodesFile, opts)
		return err
	})
	return list, err
}

// nodeState matches the state of a node in scontrol's output.
var nodeState = regexp.MustCompile(`\bState=\S+`)

// unresponsive drains a node that does not respond ("State=IDLE*" or "State=IDLE+NOT_RESPONDING"), because slurmctld
// starts no jobs there. A node that is powered down or boots does not respond either, but slurmctld assigns jobs to it.
func unresponsive(state string) string {
	silent := strings.Contains(state, "*") || strings.Contains(state, "NOT_RESPONDING")
	if silent && !strings.Contains(state, "POWER") && !strings.Contains(state, "BOOT") &&
		!strings.ContainsAny(state, "~#!%@^") {
		return state + "+DRAIN"
	}
	return state
}

// readReservations reads the reservations.
func readReservations(dir string, opts workload.ReadOptions) (list []hpc.ReservationEvent, err error) {
	err = optional(dir, reservationsFile, func(r io.Reader) error {
		list, err = workload.ReadReservations(r, reservationsFile, opts)
		return err
	})
	return list, err
}

// readUsage reads the fair-share usage from sshare's output.
func readUsage(dir string) (list []hpc.Usage, err error) {
	err = optional(dir, usageFile, func(r io.Reader) error {
		table := csv.NewReader(r)
		table.Comma, table.LazyQuotes, table.FieldsPerRecord = '|', true, -1
		for line := 1; ; line++ {
			row, err := table.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("%s: %w", usageFile, err)
			}
			if line == 1 || len(row) == 1 && strings.TrimSpace(row[0]) == "" {
				continue
			}
			if len(row) < 3 {
				return fmt.Errorf("%s:%d: %d columns (want Account|User|RawUsage)", usageFile, line, len(row))
			}
			u := hpc.Usage{Account: strings.TrimSpace(row[0]), User: strings.TrimSpace(row[1])}
			if row[2] == "" {
				continue
			}
			if u.Raw, err = strconv.ParseFloat(row[2], 64); err != nil || u.Raw < 0 {
				return fmt.Errorf("%s:%d: RawUsage %.20q: not a number", usageFile, line, row[2])
			}
			if u.Account != "" && u.Account != "root" {
				list = append(list, u)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// readHistory reads the jobs that were submitted before the instant. Without earlier jobs the file has only sacct's
// header.
func readHistory(dir string, at hpc.Time, zone *time.Location) (*predict.Cases, error) {
	cases := &predict.Cases{}
	err := optional(dir, historyFile, func(r io.Reader) error {
		head := bufio.NewReader(r)
		header, err := head.ReadString('\n')
		if _, more := head.Peek(1); errors.Is(err, io.EOF) || errors.Is(more, io.EOF) {
			return nil
		}
		r = io.MultiReader(strings.NewReader(header), head)
		w, err := sacct.Format.Read(r, historyFile, workload.ReadOptions{Zone: zone, Lean: true})
		if err != nil {
			return err
		}
		w.Jobs.Delete(func(job *hpc.Job) bool { return job.Submit >= at })
		read, err := predict.CasesOf(w)
		if err == nil {
			cases = read
		}
		return err
	})
	return cases, err
}

// optional reads a file of the capture if the file exists. An empty file is left by a command that has failed.
func optional(dir, name string, read func(io.Reader) error) error {
	f, err := input.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() // only read
	whole := bufio.NewReader(f)
	if head, err := whole.Peek(1024); errors.Is(err, io.EOF) && len(bytes.TrimSpace(head)) == 0 {
		return fmt.Errorf("%s: empty (want the command's output; without it, no file)", name)
	}
	return read(whole)
}
