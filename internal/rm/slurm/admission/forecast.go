package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm/window"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// Group is a set of jobs with equal findings.
type Group struct {
	Finding
	Count int `json:"jobs"`
	// Jobs are the IDs of the group's first jobs, in the order of submission.
	Jobs []string `json:"examples"`

	causes []string // the rejected jobs on which the group's jobs depend
}

// few lists up to three jobs, and the number of all other jobs.
func few(jobs []string) string {
	if n := len(jobs) - 3; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(jobs[:3], ", "), n)
	}
	return strings.Join(jobs, ", ")
}

// Forecast says which jobs of a workload slurmctld will not run. An array counts as one job: it is one submission.
type Forecast struct {
	Rejected    int `json:"rejected"`     // jobs
	NeverStarts int `json:"never_starts"` // jobs that are accepted and never start
	// Groups are sorted by descending number of jobs.
	Groups []Group `json:"groups"`
	// Jobs are the IDs of all these jobs.
	Jobs map[string]bool `json:"-"`
	// Changes is set if actions of the workload may change the rules during the replay.
	Changes bool `json:"actions"`
	// Asked describes the test submissions to a slurmctld; nil if only the rules of this package decided.
	Asked *Asked `json:"asked,omitempty"`
}

// Notice returns a text about the jobs of a workload that slurmctld will not run; "" if it runs all. The parameter jobs
// is the number of all jobs.
func (f *Forecast) Notice(jobs int) string {
	if f.Rejected+f.NeverStarts == 0 {
		return ""
	}
	text := fmt.Sprintf("Slurm will reject %d", f.Rejected)
	if n := f.NeverStarts; n > 0 {
		text += fmt.Sprintf(", and never start %d", n)
	}
	return text + " of " + quantity.Regular(jobs, "submission") + f.mainReason() +
		" (rmreplay workload validate WORKLOAD --cluster DIR lists the reasons and remedies)"
}

// mainReason returns a text about the largest group of jobs.
func (f *Forecast) mainReason() string {
	return fmt.Sprintf(", %d of them because %s", f.Groups[0].Count, f.Groups[0].Text)
}

// Futile returns why slurmctld will reject all jobs of a workload; "" if it accepts a job, or if actions may change the
// rules. The parameter jobs is the number of all jobs.
func (f *Forecast) Futile(jobs int) string {
	if jobs == 0 || f.Rejected < jobs || f.Changes {
		return ""
	}
	return fmt.Sprintf("slurmctld would reject all of %s%s (want: %s; workload validate WORKLOAD --cluster DIR lists all "+
		"reasons and remedies)", quantity.Regular(jobs, "submission"), f.mainReason(), f.Groups[0].Remedy)
}

// Asked describes how a slurmctld was asked about the jobs of a workload.
type Asked struct {
	Slurm    string `json:"slurm"`    // its version
	Requests int    `json:"requests"` // different submissions
	ByRules  int    `json:"by_rules"` // jobs about which slurmctld could not be asked
	// Complaint is sacctmgr's message if it refuses a command for the cluster's accounts; otherwise empty.
	Complaint string `json:"complaint,omitempty"`
}

// examples is the number of job IDs in a group.
const examples = 5

// Judge returns why slurmctld does not run a job, or nil. reservations are the reservations at the
// job's submission.
type Judge func(job *hpc.Job, reservations Reservations) *Finding

// Foresee judges all jobs of a workload by the site's rules. The function each, if not nil, is called with the ID of
// every job that has a finding.
func (s *Site) Foresee(w *workload.Workload, each func(job string, why Finding)) *Forecast {
	return Tally(w, s.Judge, each)
}

