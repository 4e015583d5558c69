package policy

import (
	"testing"

	"rmreplay/internal/ioaware"
)

// TestEstimateName checks that the name of a policy's estimates makes the estimator of the policy.
func TestEstimateName(t *testing.T) {
	for text, want := range map[string]string{
		"easy": "", "io-baseline": "", "bf-licenses": "", "io-aware": "perfect", "workload-adaptive": "perfect", "two_group": "perfect", "baseline": "",
		"bf-licenses:estimate=perfect": "perfect", "io-aware:track-nodes,estimate=x0.5,interval=1m": "x0.5", "aware:estimate=none": "", "io-aware:estimate=noise=0.5/7": "noise=0.5/7",
		"easy++:predict=nag": "",
	} {
		got := EstimateName(text)
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if _, err := ioaware.ParseEstimator(got); got != "" && err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, p := range ioPolicies { // the default options
		var made ioaware.Estimator = ioaware.Nothing{}
		if name := EstimateName(p.name); name != "" {
			var err error
			if made, err = ioaware.ParseEstimator(name); err != nil {
				t.Fatal(err)
			}
		}
		if made != p.options.Estimator {
			t.Errorf("%s: %#v, want %#v", p.name, made, p.options.Estimator)
		}
	}
}
