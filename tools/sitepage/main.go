// Sitepage writes the tables of a page that compares the record of a site with draws of what nobody
// recorded, in Markdown: waits of all jobs, of all without one day, by size and by hour.
//
//	go run ./tools/sitepage -without 2024-01-03 record.jsonl draws > page.md
//
// tools/site-page makes the record and the draws from a table of jobs.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/compare"
	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/waits"
)

const level = 0.95

func main() {
	without := flag.String("without", "", "also leave out the jobs submitted on `DAY` (UTC), such as 2024-01-03")
	nodes := flag.Int("nodes", 0, "the partition has `N` nodes: say how much of the waiting the record's own jobs explain")
	flag.Parse()
	if err := write(os.Stdout, *without, *nodes, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sitepage:", err)
		os.Exit(1)
	}
}

// started is a job that started, on one side.
type started struct {
	submit hpc.Time
	wait   float64 // seconds
	cpus   int
	weight float64 // node hours

	start, end hpc.Time
	nodes      int
}

// group is a selection of jobs.
type group struct {
	name string
	has  func(*started) bool
}

func write(out io.Writer, without string, nodes int, paths []string) error {
	var w strings.Builder
	if len(paths) != 2 {
		return errors.New("want the record and the directory of the draws")
	}
	record, err := formats.OpenRuns(paths[0])
	if err != nil {
		return err
	}
	draws, err := formats.OpenRuns(paths[1])
	if err != nil {
		return err
	}
	recorded, err := jobsOf(record.Runs[0])
	if err != nil {
		return err
	}
	var drawn [][]started
	for _, r := range draws.Runs {
		jobs, err := jobsOf(r)
		if err != nil {
			return err
		}
		drawn = append(drawn, jobs)
	}
	groups, err := selections(without)
	if err != nil {
		return err
	}
	fmt.Fprintf(&w, "%d draws (%s), %s; intervals have %.0f %% of draws.\n",
		len(draws.Runs), draws.Runs[0].Manifest.Policy, filepath.Base(paths[0]), 100*level)
	for _, f := range figures {
		fmt.Fprintf(&w, "\n| %s | jobs | recorded | draws, median | draws, interval |\n", f.name)
		w.WriteString("| --- | --- | --- | --- | --- |\n")
		for _, g := range groups {
			writeRow(&w, f, g, recorded, drawn)
		}
	}
	if nodes > 0 {
		fmt.Fprintf(&w, "\nWhile the jobs waited, their nodes were free by the record for %s of the time (%d nodes, each "+
			"running job on nodes of its own).\n", metrics.Float(unexplained(recorded, nodes)).Percent(), nodes)
	}
	_, err = io.WriteString(out, w.String())
	return err
}

// unexplained returns the share of all waiting during which the running jobs of the record left so many nodes
// free as the waiting job got, although none of them shares a node. What held such jobs back is not in the
// record: no schedule of its jobs alone has these waits. Waits up to a minute do not count.
func unexplained(jobs []started, nodes int) float64 {
	busy := map[hpc.Time]int{}
	for i := range jobs {
		busy[jobs[i].start] += jobs[i].nodes
		busy[jobs[i].end] -= jobs[i].nodes
	}
	times := slices.Sorted(maps.Keys(busy))
	level := make([]int, len(times)) // nodes in use from each instant on
	for i, t := range times {
		level[i] = busy[t]
		if i > 0 {
			level[i] += level[i-1]
		}
	}
	var all, free float64
	for i := range jobs {
		j := &jobs[i]
		if j.wait <= 60 {
			continue
		}
		all += j.wait
		at, exact := slices.BinarySearch(times, j.submit)
		if !exact {
			at--
		}
		for from := j.submit; from < j.start; at++ {
			until := j.start
			if at+1 < len(times) {
				until = min(until, times[at+1])
			}
			if at < 0 || nodes-level[at] >= j.nodes {
				free += until.Sub(from).Seconds()
			}
			from = until
		}
	}
	if all == 0 {
		return 0
	}
	return free / all
}

func writeRow(w *strings.Builder, f figure, g group, recorded []started, drawn [][]started) {
	before := selected(recorded, g)
	if len(before) == 0 {
		return
	}
	var values []float64
	for _, jobs := range drawn {
		if chosen := selected(jobs, g); len(chosen) > 0 {
			values = append(values, f.of(chosen))
		}
	}
	over := compare.OverDraws(values, level)
	fmt.Fprintf(w, "| %s | %d | %s | %s | %s to %s |\n", g.name, len(before), f.show(f.of(before)),
		f.show(float64(over.Median)), f.show(float64(over.Low)), f.show(float64(over.High)))
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
		nodes := max(cmp.Or(row.NodeCount, row.AskedMinNodes), 1) // a record without lists of nodes has what was asked for
		list = append(list, started{
			submit: row.Submit, wait: wait.Seconds(), cpus: row.Processors,
			weight: float64(nodes) * row.End.Sub(row.Start).Hours(),
			start:  row.Start, end: row.End, nodes: nodes,
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
	groups := []group{{"all", func(*started) bool { return true }}}
	if without != "" {
		day, err := time.Parse(time.DateOnly, without)
		if err != nil {
			return nil, fmt.Errorf("-without %s: not a day (want, for example, 2024-01-03)", without)
		}
		from, to := hpc.Time(day.UnixNano()), hpc.Time(day.AddDate(0, 0, 1).UnixNano())
		other := func(j *started) bool { return j.submit < from || j.submit >= to }
		groups = append(groups, group{"without " + without, other})
	}
	for low := 1; low <= 1<<20; low *= 4 {
		size := func(j *started) bool { return j.cpus >= low && j.cpus < 4*low }
		groups = append(groups, group{fmt.Sprintf("%d to %d CPUs", low, 4*low-1), size})
	}
	for hour := 0; hour < 24; hour += 4 {
		groups = append(groups, group{fmt.Sprintf("submitted %02d to %02d h UTC", hour, hour+4), func(j *started) bool {
			h := j.submit.Std().Hour()
			return h >= hour && h < hour+4
		}})
	}
	return groups, nil
}

// figure is a figure of the waits of jobs.
type figure struct {
	name string
	of   func([]started) float64
	show func(float64) string
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
	{"mean wait", quantile(func(d metrics.Distribution) metrics.Float { return d.Mean }), clock},
	{"median wait", quantile(func(d metrics.Distribution) metrics.Float { return d.Median }), clock},
	{"P90 of waits", quantile(func(d metrics.Distribution) metrics.Float { return d.P90 }), clock},
	{"P99 of waits", quantile(func(d metrics.Distribution) metrics.Float { return d.P99 }), clock},
	{"jobs that wait over a minute", func(jobs []started) float64 {
		n := 0
		for i := range jobs {
			if jobs[i].wait > 60 {
				n++
			}
		}
		return float64(n) / float64(len(jobs))
	}, func(v float64) string { return metrics.Float(v).Percent() }},
	{"mean wait by node-hours", func(jobs []started) float64 {
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
