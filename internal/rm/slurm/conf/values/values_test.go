package values

import (
	"strings"
	"testing"

	"rmreplay/internal/slurmspec"
)

// TestCheck: Check accepts the values that slurmctld accepts, and refuses values that make
// slurmctld exit. TestSlurmctldRefuses in package conf tries refused values on slurmctld itself.
func TestCheck(t *testing.T) {
	for _, test := range []struct {
		key       string
		good, bad string // separated by blanks
		want      string
	}{
		{"EnforcePartLimits", "NO YES any All", "none maybe", "want NO, ANY or ALL"},
		{"FirstJobId", "1 67043327", "0", "want 1 or more"},
		{"AccountingStorageTRES", "cpu gres/gpu,GRES/gpu:a100 license/x,fs/disk,ic/ofed,bb/datawarp Billing,,mem", "cpus gpu gres cpu,disk", "not a trackable resource"},
		{"Licenses", "a a:3 a:3,b;c@server:0", "a:3@server a:-1 a:b,c", "not a licence (want NAME or NAME:COUNT"},
		{"MaxDBDMsgs", "10000 40k", "0 9999", "want 10000 or more"},
		{"MaxJobCount", "1 INFINITE", "0", "want 1 or more"},
		{"PreemptExemptTime", "0 -1 00:30:00 1-00 1- INFINITE", "-5 never 1:2:3:4 1-2-3 5:", "not a time"},
		{"PreemptMode", "OFF GANG SUSPEND,GANG requeue,within CANCEL,PRIORITY", "CANCEL,REQUEUE", "want one of OFF, CANCEL"},
		{"PreemptMode", "", "GANG,WITHIN GANG,PRIORITY", "exclude each other"},
		{"PriorityCalcPeriod", "5 00:00:30 1-0", "0 00:00:00 INFINITE soon", "not a period of a minute or more"},
		{"PriorityDecayHalfLife", "0 7-0 14-0 99999999", "weekly 7d", "not a time"},
		{"PriorityUsageResetPeriod", "NONE now Monthly", "14-0 biweekly", "want NONE, NOW"},
		{"SchedulerParameters", "bf_window=10 max_script_size=536870912", "max_script_size=536870913 bf_window=1,max_submit_line_size=99999999999999999999", "more than slurmctld accepts"},
		{"SelectTypeParameters", "CR_Core,CR_LLN CR_CPU_Memory CR_LLN", "CR_Core,CR_Memory CR_Socket,CR_CPU", "together"},
		{"SelectTypeParameters", "CR_Core_Memory,CR_ONE_TASK_PER_CORE", "CR_CPU,CR_ONE_TASK_PER_CORE", "with CR_CPU"},
		{"SelectTypeParameters", "CR_Core cr_lln,CR_CPU", "CR_Cor CR_Core,LLN", "no release from 22.05 to 26.05 knows"},
		{"PreemptMode", "WITHIN PRIORITY", "REQUE off,sometimes", "no release from 22.05 to 26.05 knows"},
		{"prologflags", "Contain,RunInJob", "Aloc", "knows Aloc (did you mean alloc?)"},
		{"SchedulerParameters", "bf_no_such_option", "", ""}, // slurmctld ignores it
		{"PropagateResourceLimits", "ALL NONE CPU,RLIMIT_NOFILE", "SOME all CPU,LOCKS ALL,CPU", "not a limit of processes"},
		{"MessageTimeout", "0", "", ""},
	} {
		try(t, Check, test.key, test.good, test.bad, test.want)
	}
	for _, test := range []struct{ attribute, good, bad, want string }{
		{"DefaultTime", "30 2-0 UNLIMITED", "NONE 1h", "not a time"},
		{"Exclusive", "no NODE User topo", "YES", "want NO, NODE, USER or TOPO"},
		{"MaxTime", "INFINITE 365000-0 0", "NONE 7days", "not a time"},
		{"OverSubscribe", "NO exclusive YES YES:0 FORCE:8 force", "MAYBE NO:2 TRUE", "want NO, EXCLUSIVE, YES[:COUNT]"},
		{"PreemptMode", "off CANCEL", "CANCEL,OFF", "more than one mode"},
		{"SelectTypeParameters", "CR_Core CR_Socket_Memory CR_Core,LL_SHARED_GRES", "CR_CPU CR_Memory", "want CR_Core"},
		{"Shared", "NO Force:4", "2", "want NO"},
		{"TRESBillingWeights", "CPU=1g CPU=1e3 CPU=-3 cpu=k CPU=0x10 cpu=1.0, Mem=0.25GG cpu=infinity,gres/gpu:a=.5 cpu=1,,mem=2", "CPU= CPU:1.0 CPU=a CPU=1.0x Mem=0.5=3 =3 cpu", "not a weight"},
		{"State", "UP down DRAIN Inactive", "IDLE", "want UP, DOWN"},
	} {
		try(t, CheckPartition, test.attribute, test.good, test.bad, test.want)
	}
	if err := Check("Licenses", "a b"); err == nil {
		t.Error("a licence with a blank")
	}
}

