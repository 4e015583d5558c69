package edit

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/rm/slurm/conf"
)

const slurmConf = `ClusterName=test
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageTRES=gres/gpu
schedulerparameters=bf_window=60,BF_MAX_JOB_TEST=100,defer
PriorityType=priority/basic
PriorityMaxAge=\ # comment
  7-0
PriorityWeightTRES=CPU=1000,gres/gpu=5
SchedulerTimeSlice=30
Licenses=matlab:5;idl:2
GresTypes=gpu
NodeName=n[1-2] CPUs=4
PartitionName=DEFAULT MaxTime=2-0 State=UP
PartitionName=short Nodes=ALL Default=YES \
  MaxTime=60 AllowQos=high,normal
Include more.conf
`

const more = "PartitionName=long Nodes=ALL\n"

const accounts = `add qos high Priority=100
add cluster test
add account physics
add account optics parent=physics
add user ada account=physics
add user ada account=optics
`

// site writes a cluster directory.
func site(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"slurm.conf": slurmConf, "more.conf": more, "accounts.sacctmgr": accounts, "users": "ada:1000:ada:1000\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestCopy compares an edited copy with the expected text of each file.
func TestCopy(t *testing.T) {
	from, to := site(t), filepath.Join(t.TempDir(), "edited")
	edited, err := Copy(from, to, []Setting{
		{"SchedulerParameters.bf_max_job_test", "1000"},
		{"schedulerparameters.defer", "false"},
		{"SchedulerParameters.bf_continue", "true"},
		{"PriorityMaxAge", "1-0"},
		{"PriorityWeightTRES.cpu", "7"},
		{"Licenses.matlab", "9"},
		{"partition short MaxTime", "1-00:00:00"},
		{"partition short AllowQos.high", "false"},
		{"partition long PriorityTier", "10"},
		{"partition long TRESBillingWeights.gres/gpu", "0.5"},
		{"partition DEFAULT MaxTime", "UNLIMITED"},
		{"qos high MaxTRESPerUser", "cpu=64"},
		{"qos high MaxTRESPerUser.gres/gpu", "false"},
		{"qos high Flags.DenyOnLimit", "true"},
		{"account Physics fairshare", "20"},
		{"user ada in optics fairshare", "parent"},
		{"user ada qos.high", "true"},
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	want := strings.NewReplacer(
		"schedulerparameters", "# replaced: schedulerparameters",
		"PriorityMaxAge=", "# replaced: PriorityMaxAge=", "  7-0", "# replaced:   7-0",
		"PriorityWeightTRES", "# replaced: PriorityWeightTRES", "Licenses", "# replaced: Licenses",
		"PartitionName=DEFAULT MaxTime=2-0 State=UP\n", "# replaced: PartitionName=DEFAULT MaxTime=2-0 State=UP\nPartitionName=DEFAULT State=UP MaxTime=UNLIMITED\n",
		"PartitionName=short", "# replaced: PartitionName=short",
		"  MaxTime=60 AllowQos=high,normal\n", "# replaced:   MaxTime=60 AllowQos=high,normal\nPartitionName=short Nodes=ALL Default=YES MaxTime=1-00:00:00 AllowQos=normal\n",
	).Replace(slurmConf) + `
# Set by an edit
SchedulerParameters=bf_window=60,bf_max_job_test=1000,bf_continue
PriorityMaxAge=1-0
PriorityWeightTRES=cpu=7,gres/gpu=5
Licenses=matlab:9,idl:2
`
	if diff := cmp.Diff(want, read("slurm.conf")); diff != "" {
		t.Errorf("slurm.conf (-want +got)\n%s", diff)
	}
	wantMore := "# replaced: PartitionName=long Nodes=ALL\nPartitionName=long Nodes=ALL PriorityTier=10 TRESBillingWeights=gres/gpu=0.5\n"
	if diff := cmp.Diff(wantMore, read("more.conf")); diff != "" {
		t.Errorf("more.conf (-want +got)\n%s", diff)
	}
	commands := `modify qos where name=high set MaxTRESPerUser=cpu=64
modify qos where name=high set MaxTRESPerUser=gres/gpu=-1
modify qos where name=high set Flags+=DenyOnLimit
modify account where name=Physics set fairshare=20
modify user where name=ada account=optics set fairshare=parent
modify user where name=ada set qos+=high
`
	if diff := cmp.Diff(accounts+"\n# Set by an edit\n"+commands, read("accounts.sacctmgr")); diff != "" {
		t.Errorf("accounts.sacctmgr (-want +got)\n%s", diff)
	}
	if len(edited.Lines) != 4+3+6 || edited.Lines[0] != (Line{"slurm.conf", "SchedulerParameters=bf_window=60,bf_max_job_test=1000,bf_continue"}) {
		t.Errorf("lines %+v", edited.Lines)
	}
	wantWarnings := []string{
		"qos high MaxTRESPerUser has no effect: AccountingStorageEnforce does not have the option limits",
		"qos high MaxTRESPerUser has no effect: AccountingStorageEnforce does not have the option limits",
		"account Physics fairshare has no effect: PriorityWeightFairshare is 0",
		"user ada fairshare has no effect: PriorityWeightFairshare is 0",
	}
	if diff := cmp.Diff(wantWarnings, edited.Warnings); diff != "" {
		t.Errorf("warnings (-want +got)\n%s", diff)
	}
	c, err := conf.Open(to)
	if err != nil || len(c.Users) != 1 || len(c.Warnings) > 0 {
		t.Errorf("the copy: %v, users %v, warnings %v", err, c.Users, c.Warnings)
	}
}

// TestSettings checks which settings are wrong for every cluster.
func TestSettings(t *testing.T) {
	const option = "slurmctld would use its default"
	for _, test := range []struct{ name, value, want string }{
		{"PriorityWeightAge", "5000", ""},
		{"SchedulerParameters.bf_hetjob_prio", "avg", ""},
		{"SchedulerParameters.bf_interval", "-1", ""},
		{"PriorityFlags.NO_FAIR_TREE", "true", ""},
		{"PrologFlags.RunInJob", "true", ""},
		{"partition long MaxTime", "UNLIMITED", ""},
		{"partition two words MaxTime", "60", ""},
		{"qos normal MaxWall", "-1", ""},
		{"qos normal MaxTRESPerUser", "cpu=64,mem=1T,node=-1", ""},

		{"", "1", "a parameter's name is missing (" + forms + ")"},
		{"PriorityWeightAge.", "1", `"PriorityWeightAge.": the key is missing (` + forms + ")"},
		{".x", "1", `".x": the key is missing (` + forms + ")"},
		{"NoSuchKey", "1", "NoSuchKey: unrecognized key"},
		{"PriorityWeigthAge", "1", "PriorityWeigthAge: unrecognized key; did you mean PriorityWeightAge?"},
		{"PriorityWeightQOS", "-3", "PriorityWeightQOS=-3: below 0 (want 0 to 4294967295, or INFINITE)"},
		{"PriorityWeightAge", "much", "PriorityWeightAge=much: not a number (want 0 or more, or INFINITE)"},
		{"PriorityWeightAge.x", "1", "PriorityWeightAge: not a list with options that can be set singly (to replace the whole value, set PriorityWeightAge itself)"},
		{"SchedulerParameter.bf_window", "1", "SchedulerParameter: unrecognized key; did you mean SchedulerParameters?"},
		{"NodeName", "n1", "NodeName: not a key with one value, so it cannot be set (change its lines in a copy of the cluster directory)"},
		{"partitionname", "p", "partitionname: not a key with one value (want partition NAME KEY)"},
		{"Include", "x", "Include: not a key with one value, so it cannot be set (change its lines in a copy of the cluster directory)"},
		{"SchedulerParameters.bf_max_jobs_test", "1", "SchedulerParameters has no option bf_max_jobs_test; did you mean bf_max_job_test?"},
		{"SchedulerParameters.bf_max_job_test", "0", "bf_max_job_test=0: " + option + " (want a whole number from 1 to 1000000 or false)"},
		{"SchedulerParameters.bf_max_job_test", "true", "bf_max_job_test=true: not a whole number, and slurmctld would use its default (want a whole number from 1 to 1000000 or false)"},
		{"SchedulerParameters.bf_max_job_user", "1e3", "bf_max_job_user=1e3: not a whole number, and slurmctld would read 1 (want a whole number from 0 or false)"},
		{"SchedulerParameters.bf_continue", "1", "bf_continue=1: this option is a flag and takes no other value (want true or false)"},
		{"SchedulerParameters.bf_hetjob_prio", "mean", "bf_hetjob_prio=mean: not a value of this option (want min, avg, max or false)"},
		{"PriorityWeightTRES.cpu", "-3", "cpu=-3: not a weight (want a number such as 0.25 or 0.25G, or false)"},
		{"Licenses.matlab", "x", "matlab=x: not a number of licences (want NAME and a whole number, or false)"},
		{"Licenses.a:b", "1", "a:b=1: not a number of licences (want NAME and a whole number, or false)"},
		{"Licenses.a,b", "1", `"Licenses.a,b": "a,b" names no single item of a list (want one name)`},
		{"PriorityMaxAge", "1\nInclude /etc/passwd", `"PriorityMaxAge": a control character in the name or the value (want one line of text)`},
		{"partiton long MaxTime", "60", `"partiton long MaxTime": not the name of a parameter (` + forms + "); did you mean partition?"},
		{"partition MaxTime", "60", `"partition MaxTime": the name of the partition is missing (` + forms + ")"},
		{"user in physics fairshare", "1", ""}, // a user who is called "in physics"
		{"partition long MaxTimee", "60", "partition long: MaxTimee: unrecognized key; did you mean MaxTime?"},
		{"partition long MaxTime", "soon", "partition long: MaxTime=soon: "},
		{"partition long MaxTime.x", "60", "partition long: MaxTime: not a list with items that can be set singly (to replace the whole value, set MaxTime itself)"},
		{"partition long MaxTime", "", "partition long: MaxTime: no value"},
		{"partition long State", "AWAY", "partition long: State=AWAY: slurmctld does not know this value (want UP, DOWN, DRAIN or INACTIVE)"},
		{"partition long AllowQos.high", "3", "partition long: AllowQos.high=3: want true or false"},
		{"partition long PriorityTier", "70000", "partition long: PriorityTier=70000: larger than 65535"},
		{"qos high MaxTRESPerUser", "64", "qos high: MaxTRESPerUser=64: not limits of TRES (want cpu=64 or cpu=64,gres/gpu=4, with -1 for no limit)"},
		{"qos high MaxTRESPerUser.cpu", "true", "qos high: MaxTRESPerUser=cpu=true: not limits of TRES (want cpu=64 or cpu=64,gres/gpu=4, with -1 for no limit)"},
		{"qos high name", "low", "qos high: name: not an option that can be changed"},
		{"qos high Priority", "1 set name=x", ""}, // Edit refuses it
		{"qos high Description", `a" set Priority=1 "`, "qos high: a quote in the name or the value (remove the quote)"},
		{"qos high Priority.x", "1", "qos high: Priority: not a list with items that can be set singly (to replace the whole value, set Priority itself)"},
		{"account a fairshare", "", "account a: fairshare: no value (want -1 for no limit)"},
	} {
		err := Setting{test.name, test.value}.Check()
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %s: %v", test.name, test.value, err)
		case test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)):
			t.Errorf("%s: %s:\ngot  %v\nwant %s", test.name, test.value, err, test.want)
		}
	}
}

