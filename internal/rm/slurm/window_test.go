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
	"rmreplay/internal/workload"
)

// ranOn makes a job one that was recorded to run on the nodes from the given second to
// another.
func ranOn(nodes string, from, to int) func(*hpc.Job) {
	return func(j *hpc.Job) {
		j.Recorded = &hpc.Recorded{Start: after(from), End: after(to), Nodes: nodes, Processors: 4}
		j.RunTime = time.Duration(to-from) * time.Second
	}
}

// When the window begins the machine is as it was: preset jobs run where and since
// when they did, and pending jobs have waited since they were submitted.
func TestWindow(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Start = after(3600)
	s.workload.Jobs = workload.JobsOf(
		// It asks for less than it got and depends on what nobody knows any more.
		job("old", -5000, 9000, with(tasks(4), ranOn("c1", -3000, 6000))),
		job("two", 0, 9000, with(tasks(8), ranOn("c[3-4]", 700, 5000))),
		// It waited for both of the GPU nodes, which were free; Slurm would have
		// started it at once.
		job("pending", 1000, 60, with(tasks(4), on("g1"))),
		job("blocked", 1000, 60, with(tasks(4), on("c1"))),
		job("later", 4000, 60, with(tasks(4), on("c2"))),
	)
	s.workload.Jobs.Change(0, func(j *hpc.Job) { j.TimeLimit = 4 * time.Hour })
	s.workload.Jobs.Change(1, func(j *hpc.Job) { j.TimeLimit = 2 * time.Hour })
	s.workload.Reservations = []hpc.ReservationEvent{{At: after(1200), Action: "create", Reservation: hpc.Reservation{
		Name: "course", Start: after(4500), Duration: time.Hour, Nodes: "g2", Users: []string{"ben"},
	}}}
	s.workload.NodeEvents = []hpc.NodeEvent{{At: after(2000), Nodes: "c2", State: "drain"}, {At: after(4200).Add(300 * time.Millisecond), Nodes: "c2", State: "resume"}}
	o := s.play(t)
	o.want(`
		old     COMPLETED -3000-6000 c1
		two     COMPLETED 700-5000 c[3-4]
		pending COMPLETED 3600-3660 g1
		blocked COMPLETED 6001-6061 c1
		later   COMPLETED 4201-4261 c2`)
	for _, id := range []string{"pending", "blocked"} {
		if row := o.rows[id]; row.Submit != after(1000) {
			t.Errorf("%s was submitted at %v, want 1000", id, since(row.Submit))
		}
	}
	if len(o.result.LatePresets) != 0 {
		t.Errorf("late: %v", o.result.LatePresets)
	}
	o.drained()
}

// Reservations that a window finds are there although preset jobs run on their nodes, or
// may run into them, and the jobs that wait for one start in it when the window begins.
func TestWindowReservations(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Start = after(3600)
	in := func(name string) func(*hpc.Job) { return func(j *hpc.Job) { j.Reservation = name } }
	long := func(j *hpc.Job) { j.TimeLimit = 10 * time.Hour }
	s.workload.Jobs = workload.JobsOf(
		job("inside", 100, 0, with(tasks(4), in("active"), ranOn("c1", 700, 5000), long)),
		job("into", 100, 0, with(tasks(4), ranOn("c3", 800, 5000), long)),
		job("waits", 1000, 60, with(tasks(4), in("active"))),
		job("served", 1000, 60, with(tasks(4), in("service"))),
		job("new", 4000, 60, with(tasks(4), in("active"))),
		job("blocked", 4100, 60, with(tasks(4), on("g1"))),
	)
	reserve := func(at int, r hpc.Reservation) {
		r.Users, r.Duration = []string{"ann"}, 2*time.Hour
		s.workload.Reservations = append(s.workload.Reservations, hpc.ReservationEvent{At: after(at), Action: "create", Reservation: r})
	}
	reserve(3600, hpc.Reservation{Name: "active", Start: after(-100), Nodes: "c[1-2]"}) // as read from scontrol
	reserve(3600, hpc.Reservation{Name: "later", Start: after(4600), Nodes: "c3,g1", Flags: []string{"MAINT"}})
	reserve(3000, hpc.Reservation{Name: "service", Start: after(3000), Nodes: "c4", Flags: []string{"MAINT"}})
	s.workload.Reservations = append(s.workload.Reservations, hpc.ReservationEvent{At: after(4500), Action: "update",
		Reservation: hpc.Reservation{Name: "active", Duration: 3 * time.Hour}})
	s.workload.Sort()
	o := s.play(t)
	o.want(`
		inside  COMPLETED 700-5000 c1
		into    COMPLETED 800-5000 c3
		waits   COMPLETED 3600-3660 c2
		served  COMPLETED 3600-3660 c4
		new     COMPLETED 4001-4061 c2
		blocked COMPLETED 11820-11880 g1`)
	if row := o.rows["waits"]; row.Eligible != after(1000) {
		t.Errorf("it was eligible at %v, want 1000: its reservation was active", since(row.Eligible))
	}
	for _, w := range o.warnings {
		t.Errorf("warning %+v", w)
	}
}

