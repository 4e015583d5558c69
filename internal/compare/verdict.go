package compare

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/compare/causes"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// sameStart is the largest difference between two starts that count as equal. A scheduler's cycles
// and the delays of prologs move starts by some seconds, which a replay cannot predict.
const sameStart = time.Minute

// agreement is a share of jobs with the same start. Above it the verdict names no causes.
const agreement = 0.99

// Judge compares a run with the record of its workload. The parameter rows has the run's rows. Judge
// returns nil for a workload without recorded starts, and if no job started on both sides.
func Judge(w *workload.Workload, rows iter.Seq[*run.Row], m *run.Manifest) *run.Verdict {
	recorded, err := run.FromWorkload(w)
	if err != nil {
		return nil // no start is recorded
	}
	history, err := Load(&run.Set{Runs: []*run.Run{recorded}})
	if err != nil {
		return nil // this error cannot happen: there is no file to read
	}
	replayed := Realization{Manifest: m}
	for row := range rows {
		replayed.Rows = append(replayed.Rows, *row)
	}
	both := []Set{history, {Runs: []Realization{replayed}}}
	tables, err := tabulateBy(context.Background(), both, func(*table, []run.Row) error { return nil })
	if err != nil {
		return nil // cannot happen: there is no file to read
	}
	v, err := newVerdict(&tables[0][0], tables[1])
	if err != nil {
		return nil // cannot happen: there is no file to read
	}
	return v
}

// verdictOf returns the verdict on a pair of sets if one of them is a recorded workload, and
// otherwise nil. It returns an error if a replay cannot be read.
func verdictOf(a, b []table, distances *Distances, pair [2]int) (*run.Verdict, error) {
	isRecorded := func(list []table) bool { return len(list) == 1 && list[0].Manifest.Engine == run.EngineRecorded }
	recorded, replayed, other := a, b, pair[1]
	if !isRecorded(a) {
		recorded, replayed, other = b, a, pair[0]
	}
	if !isRecorded(recorded) || isRecorded(replayed) {
		return nil, nil
	}
	v, err := newVerdict(&recorded[0], replayed)
	if v != nil && distances != nil {
		for _, block := range distances.Blocks {
			if block.Sets == [2]int{other, other} && block.Mean.Known() {
				v.BetweenReplays = float64(block.Mean)
			}
		}
	}
	return v, err
}

// judged is a job that started on both sides.
type judged struct {
	row                *run.Row // the recorded row
	waited, waits      float64  // the recorded wait and the replayed wait, in seconds
	recorded, replayed hpc.Time // the recorded start and the replayed start, on the record's dates
}

func (j *judged) difference() float64 { return math.Abs(j.waits - j.waited) }

// newVerdict compares replays with a record. Statements about single jobs are about the first replay.
func newVerdict(recorded *table, replays []table) (*run.Verdict, error) {
	jobs := match(recorded, &replays[0])
	if len(jobs) == 0 {
		return nil, nil
	}
	v := &run.Verdict{Jobs: len(jobs), Groups: []run.VerdictGroup{}, LookAt: []string{}}
	for i := range replays {
		v.Distance += distanceOf(match(recorded, &replays[i])) / float64(len(replays))
	}
	var ended causes.Fates // of the jobs of OnlyRecorded
	for i, number := range recorded.numbers {
		switch a, b := recorded.moments[number].start != 0, replays[0].moments[number].start != 0; {
		case a && !b && !replays[0].unreached(recorded.keys[i]):
			v.OnlyRecorded++
			ended[causes.FateOf(replays[0].row(recorded.keys[i]))]++
		case b && !a:
			v.OnlyReplayed++
		}
	}
	sumUpVerdict(v, jobs)
	v.FreeNodes = freeNodes(recorded, &replays[0])
	if float64(v.SameStart) < agreement*float64(v.Jobs) {
		lacks, err := lacksOf(recorded, &replays[0])
		if err != nil {
			return nil, err
		}
		v.Groups = groupsOf(jobs)
		facts := &causes.Facts{Ended: ended, Lacks: lacks, Recorded: recorded.Manifest, Replayed: replays[0].Manifest,
			Held: metrics.MostProcessors(recorded.Rows)}
		if cmp.Or(recorded.Manifest.WindowStart, replays[0].Manifest.WindowStart) != 0 {
			facts.Later = laterSubmissions(jobs, replays[0].lastSubmission())
		}
		v.LookAt = causes.List(v, facts)
	}
	for _, w := range recorded.Manifest.Warnings { // lost runs make waits differ even if all starts are equal
		if w.Code == run.LackPrefix+run.LostRuns && !causes.Longer(v) {
			v.LookAt = slices.Insert(v.LookAt, 0, fmt.Sprintf("%s (%d)", w.Text, w.Count))
		}
	}
	return v, nil
}

