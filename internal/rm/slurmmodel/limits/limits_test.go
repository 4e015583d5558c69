package limits

import (
	"slices"
	"testing"

	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/fairshare"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// site has the limits and accounts of a test. Package recorded compares the decisions of this
// package with slurmctld's. The tests here are about what the records do not have: arrays, several
// partitions, and limits on the number of nodes.
type site struct {
	*Limits
	a *accounts.Accounts
}

func newSite(t *testing.T, commands string, release slurmspec.Release) site {
	t.Helper()
	set := associations.Read([]byte("add cluster tiny\n"+commands), "a", "tiny", "gres/gpu")
	if len(set.Mistakes) > 0 {
		t.Fatal(set.Mistakes)
	}
	a := accounts.New(set, tres.New("gres/gpu,license/x,bb/y,fs/z"), true, release)
	shares := fairshare.New(a, fairshare.Settings{FairTree: true, Limits: true, Release: release}, 0, 0)
	return site{New(a, shares, accounts.Enforcement{Associations: true, Limits: true}, false, release), a}
}

func (s site) job(user, qos string) *Job {
	return &Job{
		Association: s.a.Find(user, "", ""), User: user, QOS: s.a.QOS[qos], Minutes: 60,
		Partition: &Partition{MaxMinutes: slurmspec.Infinite, DefaultMinutes: slurmspec.NoVal},
	}
}

// TestReasons checks that each resource has a reason for each kind of limit.
func TestReasons(t *testing.T) {
	s := newSite(t, "", slurmspec.R2605)
	kinds := []kind{
		assocGrp, assocGrpMins, assocGrpRunMins, assocMax, assocMaxMins, assocMaxPerNode, qosGrp, qosGrpMins, qosGrpRunMins,
		qosMax, qosMaxMins, qosMaxPerNode, qosMin, qosPerUser, qosPerAccount, qosRunPerUser, qosRunPerAcct,
	}
	seen := map[slurmspec.Reason]int{}
	for _, k := range kinds {
		for i := range s.a.TRES.Len() {
			r := s.reason(k, i) // panics if there is no such reason
			if !IsLimit(r) {
				t.Errorf("%v is no limit", r)
			}
			seen[r]++
		}
	}
	if len(seen) != len(kinds)*9-2*2-1 { // nodes and licences have no limits per node; two reasons share a name
		t.Errorf("%d reasons", len(seen))
	}
	for name, of := range map[string][2]bool{ // before, and since 24.05
		"QOSMaxJobsPerUserLimit": {true, true}, "AssocGrpGRES": {false, true}, "MaxJobsPerAccount": {false, true},
		"QOSUsageThreshold": {false, true},
		"QOSNotAllowed":     {false, false}, "Priority": {false, false}, "MaxMemPerLimit": {false, false},
		"QOSTimeLimit": {true, true},
	} {
		for i, release := range []slurmspec.Release{slurmspec.R2205, slurmspec.R2405} {
			if got := newSite(t, "", release).isLimit(named(name)); got != of[i] {
				t.Errorf("%v: %s is a limit: %v", release, name, got)
			}
		}
	}
}

// TestArrays checks that each task of an array counts as a submitted job.
func TestArrays(t *testing.T) {
	s := newSite(t, `add qos q maxsubmitjobspu=5
add account x grpsubmitjobs=9
add user ann account=x qos=normal,q
add user ben account=x qos=normal,q
`, slurmspec.R2205)
	array := s.job("ann", "q")
	array.Tasks = 6
	if s.Validate(array, s.a.TRES.Vector()) || array.Reason.String() != "QOSMaxSubmitJobPerUserLimit" {
		t.Errorf("6 tasks: %v", array.Reason)
	}
	array.Tasks = 5
	if !s.Validate(array, s.a.TRES.Vector()) {
		t.Errorf("5 tasks: %v", array.Reason)
	}
	s.Submitted(array)
	other := s.job("ben", "normal")
	if other.Tasks = 5; s.Validate(other, s.a.TRES.Vector()) || other.Reason.String() != "AssocGrpSubmitJobsLimit" {
		t.Errorf("5 more tasks: %v", other.Reason)
	}
	s.Removed(array, false)
	if s.a.Root.Counts.Submitted != 0 || array.QOS.OfUser("ann").Submitted != 0 {
		t.Error("the array still counts")
	}
}

// TestAccrual checks that tasks of an array become jobs of their own as far as the limit allows.
// Before 24.05 the first limit of a QOS applies, and since then the lowest.
func TestAccrual(t *testing.T) {
	const commands = `add qos q grpjobsaccrue=4 maxjobsaccruepu=2
add account x
add user ann account=x qos=normal,q
`
	for release, want := range map[slurmspec.Release]int{slurmspec.R2205: 4, slurmspec.R2405: 2} {
		s := newSite(t, commands, release)
		array := s.job("ann", "q")
		array.Tasks, array.Submit, array.Begin = 6, 10, 20
		if got := s.Accrue(array, 15); got != 0 || array.Accrue != 0 {
			t.Errorf("%d tasks before the array is eligible", got)
		}
		if got := s.Accrue(array, 30); got != want || array.Accrue != 0 {
			t.Errorf("%v: %d tasks are split off, want %d", release, got, want)
		}
		if got := s.Accrue(array, 31); got != 0 {
			t.Errorf("%v: %d more tasks", release, got)
		}
		free := s.job("ann", "normal")
		free.Tasks, free.Begin = 3, 20
		if got := s.Accrue(free, 40); got != 0 || free.Accrue != 20 || free.Association.Counts.Accruing != want+3 {
			t.Errorf("%v: without a limit, %d are split off, since %d; %d accrue", release, got, free.Accrue,
				free.Association.Counts.Accruing)
		}
		s.ResetAccrual(free)
		if free.Held = true; s.Released(free, 50) != 0 || free.Accrue != 0 || free.Association.Counts.Accruing != want {
			t.Errorf("%v: a held job gains age", release)
		}
		if free.Held = false; s.Released(free, 60) != 0 || free.Accrue != 20 {
			t.Errorf("%v: a released job gains age since %d", release, free.Accrue)
		}
	}
}

// TestPartitions checks that a pending job counts in the QOS of all its partitions, and a running
// job in the QOS of its own partition.
func TestPartitions(t *testing.T) {
	s := newSite(t, "add qos a,b,c,d\nadd account x\nadd user ann account=x qos=normal,a,b,c,d\n", slurmspec.R2205)
	j := s.job("ann", "a")
	for _, name := range []string{"a", "b", "c"} {
		j.Partitions = append(j.Partitions, &Partition{QOS: s.a.QOS[name]})
	}
	j.Partition = j.Partitions[1]
	submitted := func() (list []int) {
		for _, name := range []string{"a", "b", "c", "d"} {
			list = append(list, s.a.QOS[name].OfUser("ann").Submitted)
		}
		return list
	}
	s.Submitted(j)
	if got := submitted(); !slices.Equal(got, []int{1, 1, 1, 0}) {
		t.Errorf("submitted: %v", got)
	}
	j.Running, j.Nodes = &fairshare.Running{Association: j.Association, QOS: j.QOS, TRES: s.a.TRES.Vector()}, []uint64{2}
	s.Begin(j)
	if got := submitted(); !slices.Equal(got, []int{1, 1, 0, 0}) || s.a.QOS["b"].Counts.Running != 1 ||
		s.a.QOS["c"].Counts.Running != 0 {
		t.Errorf("started: %v", got)
	}
	s.Finish(j, 10, 10)
	s.Removed(j, true)
	if got := submitted(); !slices.Equal(got, []int{0, 0, 0, 0}) || s.a.QOS["b"].Counts.Running != 0 ||
		s.a.Root.Counts.TRES[tres.Node] != 0 {
		t.Errorf("ended: %v", got)
	}
}

// TestMaxNodes checks how many nodes the limits allow. A QOS's limit for each job replaces that of
// the association, and a QOS's group limit replaces those of the accounts.
func TestMaxNodes(t *testing.T) {
	const commands = `add qos free
add qos job maxtresperjob=node=6
add qos user maxtrespu=node=5 maxtresperjob=node=6
add qos group grptres=node=7
add qos twice limitfactor=2
add account top grptres=node=9
add account x parent=top grptres=node=20 maxtresperjob=node=8
add user ann account=x qos=normal,free,job,user,group,twice
`
	for qos, want := range map[string]struct {
		nodes  uint64
		reason string
	}{
		"free": {8, "AssocMaxNodePerJobLimit"}, "job": {6, "QOSMaxNodePerJobLimit"}, "user": {5, "QOSMaxNodePerUserLimit"},
		"group": {7, "QOSGrpNodeLimit"}, "twice": {16, "AssocMaxNodePerJobLimit"},
	} {
		s := newSite(t, commands, slurmspec.R2205)
		if n, reason := s.MaxNodes(s.job("ann", qos)); n != want.nodes || reason.String() != want.reason {
			t.Errorf("%s: %d nodes (%v), want %d (%s)", qos, n, reason, want.nodes, want.reason)
		}
	}
	s := newSite(t, "add account x\nadd user ann account=x minpriothresh=50\nadd qos q minpriothresh=70\nmodify user set qos=normal,q\n", slurmspec.R2205)
	if n, _ := s.MaxNodes(s.job("ann", "normal")); n != tres.NoLimit {
		t.Errorf("%d nodes without a limit", n)
	}
	if a, b := s.MinPriority(s.job("ann", "normal")), s.MinPriority(s.job("ann", "q")); a != 50 || b != 70 {
		t.Errorf("priorities %d and %d reserve, want 50 and 70", a, b)
	}
	open := s
	open.Limits = New(s.a, nil, accounts.Enforcement{Associations: true}, false, slurmspec.R2205)
	if n, _ := open.MaxNodes(open.job("ann", "q")); n != tres.NoLimit || open.MinPriority(open.job("ann", "q")) != 0 {
		t.Error("limits act that are not enforced")
	}
	if stranger := (&Job{}); open.PreSelect(stranger) || stranger.Reason.String() != "InvalidAccount" {
		t.Errorf("a job without association: %v", stranger.Reason)
	}
}

// TestFreeUsage checks that usage does not count with a usage factor of 0, except for limits per
// user.
func TestFreeUsage(t *testing.T) {
	for limit, want := range map[string]string{
		"grptresrunmins": "None", "maxtresrunminspa": "None", "maxtresrunminspu": "MaxCpuRunMinsPerUser",
	} {
		s := newSite(t, "add qos free usagefactor=0 "+limit+"=cpu=100\nadd account x\nadd user ann account=x qos=normal,free\n",
			slurmspec.R2411)
		partition := &Partition{QOS: s.a.QOS["free"], MaxMinutes: slurmspec.Infinite, DefaultMinutes: slurmspec.NoVal}
		request := s.a.TRES.Vector()
		request[tres.CPU] = 1
		paid, free := s.job("ann", "normal"), s.job("ann", "free")
		paid.Partition = partition
		paid.Running = &fairshare.Running{Association: paid.Association, QOS: paid.QOS, PartitionQOS: partition.QOS, TRES: request}
		s.Begin(paid) // reserves 60 minutes
		s.PostSelect(free, request, nil)
		if got := free.Reason.String(); got != want {
			t.Errorf("%s: the job waits for %s, want %s", limit, got, want)
		}
	}
}

func BenchmarkPending(b *testing.B) {
	set := associations.Read([]byte(`add cluster tiny
add qos q grptres=cpu=1000 maxjobspu=1000 maxtrespu=cpu=900,node=50
add account top grptres=cpu=5000,node=900
add account x parent=top grptresmins=cpu=100000000
add user ann account=x qos=normal,q maxjobs=500
`), "a", "tiny", "gres/gpu")
	a := accounts.New(set, tres.New("gres/gpu"), true, slurmspec.R2205)
	l := New(a, nil, accounts.Enforcement{Associations: true, Limits: true}, false, slurmspec.R2205)
	j := &Job{Association: a.Find("ann", "", ""), User: "ann", QOS: a.QOS["q"], Minutes: 60, Partition: &Partition{}}
	request := a.TRES.Vector()
	request[tres.CPU], request[tres.Node] = 8, 1
	nodes := make([]uint64, 100)
	b.ReportAllocs()
	for b.Loop() {
		if !l.PreSelect(j) || !l.PostSelect(j, request, nodes) {
			b.Fatal(j.Reason)
		}
	}
}