// Preset jobs start in the second in which they did, also shortly after each other, and so
// end by themselves where they ran up to their limit.
func TestPresetsStartOnTime(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Start = after(3600)
	s.workload.Jobs = workload.JobsOf(
		job("first", 100, 0, with(tasks(4), ranOn("c1", 700, 4300))),
		job("too", 100, 0, with(tasks(4), ranOn("c2", 700, 4300))),
		job("next", 100, 0, with(tasks(4), ranOn("c3", 701, 4301))),
		job("soon", 100, 0, with(tasks(4), ranOn("c4", 703, 4303))),
	)
	s.play(t).want(`
		first COMPLETED 700-4300 c1
		too   COMPLETED 700-4300 c2
		next  COMPLETED 701-4301 c3
		soon  COMPLETED 703-4303 c4`)
}

// A window before which nothing happened is scheduled as the site does, too.
func TestEmptyWindow(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Start = after(3600)
	s.workload.Jobs = workload.JobsOf(job("first", 3700, 60, nil))
	s.workload.Actions = []hpc.Action{{At: after(3650), Run: []string{"scontrol", "show", "config"}}}
	if o := s.play(t); len(o.warnings) > 0 {
		t.Errorf("warnings %+v", o.warnings)
	}
	log, err := os.ReadFile(filepath.Join(s.logs, "actions.log"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "bf_interval=30"; !strings.Contains(string(log), want) {
		t.Errorf("the configuration in the window lacks %s:\n%s", want, log)
	}
}

// A preset job whose node is not there does not run, and the result says so.
func TestWindowLate(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Start = after(600)
	s.workload.Jobs = workload.JobsOf(job("lost", 0, 900, with(tasks(4), ranOn("c1", 100, 1000))))
	s.workload.NodeEvents = []hpc.NodeEvent{{At: after(50), Nodes: "c1", State: "down"}, {At: after(700), Nodes: "c1", State: "resume"}}
	o := s.play(t)
	if !slices.Equal(o.result.LatePresets, []string{"lost"}) {
		t.Errorf("late: %v, want [lost]", o.result.LatePresets)
	}
}

// With fixed priorities the order is the recorded one, whatever Slurm would compute.
func TestFixedPriorities(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t))}
	recorded := func(priority uint32) func(*hpc.Job) {
		return func(j *hpc.Job) { j.Recorded = &hpc.Recorded{Priority: priority} }
	}
	s.workload.Jobs = workload.JobsOf(
		job("holder", 0, 300, with(on("g1"), tasks(4))),
		job("low", 10, 100, with(on("g1"), tasks(4), recorded(100))),
		job("high", 20, 100, with(on("g1"), tasks(4), recorded(4_000_000_000))),
		job("middle", 30, 100, with(on("g1"), tasks(4), recorded(5000))),
		// Cancelled before it started: Slurm has no priority of such a job on record.
		job("never", 40, 100, func(j *hpc.Job) { j.Recorded = &hpc.Recorded{End: after(60), State: hpc.Cancelled} }),
	)
	fixed, err := replay.NewFixedPriorities((&Engine{}).Can())
	if err != nil {
		t.Fatal(err)
	}
	s.controller = replay.Rewriting(replay.NewRigid(&s.workload), fixed.Rewrite)
	o := s.play(t)
	starts := map[string]float64{}
	for _, id := range []string{"high", "middle", "low"} {
		starts[id] = since(o.rows[id].Start)
	}
	if !(starts["high"] < starts["middle"] && starts["middle"] < starts["low"]) {
		t.Errorf("starts %v, want high, middle, low", starts)
	}
	if fixed.Unknown != 1 {
		t.Errorf("%d jobs without a priority, want 1", fixed.Unknown)
	}
}

