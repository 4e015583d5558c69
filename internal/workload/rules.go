package workload

import (
	"fmt"
	"time"

	"rmreplay/internal/hpc"
)

// ReadOptions are the choices in reading a workload.
type ReadOptions struct {
	// Epoch is the instant that relative times count from where the source does not
	// say; DefaultEpoch if not set.
	Epoch hpc.Time
	// Strict makes the first record that falls under any rule an error.
	Strict bool
	// Lean leaves out what no replay looks at, and only a writer of the source's own
	// format needs: [hpc.Job.SWF].
	Lean bool
	// Progress, if not nil, is told now and then how far the reading has come: how many
	// bytes of a file, of how many (0 if it is no regular file); of a database how many
	// jobs, and 0.
	Progress func(done, all int64)

	// The others apply to the records of Slurm's accounting only.

	// Start and End cut out a window; 0 for none. What runs at its start is preset:
	// see [Workload.Start].
	Start, End hpc.Time
	// Zone is where times without a zone were written; UTC if nil.
	Zone *time.Location
	// Cluster is the one whose jobs are wanted, where a source has several.
	Cluster string
}

func (o *ReadOptions) zone() *time.Location {
	if o.Zone == nil {
		return time.UTC
	}
	return o.Zone
}

func (o ReadOptions) epoch() hpc.Time {
	if o.Epoch.IsZero() {
		return DefaultEpoch
	}
	return o.Epoch
}

// ruleBook counts records under named rules, or refuses the first of them.
type ruleBook struct {
	strict bool
	counts map[string]int
}

// fall counts a record under a rule and returns nil. If the book is strict it returns
// what is wrong with the record as an error; its line is for the caller to add.
func (b *ruleBook) fall(rule, format string, args ...any) error {
	if b.strict {
		return fmt.Errorf("%s (rule %s)", fmt.Sprintf(format, args...), rule)
	}
	if b.counts == nil {
		b.counts = make(map[string]int)
	}
	b.counts[rule]++
	return nil
}

// orderCheck applies the rules about the order of submissions, which every format
// shares, to one job after another as the source has them.
type orderCheck struct {
	started bool
	latest  hpc.Time
}

func (c *orderCheck) job(book *ruleBook, submit hpc.Time) error {
	latest, started := c.latest, c.started
	c.started = true
	if !started || submit > latest {
		c.latest = submit
	}
	switch {
	case !started:
		return nil
	case submit < latest:
		return book.fall(RuleOutOfOrder, "submitted at %s, after a job that was submitted at %s", submit, latest)
	case submit.Sub(latest) > MaxGap:
		return book.fall(RuleClockJump, "submitted at %s, %.0f days after the job before", submit, submit.Sub(latest).Hours()/24)
	}
	return nil
}
