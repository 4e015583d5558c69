package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// pair is a real run and a replay of it. Instants count from the whole second of the first
// submission.
type pair struct {
	name       string
	jobs       []job
	real, ours []*jobTimes
	realEpoch  time.Time
	oursEpoch  time.Time
	load       float64
}

// printPairs compares real runs with replays, REAL=REPLAY each, job by job.
func printPairs(out io.Writer, args []string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "run\tload\tsame nodes\tlargest difference of starts, s\tmean wait, s\tof the replay, "+
		"s\tdistance, s\tfirst other decision (replay's)")
	var waits, theirs, ours, launch []float64
	jobs, same := 0, 0
	for _, arg := range args {
		p, err := readPair(arg)
		if err != nil {
			return err
		}
		d := p.differences()
		jobs, same = jobs+len(p.jobs), same+d.sameNodes
		waits = append(waits, d.waits...)
		fmt.Fprintf(table, "%s\t%.1f\t%d of %d\t%.2f\t%.2f\t%.2f\t%.1f\t%s\n",
			p.name, p.load, d.sameNodes, len(p.jobs), d.largest, d.meanReal, d.meanOurs, d.distance, d.first)
		theirs, ours = append(theirs, overhead(p.jobs, p.real)...), append(ours, overhead(p.jobs, p.ours)...)
		delays, err := launchDelays(strings.SplitN(arg, "=", 2)[0], p.real)
		if err != nil {
			return err
		}
		launch = append(launch, delays...)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, `
%d of %d jobs have the same nodes; the median difference of waits is %.3f s
from the allocation to slurmd's message, s:    %s
from the allocation to the end beyond the run time, s: %s
  in the replays, s:                                   %s
`, same, jobs, quantile(waits, 0.5), spread(launch), spread(theirs), spread(ours))
	return err
}

// readPair reads the logs of a run and of a replay.
func readPair(arg string) (*pair, error) {
	realDir, replay, found := strings.Cut(arg, "=")
	if !found {
		return nil, usageError(arg + ": want REAL=REPLAY")
	}
	p := &pair{name: filepath.Base(realDir)}
	var err error
	if p.jobs, err = readEvents(filepath.Join(realDir, submittedFile)); err != nil {
		return nil, err
	}
	s, err := readSummary(realDir)
	if err != nil {
		return nil, err
	}
	p.load = s.Load
	l, err := readLog(filepath.Join(realDir, controllerLog))
	if err != nil {
		return nil, err
	}
	if p.real, p.realEpoch, err = l.complete(realDir, len(p.jobs)); err != nil {
		return nil, err
	}
	if l, err = readRecord(replay); err != nil {
		return nil, err
	}
	p.ours, p.oursEpoch, err = l.complete(replay, len(p.jobs))
	return p, err
}

// complete returns the jobs of a run that has ended, and the whole second of the first submission.
func (l *controller) complete(dir string, want int) ([]*jobTimes, time.Time, error) {
	times, ids := l.list()
	if len(times) != want {
		return nil, time.Time{}, fmt.Errorf("%s: %d jobs (want %d)", dir, len(times), want)
	}
	for i, t := range times {
		if t.submit.IsZero() || t.start.IsZero() || t.end.IsZero() {
			return nil, time.Time{}, fmt.Errorf("%s: job %d was not submitted, started and ended", dir, ids[i])
		}
	}
	return times, times[0].submit.Truncate(time.Second), nil
}

// readRecord reads the instants of the jobs of a replay from the events of its record.
func readRecord(dir string) (*controller, error) {
	record, err := run.Open(dir)
	if err != nil {
		return nil, err
	}
	events, err := record.Events()
	if err != nil {
		return nil, err
	}
	l := &controller{jobs: map[int]*jobTimes{}}
	for _, event := range events {
		if event.RMJob == 0 {
			continue // an event of a node or of a rejected job
		}
		j := l.job(int(event.RMJob))
		switch at := event.At.Std(); event.Kind {
		case rm.Accepted:
			j.submit = at
		case rm.Started:
			j.start = at
		case rm.Ended:
			j.end, j.nodes, j.limit = at, event.Nodes, event.State == hpc.TimedOut
		}
	}
	return l, nil
}

