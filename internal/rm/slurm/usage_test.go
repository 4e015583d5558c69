package slurm

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/workload"
)

// TestInitialUsage: when the window begins, the fair-share usage is equal to the workload's,
// with decay and with the usage of preset jobs.
func TestInitialUsage(t *testing.T) { eachSlurm(t, testInitialUsage) }

func testInitialUsage(t *testing.T, slurm *install.Installation) {
	files := clusterFiles(t,
		"AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd\nPriorityDecayHalfLife=0-02:00:00\nPriorityWeightFairshare=100000\nPriorityCalcPeriod=1",
		"PriorityType=priority/basic", "PriorityType=priority/multifactor")
	files["accounts.sacctmgr"] = `add cluster tiny
add account physics fairshare=50
add account optics parent=physics fairshare=50
add account biology fairshare=50
add user ann account=optics fairshare=10
add user ben account=biology fairshare=10
`
	s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
	s.workload.Start = after(7200)
	s.workload.Jobs = workload.JobsOf(
		job("preset", 0, 9000, with(tasks(4), ranOn("c1", 0, 9000), func(j *hpc.Job) { j.Account = "optics" })),
		job("holder", 7300, 1000, with(tasks(4), on("g1"), func(j *hpc.Job) { j.User = "ben" })),
		job("ann's", 7400, 60, with(tasks(4), on("g1"))),
		job("ben's", 7500, 60, with(tasks(4), on("g1"), func(j *hpc.Job) { j.User = "ben" })),
	)
	s.workload.Jobs.Change(0, func(j *hpc.Job) { j.TimeLimit = 4 * time.Hour })
	s.workload.Usage = []hpc.Usage{
		{Account: "optics", Raw: 1_000_000}, {Account: "optics", User: "ann", Raw: 900_000},
		{Account: "physics", Raw: 1_500_000}, {Account: "biology", User: "ben", Raw: 50_000}, {Account: "nosuch", Raw: 1},
	}
	s.workload.Epoch = epoch
	s.usage, s.accrued = replay.InitialUsage(&s.workload, s.workload.Begin().Add(-lead), 2*time.Hour)
	s.workload.Actions = []hpc.Action{{At: s.workload.Start, Run: []string{"sshare", "-anP", "-o", "Account,User,RawUsage"}}}
	o := s.play(t)
	log, err := os.ReadFile(filepath.Join(s.logs, "actions.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]float64{
		`optics\|\|`: 1_000_000, `optics\|ann\|`: 900_000, `physics\|\|`: 1_500_000, `biology\|ben\|`: 50_000,
	} {
		m := regexp.MustCompile(line + `(\d+)`).FindStringSubmatch(string(log))
		if m == nil {
			t.Errorf("sshare says nothing of %s:\n%s", line, log)
			continue
		}
		if got, _ := strconv.ParseFloat(m[1], 64); math.Abs(got-want) > want/100 {
			t.Errorf("%s has used %v, want %v within 1 %%", line, got, want)
		}
	}
	if a, b := o.rows["ann's"].Start, o.rows["ben's"].Start; a < b {
		t.Errorf("ann, who has used more, starts at %v, ben at %v", since(a), since(b))
	}
	if !slices.ContainsFunc(o.warnings, func(w Warning) bool { return w.Code == "usage-unknown" }) {
		t.Error("no warning about the usage of an account that does not exist")
	}
}

// rawUsage returns sshare's column RawUsage by "account|user|partition" in lower case.
func rawUsage(t *testing.T, s *scenario) map[string]float64 {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(s.logs, "actions.log"))
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]float64{}
	for _, m := range regexp.MustCompile(`(?m)^ *([^|\n]*\|[^|]*\|[^|]*)\|(\d+)$`).FindAllStringSubmatch(string(log), -1) {
		used[m[1]], _ = strconv.ParseFloat(m[2], 64)
	}
	return used
}

// TestInitialUsageOfPresets: the usage of preset jobs is subtracted from the association to
// which slurmctld adds it, at slurmctld's rate. slurmctld does not reset usage between its
// start and the window's.
func TestInitialUsageOfPresets(t *testing.T) { eachSlurm(t, testInitialUsageOfPresets) }

