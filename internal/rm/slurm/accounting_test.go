package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/workload"
)

// TestAccounting: associations, QOS and fair share decide which jobs run and when, and slurmdbd's
// records are equal to the run's record.
func TestAccounting(t *testing.T) { eachSlurm(t, testAccounting) }

func testAccounting(t *testing.T, slurm *install.Installation) {
	files := clusterFiles(t,
		"AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageEnforce=associations,limits,qos\nPriorityWeightFairshare=100000\nPriorityWeightQOS=1000000\nPriorityCalcPeriod=1",
		"PriorityType=priority/basic", "PriorityType=priority/multifactor")
	files["accounts.sacctmgr"] = `# The site's accounts.
add cluster tiny
add account physics fairshare=50
add account biology fairshare=50
add qos high priority=100
add user ann account=physics fairshare=10 maxjobs=1 qos=normal,high
add user ben account=biology fairshare=10 qos=normal,high
`
	s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
	s.workload.Jobs = workload.JobsOf(
		// MaxJobs=1: the jobs run one after the other although the machine is empty.
		job("one", 10, 60, on("c1")),
		job("two", 10, 60, on("c2")),
		job("array", 10, 20, with(on("c3"), func(j *hpc.Job) { j.Array = "0-1"; j.Name = "a|b" })),

		// Ann has used the machine, so ben's job comes first. The job with QOS high comes before both.
		job("holder", 1000, 300, with(on("g1"), tasks(4))),
		job("ann's", 1010, 60, with(on("g1"), tasks(4))),
		job("ben's", 1015, 60, with(on("g1"), tasks(4), func(j *hpc.Job) { j.User = "ben" })),
		job("high", 1020, 60, with(on("g1"), tasks(4), func(j *hpc.Job) { j.QOS = "high" })),
		job("cancelled", 1020, 60, with(on("g1"), tasks(4), cancelledAfter(30))),

		job("stranger", 1020, 60, func(j *hpc.Job) { j.User = "eve" }),
		job("account", 1020, 60, func(j *hpc.Job) { j.Account = "biology" }),
		job("qos", 1020, 60, func(j *hpc.Job) { j.QOS = "nosuch" }),

		job("requeued", 2000, 200, func(j *hpc.Job) { j.NodeList, j.User = "c2", "ben" }),
		job("killed", 2000, 200, with(on("c3"), noRequeue)),
	)
	s.workload.NodeEvents = []hpc.NodeEvent{
		{At: after(2100), Nodes: "c[2-3]", State: "down"},
		{At: after(2400), Nodes: "c[2-3]", State: "resume"},
	}
	o := s.play(t)
	// slurmctld also waits for slurmdbd in real time here. So a job may start at once or in the
	// next cycle, but the order of the jobs is fixed.
	for _, w := range []struct {
		job   string
		state hpc.State
		start float64 // seconds after the epoch, plus or minus slack
	}{
		{"one", hpc.Completed, 11}, {"two", hpc.Completed, 72}, {"array_0", hpc.Completed, 133}, {"array_1", hpc.Completed, 154},
		{"holder", hpc.Completed, 1001}, {"high", hpc.Completed, 1302}, {"ben's", hpc.Completed, 1363}, {"ann's", hpc.Completed, 1424},
		{"cancelled", hpc.Cancelled, -1}, {"stranger", hpc.Rejected, -1}, {"account", hpc.Rejected, -1}, {"qos", hpc.Rejected, -1},
		{"requeued", hpc.Completed, 2400}, {"killed", hpc.NodeFail, 2001},
	} {
		const slack = 5
		row := o.rows[w.job]
		if start := since(row.Start); row.State != w.state || start < w.start-slack || start > w.start+slack || w.start < 0 != (start < 0) {
			t.Errorf("got %s, want %s with start %v", describe(&row), w.state, w.start)
		}
	}
	if got := o.rows["requeued"].Restarts; got != 1 {
		t.Errorf("requeued has %d restarts, want 1", got)
	}
	o.drained()
	differences, err := compareSacct(o.sacct, o.list...)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		t.Errorf("the record and slurmdbd differ: %s", d)
	}
	if t.Failed() {
		t.Log(o.sacct)
	}
	log, err := os.ReadFile(filepath.Join(s.logs, "slurmdbd.log"))
	if err != nil || strings.Contains(string(log), "mysql_real_connect failed") {
		t.Errorf("slurmdbd did not reach its database at once (%v):\n%s", err, log)
	}
}