func try(t *testing.T, check func(key, value string) error, key, good, bad, want string) {
	t.Helper()
	for value := range strings.FieldsSeq(good) {
		if err := check(key, value); err != nil {
			t.Errorf("%s=%s: %v", key, value, err)
		}
	}
	for value := range strings.FieldsSeq(bad) {
		if err := check(key, value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s=%s: %v, want an error with %q", key, value, err, want)
		}
	}
}

// TestTogether: values that exclude each other, and the key that the refusal names.
func TestTogether(t *testing.T) {
	for _, test := range []struct {
		text    string // KEY=VALUE, separated by blanks
		release slurmspec.Release
		key     string // "" if slurmctld accepts the text
	}{
		{"", slurmspec.R2205, ""},
		{"FirstJobId=10 MaxJobId=9", slurmspec.R2205, "FirstJobId"},
		{"FirstJobId=10 MaxJobId=90000000", slurmspec.R2205, ""},
		{"GresTypes=gpu,mps SelectType=select/cons_tres", slurmspec.R2205, ""},
		{"GresTypes=gpu,mps SelectType=select/linear", slurmspec.R2205, "GresTypes"},
		{"GresTypes=shard SelectType=select/cons_tres", slurmspec.R2605, "GresTypes"},
		{"MaxNodeCount=9 SelectType=select/cons_res", slurmspec.R2205, "MaxNodeCount"},
		{"MaxNodeCount=9 SelectType=select/cons_tres", slurmspec.R2605, ""},
		{"MCSParameters=ondemand", slurmspec.R2205, "MCSParameters"},
		{"MCSPlugin=mcs/group", slurmspec.R2205, "MCSPlugin"},
		{"MCSPlugin=mcs/user", slurmspec.R2205, ""},
		{"PreemptMode=SUSPEND PreemptType=preempt/qos", slurmspec.R2205, "PreemptMode"},
		{"PreemptMode=SUSPEND,GANG PreemptType=preempt/qos", slurmspec.R2205, ""},
		{"PreemptMode=REQUEUE", slurmspec.R2205, "PreemptMode"},
		{"PreemptMode=GANG", slurmspec.R2605, ""},
		{"PreemptMode=CANCEL PreemptType=preempt/none", slurmspec.R2605, "PreemptMode"},
		{"PreemptMode=OFF PreemptType=preempt/partition_prio", slurmspec.R2605, "PreemptMode"},
		{"PreemptType=preempt/partition_prio", slurmspec.R2605, "PreemptType"},
		{"PriorityDecayHalfLife=0", slurmspec.R2205, "PriorityDecayHalfLife"},
		{"PriorityWeightTRES=cpu:5 PriorityType=priority/multifactor", slurmspec.R2205, "PriorityWeightTRES"},
		{"PriorityWeightTRES=cpu:5 PriorityType=priority/basic", slurmspec.R2205, ""},
		{"PriorityDecayHalfLife=0 PriorityUsageResetPeriod=NONE", slurmspec.R2205, ""},
		{"SelectType=select/linear SelectTypeParameters=CR_Core", slurmspec.R2205, "SelectTypeParameters"},
		{"SelectType=select/linear SelectTypeParameters=CR_Memory", slurmspec.R2205, ""},
		{"SelectType=select/cons_tres SelectTypeParameters=CR_Memory", slurmspec.R2605, "SelectTypeParameters"},
		{"SelectType=select/cons_tres SelectTypeParameters=CR_LLN", slurmspec.R2205, "SelectTypeParameters"},
		{"SelectType=select/linear TopologyPlugin=topology/tree", slurmspec.R2311, ""},
		{"SelectType=select/linear TopologyPlugin=topology/tree", slurmspec.R2405, "TopologyPlugin"},
	} {
		settings := map[string]string{}
		for pair := range strings.FieldsSeq(test.text) {
			key, value, _ := strings.Cut(pair, "=")
			settings[key] = value
		}
		var keys []string
		for _, refusal := range Together(func(key string) (string, bool) { v, ok := settings[key]; return v, ok }, test.release) {
			keys = append(keys, refusal.Key)
			if refusal.Err == nil || !strings.Contains(refusal.Err.Error(), " ") {
				t.Errorf("%s: %v says nothing", test.text, refusal.Err)
			}
		}
		if got := strings.Join(keys, " "); got != test.key {
			t.Errorf("%q in %v: refused %q, want %q", test.text, test.release, got, test.key)
		}
	}
}

