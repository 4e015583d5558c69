package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/parallel"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/workload"
)

// scheduler is a scheduler of the paper.
type scheduler struct {
	name, policy string
	// published has the average bounded slowdowns of the authors' result files, by log.
	published map[string]float64
}

// schedulers are the paper's, in the order of the table.
var schedulers = []scheduler{
	{"EASY", "easy-textbook", map[string]float64{"KTH-SP2": 92.5765, "CTC-SP2": 49.5713, "SDSC-SP2": 87.8703}},
	{"EASY++", "easy++", map[string]float64{"KTH-SP2": 63.5007, "CTC-SP2": 85.7672, "SDSC-SP2": 79.3963}},
	{"EASY-SJBF, E-Loss", "easy-sjbf:predict=nag", map[string]float64{"KTH-SP2": 51.4411, "CTC-SP2": 20.5476,
		"SDSC-SP2": 74.9520}},
	{"EASY-SJBF, E-Loss, run times", "easy-sjbf:predict=nag,history=run-times", nil},
	{"EASY, clairvoyant", "easy-textbook:predict=clairvoyant", map[string]float64{"KTH-SP2": 71.7224, "CTC-SP2": 37.1654,
		"SDSC-SP2": 70.4779}},
	{"EASY-SJBF, clairvoyant", "easy-sjbf:predict=clairvoyant", map[string]float64{"KTH-SP2": 49.8477, "CTC-SP2": 17.5717,
		"SDSC-SP2": 56.8362}},
}

// Result holds the results for one log.
type Result struct {
	Log        string `json:"log"`
	Jobs       int    `json:"jobs"`
	Processors int    `json:"processors"`
	// LeftOut counts the jobs without processors, run time or limit, and those larger than the
	// machine. Cut counts the jobs whose run time was cut to the time limit.
	LeftOut int   `json:"left_out"`
	Cut     int   `json:"cut"`
	Rows    []Row `json:"rows"`
}

// Row is the result of one scheduler.
type Row struct {
	Scheduler string `json:"scheduler"`
	Policy    string `json:"policy"`
	// Slowdown is the average bounded slowdown: the mean of max(1, (wait + run time) / max(run time,
	// 10 s)). Published is the authors' value; 0 if they have not published one.
	Slowdown  float64 `json:"avebsld"`
	Published float64 `json:"published,omitempty"`
	// Band has the results of the realizations with jittered submissions, ascending.
	Band []float64 `json:"realizations,omitempty"`
}

// Options configures an experiment.
type Options struct {
	// Processors is the size of the machine. 0 means that the log's header gives it.
	Processors int
	// Realizations is the number of additional simulations under each scheduler. Their
	// submissions are moved by up to Jitter, with the seeds 1, 2, ...
	Realizations int
	Jitter       time.Duration
	// Parallel is the number of simulations at the same time. 0 means one for each CPU.
	Parallel int
}