// TestResourceLimits: limits on generic resources and licences apply from the first job on. At a
// site, slurmctld has registered these resources long ago. slurmdbd gets those keys of the site's
// slurmdbd.conf that its release knows.
func TestResourceLimits(t *testing.T) { eachSlurm(t, testResourceLimits) }

func testResourceLimits(t *testing.T, slurm *install.Installation) {
	files := clusterFiles(t, "AccountingStorageType=accounting_storage/none",
		"AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageEnforce=associations,limits,qos\nAccountingStorageTRES=License/Solver,gres/gpu,gres/gpu:a100")
	files["accounts.sacctmgr"] = `add cluster tiny
add account physics GrpTRES=gres/gpu=1
add account biology GrpTRES=license/solver=1
add qos few MaxTRESPU=gres/gpu:a100=1
add user ann account=physics,biology qos=normal
add user ben account=biology qos=normal,few
`
	// slurmdbd would not start with a key that it does not know.
	files["slurmdbd.conf"] = "DbdHost=db.site\nStorageType=accounting_storage/mysql\nStoragePass=secret\nPurgeJobAfter=1hour\nTLSType=tls/s2n\n" +
		"Parameters=PreserveCaseUser\nAllowNoDefAcct=yes\nAllResourcesAbsolute=yes\nDisableCoordDBD=yes\n"
	s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
	gpu := func(node, account string) func(*hpc.Job) {
		return func(j *hpc.Job) { j.NodeList, j.GPUs, j.Account = node, "1", account }
	}
	licence := func(j *hpc.Job) { j.Account, j.Licenses = "biology", "solver:1" }
	few := func(gpus string) func(*hpc.Job) {
		return func(j *hpc.Job) { j.GPUs, j.User, j.Account, j.QOS = gpus, "ben", "biology", "few" }
	}
	s.workload.Jobs = workload.JobsOf(
		job("gpu1", 10, 60, gpu("g1", "physics")),
		job("gpu2", 10, 60, gpu("g2", "physics")),
		job("free1", 500, 60, gpu("g1", "biology")),
		job("free2", 500, 60, gpu("g2", "biology")),
		job("licence1", 1000, 60, with(on("c1"), licence)),
		job("licence2", 1000, 60, with(on("c2"), licence)),
		job("few1", 1500, 60, few("a100:1")),
		job("few2", 1500, 60, few("a100:1")),
		job("few3", 1500, 60, few("v100:1")),
	)
	o := s.play(t)
	o.drained()
	for _, w := range o.warnings {
		t.Errorf("warning %s: %s", w.Code, w.Text)
	}
	for _, pair := range []struct {
		first, second string
		waits         bool
	}{{"gpu1", "gpu2", true}, {"free1", "free2", false}, {"licence1", "licence2", true}, {"few1", "few2", true}, {"few1", "few3", false}} {
		first, second := o.rows[pair.first], o.rows[pair.second]
		if first.State != hpc.Completed || second.State != hpc.Completed || pair.waits != (second.Start >= first.End) {
			t.Errorf("%s, %s: want the second one to wait for the first: %v", describe(&first), describe(&second), pair.waits)
		}
	}
	log, err := os.ReadFile(filepath.Join(s.logs, "slurmctld.log"))
	for _, resource := range []string{"license/solver", "gres/gpu", "gres/gpu:a100"} {
		if err != nil || strings.Contains(strings.ToLower(string(log)), "couldn't find tres "+resource+" ") {
			t.Errorf("slurmctld had to register %s (%v)", resource, err)
		}
	}
}

// TestAccountOptions: sacctmgr knows every option that package associations knows.
func TestAccountOptions(t *testing.T) { eachSlurm(t, testAccountOptions) }