// TestUnknown checks which settings are wrong for one cluster.
func TestUnknown(t *testing.T) {
	c, err := conf.Open(site(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, value, want string }{
		{"partition lnog MaxTime", "60", "the cluster has no partition lnog; did you mean long?"},
		{"partition SHORT MaxTime", "60", "the cluster has no partition SHORT; did you mean short?"},
		{"partition long AllowQos.high", "true", "partition long has no list AllowQos to change (to make the list, set AllowQos itself)"},
		{"partition short AllowQos.hihg", "true", "the cluster has no QOS hihg; did you mean high?"},
		{"partition long QOS", "hihg", "the cluster has no QOS hihg; did you mean high?"},
		{"partition long AllowAccounts", "physics,chem", "the cluster has no account chem"},
		{"partition long TRESBillingWeights.gres/gpus", "1", "the cluster does not track gres/gpus (want one of AccountingStorageTRES or billing, cpu, energy, fs/disk, mem, node, pages, vmem); did you mean gres/gpu?"},
		{"qos hihg Priority", "1", "the cluster has no QOS hihg; did you mean high?"},
		{"qos high Prioritty", "1", "prioritty: not an option of modify qos; did you mean priority?"},
		{"qos high GrpJobs", "some", "grpjobs=some: not a whole number (want, for example, 10, or -1 for none)"},
		{"qos high Priority", "high", "priority=high: not a whole number (want, for example, 10, or -1 for none)"},
		{"qos high GrpTRES.license/x", "1", "the cluster does not track license/x (want one of AccountingStorageTRES or billing, cpu, energy, fs/disk, mem, node, pages, vmem)"},
		{"qos high Preempt.lwo", "true", "QOS lwo: no command above declares it"},
		{"account physic fairshare", "1", "the cluster has no account physic; did you mean physics?"},
		{"user bob fairshare", "1", "the cluster has no user bob"},
		{"user ada in root fairshare", "1", "user ada has no association with account root (accounts of the user: optics, physics)"},
		{"user ada in chem fairshare", "1", "user ada: the cluster has no account chem (accounts of the user: optics, physics)"},
		{"user ada in phisics fairshare", "1", "user ada: the cluster has no account phisics; did you mean physics? (accounts of the user: optics, physics)"},
		{"PriorityWeightTRES", "cpu=1,gres/gpus=2", "the cluster does not track gres/gpus (want one of AccountingStorageTRES or billing, cpu, energy, fs/disk, mem, node, pages, vmem); did you mean gres/gpu?"},
		{"partition long TRESBillingWeights", "cpu=1,gpu=2", "the cluster does not track gpu (want one of AccountingStorageTRES or billing, cpu, energy, fs/disk, mem, node, pages, vmem); did you mean cpu?"},
		{"user in physics fairshare", "1", "the cluster has no user in physics"},
	} {
		_, err := Edit(c, []Setting{{test.name, test.value}})
		if err == nil || err.Error() != test.name+": "+test.want {
			t.Errorf("%s=%s:\ngot  %v\nwant %s: %s", test.name, test.value, err, test.name, test.want)
		}
	}
	_, err = Edit(c, []Setting{{"qos HIGH Priority", "1"}, {"qos high priority", "2"}})
	if want := "qos high priority: set twice, first as qos HIGH Priority (want one value)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	c.Accounts = nil
	if _, err = Edit(c, []Setting{{"qos high Priority", "1"}}); err == nil || !strings.Contains(err.Error(), "has no accounts.sacctmgr") {
		t.Errorf("without accounts: %v", err)
	}
}

// TestOutside: Edit refuses to change a partition's line in a file that the copy would not have.
func TestOutside(t *testing.T) {
	dir, other := site(t), filepath.Join(t.TempDir(), "other.conf")
	if err := os.Rename(filepath.Join(dir, "more.conf"), other); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(slurmConf, "more.conf", other, 1)
	if err := os.WriteFile(filepath.Join(dir, "slurm.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := conf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Edit(c, []Setting{{"partition long MaxTime", "60"}})
	if err == nil || !strings.Contains(err.Error(), "outside the cluster directory") {
		t.Errorf("got %v", err)
	}
	if _, err := Edit(c, []Setting{{"partition short MaxTime", "60"}}); err != nil {
		t.Error(err)
	}
}

// FuzzEdit: for any settings, an accepted edit gives a readable directory with the new value, and
// does not change other keys and partitions.
func FuzzEdit(f *testing.F) {
	for _, s := range []Setting{
		{"SchedulerParameters.bf_max_job_test", "10"}, {"PriorityParameters", `a b # \ "c`}, {"partition short Nodes", "n1"},
		{"qos high Description", "a b # c"}, {"partition DEFAULT MaxTime", "1"}, {"Licenses.a:b,c", "1"}, {"PriorityWeightTRES.cpu=3,mem", "1"},
	} {
		f.Add(s.Name, s.Value)
	}
	dir := site(f)
	before, err := conf.Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		to := filepath.Join(t.TempDir(), "edited")
		if _, err := Edit(before, []Setting{{name, value}}); err != nil {
			return
		}
		p, err := parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Copy(dir, to, []Setting{{name, value}}); err != nil {
			if p.kind == ofPartition || p.kind == ofSlurmConf { // nodes that the cluster does not have
				return
			}
			t.Fatal(err)
		}
		after, err := conf.Open(to)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := after.Get(p.key); p.kind == ofSlurmConf && p.part == "" && got != value {
			t.Errorf("%s is %q after it was set to %q", name, got, value)
		}
		if len(after.Statements) < len(before.Statements) || len(after.Statements) > len(before.Statements)+1 {
			t.Errorf("%d statements became %d", len(before.Statements), len(after.Statements))
		}
		if p.kind != ofSlurmConf && p.kind != ofPartition && strings.Count(string(after.Accounts), "\n") != strings.Count(accounts, "\n")+3 {
			t.Errorf("accounts:\n%s", after.Accounts)
		}
	})
}

// TestNothingPreempts checks that an edit to preemption by QOS warns if no QOS preempts another after the edit.
func TestNothingPreempts(t *testing.T) {
	c, err := conf.Open(site(t))
	if err != nil {
		t.Fatal(err)
	}
	preempt := []Setting{{"PreemptType", "preempt/qos"}, {"PreemptMode", "REQUEUE"}}
	for _, settings := range [][]Setting{preempt, append(slices.Clip(preempt), Setting{"qos high Preempt", "high"})} {
		edited, err := Edit(c, settings)
		if err != nil {
			t.Fatal(err)
		}
		warned := slices.ContainsFunc(edited.Warnings, func(text string) bool {
			return strings.HasPrefix(text, "PreemptType=preempt/qos has no effect: ")
		})
		if want := len(settings) == len(preempt); warned != want {
			t.Errorf("%v: warnings %q, want one about preemption: %t", settings, edited.Warnings, want)
		}
	}
}

// TestIgnored warns of items of a whole list that slurmctld takes and ignores. It does not refuse them.
func TestIgnored(t *testing.T) {
	c, err := conf.Open(site(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ key, value, want string }{
		{"SchedulerParameters", "bf_window=60, defer=yes,bf_continue,BF_MAX_JOB_TEST=10", ""},
		{"SchedulerParameters", "bf_max_jobs_test=5", "SchedulerParameters has no option bf_max_jobs_test; did you mean bf_max_job_test?"},
		{"SchedulerParameters", "bf_window=1h", "SchedulerParameters: bf_window=1h: not a whole number, and slurmctld would read 1 (want a whole number from 1 to 43200)"},
		{"SchedulerParameters", "defer,bf_resolution=0", "SchedulerParameters: bf_resolution=0: slurmctld would use its default (want a whole number from 1 to 3600)"},
		{"SchedulerParameters", "bf_window", "SchedulerParameters: bf_window: not a whole number (want a whole number from 1 to 43200)"},
		{"DependencyParameters", "kill_invalid", "DependencyParameters has no option kill_invalid"},
		{"AccountingStorageEnforce", "limits,2", ""},
		{"PriorityMaxAge", "7-0", ""},
	} {
		edited, err := Edit(c, []Setting{{test.key, test.value}})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(edited.Warnings, "|"); got != test.want {
			t.Errorf("%s=%s:\ngot  %q\nwant %q", test.key, test.value, got, test.want)
		}
	}
}