func testInitialUsageOfPresets(t *testing.T, slurm *install.Installation) {
	files := clusterFiles(t,
		"AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageEnforce=associations,limits,qos\nPriorityDecayHalfLife=0\nPriorityUsageResetPeriod=DAILY\nPriorityWeightFairshare=100000\nPriorityCalcPeriod=1",
		"PriorityType=priority/basic", "PriorityType=priority/multifactor")
	files["users"] += "cyd:21003:staff:21000\ndot:21004:staff:21000\neli:21005:staff:21000\nflo:21006:staff:21000\n"
	files["accounts.sacctmgr"] = `add cluster tiny
add qos free usagefactor=0
add account whole
add account first
add account second
add account split
add account asked
add account used
add user ann account=whole
add user ben account=whole qos=normal,free
add user cyd account=first
add user cyd account=second
modify user set defaultaccount=second where name=cyd
add user dot account=split partition=urgent
add user dot account=split
add user eli account=asked
add user flo account=used
`
	s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
	s.workload.Start = after(7200)
	preset := func(id, user, account, node string) *hpc.Job {
		return job(id, -3600, 0, with(tasks(4), ranOn(node, -3600, 9000), func(j *hpc.Job) { // over midnight
			j.User, j.Account, j.TimeLimit = user, account, 6*time.Hour
		}))
	}
	s.workload.Jobs = workload.JobsOf(
		preset("account alone", "ann", "whole", "c1"), preset("free", "ben", "whole", "c2"), preset("default account", "cyd", "", "c3"),
		preset("partition", "dot", "split", "c4"), preset("no processors", "eli", "asked", "g1"), preset("more", "flo", "used", "g2"),
	)
	s.workload.Jobs.Change(1, func(j *hpc.Job) { j.QOS = "free" })
	s.workload.Jobs.Change(4, func(j *hpc.Job) { j.Recorded.Processors = 0 })
	s.workload.Usage = []hpc.Usage{
		{Account: "whole", Raw: 200_000}, {Account: "whole", User: "ben", Raw: 100_000},
		{Account: "first", User: "cyd", Raw: 300_000}, {Account: "second", User: "cyd", Raw: 400_000},
		{Account: "split", User: "dot", Raw: 500_000}, {Account: "asked", User: "eli", Raw: 600_000},
		{Account: "used", User: "flo", Raw: 1000}, {Account: "used", Raw: 50_000},
	}
	s.workload.Epoch = epoch
	s.usage, s.accrued = replay.InitialUsage(&s.workload, s.workload.Begin().Add(-lead), hpc.Unlimited)
	s.workload.Actions = []hpc.Action{{At: s.workload.Start, Run: []string{"sshare", "-amP", "-o", "Account,User,Partition,RawUsage"}}}
	o := s.play(t)
	used := rawUsage(t, &s)
	const preroll = 4 * 3 * 3600 // usage of four processors from the start of the jobs to the start of the window
	for who, want := range map[string]float64{
		"whole||": 200_000, "whole|ben|": 100_000, "whole|ann|": preroll,
		"first|cyd|": 300_000, "second|cyd|": 400_000,
		"split|dot|": 500_000, "split|dot|urgent": 0, "asked|eli|": 600_000,
		"used||": 50_000, "used|flo|": preroll, // more than the workload's usage, which is unavoidable
	} {
		if got, there := used[who]; !there || math.Abs(got-want) > want/100 {
			t.Errorf("%s has used %v, want %v within 1 %%", who, got, want)
		}
	}
	// The excess is 42,200 s of 2,050,000 s.
	if w := o.warnings; len(w) != 1 || w[0].Code != "usage-exceeded" || !strings.Contains(w[0].Text, "by 2.1 % of all usage, ") || !strings.HasSuffix(w[0].Text, "used more: used/flo") || !w[0].AffectsResult {
		t.Errorf("warnings %+v, want one of used/flo", w)
	}
}

// TestUsageLimits: the workload's usage counts towards limits on usage. A warning names the limits
// that start from zero.
func TestUsageLimits(t *testing.T) { eachSlurm(t, testUsageLimits) }

func testUsageLimits(t *testing.T, slurm *install.Installation) {
	files := clusterFiles(t,
		"AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageEnforce=safe\nPriorityCalcPeriod=1",
		"PriorityType=priority/basic", "PriorityType=priority/multifactor")
	accounts := `add cluster tiny
add account spent grptresmins=cpu=100
add account left grptresmins=cpu=100000,billing=100000
add user ann account=spent
add user ben account=left
`
	files["accounts.sacctmgr"] = accounts
	s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true, drainLimit: time.Hour}
	s.workload.Jobs = workload.JobsOf(
		job("over", 10, 60, func(j *hpc.Job) { j.TimeLimit = 2 * time.Minute }),
		job("under", 10, 60, func(j *hpc.Job) { j.User = "ben" }),
	)
	s.workload.Usage = []hpc.Usage{{Account: "spent", User: "ann", Raw: 1_000_000}, {Account: "left", User: "ben", Raw: 1_000_000}}
	s.workload.Epoch = epoch
	s.usage, s.accrued = replay.InitialUsage(&s.workload, s.workload.Begin().Add(-lead), 7*24*time.Hour)
	o := s.play(t)
	o.want(`
		over  PENDING - -
		under COMPLETED 11-71 c1`)
	for _, w := range o.warnings {
		t.Errorf("warning %+v", w)
	}

	files["accounts.sacctmgr"] = accounts + "add qos wall grpwall=60\nmodify account where name=left set grptresmins=mem=5\n"
	s.cluster = writeCluster(t, files)
	s.workload.Jobs = s.workload.Jobs.First(0)
	e := s.start(t.Context(), t)
	want := "2 limits on usage start from zero in the replay: left GrpTRESMins=mem=5M; QOS wall GrpWall=01:00:00"
	if w := e.takeWarnings(); len(w) != 1 || w[0].Code != "limits-from-zero" || w[0].Text != want || !w[0].AffectsResult {
		t.Errorf("warnings %+v, want %q", w, want)
	}
}
