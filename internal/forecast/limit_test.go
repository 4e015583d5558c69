package forecast

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/experiment"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/slurmspec"
)

// limitedSite writes a cluster of a node whose QOS small allows two CPUs for each job.
func limitedSite(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"slurm.conf": "ClusterName=c\nAccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageEnforce=limits,qos\nSelectType=select/cons_tres\n" +
			"SelectTypeParameters=CR_Core\nNodeName=n1 CPUs=4\nPartitionName=batch Nodes=ALL Default=YES MaxTime=2-0\n",
		"accounts.sacctmgr": "add qos small MaxTRESPerJob=cpu=2\nadd cluster c\nadd account physics\nadd user ada account=physics qos=normal,small\n",
		"users":             "ada:1000:ada:1000\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestAboveLimit: a job that asks for more than its QOS allows starts in no realization. The forecast names the limit,
// and ends when all other jobs have started.
func TestAboveLimit(t *testing.T) {
	above, below := &hpc.Job{ID: "above"}, &hpc.Job{ID: "below"}
	above.QOS = "small"
	q := waiting(above, below)
	for i, job := range q.Workload.Jobs.All() {
		job.User, job.Account, job.Partition = "ada", "physics", "batch"
		q.Workload.Jobs.Set(i, job)
	}
	q.Workload.NodeEvents = nil
	for _, horizon := range []time.Duration{0, 24 * time.Hour} {
		opts := Options{RunTimes: FromLimits, Arrivals: NoArrivals, Realizations: 1, Dir: t.TempDir(), Horizon: horizon}
		opts.Engine.Simulator = &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: limitedSite(t)}
		all, err := q.realize(t.Context(), q.Pending(), opts)
		if err != nil {
			t.Fatal(err)
		}
		if lasts := all[0].ended.Sub(q.At); lasts > 2*time.Hour {
			t.Errorf("horizon %v: the realization ends after %v, and the last job starts after an hour", horizon, lasts)
		}
		report, err := NewReport(t.Context(), "queue", q, nil, 0, opts)
		if err != nil {
			t.Fatal(err)
		}
		text := report.Render(time.UTC)
		for _, w := range report.Jobs {
			const reason = "QOSMaxCpuPerJobLimit"
			is := w.Job == "above"
			if (w.P50 == nil) != is || (w.Reason == reason) != is || (w.Why == "it waits for "+reason) != is {
				t.Errorf("horizon %v: %+v", horizon, w)
			}
		}
		want := "  never starts: it waits for QOSMaxCpuPerJobLimit\n"
		if horizon > 0 {
			want = "  does not start by then: it waits for QOSMaxCpuPerJobLimit\n"
		}
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestStaysAboveLimit: a realization does not end early for a job whose reason changes, that may run in another
// partition, or whose limit a command may change.
func TestStaysAboveLimit(t *testing.T) {
	limit := slurmspec.Reason(48).String()
	for name, c := range map[string]struct {
		job     hpc.Job
		actions []hpc.Action
		reasons []string
		ends    bool
	}{
		"above a limit":   {reasons: []string{"Priority", limit}, ends: true},
		"above it before": {reasons: []string{limit, "Resources"}},
		"two partitions":  {job: hpc.Job{Request: hpc.Request{Partition: "a,b"}}, reasons: []string{limit}},
		"commands":        {actions: []hpc.Action{{}}, reasons: []string{limit}},
	} {
		c.job.ID = "job"
		q := waiting(&c.job)
		q.Workload.Actions = c.actions
		r := q.watch(q.Workload, q.Pending(), Options{RunTimes: FromLimits, Arrivals: NoArrivals})
		var err error
		for i, reason := range c.reasons {
			err = r.see(rm.Event{Kind: rm.Waiting, Job: "job", Task: -1, Reason: reason, At: q.At.Add(time.Duration(i) * time.Second)})
		}
		if (err != nil) != c.ends {
			t.Errorf("%s: %v", name, err)
		}
		if r.why(Key{"job", -1}) != c.reasons[len(c.reasons)-1] {
			t.Errorf("%s: it waits for %s", name, r.why(Key{"job", -1}))
		}
	}
}