// The record has the priority with which a job started, with all the age that it had gained, also
// of each task of an array.
func TestPriorityAtStart(t *testing.T) {
	files := clusterFiles(t,
		"AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd\nPriorityWeightAge=3600\nPriorityMaxAge=0-01:00:00\nPriorityCalcPeriod=1",
		"PriorityType=priority/basic", "PriorityType=priority/multifactor")
	files["accounts.sacctmgr"] = "add cluster tiny\nadd account physics\nadd user ann account=physics\n"
	s := scenario{cluster: writeCluster(t, files), accounting: true}
	s.workload.Jobs = workload.JobsOf(
		job("holder", 0, 1000, with(on("g1"), tasks(4))),
		job("waits", 100, 100, with(on("g1"), tasks(4))), // 900 s, and a point for each
		job("array", 400, 100, with(on("g1"), tasks(4), func(j *hpc.Job) { j.Array = "1-2" })),
		job("at once", 500, 100, with(on("c1"), tasks(4))),
	)
	o := s.play(t)
	for id, most := range map[string]uint32{"waits": 900, "array_1": 701, "array_2": 802} {
		if got := o.rows[id].Priority; got > most || got < most-100 { // it is computed every minute
			t.Errorf("%s started with priority %d at %v, want about %d", id, got, since(o.rows[id].Start), most)
		}
	}
}

// Who waits for a preset job is submitted after it, and waits for its end.
func TestWindowDependencies(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t))}
	s.workload.Start = after(3600)
	depends := func(on string) func(*hpc.Job) { return func(j *hpc.Job) { j.Dependency = on } }
	long := func(j *hpc.Job) { j.TimeLimit = 3 * time.Hour }
	s.workload.Jobs = workload.JobsOf(
		job("preset", 0, 0, with(tasks(4), ranOn("c1", 700, 5000), long)),
		job("next", 100, 60, with(tasks(4), on("c2"), depends("afterok:preset"))),
		job("last", 200, 60, with(tasks(4), on("c2"), depends("afterok:next"))),
	)
	o := s.play(t)
	o.want(`
		preset COMPLETED 700-5000 c1
		next   COMPLETED 5001-5061 c2
		last   COMPLETED 5062-5122 c2`)
	o.drained()
}

