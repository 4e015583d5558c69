package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/inert"
)

// The files of a run's directory that this program reads again.
const (
	controllerLog = "slurmctld.log"
	summaryFile   = "run.json"
	loadFile      = "load.txt"
	submittedFile = "submitted.events"
)

// controller has the data of a run in slurmctld's log. Instants are exact to the millisecond.
type controller struct {
	version string
	began   time.Time // when its main loop began
	jobs    map[int]*jobTimes
}

// jobTimes are a job's instants by slurmctld's log; an instant is zero until the log has it. A job
// that its time limit ended has the instant at which slurmctld noticed the limit.
type jobTimes struct {
	submit, start, end time.Time
	nodes              string
	limit              bool
}

var (
	logLine = regexp.MustCompile(`^\[([0-9T:.-]+)\] (.*)$`)
	version = regexp.MustCompile(`^slurmctld version (\S+) started`)
	// The messages of 22.05 to 26.05. 26.05 writes more about a submission.
	accepted   = regexp.MustCompile(`^_slurm_rpc_submit_batch_job: JobId=(\d+) `)
	allocated  = regexp.MustCompile(`^sched: Allocate JobId=(\d+) NodeList=(\S+) `)
	backfilled = regexp.MustCompile(`^sched/backfill: _start_job: (?:HETJOB: )?Started JobId=(\d+) in \S+ on (\S+)$`)
	completed  = regexp.MustCompile(`^_job_complete: JobId=(\d+) done$`)
	exhausted  = regexp.MustCompile(`^Time limit exhausted for JobId=(\d+)$`)
)

// logTime is how Slurm writes an instant in its logs.
const logTime = "2006-01-02T15:04:05.000"

// readLog reads slurmctld's log up to its present end.
func readLog(path string) (*controller, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l := &controller{jobs: map[int]*jobTimes{}}
	for line := range strings.Lines(string(data)) {
		m := logLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil || !strings.HasSuffix(line, "\n") {
			continue // the end of a longer message, or a line that is being written
		}
		at, err := time.Parse(logTime, m[1])
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		l.message(at, m[2])
	}
	return l, nil
}

func (l *controller) message(at time.Time, text string) {
	if text == "Running as primary controller" {
		l.began = at
	} else if m := version.FindStringSubmatch(text); m != nil {
		l.version = m[1]
	} else if m := accepted.FindStringSubmatch(text); m != nil {
		l.logged(m[1]).submit = at
	} else if m := allocated.FindStringSubmatch(text); m != nil {
		j := l.logged(m[1])
		j.start, j.nodes = at, m[2]
	} else if m := backfilled.FindStringSubmatch(text); m != nil {
		j := l.logged(m[1])
		j.start, j.nodes = at, m[2]
	} else if m := completed.FindStringSubmatch(text); m != nil {
		if j := l.logged(m[1]); !j.limit {
			j.end = at
		}
	} else if m := exhausted.FindStringSubmatch(text); m != nil {
		j := l.logged(m[1])
		j.end, j.limit = at, true
	}
}

// logged returns a job by its number in a log.
func (l *controller) logged(digits string) *jobTimes {
	id, err := strconv.Atoi(digits)
	if err != nil {
		id = -1 // more digits than a job's number has
	}
	return l.job(id)
}

func (l *controller) job(id int) *jobTimes {
	if l.jobs[id] == nil {
		l.jobs[id] = &jobTimes{}
	}
	return l.jobs[id]
}

// ended returns the number of jobs that have ended.
func (l *controller) ended() int {
	n := 0
	for _, j := range l.jobs {
		if !j.end.IsZero() {
			n++
		}
	}
	return n
}

// list returns the jobs and their numbers, in the order of the numbers, which is the order of the
// submissions.
func (l *controller) list() (jobs []*jobTimes, ids []int) {
	for id := range l.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		jobs = append(jobs, l.jobs[id])
	}
	return jobs, ids
}

// summary is the content of run.json.
type summary struct {
	Version string `json:"version"`
	Jobs    int    `json:"jobs"`
	// Lead is the time from slurmctld's start to the whole second of the first submission, as
	// `rmreplay replay --lead` takes it.
	Lead string `json:"lead"`
	// Load is the machine's mean load average from the last submission to the last end.
	Load float64 `json:"load"`
}

// report writes the files that are made from the logs of a run that has ended.
func report(o options, jobs []job) error {
	l, err := readLog(filepath.Join(o.Output, controllerLog))
	if err != nil {
		return err
	}
	times, epoch, err := l.complete(o.Output, len(jobs))
	if err != nil {
		return err
	}
	var instants []time.Time
	for _, t := range times {
		instants = append(instants, t.submit)
	}
	text, err := os.ReadFile(filepath.Join(o.Output, loadFile))
	if err != nil {
		return err
	}
	load, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		return err
	}
	s := summary{Version: l.version, Jobs: len(jobs), Lead: epoch.Sub(l.began).String(), Load: load}
	encoded, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return cmp.Or(
		os.WriteFile(filepath.Join(o.Output, submittedFile), []byte(submitted(jobs, instants)), 0o644),
		os.WriteFile(filepath.Join(o.Output, summaryFile), append(encoded, '\n'), 0o644),
		writeTable(filepath.Join(o.Output, "jobs.csv"), filepath.Base(o.Output), jobs, times, l.began),
		os.Remove(filepath.Join(o.Output, loadFile)),
	)
}

// writeTable writes the table of a run, with the columns that tools/realruns reads. Instants are seconds since
// slurmctld's start.
func writeTable(path, name string, jobs []job, times []*jobTimes, began time.Time) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	seconds := func(t time.Time) string { return strconv.FormatFloat(t.Sub(began).Seconds(), 'f', 3, 64) }
	table := inert.NewWriter(file)
	rows := [][]string{{"slurm_mode", "dtstart", "run_id", "job_id", "submit_job", "launch_job", "job_epilog_complete",
		"waittime", "walltime", "nodes"}}
	for i, t := range times {
		rows = append(rows, []string{
			"real", seconds(times[0].submit), name, strings.TrimPrefix(jobs[i].name, "jobid_"), seconds(t.submit),
			seconds(t.start), seconds(t.end),
			strconv.FormatFloat(t.start.Sub(t.submit).Seconds(), 'f', 3, 64),
			strconv.FormatFloat(t.end.Sub(t.start).Seconds(), 'f', 3, 64), t.nodes,
		})
	}
	return cmp.Or(table.WriteAll(rows), file.Close())
}

func readSummary(dir string) (s summary, err error) {
	path := filepath.Join(dir, summaryFile)
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return s, fmt.Errorf("reading %s: %w", path, err)
	}
	return s, nil
}
