package report

import (
	"cmp"
	"fmt"

	"rmreplay/internal/compare"
	"rmreplay/internal/quantity"
)

// releases returns blocks about how two releases of Slurm changed the same workload and
// configuration before any decision of the scheduler. It returns nil for runs on one release.
func (r *Report) releases(p *compare.Pair) []Block {
	d := p.Releases
	if d == nil {
		return nil
	}
	a, b := compare.Letter(p.Baseline), compare.Letter(p.Set)
	list := []Block{paragraph("%s ran on Slurm %s and %s on Slurm %s. Before any decision of the scheduler, their first "+
		"runs differed in this:", a, d.Baseline, b, d.Set)}
	var facts []string
	if len(d.Configuration) == 0 {
		facts = append(facts, "The configuration was adapted to both releases in the same way.")
	}
	for _, w := range d.Warnings {
		side := a
		if w.InSet {
			side = b
		}
		facts = append(facts, fmt.Sprintf("Only %s warns: %s", side, w.Text))
	}
	facts = append(facts, fmt.Sprintf("sbatch submits %d of %s in a different way.", d.Submissions.Different,
		quantity.Counted(d.Submissions.Compared, "job", "jobs")))
	for _, f := range d.Submissions.Fields {
		facts = append(facts, fmt.Sprintf("%s differs in %s, the first of which is %s: %s instead of %s.", f.Name,
			quantity.Counted(f.Jobs, "submission", "submissions"), f.Job, f.Set, f.Baseline))
	}
	switch q := &d.Priorities; {
	case q.Different > 0:
		facts = append(facts, fmt.Sprintf("The priorities of %d of %s differ at their submission, first that of %s: %d "+
			"instead of %d.",
			q.Different, quantity.Counted(q.Compared, "job", "jobs"), q.First, q.Set, q.Baseline))
	case q.Compared > 0:
		facts = append(facts, fmt.Sprintf("The priorities of all %s are the same at their submission.",
			quantity.Counted(q.Compared, "job", "jobs")))
	}
	list = append(list, Block{List: facts})
	if len(d.Configuration) > 0 {
		t := &Table{Caption: "Keys of slurm.conf whose values differ between the two releases",
			Head: []string{"key", a, b, "reason", "effect"}, Prose: true}
		for _, key := range d.Configuration {
			t.Rows = append(t.Rows, []string{key.Key, cmp.Or(key.Baseline, quantity.Unknown), cmp.Or(key.Set, quantity.Unknown),
				key.Reason, key.Effect})
		}
		list = append(list, Block{Table: t})
	}
	if len(d.Known) > 0 {
		t := &Table{Caption: fmt.Sprintf("Known changes from Slurm %s to %s (not a complete list)", d.Baseline, d.Set),
			Head: []string{"since", "change", "source"}, Folded: true, Prose: true}
		for _, change := range d.Known {
			t.Rows = append(t.Rows, []string{change.Since, change.What, change.Source})
		}
		list = append(list, Block{Table: t})
	}
	return list
}

// causes returns the causes that the records show for a divergence of the first runs of both sides.
func causes(d *compare.Divergence) []string {
	var list []string
	for _, cause := range d.Causes {
		word := "A likely cause"
		if cause.Proven {
			word = "Because"
		}
		list = append(list, fmt.Sprintf("%s: %s.", word, cause.Text))
	}
	return list
}
