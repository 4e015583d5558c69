package slurmspec

import "testing"

func TestReason(t *testing.T) {
	for r, want := range map[Reason]string{
		0: "None", 1: "Priority", 3: "Resources", 16: "JobHeldUser", 20: "NodeDown", 36: "Prolog",
		72: "JobArrayTaskLimit", 198: "ReservationDeleted", 203: "MaxCpuRunMinsPerAccount", 220: "MpiPortsBusy", 221: "221", 65535: "65535",
	} {
		if got := r.String(); got != want {
			t.Errorf("%d: %q, want %q", uint16(r), got, want)
		}
		if got, ok := ReasonNamed(want); ok != (r < 221) || ok && got != r {
			t.Errorf("%q is reason %d", want, got)
		}
	}
}
