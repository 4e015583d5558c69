package compare

import (
	"fmt"
	"time"

	"rmreplay/internal/compare/clusters"
	"rmreplay/internal/compare/jobrows"
	"rmreplay/internal/compare/releases"
	"rmreplay/internal/explain"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec/history"
)

// Cause is a reason for a divergence.
type Cause struct {
	// Proven says that the records prove the cause. An unproven cause is likely: it differs between
	// the runs, and can have this effect.
	Proven bool   `json:"proven"`
	Text   string `json:"text"`
}

// causes returns the causes that the records show for a divergence, beginning with the proven causes. There are no
// likely causes if the start moved with the submission, because the submission then explains the whole difference.
func (d *Divergence) causes(a, b *table, between *releases.Difference, sides [2]string) []Cause {
	list := []Cause{}
	proven := func(format string, args ...any) { list = append(list, Cause{true, fmt.Sprintf(format, args...)}) }
	likely := func(format string, args ...any) { list = append(list, Cause{false, fmt.Sprintf(format, args...)}) }
	x, y := a.row(d.Key), b.row(d.Key)
	switch d.Kind {
	case DivergedAnswer:
		rejected := x
		if y.State == hpc.Rejected {
			rejected = y
		}
		proven("the answer to its submission was: %s", orNone(rejected.Reason))
	case DivergedSubmit:
		reacted := Reacted(a.Manifest) || Reacted(b.Manifest)
		if reacted {
			likely("users react to the system, and submit jobs that depend on earlier results later")
		}
		moved := b.at(y.Submit).Sub(a.at(x.Submit)).Abs()
		if x, y := jitter(a.Manifest), jitter(b.Manifest); x+y > 0 && (reacted || moved <= x+y+time.Second) {
			text := "jitter moved submissions by up to %s s and %s s"
			if a.Manifest.Seed != b.Manifest.Seed {
				text += ": with another seed by other times, so the first divergence says nothing about the configurations (want " +
					"the same --seed on both sides)"
			}
			likely(text, seconds(x).Text(), seconds(y).Text())
		}
	case DivergedLost:
		side, lost := sides[0], d.of(x)
		if s := d.of(y); lost.EndedBy != rm.Requeue || s.EndedBy == rm.Requeue && b.at(s.End) < a.at(lost.End) {
			side, lost = sides[1], s
		}
		proven("in %s it was %s", side, jobrows.Lost(lost))
	case DivergedRunTime:
		asked := [2]*hpc.Job{jobrows.Asked(a.Rows, x), jobrows.Asked(b.Rows, y)}
		if text := jobrows.Why(x, y, asked, a.Log != nil && b.Log != nil); text != "" {
			proven("%s", text)
		}
	case DivergedStart:
		for i, t := range []*table{a, b} {
			for _, text := range d.neverStarted(t) {
				proven("in %s %s", sides[i], text)
			}
		}
		x, y := d.moments(sides[0], a), d.moments(sides[1], b)
		if text := jobrows.NotEligible(x, y); text != "" {
			proven("%s", text)
			d.explained = d.explained || (y.Submit.Sub(x.Submit)-y.Start.Sub(x.Start)).Abs() <= time.Second
		}
	}
	if !d.explained && (d.Kind == DivergedStart || d.Kind == DivergedNodes) {
		preempted := [2][]string{d.preempted(a), d.preempted(b)}
		for i, jobs := range preempted {
			if len(jobs) > 0 {
				proven("in %s it preempted %s %s", sides[i], quantity.Plural(len(jobs), "job", "jobs"), names(jobs))
			}
		}
		if (preempted[0] == nil) != (preempted[1] == nil) {
			return list
		}
		d.circumstances(between, jobrows.Machines(a.Manifest, b.Manifest), likely)
	}
	return list
}

// preempted returns the jobs that the job preempted for its run that differs, up to [listedJobs] jobs.
func (d *Divergence) preempted(t *table) (list []string) {
	row := t.row(d.Key)
	last, start := max(row.Submit, nth(row.Runs(), d.run-1).End), d.of(row).Start
	for _, key := range t.keys {
		for _, s := range t.byKey[key].Segments {
			if s.PreemptedBy == d.String() && last <= s.End && s.End <= start && len(list) < listedJobs {
				list = append(list, key.String())
			}
		}
	}
	return list
}