// lacksOf returns what the replayed workload lacks, by codes. The record may be a different workload: for example, a
// replay of a log with features can be compared with accounting records without features. If the replay has no files,
// its workload is the record.
func lacksOf(recorded, replayed *table) (map[string]string, error) {
	list := recorded.Manifest.Warnings
	if replayed.record != nil {
		var err error
		if list, err = replayed.record.Lacks(); err != nil {
			return nil, fmt.Errorf("reading run record %s: %w", replayed.Name, err)
		}
	}
	lacks := map[string]string{}
	for _, w := range list {
		if code, ok := strings.CutPrefix(w.Code, run.LackPrefix); ok {
			lacks[code] = w.Text
		}
	}
	return lacks, nil
}

// match returns the jobs that started on both sides and were not preset, in the order of their
// submission.
func match(recorded, replayed *table) []judged {
	var list []judged
	for i, key := range recorded.keys {
		x, y := &recorded.moments[recorded.numbers[i]], &replayed.moments[recorded.numbers[i]]
		if x.start == 0 || y.start == 0 || recorded.preset(x.start) || replayed.preset(y.start) {
			continue
		}
		list = append(list, judged{
			row: recorded.byKey[key], waited: x.wait.Seconds(), waits: y.wait.Seconds(),
			recorded: recorded.at(x.start), replayed: replayed.at(y.start),
		})
	}
	return list
}

func distanceOf(jobs []judged) float64 {
	sum := 0.0
	for i := range jobs {
		sum += jobs[i].difference() * jobs[i].difference()
	}
	return math.Sqrt(sum)
}

// sumUpVerdict sets the figures over all jobs.
func sumUpVerdict(v *run.Verdict, jobs []judged) {
	waited, again := make([]float64, len(jobs)), make([]float64, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		waited[i], again[i] = j.waited, j.waits
		v.MeanAbsolute += j.difference() / float64(len(jobs))
		if j.replayed.Sub(j.recorded).Abs() <= sameStart {
			v.SameStart++
			continue
		}
		if at := min(j.recorded, j.replayed); v.First == nil || at < v.First.At {
			v.First = &run.FirstDifference{Job: Key{j.row.Job, j.row.Task}.String(), Recorded: j.recorded.String(),
				Replayed: j.replayed.String(), At: at}
		}
	}
	recorded, replayed := metrics.Summarize(waited), metrics.Summarize(again)
	v.RecordedMean, v.RecordedMedian = float64(recorded.Mean), float64(recorded.Median)
	v.ReplayedMean, v.ReplayedMedian = float64(replayed.Mean), float64(replayed.Median)
}

// usualShare is the difference of two shares below which they count as about equal.
const usualShare = 0.03

// groupsOf returns, for each property by which jobs are grouped, the group with the largest share in
// the difference. It leaves out properties that are equal for all jobs, and groups whose share in the difference is
// about their share in the jobs.
func groupsOf(jobs []judged) []run.VerdictGroup {
	all := 0.0
	for i := range jobs {
		all += jobs[i].difference()
	}
	list := []run.VerdictGroup{}
	for _, by := range metrics.Groupings {
		groups := map[string]*run.VerdictGroup{}
		for i := range jobs {
			name := metrics.GroupName(jobs[i].row, by)
			g := groups[name]
			if g == nil {
				g = &run.VerdictGroup{By: string(by), Name: name}
				groups[name] = g
			}
			g.Jobs++
			g.Share += jobs[i].difference() / all
			g.Recorded += jobs[i].waited
			g.Replayed += jobs[i].waits
		}
		if len(groups) < 2 || all == 0 {
			continue
		}
		var most *run.VerdictGroup
		for _, g := range groups {
			if most == nil || g.Share > most.Share || g.Share == most.Share && g.Name < most.Name {
				most = g
			}
		}
		if math.Abs(most.Share-float64(most.Jobs)/float64(len(jobs))) < usualShare {
			continue
		}
		most.Recorded /= float64(most.Jobs)
		most.Replayed /= float64(most.Jobs)
		list = append(list, *most)
	}
	slices.SortStableFunc(list, func(a, b run.VerdictGroup) int { return cmp.Compare(b.Share, a.Share) })
	return list
}

// fewLate is the smallest share of the difference for which missing later submissions are named as a cause.
const fewLate = 0.1

// laterSubmissions returns a text about a possible cause: the submissions of a window end, but in production jobs
// that still waited at that time may have waited for jobs that were submitted later. It returns "" if the jobs that
// waited longer in production, and still waited at that time, have a small share in the difference.
func laterSubmissions(jobs []judged, last hpc.Time) string {
	n, late, all := 0, 0.0, 0.0
	for i := range jobs {
		j := &jobs[i]
		if all += j.difference(); j.recorded > last && j.waited-j.waits > sameStart.Seconds() {
			n, late = n+1, late+j.difference()
		}
	}
	if n == 0 || late < fewLate*all {
		return ""
	}
	return fmt.Sprintf("%s waited longer in production and still waited there when the window ends, perhaps for later "+
		"submissions, which the workload lacks: %s of the difference (want a window that ends later)",
		quantity.Regular(n, "job"), metrics.Float(late/all).Percent())
}
