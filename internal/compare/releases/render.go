package releases

import (
	"cmp"
	"fmt"
	"io"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
)

// Render writes how two releases of Slurm differ for the same workload and configuration. The parameters a and b are
// the letters of the baseline and the set. The parameter first is the first divergence of their runs, or [hpc.Never].
func (d *Difference) Render(w io.Writer, a, b string, first hpc.Time) {
	add := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // into memory
	add("\nSlurm %s in %s and %s in %s, in their first runs:\n", d.Baseline, a, d.Set, b)
	if len(d.Configuration) == 0 {
		add("  configuration: adapted to both in the same way\n")
	}
	for _, key := range d.Configuration {
		add("  configuration: %s is %s instead of %s\n", key.Key, cmp.Or(key.Set, none), cmp.Or(key.Baseline, none))
		if key.Effect != "" {
			add("    %s\n", key.Effect)
		}
	}
	for _, warning := range d.Warnings {
		side := a
		if warning.InSet {
			side = b
		}
		add("  only %s warns: %s\n", side, warning.Text)
	}
	add("  submissions: sbatch makes %d of %d differently\n", d.Submissions.Different, d.Submissions.Compared)
	for _, f := range d.Submissions.Fields {
		add("    %s: %s, first job %s: %s instead of %s\n", f.Name, quantity.Regular(f.Jobs, "job"), f.Job, f.Set, f.Baseline)
	}
	if q := d.Priorities; q.Different > 0 {
		when := "after"
		if q.At <= first {
			when = "before"
		}
		add("  priorities at submission: %d of %d differ, first that of job %s, %s the first divergence: %d instead of %d\n",
			q.Different, q.Compared, q.First, when, q.Set, q.Baseline)
	} else if q.Compared > 0 {
		add("  priorities at submission: the same for all of %s\n", quantity.Regular(q.Compared, "job"))
	}
	if len(d.Known) > 0 {
		add("  known changes of Slurm between the two (not a complete list):\n")
	}
	for _, change := range d.Known {
		add("    %-9s%s (%s)\n", change.Since, change.What, change.Source)
	}
}

// none is shown for a missing value.
const none = "-"