// neverStarted returns why the record of a side has no start of the job. An unmet dependency explains the whole
// difference. After a cancellation, it is open why the job waited for so long.
func (d *Divergence) neverStarted(t *table) []string {
	row := t.row(d.Key)
	if row.FirstStart() != 0 {
		return nil
	}
	asked := jobrows.Asked(t.Rows, row)
	if t.ids == nil { // otherwise the dependency has other IDs than the rows
		if texts := explain.NeverMet(t.Rows, row, asked); texts != nil {
			d.explained = true
			return texts
		}
	}
	if text := jobrows.NeverStarted(row, asked); text != "" {
		return []string{text}
	}
	return nil
}

// jitter returns the largest time by which a run moved submissions at random.
func jitter(m *run.Manifest) time.Duration {
	if m.Feedback == nil {
		return 0
	}
	return time.Duration(m.Feedback.Jitter * float64(time.Second))
}

// moments returns when the job run that differs was submitted, became eligible and started, on the baseline's dates.
// For a preset job it returns no submission, because a replay submits the job just before its start.
func (d *Divergence) moments(side string, t *table) jobrows.Moments {
	row := t.row(d.Key)
	r := d.of(row)
	m := jobrows.Moments{Side: side, Eligible: t.at(r.Eligible), Start: t.at(r.Start), Requeued: d.run > 0}
	if !t.preset(row.Start) {
		m.Submit = t.at(row.Submit)
	}
	return m
}

// suspect adds different settings, and different time limits of jobs in the queue or on nodes, as likely causes, to
// divergences of starts and nodes.
func suspect(p *Pair, a, b *table) {
	for i := range p.Divergences {
		if d := &p.Divergences[i]; !d.explained && (d.Kind == DivergedStart || d.Kind == DivergedNodes) {
			if len(p.Clusters) > 0 {
				d.Causes = append(d.Causes, Cause{Text: "the clusters have different settings: " + clusters.Names(p.Clusters)})
			}
			if text := jobrows.LimitsAt(a.Rows, b.Rows, hpc.Time(d.At), b.shift); text != "" {
				d.Causes = append(d.Causes, Cause{Text: text})
			}
		}
	}
}

// circumstances adds likely causes for a job that started at a different time or on different nodes. The parameter
// size is the result of [jobrows.Machines].
func (d *Divergence) circumstances(between *releases.Difference, size string, likely func(string, ...any)) {
	if size != "" {
		likely("%s", size)
	}
	alike := len(d.Baseline.OnlyRunning)+len(d.Set.OnlyRunning) == 0 && d.Baseline.OnlyBusy == d.Set.OnlyBusy
	if !alike {
		likely("different jobs ran just before, or the same jobs ran on different nodes")
	}
	if between != nil {
		if text := between.Submissions.Difference(d.Job); text != "" {
			likely("sbatch of %s submits its options in a different way: %s", between.Set, text)
		}
		var others []string
		for _, key := range d.overtook {
			if between.Submissions.Difference(key.Job) != "" {
				others = append(others, key.String())
			}
		}
		if n := len(others); n > 0 {
			likely("sbatch of %s submits %d of the jobs that overtook it in a different way: %s", between.Set, n, names(others))
		}
		if p := between.Priorities.Waiting(hpc.Time(d.At), d.Job); p != nil {
			likely("job %s, which waited, had priority %d at its submission instead of %d", p.Job, p.Set, p.Baseline)
		}
		for _, change := range between.Known {
			if d.Kind == DivergedNodes && alike && change.Topic == history.Placement && d.NodeCount == 1 {
				likely("since %s %s", change.Since, change.What)
			}
		}
		for _, key := range between.Configuration {
			likely("%s is %s instead of %s", key.Key, orNone(key.Set), orNone(key.Baseline))
		}
	}
	if d.Kind == DivergedNodes {
		return
	}
	switch a, b := d.Baseline.By, d.Set.By; {
	case a == "" || b == "":
	case a != b:
		likely("the %s scheduler started it instead of the %s scheduler", b, a)
	case alike && len(d.Overtook) == 0 && size == "":
		likely("the %s scheduler started it in both runs, with the same jobs running: its passes were at different instants",
			a)
	}
}