// An administrator's actions take effect at their time, one after the other, before
// what is submitted at the same instant.
func TestActions(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t))}
	changed := clusterFiles(t, "PartitionName=batch Nodes=ALL", "PartitionName=batch Nodes=c[1-2]")
	path := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(path, []byte(changed["slurm.conf"]), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "gres.conf"), []byte(changed["gres.conf"]), 0o600); err != nil {
		t.Fatal(err)
	}
	scontrol := func(at int, args ...string) hpc.Action {
		return hpc.Action{At: after(at), Run: append([]string{"scontrol"}, args...)}
	}
	s.workload.Jobs = workload.JobsOf(
		job("waits", 100, 60, with(tasks(4), on("c1"))),
		job("boosted", 400, 60, with(tasks(4), on("c1"))), // behind "blocker" until it is moved up
		job("blocker", 300, 500, with(tasks(4), on("c1"))),
		job("first", 350, 60, with(tasks(4), on("c1"))),
		job("small", 2000, 60, tasks(8)),  // fits the two nodes that are left
		job("large", 2000, 60, tasks(12)), // does not
		job("suspended", 3000, 100, with(tasks(4), on("c2"))),
	)
	s.workload.Jobs.Sort()
	s.workload.Actions = []hpc.Action{
		scontrol(100, "update", "PartitionName=batch", "State=DOWN"),
		scontrol(200, "update", "PartitionName=batch", "State=UP"),
		scontrol(500, "top", "4"),
		scontrol(600, "update", "NodeName=nosuch", "State=DOWN", "Reason=test"),
		{At: after(1900), SlurmConf: path},
		{At: after(1950), Shell: "sleep 25; scontrol show partition batch | grep Nodes="},
		scontrol(3010, "suspend", "7"), scontrol(3110, "resume", "7"),
	}
	s.drainLimit = time.Hour
	o := s.play(t)
	for id, want := range map[string][2]float64{ // the earliest and the latest start
		"waits": {200, 260}, "blocker": {300, 330}, "boosted": {800, 830}, "first": {860, 900}, "small": {2000, 2060}, "suspended": {3000, 3060},
	} {
		if start := since(o.rows[id].Start); start < want[0] || start > want[1] {
			t.Errorf("%s started at %v, want %v", id, start, want)
		}
	}
	if row := o.rows["suspended"]; row.End.Sub(row.Start) != 200*time.Second || row.Suspended != 100*time.Second {
		t.Errorf("the suspended job ran %v and was stopped for %v, want 200 s and 100 s", row.End.Sub(row.Start), row.Suspended)
	}
	if row := o.rows["large"]; !row.Start.IsZero() && row.State != hpc.Rejected {
		t.Errorf("large started at %v on a partition of two nodes", since(row.Start))
	}
	log, err := os.ReadFile(filepath.Join(s.logs, "actions.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Nodes=c[1-2]", "scontrol update PartitionName=batch State=DOWN"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("logs/actions.log lacks %q:\n%s", want, log)
		}
	}
	var failed []string
	for _, w := range o.warnings {
		if w.Code == "action-failed" {
			failed = append(failed, w.Text)
		}
	}
	if len(failed) != 1 || !strings.HasPrefix(failed[0], "at 2024-01-01T00:10:00Z, scontrol update NodeName=nosuch") {
		t.Errorf("failed actions %q, want the one with the node that does not exist:\n%s", failed, log)
	}
	if kept, err := os.ReadFile(filepath.Join(s.logs, "slurm.conf.2024-01-01T00:31:40Z")); err != nil || !strings.Contains(string(kept), "Nodes=c[1-2]") {
		t.Errorf("the slurm.conf of the action is not in the logs: %v\n%s", err, kept)
	}
}

// What Slurm's commands say of an error counts where they exit with 0.
func TestComplaints(t *testing.T) {
	for said, want := range map[string]bool{
		"sacctmgr: error: Invalid unit type (x).": true, "slurm_update error: Invalid node name specified": true,
		"error: resolve_ctls_from_dns_srv": true, "ok\nscontrol: error: no": true,
		"": false, "1 job(s) without an error: fine": false, "Reason=power error: gone": false,
	} {
		if complains.MatchString(said) != want {
			t.Errorf("%q: want %v", said, want)
		}
	}
}

