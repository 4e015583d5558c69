package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/quantity"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// RuleUndeclaredQOS is the rule about partitions with a QOS that no command for sacctmgr declares. With an undeclared
// QOS of a partition, slurmctld does not start.
const RuleUndeclaredQOS = "undeclared_qos"

// Foresee predicts by rmreplay's rules which jobs of a workload Slurm will reject on a cluster. It
// also returns the problems because of which slurmctld would not start. The parameter named is an
// argument of [install.FindSlurm], or a release that is not installed, such as "26.05". If named
// is empty, the default Slurm is used. The error is a [FieldError] or an [InputError].
func Foresee(w *workload.Workload, cluster *conf.Cluster, named string) (*admission.Forecast, []workload.Problem,
	error) {
	site, err := Rules(w, cluster, named)
	if err != nil {
		return nil, nil, err
	}
	return site.Foresee(w, nil), problemsOf(site), nil
}

// Rules returns the rules by which Slurm answers the submissions of a workload on a cluster. See
// [Foresee] for named and the error.
func Rules(w *workload.Workload, cluster *conf.Cluster, named string) (*admission.Site, error) {
	in, _ := install.FindSlurm(named)
	release := in.Release
	if release.IsZero() && named != "" {
		var err error
		if release, err = slurmspec.ParseRelease(named); err != nil {
			return nil, fieldError("slurm", "%w", err)
		}
	}
	site, err := admission.New(withMade(cluster, w), w.Submitters(), admission.Options{Release: release})
	if err != nil {
		return nil, inputError(fmt.Errorf("predicting which jobs Slurm rejects: %w", err))
	}
	return site, nil
}

// problemsOf returns the problems of a site because of which slurmctld would not start.
func problemsOf(site *admission.Site) (list []workload.Problem) {
	for _, text := range site.UndeclaredQOS() {
		list = append(list, workload.Problem{Severity: workload.Error, Rule: RuleUndeclaredQOS, Text: text})
	}
	return list
}

// foreseen has the predictions of an engine about the jobs of a workload.
type foreseen struct {
	forecast *admission.Forecast
	jobs     map[string]admission.Finding
	problems []workload.Problem // problems because of which slurmctld would not start
	err      error              // why nothing is predicted
}

func (e *slurmEngine) foresee(w *workload.Workload) (f foreseen) {
	site, err := admission.New(withMade(e.cluster, w), w.Submitters(), admission.Options{Release: e.install.Release, WithoutAccounting: e.spec.WithoutAccounting})
	if err != nil {
		return foreseen{err: err}
	}
	f.problems = problemsOf(site)
	f.jobs = map[string]admission.Finding{}
	f.forecast = site.Foresee(w, func(job string, why admission.Finding) { f.jobs[job] = why })
	return f
}

// notice returns the text for the user before the replay; "" if no rejection is predicted.
func (f *foreseen) notice(jobs int) string {
	if f.err != nil {
		return fmt.Sprintf("rejections could not be predicted: %v", f.err)
	}
	return f.forecast.Notice(jobs)
}

// futility returns an error if Slurm would reject all jobs.
func (p *Prepared) futility(f *admission.Forecast) error {
	if text := f.Futile(p.workload.Jobs.Len()); text != "" {
		return p.checking(errors.New(text))
	}
	return nil
}

// rejections returns a text that counts rejected jobs by the engine's reason and by the predicted reason. The largest
// group comes first.
func (f *foreseen) rejections(list []replay.Rejection) string {
	type group struct{ slurms, ours string }
	jobs, tasks := map[group][]string{}, map[group]int{}
	for _, r := range list {
		g := group{slurms: strings.TrimPrefix(r.Reason, "a submission was refused: ")}
		if why, known := f.jobs[r.Job]; known {
			g.ours = why.Text
		}
		jobs[g] = append(jobs[g], r.Job)
		tasks[g] += r.Tasks
	}
	var groups []group
	for g := range jobs {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(tasks[b], tasks[a]), cmp.Compare(a.slurms, b.slurms), cmp.Compare(a.ours, b.ours))
	})
	var texts []string
	for _, g := range groups {
		text := fmt.Sprint(tasks[g])
		if n := len(jobs[g]); n < tasks[g] { // an array is one submission
			text += " in " + quantity.Regular(n, "submission")
		}
		text += " (" + g.slurms + ")"
		if g.ours != "" {
			text += " [" + g.ours + "]"
		}
		texts = append(texts, text+": "+replay.Few(jobs[g], 5))
	}
	const most = 10
	if len(texts) > most {
		texts = append(texts[:most], fmt.Sprintf("%d more reasons", len(groups)-most))
	}
	return strings.Join(texts, "; ")
}
