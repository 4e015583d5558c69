package jobrows

import (
	"testing"

	"rmreplay/internal/hpc"
)

// The cause is the later submission, another delay after the submission, or both.
func TestNotEligible(t *testing.T) {
	at := func(side string, submit, eligible, start int64) Moments {
		instant := func(s int64) hpc.Time {
			if s < 0 {
				return 0
			}
			return hpc.Unix(1704067200 + s)
		}
		return Moments{Side: side, Submit: instant(submit), Eligible: instant(eligible), Start: instant(start)}
	}
	requeued := func(m Moments) Moments { m.Requeued = true; return m }
	const dated = "not eligible before 2024-01-01T00:01:00Z (dependency, begin time or hold); in B it had already started by then"
	for _, test := range []struct {
		name        string
		late, early Moments
		want        string
	}{
		{"submitted later", at("A", 27, 27, 27), at("B", 0, 0, 0), "in A it was submitted 27 s later"},
		{"the same begin time after it", at("A", 27, 87, 87), at("B", 0, 60, 60), "in A it was submitted 27 s later"},
		{"also held", at("A", 27, 60, 60), at("B", 0, 0, 0), "in A it was submitted 27 s later and " + dated},
		{"held only", at("A", 0, 60, 60), at("B", 0, 0, 0), "in A it was " + dated},
		{"submitted sooner", at("A", 0, 60, 60), at("B", 10, 10, 10), "in A it was " + dated},
		{"a preset job", at("A", -1, 60, 60), at("B", 0, 0, 0), "in A it was " + dated},
		{"requeued", requeued(at("A", 27, 60, 60)), requeued(at("B", 0, 0, 0)),
			"in A it was not eligible before 2024-01-01T00:01:00Z (after its requeue); in B it had already started by then"},
		{"eligible", at("A", 27, 27, 90), at("B", 0, 0, 60), ""},
		{"never started", at("A", 27, 27, 90), at("B", 0, 0, -1), ""},
	} {
		for _, pair := range [][2]Moments{{test.late, test.early}, {test.early, test.late}} {
			if got := NotEligible(pair[0], pair[1]); got != test.want {
				t.Errorf("%s, %s first: %q, want %q", test.name, pair[0].Side, got, test.want)
			}
		}
	}
}