// A node that is down stays so when slurmctld is reconfigured, for which it sends every
// node a message that none answers.
func TestDownThroughReconfigure(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t))}
	s.workload.NodeEvents = []hpc.NodeEvent{
		{At: after(100), Nodes: "c1", State: "down", Reason: "Not responding"},
		{At: after(500), Nodes: "c1", State: "resume"},
	}
	s.workload.Actions = []hpc.Action{
		{At: after(100), Run: []string{"scontrol", "reconfigure"}},
		{At: after(200), Run: []string{"scontrol", "reconfigure"}},
	}
	s.workload.Jobs = workload.JobsOf(job("waits", 150, 60, on("c1")))
	o := s.play(t)
	o.want(`waits COMPLETED 500-560 c1`)
	for _, w := range o.warnings {
		t.Errorf("warning %+v", w)
	}
}

// The fair-share usage is what the workload says when the window begins, decay and the
// usage of preset jobs taken into account.
func TestInitialUsage(t *testing.T) {
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
	s := scenario{cluster: writeCluster(t, files), accounting: true}
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

// rawUsage is what sshare showed under RawUsage, by "account|user|partition" in lower case.
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

// Preset jobs' usage is taken off where slurmctld will add it, at the rate at which it
// does, and no reset comes between slurmctld's start and the window's.
func TestInitialUsageOfPresets(t *testing.T) {
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
	s := scenario{cluster: writeCluster(t, files), accounting: true}
	s.workload.Start = after(7200)
	preset := func(id, user, account, node string) *hpc.Job {
		return job(id, -3600, 0, with(tasks(4), ranOn(node, -3600, 9000), func(j *hpc.Job) { // across midnight
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
	const preroll = 4 * 3 * 3600 // what four processors use between the start of the jobs and of the window
	for who, want := range map[string]float64{
		"whole||": 200_000, "whole|ben|": 100_000, "whole|ann|": preroll,
		"first|cyd|": 300_000, "second|cyd|": 400_000,
		"split|dot|": 500_000, "split|dot|urgent": 0, "asked|eli|": 600_000,
		"used||": 50_000, "used|flo|": preroll, // more than the workload says, which is not to be helped
	} {
		if got, there := used[who]; !there || math.Abs(got-want) > want/100 {
			t.Errorf("%s has used %v, want %v within 1 %%", who, got, want)
		}
	}
	// 42,200 s of 2,050,000.
	if w := o.warnings; len(w) != 1 || w[0].Code != "usage-exceeded" || !strings.HasSuffix(w[0].Text, "by 2.1 % of all that has been used: used/flo") || !w[0].AffectsResult {
		t.Errorf("warnings %+v, want one of used/flo", w)
	}
}

// Limits on what has been used find the usage that the workload gives; of those that do
// not the result says so.
func TestUsageLimits(t *testing.T) {
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
	s := scenario{cluster: writeCluster(t, files), accounting: true, drainLimit: time.Hour}
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
	in := needSlurm(t, true)
	e := s.start(t.Context(), t, in)
	want := "2 limits are on what has been used, of which they find nothing when the replay begins: left GrpTRESMins=mem=5M; QOS wall GrpWall=01:00:00"
	if w := e.Warnings(); len(w) != 1 || w[0].Code != "limits-from-zero" || w[0].Text != want || !w[0].AffectsResult {
		t.Errorf("warnings %+v, want %q", w, want)
	}
}

// What an administrator does before a window begins is still so in it: slurmctld is
// reconfigured then with the slurm.conf in force and keeps partitions as they are. Later
// it keeps what the site's configuration says.
func TestActionsBeforeWindow(t *testing.T) {
	s := scenario{cluster: writeCluster(t, clusterFiles(t))}
	changed := clusterFiles(t, "bf_interval=30", "bf_interval=45", "PartitionName=batch Nodes=ALL", "PartitionName=batch MaxNodes=3 Nodes=ALL")
	path := filepath.Join(t.TempDir(), "slurm.conf")
	for _, name := range []string{"slurm.conf", "gres.conf"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte(changed[name]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	scontrol := func(at int, args ...string) hpc.Action {
		return hpc.Action{At: after(at), Run: append([]string{"scontrol"}, args...)}
	}
	s.workload.Start = after(3600)
	s.workload.Jobs = workload.JobsOf(
		job("two partitions", 0, 9000, with(tasks(4), ranOn("c1", 700, 5000), func(j *hpc.Job) { j.Partition = "urgent,batch" })),
		job("closed", 3700, 60, func(j *hpc.Job) { j.Partition = "urgent" }),
	)
	s.workload.Jobs.Change(0, func(j *hpc.Job) { j.TimeLimit = 2 * time.Hour })
	s.workload.Actions = []hpc.Action{
		{At: after(800), SlurmConf: path},
		scontrol(900, "update", "PartitionName=urgent", "State=DOWN", "MaxTime=50"),
		scontrol(1000, "create", "PartitionName=new", "Nodes=c4"),
		scontrol(3000, "show", "config"), scontrol(3700, "show", "config"), scontrol(3701, "-o", "show", "partition"),
		scontrol(4000, "reconfigure"), scontrol(4100, "-o", "show", "partition"), scontrol(4101, "show", "config"),
	}
	o := s.play(t)
	if row := o.rows["two partitions"]; row.Partition != "urgent" {
		t.Errorf("it ran in partition %q, want urgent", row.Partition)
	}
	if start := since(o.rows["closed"].Start); start < 4000 || start > 4060 {
		t.Errorf("a job of a partition that was down until 4000 started at %v", start)
	}
	log, err := os.ReadFile(filepath.Join(s.logs, "actions.log"))
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{} // by action and time
	for _, part := range strings.Split(string(log), "\n[")[1:] {
		what, text, _ := strings.Cut(part, "\n")
		said[what] = text
	}
	show := func(at int, what string) string {
		text, there := said[after(at).String()+"] scontrol "+what]
		if !there {
			t.Fatalf("logs/actions.log has no %q of %d:\n%s", what, at, log)
		}
		return text
	}
	has := func(at int, what string, patterns ...string) {
		t.Helper()
		for _, p := range patterns {
			text := show(at, what)
			if !regexp.MustCompile(p).MatchString(text) {
				t.Errorf("at %d there is no %q in\n%s", at, p, text)
			}
		}
	}
	has(3000, "show config", "bf_interval=-1")
	has(3700, "show config", "bf_interval=45")
	has(3701, "-o show partition", "PartitionName=urgent .*MaxTime=00:50:00.*State=DOWN", "PartitionName=batch .*MaxNodes=3 ", "PartitionName=new .*Nodes=c4")
	has(4100, "-o show partition", "PartitionName=urgent .*MaxTime=UNLIMITED.*State=UP", "PartitionName=batch .*MaxNodes=3 ")
	has(4101, "show config", "bf_interval=45", `ReconfigFlags *= \(null\)`)
	if strings.Contains(show(4100, "-o show partition"), "PartitionName=new") {
		t.Error("slurmctld keeps partitions that are not in slurm.conf although the site's ReconfigFlags do not say so")
	}
	for _, w := range o.warnings {
		t.Errorf("warning %+v", w)
	}
}

func TestCheckPreRoll(t *testing.T) {
	for line, want := range map[string]string{
		"scontrol update NodeName=c1 Weight=5":                       "Weight",
		"scontrol update node=c1 features=a":                         "Features",
		"scontrol update NodeName=c1 State=DRAIN Reason=Weight":      "",
		"scontrol update PartitionName=batch State=DOWN MaxTime=5":   "",
		"scontrol update PartitionName=batch TRESBillingWeights=x=1": "TRESBillingWeights",
		"scontrol delete PartitionName=batch":                        "that it is gone",
		"scontrol delete ReservationName=x":                          "",
		"scontrol create PartitionName=new Nodes=c1":                 "",
		"scontrol update JobId=5 Features=a":                         "",
		"sacctmgr modify user set Weight=1":                          "",
	} {
		err := CheckPreRoll(hpc.Action{At: after(5), Run: strings.Fields(line)})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "("+want+")")) {
			t.Errorf("%s: %v, want one of %q", line, err, want)
		}
	}
}
