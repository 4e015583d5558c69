package sdiag_test

import (
	"testing"

	"rmreplay/internal/rm/slurmmodel/sdiag"
)

// TestAnswer: passes and cycles after an answer do not change the answer.
func TestAnswer(t *testing.T) {
	c := sdiag.Counters{Exits: true}
	c.Main(sdiag.Pass{Exit: sdiag.MainDepth})
	c.Backfill(sdiag.Pass{Exit: sdiag.BackfillTests}, 30)
	first := c.Answer()
	c.Main(sdiag.Pass{Exit: sdiag.MainDepth})
	c.Backfill(sdiag.Pass{Exit: sdiag.BackfillTests}, 60)
	if n, m := first.MainExits[sdiag.MainDepth], first.BackfillExits[sdiag.BackfillTests]; n != 1 || m != 1 {
		t.Errorf("an earlier answer has %d and %d ends of cycles, want 1 and 1", n, m)
	}
	last := c.Answer()
	if n, m := last.MainExits[sdiag.MainDepth], last.BackfillExits[sdiag.BackfillTests]; n != 2 || m != 2 || last.MainCycles != 2 {
		t.Errorf("the last answer has %d and %d ends of %d cycles, want 2", n, m, last.MainCycles)
	}
}
