// Command sitepage writes a table in Markdown that compares the waits in a site's record with the
// waits in draws of the fields that were not recorded: for all jobs, for all jobs except those of
// one day, by size and by hour. Each directory of draws gets two columns. Runs on Slurm are
// compared job by job with the runs of the model that have the same seeds.
//
//	go run ./tools/sitepage -without 2024-01-03 record.jsonl easy model replay > page.md
//
// tools/site-page makes the record and the draws from a table of jobs.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	interval "rmreplay/internal/compare/draws"
	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

const (
	level       = 0.95
	slurmEngine = "slurm" // engine of runs on real daemons
	slurmPolicy = "slurm" // policy of runs on the simulator's model of slurmctld
)

func main() {
	without := flag.String("without", "", "also leave out the jobs submitted on `DAY` (UTC), such as 2024-01-03")
	flag.Parse()
	if err := write(os.Stdout, *without, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sitepage:", err)
		os.Exit(1)
	}
}

// started is a job that started, in the record or in a draw.
type started struct {
	submit hpc.Time
	wait   float64 // seconds
	cpus   int
	weight float64 // node hours
}

// group is a selection of jobs.
type group struct {
	name  string // follows the name of a figure
	whole bool   // whether the group has jobs of all sizes and hours
	has   func(*started) bool
}

// draws are the runs of a directory.
type draws struct {
	name string
	runs []*run.Run
	jobs [][]started // jobs of each run
}

func write(out io.Writer, without string, paths []string) error {
	if len(paths) < 2 {
		return errors.New("want the record and directories of draws")
	}
	record, err := formats.OpenRuns(paths[0])
	if err != nil {
		return err
	}
	recorded, err := jobsOf(record.Runs[0])
	if err != nil {
		return err
	}
	var sets []draws
	for _, path := range paths[1:] {
		d, err := openDraws(path)
		if err != nil {
			return err
		}
		sets = append(sets, d)
	}
	groups, err := selections(without)
	if err != nil {
		return err
	}
	var w strings.Builder
	writeTable(&w, groups, recorded, sets)
	for i := range sets {
		for k := range sets {
			if err := writeAgreement(&w, &sets[i], &sets[k]); err != nil {
				return err
			}
		}
	}
	_, err = io.WriteString(out, w.String())
	return err
}

// openDraws reads the runs of a directory, and their jobs.
func openDraws(path string) (d draws, err error) {
	set, err := formats.OpenRuns(path)
	if err != nil {
		return d, err
	}
	d.runs = set.Runs
	for _, r := range d.runs {
		jobs, err := jobsOf(r)
		if err != nil {
			return d, err
		}
		d.jobs = append(d.jobs, jobs)
	}
	switch m := &d.runs[0].Manifest; {
	case m.Engine == slurmEngine:
		d.name = "Slurm " + m.Versions.Slurm
	case m.Policy == slurmPolicy:
		d.name = "model of Slurm"
	default:
		d.name = m.Policy
	}
	return d, nil
}

func writeTable(w *strings.Builder, groups []group, recorded []started, sets []draws) {
	w.WriteString("| | jobs | recorded |")
	for i := range sets {
		n := len(sets[i].runs)
		share := "all of them"
		if over := interval.Over(make([]float64, n), level); float64(over.Coverage) >= level {
			share = fmt.Sprintf("%.0f %% of them", 100*float64(over.Coverage))
		}
		fmt.Fprintf(w, " %s, median of %d | %s |", sets[i].name, n, share)
	}
	w.WriteString("\n| --- | --- | --- |" + strings.Repeat(" --- | --- |", len(sets)) + "\n")
	for _, f := range figures {
		for _, g := range groups {
			if before := selected(recorded, g); len(before) > 0 && (g.whole || f.everywhere) {
				fmt.Fprintf(w, "| %s%s | %d | %s |", f.name, g.name, len(before), f.show(f.of(before)))
				for i := range sets {
					over := overDraws(f, g, sets[i].jobs)
					fmt.Fprintf(w, " %s | %s to %s |", f.show(float64(over.Median)), f.show(float64(over.Low)),
						f.show(float64(over.High)))
				}
				w.WriteString("\n")
			}
		}
	}
}

// overDraws returns a figure of a group of jobs over the draws in which at least one job of the
// group started.
func overDraws(f figure, g group, drawn [][]started) interval.Figure {
	var values []float64
	for _, jobs := range drawn {
		if chosen := selected(jobs, g); len(chosen) > 0 {
			values = append(values, f.of(chosen))
		}
	}
	return interval.Over(values, level)
}

// writeAgreement says, for each seed with a run on Slurm and a run of the model, how many jobs start in the same
// second in both.
func writeAgreement(w *strings.Builder, model, slurm *draws) error {
	if model.runs[0].Manifest.Policy != slurmPolicy || slurm.runs[0].Manifest.Engine != slurmEngine {
		return nil
	}
	for _, real := range slurm.runs {
		for _, r := range model.runs {
			if r.Manifest.Seed != real.Manifest.Seed {
				continue
			}
			same, jobs, err := sameStarts(r, real)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "\nSeed %d: %d of %d jobs start in the same second in the model and on Slurm.\n",
				real.Manifest.Seed, same, jobs)
		}
	}
	return nil
}

