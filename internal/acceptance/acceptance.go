// Package acceptance asks the real slurmctld which jobs of a workload slurmctld accepts, and which accepted jobs can
// start. It starts the daemons of the chosen release with the given cluster, under the virtual clock. Then it submits
// each different request of the workload once. Each request meets an idle cluster.
//
// Package [rmreplay/internal/rm/slurm/admission] has rules for the same question. The model of Slurm needs these
// rules, because it runs without Slurm. The remedies that this package suggests come from these rules.
package acceptance

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/window"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// Options say which Slurm is asked, and with which cluster.
type Options struct {
	// Cluster is a directory, a slurm.conf or a bundle, as [experiment.OpenCluster] reads it.
	Cluster string
	// Slurm has the form of [experiment.Slurm.Installation]; "" is the default Slurm.
	Slurm string
	// Say, if not nil, is called with texts for people about the progress.
	Say func(text string)
}

// maxRequests is the largest number of requests about which rmreplay asks slurmctld. Each takes
// some 5 ms of CPU time, and 20 ms on thousands of nodes.
const maxRequests = 5000

// Ask returns which jobs of a workload Slurm rejects or never starts. slurmctld is asked about the most frequent
// requests, up to [maxRequests]. Rules judge the other requests, and jobs that name a reservation: the daemons that
// this package starts have no reservations. Each request is submitted alone, even if a limit such as MaxSubmitJobs
// depends on other jobs in the queue. It returns the errors of [experiment.Run]; [experiment.IsMissing] reports that
// this Slurm is not installed.
func Ask(ctx context.Context, w *workload.Workload, o Options) (*admission.Forecast, error) {
	return ask(ctx, w, o, nil)
}

// ask does the work of [Ask]. If each is not nil, ask calls it with the ID of every job that has a finding.
func ask(ctx context.Context, w *workload.Workload, o Options, each func(string, admission.Finding)) (
	*admission.Forecast, error) {
	cluster, err := experiment.OpenCluster(o.Cluster, 0)
	if err != nil {
		return nil, err
	}
	rules, err := experiment.Rules(w, cluster, o.Slurm)
	if err != nil {
		return nil, err
	}
	admitted := func(job *hpc.Job) *hpc.Job { return admission.Admitted(cluster, job) }
	q := newInquiry(w, admitted, maxRequests)
	if len(q.jobs) > 0 {
		if version := install.Version(o.Slurm); o.Say != nil && version != "" {
			o.Say(fmt.Sprintf("asking slurmctld %s about %d %s of %d %s", version, len(q.jobs),
				quantity.Plural(len(q.jobs), "request", "requests"), w.Jobs.Len(),
				quantity.Plural(w.Jobs.Len(), "job", "jobs")))
		}
		if err := q.ask(ctx, o); err != nil {
			return nil, err
		}
	}
	byRules := 0
	f := admission.Tally(w, func(job *hpc.Job, reservations admission.Reservations) *admission.Finding {
		foreseen := rules.Judge(job, reservations)
		request, _ := requestOf(admitted(job))
		a, asked := q.answers[request]
		if !asked {
			byRules++
			return foreseen
		}
		return a.finding(foreseen)
	}, each)
	f.Asked = &admission.Asked{Slurm: install.Version(o.Slurm), Requests: len(q.jobs), ByRules: byRules,
		Complaint: q.complaint}
	return f, nil
}

// request is the part of a job that determines slurmctld's answer: jobs with equal requests get equal answers.
type request struct {
	hpc.Request
	made string // rules for accounts use this field: see [hpc.Job.Made]
}

// somePriority replaces all explicit priorities except 0, which holds the job.
var somePriority = uint32(1)

// requestOf returns the request of a job without the options that never affect whether slurmctld accepts the job. It
// returns false if slurmctld cannot be asked about the request.
func requestOf(job *hpc.Job) (r request, can bool) {
	r = request{job.Request, job.Made}
	switch r.Reservation {
	case "":
	case window.Reservation: // only preset jobs have this reservation, and they can run without it
		r.Reservation = ""
	default:
		return r, false
	}
	const longest = 1024 // characters; slurmctld refuses longer values
	for _, text := range []*string{&r.Name, &r.Comment} {
		if len(*text) <= longest {
			*text = ""
		}
	}
	if p := r.Priority; p != nil {
		if *p == 0 {
			r.Hold = true
		}
		r.Priority = &somePriority
	}
	r.Dependency, r.Begin, r.Signal, r.DelayBoot, r.SwitchWait = "", 0, "", 0, 0
	r.Requeue, r.KillOnInvalidDep = nil, nil
	return r, true
}

