package forecast

import (
	"slices"
	"testing"

	"rmreplay/internal/rm"
)

// A forecast says why a pending job is refused, for example a variant that asks for resources that its
// partition lacks.
func TestRefusedReason(t *testing.T) {
	r := &realization{open: map[string]map[int]bool{"what-if": {-1: true}, "other": {-1: true}}}
	for _, e := range []rm.Event{
		{Kind: rm.Refused, Job: "what-if", Task: -1, Reason: "partition batch has no GPU"}, {Kind: rm.Refused, Job: "other", Task: -1, Reason: "too large"},
	} {
		if err := r.see(e); err != nil && len(r.open) > 0 {
			t.Fatal(err)
		}
	}
	want := []string{"in 1 of 2 realizations a pending job was refused, and so never starts (job what-if: partition batch has no GPU)"}
	if got := doubtsOf([]*realization{r, {}}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
