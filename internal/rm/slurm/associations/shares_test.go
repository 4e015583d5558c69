package associations

import (
	"slices"
	"testing"
)

// TestSharesAndCounts: Read keeps the numbers from which slurmctld computes priorities and the
// limits for which it keeps jobs pending.
func TestSharesAndCounts(t *testing.T) {
	s := Read([]byte(`add cluster vale fairshare=7
add qos high Priority=100 GrpJobs=9 MaxJobsPU=2 MaxJobsPA=3 MaxJobsAccruePU=4 MaxJobsAccruePA=5 UsageFactor=0.5 Preempt=normal GraceTime=60
modify qos high set preempt+=high PreemptExemptTime=5 PreemptMode=Requeue MinPrioThresh=11 MaxTRESRunMinsPU=cpu=60 GrpJobsAccrue=8
add account physics fairshare=50 GrpJobs=4 MaxJobs=6 Priority=12
add account optics parent=physics fairshare=parent GrpJobsAccrue=3
add user ada account=optics fairshare=3 MaxJobsAccrue=2
add user ben account=physics
add account dash-
add user eve- account=dash-
modify user ben set fairshare=0
modify account physics set GrpJobs=-1
`), "a", "vale", "")
	if len(s.Mistakes) > 0 {
		t.Fatal(s.Mistakes)
	}
	for a, want := range map[*Association]uint32{
		s.Associations[0]: 7, s.Find("root", "root", ""): 1, s.Find("", "physics", ""): 50, s.Find("", "optics", ""): SharesOfParent,
		s.Find("eve-", "dash-", ""): 1, s.Find("ada", "optics", ""): 3, s.Find("ben", "physics", ""): 0,
	} {
		if a.Shares != want {
			t.Errorf("%s/%s has %d shares, want %d", a.Account, a.User, a.Shares, want)
		}
	}
	high, ada := s.Policies["high"], s.Inherited(s.Find("ada", "optics", ""))
	for name, c := range map[string]struct {
		got  *int64
		want int64
	}{
		"Priority": {high.Priority, 100}, "GrpJobs": {high.GrpJobs, 9}, "MaxJobsPU": {high.MaxJobs, 2}, "MaxJobsPA": {high.MaxJobsPerAccount, 3},
		"MaxJobsAccruePU": {high.MaxAccrue, 4}, "MaxJobsAccruePA": {high.MaxAccruePerAccount, 5}, "GrpJobsAccrue": {high.GrpAccrue, 8},
		"PreemptExemptTime": {high.PreemptExempt, 300}, "MinPrioThresh": {high.MinPriority, 11},
		"ada's MaxJobs": {ada.MaxJobs, 6}, "ada's MaxJobsAccrue": {ada.MaxAccrue, 2}, "ada's Priority": {ada.Priority, 12},
	} {
		if c.got == nil || *c.got != c.want {
			t.Errorf("%s: not %d", name, c.want)
		}
	}
	if physics := s.Find("", "physics", ""); physics.GrpJobs != nil || ada.GrpAccrue != nil {
		t.Error("a limit is set that a command took away, or a group's limit is inherited")
	}
	if high.UsageFactor == nil || *high.UsageFactor != 0.5 || high.GraceTime != 60 || high.PreemptMode != "requeue" ||
		!slices.Equal(high.Preempt, []string{"normal", "high"}) || high.MaxTRESRunMinsPerUser["cpu"] != 60 {
		t.Errorf("%+v", high)
	}
}

// TestDefaultAccount: sacctmgr adds a user to the default account beside the accounts, in the order of the options,
// and adds only what is new.
func TestDefaultAccount(t *testing.T) {
	s := Read([]byte(`add cluster vale
add account physics
add account optics
add user ada DefaultAccount=physics account=optics fairshare=parent
add user ben account=physics,physics DefaultAccount=optics
add user cid DefaultAccount=physics
add user cid DefaultAccount=physics account=optics fairshare=9
`), "a", "vale", "")
	if len(s.Mistakes) > 0 {
		t.Fatal(s.Mistakes)
	}
	type row struct {
		user, account string
		isDefault     bool
		shares        uint32
	}
	var got []row
	for _, a := range s.Associations {
		if a.User != "" && a.User != "root" {
			got = append(got, row{a.User, a.Account, a.Default, a.Shares})
		}
	}
	want := []row{{"ada", "physics", true, SharesOfParent}, {"ada", "optics", false, SharesOfParent},
		{"ben", "physics", false, 1}, {"ben", "optics", true, 1}, {"cid", "physics", true, 1}, {"cid", "optics", false, 9}}
	if !slices.Equal(got, want) {
		t.Errorf("associations\n%+v, want\n%+v", got, want)
	}
	if !s.Users["ada"]["physics"] || !s.Users["ben"]["optics"] {
		t.Errorf("users %v", s.Users)
	}
}

// TestPreemptExemptTime: sacctmgr reads the time to the second, and 0 replaces the time of slurm.conf.
func TestPreemptExemptTime(t *testing.T) {
	for text, want := range map[string]int64{"5": 300, "1:30": 90, "00:05:10": 310, "0": 0, "1-00:00:01": 86401} {
		got := Read([]byte("add qos high PreemptExemptTime="+text+"\n"), "a", "vale", "").Policies["high"].PreemptExempt
		if got == nil || *got != want {
			t.Errorf("%s: not %d s", text, want)
		}
	}
	if got := Read([]byte("add qos high PreemptExemptTime=-1\n"), "a", "vale", "").Policies["high"].PreemptExempt; got != nil {
		t.Errorf("-1: %d s, want none", *got)
	}
}
