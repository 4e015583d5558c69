package agreement

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"rmreplay/internal/output"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// Use says for which questions about a workload the model can be used.
type Use string

// The uses. Each needs less agreement than the use before it.
const (
	ForJobs    Use = "single jobs"
	ForMeans   Use = "means and comparisons"
	ForScreens Use = "screening"
	ForNothing Use = "nothing"
	// Unknown says that too few jobs waited for a judgement.
	Unknown Use = "unknown"
)

// The bounds of the uses. They were chosen by judgement. The report has the measured numbers.
const (
	// Starts of single jobs can be trusted if at least the share jobsStarts of all started jobs, and the share jobsWaited
	// of the jobs that waited a minute, start at the same time in Slurm and in the model. The model can also explain waits
	// if, deciding in Slurm's state, it gives the same reason as Slurm in at least the share jobsReasons of the
	// comparisons.
	jobsStarts, jobsWaited, jobsReasons = 0.99, 0.98, 0.95
	// meansOff is the largest relative difference of the mean waits, unless Slurm's own runs differ by more.
	meansOff = 0.05
	// screenStarts is the smallest share of equal starts for [ForScreens], when the model decides in Slurm's state.
	screenStarts = 0.9
	// fewWaits is the smallest number of jobs for a judgement, on average over the runs. Only jobs that waited at least a
	// minute and started count.
	fewWaits = 30
)

// Verdict says in one sentence how far the model can be trusted on a workload.
type Verdict struct {
	Use  Use    `json:"use"`
	Text string `json:"text"`
}

// Report says how well the model of Slurm agrees with Slurm on a workload. Other programs rely on its JSON
// keys.
type Report struct {
	Verdict  Verdict `json:"verdict"`
	Workload string  `json:"workload"`
	Slurm    string  `json:"slurm"` // the version of Slurm
	// Begin is the beginning of the compared part. Jobs is the number of compared jobs and tasks of
	// arrays in a run. Submissions is the number of the workload's jobs that had been submitted when
	// the first replay ended. Of is the number of all jobs of the workload.
	Begin       string `json:"begin"`
	Jobs        int    `json:"jobs"`
	Submissions int    `json:"submissions"`
	Of          int    `json:"submissions_of_workload"`
	// Whole sums up the runs of all seeds.
	Whole    Whole    `json:"whole"`
	Runs     []Whole  `json:"runs"`
	Lockstep Lockstep `json:"lockstep"`
	Figures  []Figure `json:"waits"`
	// Lacks names features of the workload, the configuration or the replay that the model lacks.
	Lacks []string `json:"lacks,omitempty"`
	// Doubt says why the measurement is not valid; empty if the measurement is valid.
	Doubt string `json:"not_valid_reason,omitempty"`
	// ReplaySeconds and ModelSeconds are the real times of all runs of a kind.
	ReplaySeconds float64 `json:"replay_wall_s"`
	ModelSeconds  float64 `json:"model_wall_s"`
}

// judge sets the verdict.
func (r *Report) judge() {
	use, text := r.use()
	var b strings.Builder
	fmt.Fprintf(&b, "On %s the model makes %s of Slurm's decisions", r.part(), percent(r.Lockstep.Decisions))
	if l := r.Lockstep; l.Instants < l.AllInstants {
		fmt.Fprintf(&b, " (at %d of %d seconds with decisions)", l.Instants, l.AllInstants)
	}
	fmt.Fprintf(&b, ", and %s of the jobs that start do so in the same second", percent(r.Whole.Starts))
	if r.Whole.Waited.All > 0 {
		fmt.Fprintf(&b, " (%s of the %s%s that waited a minute)", percent(r.Whole.Waited), number(r.waited()), r.ofRun())
	}
	if kinds := counts(r.Whole.Kinds); kinds != "" {
		among := ""
		if len(r.Runs) > 1 {
			among = " (all " + quantity.Regular(len(r.Runs), "run") + ")"
		}
		fmt.Fprintf(&b, "; the jobs that differ%s: %s", among, kinds)
	}
	if others := r.Whole.others(max(1, len(r.Runs))); others != "" {
		fmt.Fprintf(&b, "; of the other jobs%s, %s", r.ofRun(), others)
	}
	fmt.Fprintf(&b, ". %s", text)
	if len(r.Lacks) > 0 {
		fmt.Fprintf(&b, " The model lacks %s: do not use it for questions about these features.", strings.Join(r.Lacks, "; "))
	}
	r.Verdict = Verdict{use, b.String()}
}

// waited returns how many jobs of a run waited a minute and started, as a mean over the runs.
func (r *Report) waited() float64 { return float64(r.Whole.Waited.All) / float64(max(1, len(r.Runs))) }

// ofRun returns " of a run" if numbers of jobs are means over several runs.
func (r *Report) ofRun() string {
	if len(r.Runs) > 1 {
		return " of a run"
	}
	return ""
}