// sameStarts returns how many jobs of two runs start in the same second, and the number of all
// jobs. A job that starts in neither run counts as starting in the same second.
func sameStarts(a, b *run.Run) (same, jobs int, err error) {
	type job struct {
		id   string
		task int
	}
	starts := map[job]int64{}
	rows, err := a.Jobs()
	if err != nil {
		return 0, 0, err
	}
	for i := range rows {
		starts[job{rows[i].Job, rows[i].Task}] = rows[i].Start.Std().Unix()
	}
	if rows, err = b.Jobs(); err != nil {
		return 0, 0, err
	}
	for i := range rows {
		if start, known := starts[job{rows[i].Job, rows[i].Task}]; known && start == rows[i].Start.Std().Unix() {
			same++
		}
	}
	return same, max(len(rows), len(starts)), nil
}

// jobsOf returns the jobs of a run that started.
func jobsOf(r *run.Run) (list []started, err error) {
	rows, err := r.Jobs()
	if err != nil {
		return nil, err
	}
	for i := range rows {
		row := &rows[i]
		wait, ok := waits.Wait(row)
		if !ok {
			continue
		}
		nodes := max(cmp.Or(row.NodeCount, row.AskedMinNodes), 1) // the request, if the record lacks the nodes
		list = append(list, started{
			submit: row.Submit, wait: wait.Seconds(), cpus: row.Processors,
			weight: float64(nodes) * row.End.Sub(row.Start).Hours(),
		})
	}
	return list, nil
}

func selected(jobs []started, g group) (list []started) {
	for i := range jobs {
		if g.has(&jobs[i]) {
			list = append(list, jobs[i])
		}
	}
	return list
}

// selections returns the groups of the tables.
func selections(without string) ([]group, error) {
	groups := []group{{"", true, func(*started) bool { return true }}}
	if without != "" {
		day, err := time.Parse(time.DateOnly, without)
		if err != nil {
			return nil, fmt.Errorf("-without %s: not a day (want, for example, 2024-01-03)", without)
		}
		from, to := hpc.Time(day.UnixNano()), hpc.Time(day.AddDate(0, 0, 1).UnixNano())
		other := func(j *started) bool { return j.submit < from || j.submit >= to }
		groups = append(groups, group{", without " + without, true, other})
	}
	for low := 1; low <= 1<<20; low *= 4 {
		size := func(j *started) bool { return j.cpus >= low && j.cpus < 4*low }
		groups = append(groups, group{fmt.Sprintf(", %d to %d CPUs", low, 4*low-1), false, size})
	}
	for hour := 0; hour < 24; hour += 4 {
		name := fmt.Sprintf(", submitted %02d to %02d h UTC", hour, hour+4)
		groups = append(groups, group{name, false, func(j *started) bool {
			h := j.submit.Std().Hour()
			return h >= hour && h < hour+4
		}})
	}
	return groups, nil
}

// figure is a figure of the waits of jobs.
type figure struct {
	name       string
	everywhere bool // the figure is also given by size and by hour
	of         func([]started) float64
	show       func(float64) string
}

func clock(seconds float64) string { return metrics.Float(seconds).Clock() }

func quantile(of func(metrics.Distribution) metrics.Float) func([]started) float64 {
	return func(jobs []started) float64 {
		list := make([]float64, len(jobs))
		for i := range jobs {
			list[i] = jobs[i].wait
		}
		return float64(of(metrics.Summarize(list)))
	}
}

var figures = []figure{
	{"jobs that started", false, func(jobs []started) float64 { return float64(len(jobs)) },
		func(v float64) string { return fmt.Sprintf("%.0f", v) }},
	{"mean wait", true, quantile(func(d metrics.Distribution) metrics.Float { return d.Mean }), clock},
	{"median wait", false, quantile(func(d metrics.Distribution) metrics.Float { return d.Median }), clock},
	{"P90 of waits", false, quantile(func(d metrics.Distribution) metrics.Float { return d.P90 }), clock},
	{"P99 of waits", false, quantile(func(d metrics.Distribution) metrics.Float { return d.P99 }), clock},
	{"jobs that wait over a minute", false, func(jobs []started) float64 {
		n := 0
		for i := range jobs {
			if jobs[i].wait > 60 {
				n++
			}
		}
		return float64(n) / float64(len(jobs))
	}, func(v float64) string { return metrics.Float(v).Percent() }},
	{"mean wait by node-hours", false, func(jobs []started) float64 {
		sum, weights := 0.0, 0.0
		for i := range jobs {
			sum += jobs[i].wait * jobs[i].weight
			weights += jobs[i].weight
		}
		if weights == 0 {
			return 0
		}
		return sum / weights
	}, clock},
}