// answer is slurmctld's answer to a request.
type answer struct {
	refused string // the reason; "" if it accepted all submissions
	pending string // the last reason to wait of a job that did not start; "" if all started
}

// slurmsName finds the name of slurmctld's answer in the reason of a refusal. Refusals by rmreplay
// itself have no such name.
var slurmsName = regexp.MustCompile(`ESLURM_[A-Z0-9_]+`)

// finding returns what the answer means, or nil for a job that starts. If foreseen, the finding of the rules, has the
// same cause, the result has the texts of foreseen.
func (a *answer) finding(foreseen *admission.Finding) *admission.Finding {
	var is admission.Finding
	switch {
	case a.refused != "":
		is = admission.Finding{Verdict: admission.Rejected, Slurm: slurmsName.FindString(a.refused), Text: a.refused,
			Remedy: "compare the options of the jobs with the cluster's configuration"}
	case a.pending != "":
		is = admission.Finding{Verdict: admission.NeverStarts, Slurm: a.pending,
			Text:   "the jobs do not start on the idle machine",
			Remedy: "compare the options of the jobs with the nodes, partitions and limits of the cluster"}
	default:
		return nil
	}
	is.Rule = admission.RuleSlurm
	if foreseen != nil && means(foreseen, &is) {
		is.Rule, is.Text, is.Remedy = foreseen.Rule, foreseen.Text, foreseen.Remedy
	}
	return &is
}

// means reports whether a foreseen finding has the same cause as slurmctld's answer. For some jobs
// that never start, the rules predict the answer to the submission but not the reason to wait,
// which differs between releases.
func means(foreseen, is *admission.Finding) bool {
	return foreseen.Verdict == is.Verdict && (foreseen.Slurm == is.Slurm ||
		is.Verdict == admission.NeverStarts && slurmsName.MatchString(foreseen.Slurm))
}

// patience is the virtual time after which a job that has not started on the idle cluster is judged to never start. It
// covers several cycles of the backfill scheduler, and several queries for the reasons of pending jobs.
const patience = 5 * time.Minute

// deadline is the reason of a job that cannot end before its deadline.
var deadline, _ = slurmspec.ReasonNamed("DeadLine")

// inquiry is a set of requests and the answers to them.
type inquiry struct {
	w       *workload.Workload
	answers map[request]*answer
	// jobs are the submissions, in order. of maps the ID of each of these jobs to its submission.
	jobs      []*hpc.Job
	of        map[string]submission
	complaint string // sacctmgr's message about a command that it refused
	// open is the state of the job that was submitted last.
	open struct {
		reason  string // the last reason to wait
		started bool
	}
}

// submission connects a submitted job with the answer that the job's events determine. A held job does not show
// whether it would start.
type submission struct {
	*answer
	held bool
}

// newInquiry chooses the requests to ask about: the most frequent requests, and among equally frequent
// requests the first in the workload. The function admitted is [admission.Admitted] for the cluster.
func newInquiry(w *workload.Workload, admitted func(*hpc.Job) *hpc.Job, limit int) *inquiry {
	q := &inquiry{w: w, answers: map[request]*answer{}, of: map[string]submission{}}
	jobs := map[request]int{}
	var order []request
	for _, job := range w.Jobs.All() {
		if w.Preset(job) && job.Reservation == "" {
			job = admitted(window.OperatorsJob(job)) // the job as a replay submits it
		}
		r, can := requestOf(job)
		if !can {
			continue
		}
		if jobs[r]++; jobs[r] == 1 {
			order = append(order, r)
		}
	}
	slices.SortStableFunc(order, func(a, b request) int { return cmp.Compare(jobs[b], jobs[a]) })
	for _, r := range order[:min(limit, len(order))] {
		q.answers[r] = &answer{}
		q.add(r, q.answers[r])
	}
	return q
}