// difference says how a replay differs from its run.
type difference struct {
	sameNodes          int
	waits              []float64 // absolute differences of the jobs' waits, in seconds
	largest            float64   // largest difference of starts, in seconds
	meanReal, meanOurs float64   // mean waits, in seconds
	distance           float64   // distance between the vectors of waits, in seconds
	first              string    // the first decision of the run that the replay does not make
}

// alike is the largest difference of starts, in seconds, that still counts as the same decision:
// slurmctld may schedule this long after an event (batch_sched_delay, 3 s by default).
const alike = 3

func (p *pair) differences() difference {
	var d difference
	first := time.Time{}
	sum := 0.0
	for i := range p.jobs {
		theirs, ours := p.real[i], p.ours[i]
		start := theirs.start.Sub(p.realEpoch).Seconds() - ours.start.Sub(p.oursEpoch).Seconds()
		realWait, oursWait := theirs.start.Sub(theirs.submit).Seconds(), ours.start.Sub(ours.submit).Seconds()
		d.meanReal += realWait / float64(len(p.jobs))
		d.meanOurs += oursWait / float64(len(p.jobs))
		d.waits = append(d.waits, math.Abs(realWait-oursWait))
		sum += (realWait - oursWait) * (realWait - oursWait)
		d.largest = max(d.largest, math.Abs(start))
		same := sameNodes(theirs.nodes, ours.nodes)
		if same {
			d.sameNodes++
		}
		if (!same || math.Abs(start) > alike) && (first.IsZero() || theirs.start.Before(first)) {
			first = theirs.start
			d.first = fmt.Sprintf("%s at %s (%s)", p.jobs[i].name, theirs.decision(p.realEpoch), ours.decision(p.oursEpoch))
		}
	}
	d.distance = math.Sqrt(sum)
	return d
}

// sameNodes compares host lists without regard to their order.
func sameNodes(a, b string) bool {
	first, err := hostlist.Expand(a)
	if err != nil {
		return a == b
	}
	second, err := hostlist.Expand(b)
	slices.Sort(first)
	slices.Sort(second)
	return err == nil && slices.Equal(first, second)
}

// decision describes the start of a job in words.
func (t *jobTimes) decision(epoch time.Time) string {
	return fmt.Sprintf("%.2f on %s", t.start.Sub(epoch).Seconds(), t.nodes)
}

// overhead returns the time from the allocation of each job to its end, beyond its run time. Jobs
// that their limit ended are left out.
func overhead(jobs []job, times []*jobTimes) []float64 {
	var list []float64
	for i, t := range times {
		if !t.limit && jobs[i].runTime >= 0 {
			list = append(list, t.end.Sub(t.start).Seconds()-jobs[i].runTime)
		}
	}
	return list
}

// launched matches the message that slurmd logs when it gets a job (22.05 to 26.05).
var launched = regexp.MustCompile(`(?m)^\[([0-9T:.-]+)\] Launching batch (?:job |JobId=)(\d+)`)

// launchDelays returns the time from the allocation of each job of a run to slurmd's message.
func launchDelays(dir string, times []*jobTimes) ([]float64, error) {
	l, err := readLog(filepath.Join(dir, controllerLog))
	if err != nil {
		return nil, err
	}
	logs, err := filepath.Glob(filepath.Join(dir, "slurmd.*.log"))
	if err != nil {
		return nil, err
	}
	var list []float64
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return nil, err
		}
		for _, m := range launched.FindAllStringSubmatch(string(text), -1) {
			at, err := time.Parse(logTime, m[1])
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", log, err)
			}
			if j := l.logged(m[2]); !j.start.IsZero() {
				list = append(list, at.Sub(j.start).Seconds())
			}
		}
	}
	if len(list) != len(times) {
		return nil, fmt.Errorf("%s: slurmd launched %d jobs (want %d)", dir, len(list), len(times))
	}
	return list, nil
}

// spread describes the distribution of values in words.
func spread(values []float64) string {
	return fmt.Sprintf("%.3f (median), %.3f to %.3f (the middle 80 %%), %d jobs", quantile(values, 0.5),
		quantile(values, 0.1), quantile(values, 0.9), len(values))
}

// quantile returns the value below which a share q of the values lies; 0 without values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}
