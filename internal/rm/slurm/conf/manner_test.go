package conf

import (
	"path/filepath"
	"strings"
	"testing"

	"rmreplay/internal/slurmspec"
)

// manner are configurations that resemble configurations of real sites. from and to are the oldest and
// the newest series that each can be for. lines are, by release, lines that the adapted configuration
// has; a line that begins with "!" must be missing. warning is the expected warning of a replay on 22.05.
var manner = []struct {
	name, from, to string
	lines          map[slurmspec.Release]string
	warning        string
}{
	{"teaching", "20.11", "20.11", map[slurmspec.Release]string{
		slurmspec.R2205: "SelectType=select/linear|PriorityType=priority/basic|NodeName=desk[1-10]|!FastSchedule|!CacheGroups",
		slurmspec.R2605: "SelectType=select/linear|PriorityType=priority/basic",
	}, ""},
	{"storage", "20.11", "20.11", map[slurmspec.Release]string{
		slurmspec.R2205: "SelectType=select/cons_res|AccountingStorageType=accounting_storage/slurmdbd|bf_max_job_test=200|!DefaultStorage",
		slurmspec.R2605: "SelectType=select/cons_tres|!CR_Allocate_Full_Socket",
	}, ""},
	{"cloud", "23.02", "26.05", map[slurmspec.Release]string{
		slurmspec.R2205: "NodeName=w1.cloud.example,w2.cloud.example|NodeName=spot1-a,spot2-a|!PowerDownOnIdle|!State=CLOUD",
		slurmspec.R2411: "NodeName=w[1-20].cloud.example|!SuspendProgram",
	}, "State=CLOUD: the nodes are always on"},
	{"department", "23.02", "26.05", map[slurmspec.Release]string{
		slurmspec.R2205: "ReconfigFlags=KeepPartState\n|!defer_batch|!MaxCPUsPerSocket|NodeSet=haswells Feature=haswell",
		slurmspec.R2411: "defer_batch|MaxCPUsPerSocket=32|ReconfigFlags=KeepPartState,KeepPowerSaveSettings",
	}, "MaxCPUsPerSocket=32: unknown to 22.05: jobs of the partition may use all CPUs of a socket"},
	{"gpus", "24.05", "25.05", map[slurmspec.Release]string{
		slurmspec.R2205: "SelectTypeParameters=CR_Core_Memory\n|PrologFlags=Alloc\n|!RestrictedCoresPerGPU",
		slurmspec.R2605: "LL_SHARED_GRES,ENFORCE_BINDING_GRES|PrologFlags=Alloc,ForceRequeueOnFail|RestrictedCoresPerGPU=8",
	}, "RestrictedCoresPerGPU=8: unknown to 22.05: jobs without GPUs may use the cores beside the GPUs"},
	{"container", "24.05", "26.05", map[slurmspec.Release]string{
		slurmspec.R2205: "SelectType=select/cons_tres|TopologyPlugin=topology/none|AuthType=auth/none|MaxNodeCount=64|!HashPlugin",
		slurmspec.R2411: "TopologyPlugin=topology/default|!enable_stepmgr",
	}, ""},
	{"namespaces", "25.11", "26.05", map[slurmspec.Release]string{
		slurmspec.R2205: "PreemptMode=REQUEUE\n|preempt_youngest_first,preempt_reorder_count=2|SelectType=select/cons_tres|!requeue_delay|!Topology=default",
		slurmspec.R2411: "PreemptParameters=youngest_first|PreemptMode=REQUEUE\n|bf_allow_magnetic_slot|!bf_yield_rpc_cnt",
		slurmspec.R2605: "PreemptMode=REQUEUE,PRIORITY|TopologyPlugin=topology/flat|requeue_delay=30",
	}, "PreemptMode=PRIORITY: unknown to 22.05: jobs also preempt jobs of a higher priority"},
	{"suspending", "20.11", "26.05", map[slurmspec.Release]string{
		slurmspec.R2205: "PreemptMode=SUSPEND,GANG|Licenses=matlab:25,ansys@server:10,fluent|OverSubscribe=FORCE:2|SelectType=select/cons_tres",
		slurmspec.R2605: "PreemptMode=SUSPEND,GANG|TaskPlugin=task/affinity",
	}, ""},
	{"newest", "26.05", "26.05", map[slurmspec.Release]string{
		slurmspec.R2205: "PriorityFlags=MAX_TRES\n|ExclusiveUser=YES|OverSubscribe=EXCLUSIVE|!MaxBatchRequeue|!LicenseParameters|SelectTypeParameters=CR_Core_Memory\n",
		slurmspec.R2411: "MaxBatchRequeue=3|ExclusiveUser=YES|!PrologTimeout",
		slurmspec.R2605: "LicenseParameters=RemoteFuzzyMatch|Exclusive=USER|PrologTimeout=120|MAX_TRES_GRES",
	}, "22.05 holds a batch job after 5 requeues"},
	{"workstation", "20.11", "26.05", map[slurmspec.Release]string{
		slurmspec.R2205: "NodeAddr=127.|Sockets=1|Gres=gpu:rtx:2|!SlurmSchedLogFile|OverSubscribe=YES:8",
	}, ""},
}

// TestManner adapts each configuration to the releases. TestSlurmctldAccepts starts slurmctld on
// it.
func TestManner(t *testing.T) {
	for _, test := range manner {
		t.Run(test.name, func(t *testing.T) {
			c := openManner(t, test.name)
			if from, to := c.Releases(); from.String() != test.from || to.String() != test.to {
				t.Errorf("for %v to %v, want %s to %s", from, to, test.from, test.to)
			}
			for _, release := range []slurmspec.Release{slurmspec.R2205, slurmspec.R2411, slurmspec.R2605} {
				ad, err := Adapt(c, release, testEnvironment())
				if err != nil {
					t.Fatalf("%v: %v", release, err)
				}
				text := string(ad.Files[slurmConf])
				for line := range strings.SplitSeq(test.lines[release], "|") {
					if want := !strings.HasPrefix(line, "!"); strings.Contains(text, strings.TrimPrefix(line, "!")) != want {
						t.Errorf("%v: %q is in it: %v\n%s", release, line, !want, text)
					}
				}
				if all := strings.Join(ad.Warnings, "\n"); release == slurmspec.R2205 && !strings.Contains(all, test.warning) {
					t.Errorf("warnings %s, want one with %q", all, test.warning)
				}
			}
		})
	}
}

func openManner(t *testing.T, name string) *Cluster {
	t.Helper()
	c, err := OpenFile(filepath.Join("testdata", "manner", name+".conf"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
