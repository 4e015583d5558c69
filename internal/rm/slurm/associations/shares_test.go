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
