package slurm

import (
	"testing"

	"rmreplay/internal/hpc"
)

// Associations, QOS and fair-share as slurmdbd has them, and what slurmdbd makes of
// the run: exactly what the record says.
func TestAccounting(t *testing.T) {
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
	s := scenario{cluster: writeCluster(t, files), accounting: true}
	s.workload.Jobs = []*hpc.Job{
		// MaxJobs=1: one after the other although the machine is empty.
		job("one", 10, 60, on("c1")),
		job("two", 10, 60, on("c2")),
		job("array", 10, 20, with(on("c3"), func(j *hpc.Job) { j.Array = "0-1"; j.Name = "a|b" })),

		// Ann has used the machine, so ben goes first; a high QOS beats both.
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
	}
	s.workload.NodeEvents = []hpc.NodeEvent{
		{At: after(2100), Nodes: "c[2-3]", State: "down"},
		{At: after(2400), Nodes: "c[2-3]", State: "resume"},
	}
	o := s.play(t)
	o.want(`
		one       COMPLETED 11-71 c1
		two       COMPLETED 72-132 c2
		array_0   COMPLETED 133-153 c3
		array_1   COMPLETED 154-174 c3
		holder    COMPLETED 1001-1301 g1
		ann's     COMPLETED 1424-1484 g1
		ben's     COMPLETED 1363-1423 g1
		high      COMPLETED 1302-1362 g1
		cancelled CANCELLED -1050 -
		stranger  REJECTED - - a submission was refused: ESLURM_INVALID_ACCOUNT: the account does not exist or the user has no association with it here
		account   REJECTED - - a submission was refused: ESLURM_INVALID_ACCOUNT: the account does not exist or the user has no association with it here
		qos       REJECTED - - a submission was refused: ESLURM_INVALID_QOS: the QOS does not exist or is not allowed here
		requeued  COMPLETED 2400-2600 c2 restarts 1
		killed    NODE_FAIL 2001-2100 c3
	`)
	o.drained()
	differences, err := CompareSacct(o.sacct, o.list)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences {
		t.Errorf("the record and slurmdbd differ: %s", d)
	}
	if t.Failed() {
		t.Log(o.sacct)
	}
}