// TestHostList: only names with text after their brackets change, and only for old releases.
func TestHostList(t *testing.T) {
	for _, test := range []struct{ list, old string }{
		{"n[1-3]", "n[1-3]"}, {"rack[0-1]n[1-2],m1", "rack[0-1]n[1-2],m1"}, {"n[1-2,4].org", "n1.org,n2.org,n4.org"},
		{"a[1-2]-ib,b[1-2]", "a1-ib,a2-ib,b[1-2]"}, {"ALL", "ALL"}, {"n[1-2", "n[1-2"}, {"n[2-1].org", "n[2-1].org"},
	} {
		if got := HostList(test.list, slurmspec.R2302); got != test.old {
			t.Errorf("%s in 23.02: %s, want %s", test.list, got, test.old)
		}
		if got := HostList(test.list, slurmspec.R2311); got != test.list {
			t.Errorf("%s in 23.11: %s", test.list, got)
		}
	}
}

// TestNothingPreempts warns about preemption by QOS that no QOS uses, and only about that.
func TestNothingPreempts(t *testing.T) {
	for _, c := range []struct{ plugin, accounts, file, want string }{
		{"preempt/qos", "add qos high priority=10\n", "a", "a gives preempt= to no QOS"},
		{"Preempt/QOS", "add qos high preempt=normal\nmodify qos where name=high set preempt=-1\n", "a", "a gives preempt= to no QOS"},
		{"preempt/qos", "", "", "lacks accounts.sacctmgr"},
		{"preempt/qos", "add qos high\nmodify qos where name=high set preempt=normal\n", "a", ""},
		{"preempt/partition_prio", "", "", ""},
	} {
		get := func(string) (string, bool) { return c.plugin, true }
		list := NothingPreempts(get, []byte(c.accounts), c.file)
		if (len(list) > 0) != (c.want != "") || c.want != "" && !strings.Contains(list[0], c.want) {
			t.Errorf("%+v: %q", c, list)
		}
	}
}

// TestMistakes: an option is no mistake if slurmctld knows or finds it, or if no known option is
// similar.
func TestMistakes(t *testing.T) {
	for _, test := range []struct{ key, list, want string }{
		{"SchedulerParameters", "bf_intervall=30,bf_continue", "SchedulerParameters has no option bf_intervall, so Slurm ignores it; " +
			"did you mean bf_interval?"},
		{"SchedulerParameters", "bf_contine", "SchedulerParameters has no option bf_contine, so Slurm ignores it; did you mean bf_continue?"},
		{"DependencyParameters", "kill_invalid_depends_", ""}, // slurmctld finds it in the text
		{"DependencyParameters", "kil_invalid_depend", "DependencyParameters has no option kil_invalid_depend, so Slurm ignores it; " +
			"did you mean kill_invalid_depend?"},
		{"SchedulerParameters", "", ""},
		{"SchedulerParameters", "BF_INTERVAL=30, defer,max_rpc_count=9,Ignore_NUMA,whole_pack,bf_yield_rpc_count=3,max_job_bf=5", ""},
		{"SchedulerParameters", "bf_interval=5m", "SchedulerParameters: bf_interval=5m: not a whole number, and slurmctld would read 5 " +
			"(want a whole number from -1 to 10800, but not 0)"},
		{"SchedulerParameters", "bf_interval=0", "SchedulerParameters: bf_interval=0: slurmctld would use its default " +
			"(want a whole number from -1 to 10800, but not 0)"},
		{"SchedulerParameters", "bf_window=h", "SchedulerParameters: bf_window=h: not a whole number, and slurmctld would use its default " +
			"(want a whole number from 1 to 43200)"},
		{"SchedulerParameters", "bf_continue=yes,bf_window=90,sched_interval=-1", ""},
		{"SchedulerParameters", "deferred,sites_own_option=7", ""},
		{"SlurmctldParameters", "idle_on_node_suspendd", ""}, // not all of its options are known here
		{"PrologFlags", "alocc", ""},                         // slurmctld refuses it
	} {
		if got := strings.Join(Mistakes(test.key, test.list), "|"); got != test.want {
			t.Errorf("%s=%s: %q, want %q", test.key, test.list, got, test.want)
		}
	}
}