// percent writes a share rounded as in [Count.String].
func percent(c Count) string { return fmt.Sprintf("%.4g %%", c.inPercent()) }

// use returns for which questions the model can be used, and sentences about this.
func (r *Report) use() (Use, string) {
	off, spread := r.meanWaits()
	switch {
	case r.waited() < fewWaits:
		jobs := "jobs"
		if r.waited() == 1 {
			jobs = "job"
		}
		return Unknown, fmt.Sprintf("Only %s %s%s waited a minute and started. This is too few to judge the model: "+
			"compare a busier part of the workload.", number(r.waited()), jobs, r.ofRun())
	case r.Whole.Starts.Share() >= jobsStarts && r.Whole.Waited.Share() >= jobsWaited:
		uses, reasons := "simulate, explain, forecast, sweep, tune", r.Lockstep.Reasons
		switch but := "simulate, forecast, sweep, tune), but not to explain why a job waited ("; {
		case reasons.All == 0:
			uses = but + "no reasons were compared"
		case reasons.Share() < jobsReasons:
			uses = fmt.Sprintf("%s%s of the reasons to wait agree", but, percent(reasons))
		}
		return ForJobs, "Use it instead of replays of such a workload, also for single jobs (" + uses +
			"). Do not use it for options of jobs and of slurm.conf that this workload does not have."
	case off <= max(meansOff, spread):
		return ForMeans, fmt.Sprintf("Use it for means and to compare settings over many runs (sweep, the search of tune): "+
			"its mean wait is within %.1f %% of Slurm's. Do not use it for the starts of single jobs.", 100*off)
	case r.Lockstep.Starts.Share() >= screenStarts:
		return ForScreens, fmt.Sprintf("Use it to choose settings that are then tested by replays (the search of tune), but "+
			"not for figures: its mean wait is %.1f %% off, and Slurm's own runs differ by %.1f %%.", 100*off, 100*spread)
	}
	return ForNothing, fmt.Sprintf("Do not use it for this workload: its mean wait is %.1f %% off. Replay it on Slurm "+
		"(rmreplay replay).", 100*off)
}

// meanWaits returns the relative difference of the model's and Slurm's mean waits, and the largest relative difference
// of one of Slurm's runs from their mean.
func (r *Report) meanWaits() (off, spread float64) {
	for _, f := range r.Figures {
		if f.Name != meanWait {
			continue
		}
		own, low, high := mean(f.Slurm)
		model, _, _ := mean(f.Model)
		if own == 0 {
			return math.Abs(model), 0
		}
		return math.Abs(model-own) / own, max(high-own, own-low) / own
	}
	return 0, 0
}

// part returns a text about the compared part of the workload.
func (r *Report) part() string {
	if r.Whole.Until == "" {
		return fmt.Sprintf("this workload (%d %s)", r.Jobs, quantity.Plural(r.Jobs, "job", "jobs"))
	}
	return fmt.Sprintf("the part of this workload from %s to %s (%d %s, of %d of its %s)", r.Begin,
		r.Whole.Until, r.Jobs, quantity.Plural(r.Jobs, "job", "jobs"), r.Submissions,
		quantity.Counted(r.Of, "submission", "submissions"))
}

// seeds returns a text with the seeds.
func (r *Report) seeds() string {
	if len(r.Runs) == 1 {
		return fmt.Sprintf("seed %d", r.Runs[0].Seed)
	}
	var list []string
	for i := range r.Runs {
		list = append(list, fmt.Sprint(r.Runs[i].Seed))
	}
	return "seeds " + strings.Join(list, ", ")
}

// Render returns the report for people. It begins with the verdict.
func (r *Report) Render() string {
	var b strings.Builder
	b.WriteString(r.Verdict.Text + "\n")
	if r.Doubt != "" {
		fmt.Fprintf(&b, "NOT VALID: %s\n", r.Doubt)
	}
	r.renderWhole(&b)
	r.Lockstep.render(&b)
	n := float64(len(r.Runs))
	fmt.Fprintf(&b, "\nSlurm %s; a replay took %.1f s, a run of the model %.2f s\n", r.Slurm, r.ReplaySeconds/n,
		r.ModelSeconds/n)
	return b.String()
}

// The files of a report.
const (
	resultFile = "agreement.json"
	textFile   = "agreement.txt"
)

// Write writes the report into a directory, as JSON and for people.
func (r *Report) Write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = output.Text(filepath.Join(dir, resultFile), string(text)+"\n")
	}
	if err == nil {
		err = output.Text(filepath.Join(dir, textFile), r.Render())
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// Holds reports whether a directory has records of this package.
func Holds(dir string) bool {
	for _, name := range []string{slurmDir, modelDir} {
		if _, err := os.Stat(filepath.Join(dir, name, run.RealizationsFile)); err == nil {
			return true
		}
	}
	return false
}