// Run simulates a log under all schedulers. It returns the first error. If ctx is cancelled, it
// returns the error of ctx.
func Run(ctx context.Context, w *workload.Workload, o Options) (*Result, error) {
	processors := o.Processors
	if processors == 0 {
		processors = w.MachineProcessors
	}
	if processors <= 0 {
		return nil, errors.New(
			"the size of its machine is not known (want it in the log's header, MaxProcs, or --processors)")
	}
	r := &Result{Log: filepath.Base(w.Source), Processors: processors}
	filtered, err := r.filter(w)
	if err != nil {
		return nil, err
	}
	controllers, err := replay.NewControllers(filtered, replay.Feedback{Model: replay.NoFeedback})
	if err != nil {
		return nil, err
	}
	each := 1 + o.Realizations
	slowdowns := make([]float64, len(schedulers)*each)
	err = parallel.Executor{Parallel: o.Parallel}.Do(ctx, len(slowdowns), func(ctx context.Context, i int) (err error) {
		controller := replay.NewRigid(filtered)
		if n := i % each; n > 0 {
			controller = controllers(o.Jitter, uint64(n))
		}
		slowdowns[i], err = simulate(ctx, filtered, processors, schedulers[i/each].policy, controller)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, s := range schedulers {
		row := Row{Scheduler: s.name, Policy: s.policy, Slowdown: slowdowns[i*each], Band: slowdowns[i*each+1 : (i+1)*each]}
		slices.Sort(row.Band)
		for log, published := range s.published {
			if strings.Contains(r.Log, log) {
				row.Published = published
			}
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

// filter applies the authors' filter. It also moves the log to an instant at which a week begins:
// the learner's features count from the log's beginning, as the authors' features do. Jobs of one
// instant are submitted in the order of their numbers, as in the authors' simulator.
func (r *Result) filter(w *workload.Workload) (*workload.Workload, error) {
	filtered := *w
	var list []*hpc.Job
	users := map[string]bool{}
	const week = 7 * 24 * 3600 * hpc.Second
	earlier := time.Duration(w.Epoch % week)
	filtered.Epoch = w.Epoch.Add(-earlier)
	for _, j := range w.Jobs.List() {
		if j.Tasks <= 0 || j.Tasks > r.Processors || j.RunTime <= 0 || j.TimeLimit <= 0 || j.TimeLimit == hpc.Unlimited {
			r.LeftOut++
			continue
		}
		if j.RunTime > j.TimeLimit {
			j.RunTime = j.TimeLimit
			r.Cut++
		}
		j.Submit = j.Submit.Add(-earlier)
		users[j.User] = true
		list = append(list, j)
	}
	switch {
	case len(list) == 0:
		return nil, fmt.Errorf("no job is left: all %d lack processors, a run time or a time limit, or are larger than %d "+
			"processors", r.LeftOut, r.Processors)
	case len(users) == 1 && len(list) > 1:
		return nil, errors.New("all jobs have the same user or no user, so histories of users cannot be used")
	}
	slices.SortStableFunc(list, func(a, b *hpc.Job) int {
		return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	filtered.Jobs = workload.JobsOf(list...)
	r.Jobs = len(list)
	return &filtered, nil
}

// simulate returns the average bounded slowdown of a log under a policy.
func simulate(ctx context.Context, w *workload.Workload, processors int, name string, controller replay.Controller) (
	float64, error) {
	made, err := policy.New(name)
	if err != nil {
		return 0, err
	}
	engine, err := sim.New(sim.Config{Processors: processors, Policy: made, Epoch: w.Epoch, Ties: sim.ArrivalsFirst,
		Lean: true})
	if err != nil {
		return 0, err
	}
	var s slowdowns
	if _, err := replay.Play(ctx, engine, w, controller, &s, replay.Options{}); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return s.sum / float64(s.started), nil
}

// slowdowns adds up bounded slowdowns. It is a [replay.Recorder].
type slowdowns struct {
	jobs    []*hpc.Job // in the order of submission
	submit  []hpc.Time
	started int
	sum     float64
}

// Job implements [replay.Recorder].
func (s *slowdowns) Job(j *hpc.Job) error {
	s.jobs, s.submit = append(s.jobs, j), append(s.submit, 0)
	return nil
}

// Event implements [replay.Recorder].
func (s *slowdowns) Event(ev rm.Event) error {
	switch i := ev.Submission - 1; ev.Kind {
	case rm.Accepted:
		s.submit[i] = ev.At
	case rm.Started:
		wait, run := ev.At.Sub(s.submit[i]).Seconds(), s.jobs[i].RunTime.Seconds()
		s.started++
		s.sum += max(1, (wait+run)/max(run, 10))
	}
	return nil
}

// Render writes a table for each log: the average bounded slowdown, the reduction below EASY, and the published
// values. Render returns w's error.
func Render(w io.Writer, results []*Result) error {
	var b bytes.Buffer
	for i, r := range results {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s: %d jobs on %d processors (%d left out, %d cut to their limits)\n", r.Log, r.Jobs, r.Processors,
			r.LeftOut, r.Cut)
		fmt.Fprintf(&b, "%-30s%10s%12s%12s%12s%12s\n", "average bounded slowdown", "ours", "below EASY", "published",
			"below EASY", "difference")
		easy := r.Rows[0]
		for _, row := range r.Rows {
			fmt.Fprintf(&b, "%-30s%10.2f%12s", row.Scheduler, row.Slowdown, below(row.Slowdown, easy.Slowdown))
			if row.Published > 0 {
				fmt.Fprintf(&b, "%12.2f%12s%+10.2f %%", row.Published, below(row.Published, easy.Published),
					100*(row.Slowdown/row.Published-1))
			}
			if n := len(row.Band); n > 0 {
				fmt.Fprintf(&b, "   %.2f to %.2f, median %.2f, over %d realizations", row.Band[0], row.Band[n-1],
					(row.Band[(n-1)/2]+row.Band[n/2])/2, n)
				if row.Published > 0 {
					fmt.Fprintf(&b, "; %d below the published one", row.rank())
				}
			}
			b.WriteString("\n")
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// rank returns how many realizations have a slowdown below the published one.
func (r *Row) rank() int {
	at, _ := slices.BinarySearch(r.Band, r.Published)
	return at
}

// below formats by how much a slowdown is below EASY's.
func below(slowdown, easy float64) string { return fmt.Sprintf("%.0f %%", 100*(1-slowdown/easy)) }