// Tally judges the jobs of a workload and groups them by finding. The function each, if not nil, is called with the ID
// of every job that has a finding. Jobs that pend when the window begins are judged like all others. Preset jobs, which
// run when the window begins, are judged as a replay submits them: by an operator, on their recorded nodes, in the
// window's reservation.
func Tally(w *workload.Workload, judge Judge, each func(job string, why Finding)) *Forecast {
	f := &Forecast{Changes: len(w.Actions) > 0, Jobs: map[string]bool{}}
	groups := map[Finding]*Group{}
	rejected := map[string]bool{}
	there := newReservations(w)
	for _, job := range w.Jobs.All() {
		there.advance(max(job.Submit, w.Start))
		why, causes := brokenDependency(job, rejected)
		switch {
		case why != nil:
		case w.Preset(job):
			why = judge(window.OperatorsJob(job), barrier)
		default:
			why = judge(job, there.find)
		}
		if why == nil {
			continue
		}
		if each != nil {
			own := *why
			if len(causes) > 0 {
				own.Text = "it depends on " + quantity.Plural(len(causes), "the rejected job ", "rejected jobs: ") + few(causes)
			}
			each(job.ID, own)
		}
		f.Jobs[job.ID] = true
		if why.Verdict == Rejected {
			f.Rejected++
			rejected[job.ID] = true
		} else {
			f.NeverStarts++
		}
		g := groups[*why]
		if g == nil {
			g = &Group{Finding: *why}
			groups[*why] = g
		}
		for _, cause := range causes {
			if !slices.Contains(g.causes, cause) {
				g.causes = append(g.causes, cause)
			}
		}
		if g.Count++; len(g.Jobs) < examples {
			g.Jobs = append(g.Jobs, job.ID)
		}
	}
	for _, g := range groups {
		if len(g.causes) > 0 {
			g.Text += ": " + few(g.causes)
		}
		f.Groups = append(f.Groups, *g)
	}
	slices.SortFunc(f.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Verdict, b.Verdict), cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(a.Text, b.Text), cmp.Compare(a.Slurm, b.Slurm), cmp.Compare(a.Remedy, b.Remedy))
	})
	return f
}

// barrier returns the reservation in which a replay runs preset jobs.
func barrier(string) *hpc.Reservation { return &hpc.Reservation{Name: window.Reservation} }

// brokenDependency returns why a job's dependency cannot be submitted, and the rejected jobs on which it depends. A
// replay does not submit a job that depends on a rejected job, because a rejected job has no number.
func brokenDependency(job *hpc.Job, rejected map[string]bool) (why *Finding, causes []string) {
	if job.Dependency == "" {
		return nil, nil
	}
	deps, err := sbatch.ParseDependency(job.Dependency)
	if err != nil {
		return &Finding{Verdict: Rejected, Rule: RuleDependency, Text: "the dependency cannot be read: " + err.Error(),
			Remedy: "correct --dependency"}, nil
	}
	for _, d := range deps.List {
		array, _, _ := d.Task()
		if d.Job != "" && (rejected[d.Job] || rejected[array]) && !slices.Contains(causes, d.Job) {
			causes = append(causes, d.Job)
		}
	}
	if len(causes) == 0 {
		return nil, nil
	}
	return &Finding{Verdict: Rejected, Rule: RuleDependency, Text: "the jobs depend on rejected jobs",
		Remedy: "correct the rejected jobs on which they depend"}, causes
}

// reservations has the reservations that exist at an instant. The instant moves forward with the
// submissions.
type reservations struct {
	events []hpc.ReservationEvent // in order
	now    hpc.Time
	open   map[string]*hpc.Reservation // at now; nil if it has to be computed
}

func newReservations(w *workload.Workload) *reservations {
	r := &reservations{events: slices.Clone(w.Reservations)}
	slices.SortStableFunc(r.events, func(a, b hpc.ReservationEvent) int { return cmp.Compare(a.At, b.At) })
	return r
}

func (r *reservations) advance(to hpc.Time) {
	if to != r.now {
		r.now, r.open = to, nil
	}
}

// find returns the reservation of a name, or nil. An event at the instant of a submission takes
// effect before the submission.
func (r *reservations) find(name string) *hpc.Reservation {
	if len(r.events) == 0 {
		return nil
	}
	if r.open == nil {
		r.open = map[string]*hpc.Reservation{}
		at, _ := workload.ReservationsAt(r.events, r.now)
		for i := range at {
			r.open[at[i].Name] = &at[i].Reservation
		}
	}
	return r.open[name]
}