// add adds the submissions of a request. An array becomes two submissions. The first is the whole array, held, to
// check the limits of an array's size. The second is only its last task, because all tasks are alike.
func (q *inquiry) add(r request, a *answer) {
	if array, err := hpc.ParseArray(r.Array); r.Array != "" && err == nil && len(array.Tasks) > 1 {
		whole := r
		whole.Hold = true
		q.submit(whole, a)
		r.Array = strconv.Itoa(array.Tasks[len(array.Tasks)-1])
	}
	q.submit(r, a)
}

func (q *inquiry) submit(r request, a *answer) {
	job := &hpc.Job{
		ID: "request-" + strconv.Itoa(len(q.jobs)+1), Submit: q.w.Epoch, Request: r.Request, Made: r.made,
		Behaviour: hpc.Behaviour{RunTime: time.Second, CancelAfter: patience},
	}
	if r.Hold {
		job.CancelAfter = time.Second
	}
	q.jobs = append(q.jobs, job)
	q.of[job.ID] = submission{a, r.Hold}
}

// ask submits the requests to the daemons.
func (q *inquiry) ask(ctx context.Context, o Options) error {
	logs, err := os.MkdirTemp("", "rmreplay-acceptance-")
	if err != nil {
		return fmt.Errorf("making a directory for the daemons' logs: %w", err)
	}
	defer func() { _ = os.RemoveAll(logs) }() // the directory has only temporary files, so an error is ignored
	w := *q.w
	w.Jobs = workload.JobsOf(q.jobs...)
	w.Reservations, w.NodeEvents, w.Actions, w.Start, w.Usage, w.FileSystems = nil, nil, nil, 0, nil, nil
	result, err := experiment.Watch(ctx, experiment.Spec{
		Workload: experiment.Workload{Value: &w}, Output: logs,
		Slurm: &experiment.Slurm{
			Installation: o.Slurm, Cluster: o.Cluster, Lead: time.Minute, ReasonsEvery: 30 * time.Second,
		},
	}, experiment.Watcher{See: q.see, Until: hpc.Never, Controller: &oneByOne{begin: w.Begin(), jobs: len(q.jobs)}})
	if err != nil {
		return fmt.Errorf("asking slurmctld: %w", err)
	}
	for _, warning := range result.Warnings {
		if warning.Code == "sacctmgr" {
			q.complaint = strings.Replace(warning.Text, " (logs/sacctmgr.log has its whole output)", "", 1)
		}
	}
	if open := result.Undrained; len(open) > 0 {
		return fmt.Errorf("asking slurmctld: no answer to %d of %d %s, the first of which is %s",
			len(open), len(q.jobs), quantity.Plural(len(q.jobs), "request", "requests"), open[0])
	}
	return nil
}

// see handles an event. Only one submitted job is in the queue at a time.
func (q *inquiry) see(e rm.Event) error {
	of, known := q.of[e.Job]
	open := &q.open
	if !known {
		return nil
	}
	switch e.Kind {
	case rm.Refused:
		if of.refused == "" {
			of.refused = strings.TrimPrefix(e.Reason, "a submission was refused: ")
		}
	case rm.Accepted:
		open.reason, open.started = "unknown", false
	case rm.Waiting:
		open.reason = e.Reason
	case rm.Started:
		open.started = true
	case rm.Ended:
		open.started = open.started || e.Outcome.Start != 0
		if e.Outcome.State == hpc.Deadlined {
			open.reason = deadline.String()
		}
		if !open.started && !of.held {
			of.pending = open.reason
		}
	}
	return nil
}

// oneByOne submits each job after the end of the previous job, so that each job meets an idle cluster.
type oneByOne struct {
	begin      hpc.Time
	jobs, next int
}

// Begin implements [replay.Controller].
func (c *oneByOne) Begin() replay.Decisions { return c.submit(c.begin) }

// Event implements [replay.Controller].
func (c *oneByOne) Event(e *replay.Event) replay.Decisions {
	if !e.Over {
		return replay.Decisions{}
	}
	return c.submit(e.At.Add(time.Second)) // by then the nodes are free again
}

func (c *oneByOne) submit(at hpc.Time) (d replay.Decisions) {
	if c.next < c.jobs {
		d.Submit = []replay.Submission{{Job: c.next, At: at}}
		c.next++
	}
	return d
}