func testAccountOptions(t *testing.T, slurm *install.Installation) {
	commands, err := os.ReadFile("associations/testdata/options.sacctmgr")
	if err != nil {
		t.Fatal(err)
	}
	files := clusterFiles(t, "AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd")
	files["accounts.sacctmgr"] = string(commands)
	s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
	s.workload.Jobs = workload.JobsOf(job("one", 10, 60, on("c1")))
	s.play(t)
	log, err := os.ReadFile(filepath.Join(s.logs, "sacctmgr.log"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), "Adding QOS(s)") {
		t.Errorf("sacctmgr added no QOS:\n%s", log)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "Unknown option") || strings.Contains(line, "Nothing new added") || strings.Contains(line, "Invalid value") {
			t.Errorf("sacctmgr: %s", line)
		}
	}
}

// TestMistypedTRES: package associations recognizes the lists of resources that sacctmgr refuses,
// and the resources that abbreviations mean.
func TestMistypedTRES(t *testing.T) { eachSlurm(t, testMistypedTRES) }

func testMistypedTRES(t *testing.T, slurm *install.Installation) {
	lists := []string{
		"cpu=4", "cpus=4", "CPU=4", "c=4", "cpu=4,nodes=2", "node=2", "no=2", "nodes=2", "memory=4G", "mem=4G", "m=4096", "gpu=1",
		"gpus=1", "gres/gpu=1", "gres/gpus=1", "gres:gpu=1", "g/gpu=1", "gres/gpu:v100=1", "gres/gpu:h100=1", "license/matlab=1",
		"matlab=1", "energy=5", "billing=9", "bill=9", "vmem=7", "fs/disk=3", "disk=3", "cpu", "cpu:4", "1=4", "core=4",
	}
	var commands strings.Builder
	for i, list := range lists {
		fmt.Fprintf(&commands, "add qos q%d GrpTRES=%s\n", i, list)
	}
	const tracked = "gres/gpu,gres/gpu:v100,license/matlab"
	files := clusterFiles(t, "AccountingStorageType=accounting_storage/none",
		"AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageTRES="+tracked, "ClusterName=tiny", "ClusterName=tiny\nLicenses=matlab:2")
	files["accounts.sacctmgr"] = commands.String() + "add cluster tiny\n"
	s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
	s.workload.Epoch = epoch
	e := s.start(t.Context(), t)
	text, err := e.database.List(t.Context(), "qos", "format=name,grptres")
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]string{}
	for line := range strings.Lines(text) {
		name, limits, _ := strings.Cut(strings.TrimSpace(line), "|")
		taken[name] = strings.TrimSuffix(limits, "|")
	}
	known := associations.Read([]byte(files["accounts.sacctmgr"]), "a", "tiny", tracked)
	for i, list := range lists {
		name := fmt.Sprintf("q%d", i)
		limits, added := taken[name]
		policy := known.Policies[name]
		if added != (policy != nil) {
			t.Errorf("GrpTRES=%s: sacctmgr adds the QOS: %v, package associations: %v", list, added, policy != nil)
			continue
		}
		if resource, _, _ := strings.Cut(limits, "="); added && list != "1=4" && len(policy.GrpTRES) == 1 {
			if _, same := policy.GrpTRES[resource]; !same {
				t.Errorf("GrpTRES=%s: sacctmgr limits %s, package associations %v", list, limits, policy.GrpTRES)
			}
		}
	}
	if len(taken) < 10 || len(taken) == len(lists)+1 {
		t.Errorf("sacctmgr added %d QOS: %v", len(taken), taken)
	}
	if len(e.takeWarnings()) != 1 {
		t.Error("no warning says that sacctmgr refused commands")
	}
}

// TestMistypedValues: package associations refuses the values that sacctmgr refuses. sacctmgr names each of them.
func TestMistypedValues(t *testing.T) { eachSlurm(t, testMistypedValues) }

