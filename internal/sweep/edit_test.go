package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/experiment"
)

// mistakenSite writes a cluster directory with accounts.
func mistakenSite(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"slurm.conf": `ClusterName=c
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageTRES=gres/gpu
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/multifactor
GresTypes=gpu
NodeName=n[1-4] CPUs=8
PartitionName=batch Nodes=ALL Default=YES MaxTime=2-0
PartitionName=short Nodes=n[1-2] AllowQos=normal,high
`,
		"accounts.sacctmgr": "add qos high Priority=100\nadd cluster c\nadd account physics\nadd account optics\nadd user ada account=physics\n",
		"users":             "ada:1000:ada:1000\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestMistakes: a dry run refuses the values that slurmctld would refuse, and accepts the values
// that slurmctld accepts. TestSlurmctldRefuses in package conf tries such values on slurmctld
// itself. want is a part of the error or, if it begins with "warning: ", of the warning; "" if the
// edit has neither.
func TestMistakes(t *testing.T) {
	site, known := mistakenSite(t), targets{}
	for _, test := range []struct{ edit, want string }{
		// Enumerations.
		{"PreemptMode: REQUE", "no release from 22.05 to 26.05 knows REQUE (did you mean requeue?)"},
		{"PreemptType: preempt/qos, PreemptMode: 'SUSPEND,GNAG'", "knows GNAG (did you mean gang?)"},
		{"SelectTypeParameters: CR_Cor", "knows CR_Cor (did you mean cr_core?)"},
		{"SelectTypeParameters: 'CR_Core,CR_Memory'", "slurmctld refuses CR_CORE AND CR_MEMORY together"},
		{"PriorityUsageResetPeriod: MONTH", "want NONE, NOW, DAILY, WEEKLY, MONTHLY"},
		{"EnforcePartLimits: EVERY", "want NO, ANY or ALL"},
		{"AccountingStorageEnforce: 'limit,qos'", "knows limit (did you mean limits?)"},
		{"PrologFlags: Aloc", "knows Aloc (did you mean alloc?)"},
		{"PropagateResourceLimits: FILES", "not a limit of processes"},
		{"partition batch State: UNAVAILABLE", "want UP, DOWN, DRAIN or INACTIVE"},
		{"partition batch OverSubscribe: MAYBE", "want NO, EXCLUSIVE, YES[:COUNT] or FORCE[:COUNT]"},
		{"partition batch PreemptMode: REQUE", "knows REQUE"},
		{"partition batch SelectTypeParameters: CR_CPU", "want CR_Core"},
		{"partition batch SelectTypeParameters: CR_Cor", "knows CR_Cor"},
		// Times.
		{"PriorityDecayHalfLife: 1h", "not a time (want minutes, HH:MM:SS, D-HH:MM:SS or INFINITE)"},
		{"PriorityMaxAge: 7d", "not a time"},
		{"PriorityCalcPeriod: 5m", "not a period of a minute or more"},
		{"PriorityCalcPeriod: '0'", "not a period of a minute or more"},
		{"PreemptExemptTime: 30s", "not a time"},
		{"partition batch MaxTime: 2 days", "not a time"},
		{"partition batch DefaultTime: NONE", "not a time"},
		{"partition batch OverTimeLimit: 1h", "OverTimeLimit=1h"},
		{"qos high MaxWall: 1h", "MaxWall=1h"},
		{"KillWait: 30s", "not a number"},
		// Numbers and flags.
		{"PriorityWeightAge: 1e3", "not a number"},
		{"PriorityWeightAge: '-5'", "below 0 (want 0 to"},
		{"MaxJobCount: '0'", "want 1 or more"},
		{"MaxArraySize: many", "not a number"},
		{"DefMemPerCPU: 4G", "not a number"},
		{"JobRequeue: 'yes'", "not a number"},
		{"PriorityFavorSmall: maybe", "not a flag"},
		{"partition batch PriorityTier: 70000", "larger than 65535"},
		{"partition batch LLN: 'on'", "not a flag"},
		{"partition batch MaxNodes: all", "not a number"},
		{"PriorityWeightTRES: 'cpu:5'", "the cluster does not track cpu:5"},
		{"PriorityWeightTRES: 'cpu=heavy'", "not a weight"},
		{"partition batch TRESBillingWeights: 'CPU=a'", "not a weight"},
		{"Licenses: 'matlab:five'", "not a licence"},
		// Names.
		{"partition bacth MaxTime: 60", "the cluster has no partition bacth; did you mean batch?"},
		{"partition batch AllowQos: hihg", "the cluster has no QOS hihg; did you mean high?"},
		{"partition batch QOS: hihg", "the cluster has no QOS hihg"},
		{"partition batch AllowAccounts: 'physics,phisics'", "the cluster has no account phisics; did you mean physics?"},
		{"partition batch Nodes: 'n[1-9]'", "no such node: n[5-9]"},
		{"partition batch TRESBillingWeights: 'GRES/gpus=2'", "the cluster does not track GRES/gpus"},
		{"qos hihg Priority: 5", "the cluster has no QOS hihg"},
		{"qos high Preempt: nromal", "QOS nromal: no command above declares it"},
		{"account phisics fairshare: 5", "the cluster has no account phisics"},
		{"user bob fairshare: 5", "the cluster has no user bob"},
		{"user ada in optics fairshare: 5", "user ada has no association with account optics (accounts of the user: physics)"},
		// Settings that exclude each other.
		{"PreemptMode: REQUEUE", "slurmctld refuses this value without a PreemptType"},
		{"PreemptType: preempt/qos", "slurmctld refuses a PreemptType without a mode"},
		{"PriorityDecayHalfLife: '0'", "without decay of usage, slurmctld requires PriorityUsageResetPeriod"},
		{"SelectType: select/linear", "slurmctld refuses this value with SelectType=select/linear"},
		// Taken by slurmctld without effect.
		{"SchedulerParameters: 'bf_max_jobs_test=5'", "warning: SchedulerParameters has no option bf_max_jobs_test; did you mean bf_max_job_test?"},
		{"SchedulerParameters: 'bf_window=1h'", "warning: SchedulerParameters: bf_window=1h: not a whole number"},
		{"PriorityFlags: NO_FAIRTREE", "warning: PriorityFlags has no option NO_FAIRTREE; did you mean no_fair_tree?"},
		// Taken by slurmctld.
		{"PriorityDecayHalfLife: 7-0", ""}, {"PriorityDecayHalfLife: '60'", ""}, {"PriorityMaxAge: INFINITE", ""},
		{"PreemptType: preempt/partition_prio, PreemptMode: 'SUSPEND,GANG'", ""},
		{"SelectTypeParameters: 'CR_Core_Memory,CR_LLN'", ""}, {"partition batch State: drain", ""},
		{"partition batch TRESBillingWeights: 'CPU=1.0,Mem=0.25g,GRES/gpu=2.5'", ""}, {"MaxJobCount: 10k", ""},
		{"partition batch MaxTime: UNLIMITED", ""}, {"user ada in physics fairshare: 5", "warning: "},
	} {
		e, err := load(t, fmt.Sprintf("workload: day.jsonl\nslurm:\n  clusters: [%s]\n  edits:\n    - {name: x, %s}\n", site, test.edit))
		var warnings []string
		if err == nil {
			warnings, err = e.checkEdits(known)
		}
		warning, warned := strings.CutPrefix(test.want, "warning: ")
		switch {
		case err == nil && !warned && test.want == "" && len(warnings) == 0:
		case err == nil && warned && len(warnings) == 1 && strings.Contains(warnings[0], warning):
		case err != nil && !warned && test.want != "" && strings.Contains(err.Error(), test.want) && !strings.Contains(err.Error(), "\n"):
		default:
			t.Errorf("%s: %v, warnings %q, want %q", test.edit, err, warnings, test.want)
		}
	}
}

// TestClusterThatCannotRun: if slurmctld refuses the cluster without the edit, its runs fail, and not the experiment.
func TestClusterThatCannotRun(t *testing.T) {
	site := mistakenSite(t)
	path := filepath.Join(site, "slurm.conf")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, "PreemptMode=REQUEUE\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := load(t, fmt.Sprintf("workload: day.jsonl\nslurm:\n  clusters: [%s]\n  edits:\n    - {name: x, PriorityMaxAge: 1-0}\n", site))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.checkEdits(targets{}); err != nil {
		t.Error(err)
	}
}

// TestAdaptations: an edit is tried with each different Slurm of the experiment.
func TestAdaptations(t *testing.T) {
	const text = "workload: day.jsonl\nslurm:\n  clusters: [a, {name: b, cluster: b, slurm: '24.11'}]\n  releases: [%s]\n"
	for _, test := range []struct {
		releases string
		model    bool
		want     []string // the releases of each cluster
	}{
		{"", true, []string{"22.05", "24.11"}}, {"'22.05', '26.05'", false, []string{"22.05 26.05", "22.05 26.05"}},
		{"'26.05', {name: other, slurm: '26.05', jitter: 1}", false, []string{"26.05", "26.05"}},
	} {
		e, err := loadOn(t, fmt.Sprintf(text, test.releases), test.model)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range e.Slurm.Clusters {
			var want []adaptation
			for release := range strings.FieldsSeq(test.want[i]) {
				target, err := experiment.FindTarget(release)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, adaptation{target, ""})
			}
			if got := e.adaptations(c, targets{}); !slices.Equal(got, want) {
				t.Errorf("%+v: %+v, want %+v", test, got, want)
			}
		}
	}
}
