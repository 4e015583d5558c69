package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// job is a submission of the workload.
type job struct {
	at      time.Duration // time after the first instant of the workload
	name    string
	user    string
	runTime float64  // seconds; negative until the time limit
	options []string // options of sbatch
	line    string   // the workload's line, without the instant
}

// readEvents reads a file of events of UB's simulator. It accepts only submissions that sbatch can
// take over: lines
//
//	-dt SECONDS -e submit_batch_job | sbatch options… SCRIPT
//
// without quotes, each with -sim-walltime, --uid and -J.
func readEvents(path string) ([]job, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var jobs []job
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for number := 1; scanner.Scan(); number++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		j, err := parseEvent(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		jobs = append(jobs, j)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("%s: it has no job", path)
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return int(a.at - b.at) })
	return jobs, nil
}

func parseEvent(line string) (job, error) {
	const form = "want -dt SECONDS -e submit_batch_job | OPTIONS SCRIPT, without quotes"
	head, rest, found := strings.Cut(line, "|")
	words := strings.Fields(head)
	if !found || len(words) != 4 || words[0] != "-dt" || words[2] != "-e" || words[3] != "submit_batch_job" ||
		strings.ContainsAny(rest, `"'\`) {
		return job{}, fmt.Errorf("not a submission (%s)", form)
	}
	seconds, err := strconv.ParseFloat(words[1], 64)
	if err != nil || !(seconds >= 0 && seconds <= 1e9) {
		return job{}, fmt.Errorf("-dt %s: not a number of seconds, 0 or more", words[1])
	}
	j := job{at: time.Duration(seconds * 1e9), line: strings.Join(words[2:], " ") + " | " + strings.TrimSpace(rest)}
	words = strings.Fields(rest)
	timed := false
	for i := 0; i < len(words)-1; i++ { // the last word is the script
		switch name, value, equals := strings.Cut(words[i], "="); strings.TrimLeft(name, "-") {
		case "sim-walltime":
			if !equals {
				i++ // the script is a word, too
				value = words[i]
			}
			if j.runTime, err = strconv.ParseFloat(value, 64); err != nil || !(j.runTime >= -1 && j.runTime <= 1e9) {
				return job{}, fmt.Errorf("-sim-walltime %s: not a number of seconds", value)
			}
			timed = true
		case "uid":
			j.user = value
		case "J":
			i++
			j.name = words[i]
			j.options = append(j.options, "-J", words[i])
		default:
			j.options = append(j.options, words[i])
		}
	}
	if !timed || j.user == "" || j.name == "" {
		return job{}, fmt.Errorf("a job without -sim-walltime, --uid=USER or -J NAME (%s)", form)
	}
	return j, nil
}

// script returns the job's script. This program interprets it.
func (j *job) script() string {
	return fmt.Sprintf("#!%s %s%g\n", interpreter, sleepPrefix, j.runTime)
}

// submitted returns the workload with the instants at which slurmctld accepted the jobs. They
// count from the whole second of the first instant. slurmctld since 23.11 begins each turn of its
// main loop at a whole second, so the position of a submission within its second matters.
func submitted(jobs []job, accepted []time.Time) string {
	epoch := accepted[0].Truncate(time.Second)
	var b strings.Builder
	for i, j := range jobs {
		fmt.Fprintf(&b, "-dt %.3f %s\n", accepted[i].Sub(epoch).Seconds(), j.line)
	}
	return b.String()
}