func testMistypedValues(t *testing.T, slurm *install.Installation) {
	commands := []string{"add cluster tiny"}
	answers := []string{"(high)", "(soon)", "(abc)", "(x)", "(z)", "'Foo'", "PreemptMode=maybe", "MaxWall=long", "PreemptExemptTime=never",
		"(half)"}
	for i, value := range []string{"Priority=high", "GraceTime=soon", "UsageFactor=abc", "UsageThreshold=x", "LimitFactor=z", "Flags=Foo",
		"PreemptMode=maybe", "MaxWall=long", "PreemptExemptTime=never"} {
		commands = append(commands, fmt.Sprintf("add qos q%d %s", i, value))
	}
	commands = append(commands, "add account a fairshare=half")
	files := clusterFiles(t, "AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd")
	files["accounts.sacctmgr"] = strings.Join(commands, "\n") + "\n"
	s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
	s.workload.Epoch = epoch
	e := s.start(t.Context(), t)
	log, err := os.ReadFile(filepath.Join(s.logs, "sacctmgr.log"))
	if err != nil {
		t.Fatal(err)
	}
	known := associations.Read([]byte(files["accounts.sacctmgr"]), "a", "tiny", "").Mistakes
	for i, answer := range answers {
		if !strings.Contains(string(log), answer) {
			t.Errorf("%s: sacctmgr accepts the value, no %s in\n%s", commands[i+1], answer, log)
		}
		if !strings.Contains(strings.Join(known, "\n"), fmt.Sprintf("a:%d: ", i+2)) {
			t.Errorf("%s: package associations accepts the value: %q", commands[i+1], known)
		}
	}
	e.takeWarnings()
}

// TestNewQOS: a command may name every QOS that a command before it adds.
func TestNewQOS(t *testing.T) { eachSlurm(t, testNewQOS) }

func testNewQOS(t *testing.T, slurm *install.Installation) {
	files := clusterFiles(t, "AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd")
	files["accounts.sacctmgr"] = "add qos long\nadd qos high preempt=normal,long\nadd qos top preempt=high\nadd cluster tiny qos=normal,top\nadd account physics qos=long\n"
	s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
	s.workload.Epoch = epoch
	e := s.start(t.Context(), t)
	for entity, want := range map[string]string{
		"qos format=name,preempt": "high|long,normal\nlong|\nnormal|\ntop|high\n", "associations where account=physics format=qos": "long\n",
	} {
		got, err := e.database.List(t.Context(), strings.Fields(entity)...)
		lines := slices.Sorted(strings.Lines(strings.ReplaceAll(got, "normal,long", "long,normal")))
		if text := strings.Join(lines, ""); err != nil || text != want {
			t.Errorf("%s: %q, %v, want %q", entity, text, err, want)
		}
	}
}

// TestEqualUsers: one command that adds several users makes the same associations, with the same
// ids, as one command for each user. This also applies if some of the users exist already. A
// command of the greatest length that sacctmgr reads adds all its users.
func TestEqualUsers(t *testing.T) { eachSlurm(t, testEqualUsers) }

func testEqualUsers(t *testing.T, slurm *install.Installation) {
	associations := func(many int, verbs ...string) string {
		var b strings.Builder
		b.WriteString("add cluster tiny\nadd account physics fairshare=50\nadd account biology fairshare=50\nadd user ben account=biology\n")
		for i, name := range []string{"carl", "ann", "ben", "nobody-knows", "Emil", "dora"} {
			fmt.Fprintf(&b, "%s user name=%s account=physics defaultaccount=physics fairshare=3 maxjobs=7 grptres=cpu=4,mem=100\n", verbs[i%len(verbs)], name)
		}
		for i, name := range []string{"ann", "ben", "dora"} {
			fmt.Fprintf(&b, "%s user name=%s account=biology partition=main fairshare=2\n", verbs[i%len(verbs)], name)
		}
		for i := range many {
			fmt.Fprintf(&b, "add user name=many%04d account=physics fairshare=%d\n", i, 1+i/1000)
		}
		files := clusterFiles(t, "AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd")
		files["accounts.sacctmgr"] = b.String()
		s := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
		s.workload.Epoch = epoch
		e := s.start(t.Context(), t)
		list, err := e.database.List(t.Context(), "associations", "format=ID,Cluster,Account,User,Partition,Fairshare,MaxJobs,GrpTRES,QOS,DefaultQOS")
		if err != nil {
			t.Fatal(err)
		}
		users, err := e.database.List(t.Context(), "users", "format=User,DefaultAccount,AdminLevel")
		if err != nil {
			t.Fatal(err)
		}
		return list + users
	}
	together, alone := associations(0, "add"), associations(0, "add", "create")
	if together != alone || strings.Count(together, "|dora|") != 2 {
		t.Errorf("added together:\n%s\neach alone:\n%s", together, alone)
	}
	const many = 1100
	if n := strings.Count(associations(many, "add"), "|physics|many"); n != many {
		t.Errorf("%d of %d users are there", n, many)
	}
}
