package accounts

import (
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

func read(t *testing.T, commands string, fairTree bool, release slurmspec.Release) *Accounts {
	t.Helper()
	set := associations.Read([]byte(commands), "a", "tiny", "gres/gpu")
	if len(set.Mistakes) > 0 {
		t.Fatal(set.Mistakes)
	}
	return New(set, tres.New("gres/gpu"), fairTree, release)
}

// TestOrder checks that associations are in slurmdbd's order, which changed in 23.11. Fair Tree
// visits tied accounts in this order.
func TestOrder(t *testing.T) {
	const commands = `add cluster tiny
add account b,c
add account a
add user y,x account=b
add user z account=b,c
add user y account=c partition=p,o
add account a_b,ab,a-b parent=a
`
	for release, want := range map[slurmspec.Release]string{
		slurmspec.R2205: "/ a/ a_b/ ab/ a-b/ b/ b/z b/y b/x c/ c/y/p c/y/o c/z root/root",
		slurmspec.R2411: "/ root/root a/ a-b/ ab/ a_b/ b/ b/x b/y b/z c/ c/y/o c/y/p c/z",
	} {
		var got []string
		for _, a := range read(t, commands, true, release).List {
			got = append(got, strings.TrimPrefix(a.Account+"/"+a.User+strings.TrimSuffix("/"+a.Partition, "/"), "root/"))
		}
		got[0], got[slices.Index(got, "root")] = "/", "root/root"
		if strings.Join(got, " ") != want {
			t.Errorf("%v:\ngot  %s\nwant %s", release, strings.Join(got, " "), want)
		}
	}
}

// TestTrim checks which usage is still computed, and to which associations no limit applies.
func TestTrim(t *testing.T) {
	const commands = `add qos run grptresrunmins=cpu=9
add qos mins grptresmins=cpu=9
add cluster tiny
add account a maxjobs=3
add account b grptres=cpu=4
add account c parent=b
add user x account=a,c
add user y account=root
`
	a := read(t, commands, true, slurmspec.R2411)
	a.Trim()
	for name, want := range map[string][2]bool{"run": {false, true}, "mins": {true, true}} {
		if u := &a.QOS[name].Usage; u.TRES != nil != want[0] || u.Reserved != nil != want[1] {
			t.Errorf("QOS %s: %v, %v", name, u.TRES, u.Reserved)
		}
	}
	for name, want := range map[string][2]bool{
		"a/": {false, true}, "a/x": {false, true}, "c/": {false, false}, "c/x": {false, false}, "root/y": {true, true},
	} {
		account, user, _ := strings.Cut(name, "/")
		place := slices.IndexFunc(a.List, func(one *Association) bool { return one.Account == account && one.User == user })
		one := a.List[place]
		if one.Unlimited != want[0] || one.NoTRES != want[1] || one.Usage.TRES != nil || one.Usage.Reserved != nil {
			t.Errorf("%s: unlimited %v, without limits on resources %v", name, one.Unlimited, one.NoTRES)
		}
	}
}

// TestShares checks that associations with fairshare=parent belong to the level of the first
// account above that has shares of its own.
func TestShares(t *testing.T) {
	const commands = `add cluster tiny
add account open fairshare=parent
add account inner parent=open fairshare=parent
add account closed fairshare=9
add user ann account=inner fairshare=3
add user ben account=inner fairshare=parent
add user cyd account=closed fairshare=0
add user dot account=closed
`
	type share struct {
		level         uint32
		tree, classic float64
	}
	for name, want := range map[string]share{
		"open/": {13, 1, 1}, "closed/": {13, 9. / 13, 9. / 13}, "inner/ann": {13, 3. / 13, 3. / 13}, "inner/ben": {13, 0, 1},
		"closed/cyd": {1, 0, 0}, "closed/dot": {1, 1, 9. / 13}, "root/root": {13, 1. / 13, 1. / 13},
	} {
		account, user, _ := strings.Cut(name, "/")
		tree := read(t, commands, true, slurmspec.R2205).Find(user, account, "")
		classic := read(t, commands, false, slurmspec.R2205).Find(user, account, "")
		// The root is on no level, so with Fair Tree the associations that use its shares have a
		// share of 0.
		if want.tree == 1 && tree.Shares == associations.SharesOfParent {
			want.tree = 0
		}
		if tree.LevelShares != want.level || tree.Share != want.tree || classic.Share != want.classic {
			t.Errorf("%s: level %d, share %v or %v; want %+v", name, tree.LevelShares, tree.Share, classic.Share, want)
		}
	}
}

// TestRecords checks what associations inherit, and the attributes of QOS.
func TestRecords(t *testing.T) {
	a := read(t, `add cluster tiny
add qos low priority=10 flags=DenyOnLimit,NoDecay usagefactor=0 preemptexempttime=2 gracetime=7
add qos high priority=40 preempt=low,normal limitfactor=2 usagethreshold=0.5 preemptmode=requeue maxtrespu=gres/gpu=2
add account x grpjobs=3 maxjobs=4 priority=20 qos=normal,high
add user ann account=x maxtresperjob=cpu=8 priority=5
add user ben account=x defaultqos=high
`, true, slurmspec.R2205)
	ann, x := a.Find("Ann", "X", "batch"), a.Account("x")
	if ann.Limits.GrpJobs != NoLimit || ann.Limits.MaxJobs != 4 || x.Limits.GrpJobs != 3 ||
		ann.Limits.MaxTRES[tres.CPU] != 8 ||
		ann.Priority != 5 || ann.PriorityNorm != 0.25 || x.PriorityNorm != 1 || ann.Limits.GrpTRES != nil {
		t.Errorf("%+v\n%+v", ann, x)
	}
	low, high := a.QOS["low"], a.QOS["high"]
	if !low.DenyOnLimit || !low.NoDecay || low.UsageFactor != 0 || low.PreemptExempt != 120 || low.GraceTime != 7 ||
		low.PriorityNorm != 0.25 ||
		low.LimitFactor != 0 || low.UsageThreshold >= 0 {
		t.Errorf("%+v", low)
	}
	if !slices.Equal(high.Preempts, []*QOS{low, a.QOS["normal"]}) || high.LimitFactor != 2 ||
		high.UsageThreshold != 0.5 || high.PreemptMode != "requeue" ||
		high.PreemptExempt >= 0 || high.UsageFactor != 1 || high.Limits.MaxTRESPerUser[tres.Fixed] != 2 {
		t.Errorf("%+v", high)
	}
	if a.DefaultQOS(a.Find("ben", "", "")) != high || a.DefaultQOS(ann).Name != "normal" ||
		a.Find("eve", "x", "") != nil || a.Users != 3 {
		t.Error("a wrong default QOS, association or number of users")
	}
	if got := a.Allowed(ann); !slices.Equal(got, []string{"normal", "high"}) {
		t.Errorf("ann may use %v", got)
	}
}

// TestNodes checks that a node counts once, however many jobs it has.
func TestNodes(t *testing.T) {
	c := Counts{TRES: make(tres.Vector, tres.Fixed)}
	first, second := []uint64{1<<3 | 1<<5, 1}, []uint64{1 << 5, 1 << 2}
	c.AddNodes(second[:1])
	c.AddNodes(first)
	if n := c.TRES[tres.Node]; n != 3 || c.Overlap(second) != 1 || c.Overlap(nil) != 0 {
		t.Errorf("%d nodes, %d of the second's", n, c.Overlap(second))
	}
	c.RemoveNodes(first)
	if n := c.TRES[tres.Node]; n != 1 || c.Overlap(first) != 1 {
		t.Errorf("%d nodes remain, %d of the first's", n, c.Overlap(first))
	}
	if got := slices.Collect(Nodes(first)); !slices.Equal(got, []int{3, 5, 64}) {
		t.Errorf("nodes %v", got)
	}
}

func TestEnforcement(t *testing.T) {
	for text, want := range map[string]Enforcement{
		"": {}, "associations": {Associations: true}, "Limits,qos": {Associations: true, Limits: true, QOS: true},
		"nojobs": {},
		"safe":   {Associations: true, Limits: true, Safe: true}, "all": {true, true, true, true}, "2": {Associations: true,
			Limits: true}, "wckeys": {Associations: true},
	} {
		if got := ReadEnforcement(func(string) (string, bool) { return text, true }); got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// TestAssign checks which association and QOS a submission gets, and which submissions are refused.
func TestAssign(t *testing.T) {
	a := read(t, `add cluster tiny
add qos high,reserved
modify qos reserved set flags=RequiresReservation
add account x,y
add user ann account=x,y
add user ann account=y partition=urgent
modify user ann set qos=normal,reserved
`, true, slurmspec.R2205)
	all := Enforcement{Associations: true, Limits: true, QOS: true}
	for _, c := range []struct {
		s       Submission
		enforce Enforcement
		account string // with the partition; "" for no association
		qos     string
		errno   slurmspec.Errno
	}{
		{Submission{User: "Ann"}, all, "x/", "normal", 0},
		{Submission{User: "ann", Account: "Y", Partition: "batch"}, all, "y/", "normal", 0},
		{Submission{User: "ann", Account: "y", Partition: "urgent"}, all, "y/urgent", "normal", 0},
		{Submission{User: "ann", Account: "z"}, all, "", "", InvalidAccount},
		{Submission{User: "ann", Account: "z"}, Enforcement{}, "x/", "normal", 0},
		{Submission{User: "eve"}, all, "", "", InvalidAccount},
		{Submission{User: "eve"}, Enforcement{}, "", "normal", 0},
		{Submission{User: "ann", QOS: "high"}, all, "", "", InvalidQOS},
		{Submission{User: "ann", QOS: "High"}, Enforcement{Associations: true}, "x/", "high", 0},
		{Submission{User: "ann", QOS: "nosuch"}, all, "", "", InvalidQOS},
		{Submission{User: "ann", QOS: "nosuch"}, Enforcement{Associations: true}, "x/", "", 0},
		{Submission{User: "ann", QOS: "reserved"}, Enforcement{}, "", "", InvalidQOS},
		{Submission{User: "ann", QOS: "reserved", Reservation: "r"}, all, "x/", "reserved", 0},
	} {
		one, q, errno := a.Assign(c.s, c.enforce)
		var account, qos string
		if one != nil {
			account = one.Account + "/" + one.Partition
		}
		if q != nil {
			qos = q.Name
		}
		if account != c.account || qos != c.qos || errno != c.errno {
			t.Errorf("%+v with %+v: %q, %q, %d", c.s, c.enforce, account, qos, errno)
		}
	}
}
