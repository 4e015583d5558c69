package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/cockroachdb/datadriven"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/nodes"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// TestScenarios replays the scenarios of testdata/scenarios on the real Slurm, on the cluster of
// testdata/cluster. `make golden` writes their schedules again. A file has these directives:
//
//	slurm.conf    keys of slurm.conf with other values for the scenarios below
//	workload      the jobs and events of the scenarios below
//	replay        the outcome of each job, and then of nodes and reservations
//
// replay may have its own workload. Package rmtest describes the lines. The arguments of replay
// are drain-limit=DURATION and the delays on the nodes: launch, prolog, epilog and seed. With
// releases=(LIST), only these releases of Slurm replay the workload, because their outcome differs
// from the others'. The words "affects the result" in a schedule mark a warning that makes the
// replay invalid.
func TestScenarios(t *testing.T) { eachSlurm(t, testScenarios) }

func testScenarios(t *testing.T, slurm *install.Installation) {
	needSlurm(t, slurm, false)
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var edits, shared string
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "slurm.conf":
				edits = d.Input
				return ""
			case "workload":
				shared = d.Input
				return ""
			case "replay":
				if !ofRelease(t, d, slurm.Release) {
					return d.Expected
				}
				input, err := rmtest.Parse(cmp.Or(d.Input, shared), epoch, "--uid=ann", "-t", "60")
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				s := scenario{slurm: slurm, cluster: editedCluster(t, edits)}
				s.workload.Jobs = workload.JobsOf(input.Jobs...)
				s.workload.NodeEvents, s.workload.Reservations = input.Nodes, input.Reservations
				s.configure(t, d)
				return s.play(t).schedule()
			}
			d.Fatalf(t, "%s: not a directive (want slurm.conf, workload or replay)", d.Cmd)
			return ""
		})
	})
}

// ofRelease reports whether this release of Slurm replays the workload of a directive.
func ofRelease(t *testing.T, d *datadriven.TestData, release slurmspec.Release) bool {
	if !d.HasArg("releases") {
		return true
	}
	var releases []string
	d.ScanArgs(t, "releases", &releases)
	return slices.Contains(releases, release.Series().String())
}

// configure reads the arguments of replay.
func (s *scenario) configure(t *testing.T, d *datadriven.TestData) {
	read := func(key string, set func(value string) error) {
		var value string
		if d.MaybeScanArgs(t, key, &value) {
			if err := set(value); err != nil {
				d.Fatalf(t, "%s: %v", key, err)
			}
		}
	}
	delay := func(key string, into *nodes.Delay) {
		read(key, func(value string) (err error) { *into, err = nodes.ParseDelay(value); return err })
	}
	read("drain-limit", func(value string) (err error) { s.drainLimit, err = time.ParseDuration(value); return err })
	delay("launch", &s.delays.Launch)
	delay("prolog", &s.delays.Prolog)
	delay("epilog", &s.delays.Epilog)
	d.MaybeScanArgs(t, "seed", &s.delays.Seed)
}

// editedCluster returns the cluster of testdata/cluster with other values for some keys of
// slurm.conf. It adds the keys that the file lacks.
func editedCluster(t *testing.T, edits string) *conf.Cluster {
	files := clusterFiles(t)
	lines := strings.Split(files["slurm.conf"], "\n")
next:
	for _, edit := range strings.Fields(edits) {
		key, _, _ := strings.Cut(edit, "=")
		for i, line := range lines {
			if strings.HasPrefix(line, key+"=") {
				lines[i] = edit
				continue next
			}
		}
		lines = append(lines, edit)
	}
	files["slurm.conf"] = strings.Join(lines, "\n") + "\n"
	return writeCluster(t, files)
}

// schedule formats the outcome for the scenario files: a line of describe for each job, the jobs
// that never started, the events of nodes and reservations, and the warnings.
func (o *outcome) schedule() string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	var last hpc.Time
	for i := range o.list {
		fmt.Fprintln(table, strings.Join(strings.SplitN(describe(&o.list[i]), " ", 4), "\t"))
		last = max(last, o.list[i].End)
	}
	table.Flush()
	if pending := o.result.Undrained; len(pending) > 0 {
		waited := o.result.Now.Sub(last).Round(time.Second)
		fmt.Fprintf(&b, "given up %s after the last end: %s\n", waited, strings.Join(pending, " "))
	}
	for _, ev := range o.events {
		if ev.Kind == rm.NodeState || ev.Kind == rm.Reserved {
			fmt.Fprintf(&b, "%d %s %s\n", ev.At.UnixSeconds()-epoch.UnixSeconds(), ev.Kind, ev.Reason)
		}
	}
	for _, w := range o.warnings {
		fmt.Fprintf(&b, "warning %s", w.Code)
		if w.AffectsResult {
			b.WriteString(" (affects the result)")
		}
		b.WriteByte('\n')
	}
	return b.String()
}
