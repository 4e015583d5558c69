package rmtest

import (
	"testing"
	"time"

	"rmreplay/internal/hpc"
)

func TestParse(t *testing.T) {
	s, err := Parse(`
		# a comment
		job a at=5 run=unlimited limit=90 cancel=7 exit=3 run.2=15 exit.2=4 -n 4 -J "two words" # more
		node at=100 c[1-2] down bad disk
		reservation at=1 create r start=30 duration=20 nodes=n3 users=ann,ben flags=MAINT,FLEX count=2 partition=p accounts=x
		usage red/ann raw=500
		window at=60
		job b at=0 run=90 started=30 on=n[1-2]
	`, hpc.Unix(1000), "--uid=ann", "-t", "60")
	if err != nil {
		t.Fatal(err)
	}
	j := s.Jobs[0]
	if j.ID != "a" || j.Submit != hpc.Unix(1005) || j.RunTime != hpc.Unlimited || j.TimeLimit != 90*time.Second ||
		j.CancelAfter != 7*time.Second || j.ExitCodeOf(1) != 3 || j.ExitCodeOf(2) != 4 || j.RunTimeOf(2) != 15*time.Second ||
		j.Tasks != 4 || j.Name != "two words" || j.User != "ann" {
		t.Errorf("job %+v", *j)
	}
	if got, want := s.Nodes[0], (hpc.NodeEvent{At: hpc.Unix(1100), Nodes: "c[1-2]", State: "down", Reason: "bad disk"}); got != want {
		t.Errorf("node event %+v, want %+v", got, want)
	}
	r := s.Reservations[0]
	if r.Action != "create" || r.Name != "r" || r.Start != hpc.Unix(1030) || r.Duration != 20*time.Second || r.Nodes != "n3" || len(r.Users) != 2 {
		t.Errorf("reservation %+v", r)
	}
	if r.NodeCount != 2 || r.Partition != "p" || len(r.Flags) != 2 || len(r.Accounts) != 1 {
		t.Errorf("reservation %+v", r)
	}
	if b := s.Jobs[1].Recorded; s.Start != hpc.Unix(1060) || b.Start != hpc.Unix(1030) || b.End != hpc.Unix(1120) || b.Nodes != "n[1-2]" {
		t.Errorf("the window begins at %v, and the preset job is %+v", s.Start, b)
	}
	if got, want := s.Usage[0], (hpc.Usage{Account: "red", User: "ann", Raw: 500}); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"start a":                 `start a: "start": not an input (want job, node, reservation, usage or window)`,
		"job a at=x":              "job a at=x: at=x: not a number",
		"job a at=1 runs=5":       "job a at=1 runs=5: runs=: not a key of this line",
		"node at=1 n1 down run=5": "node at=1 n1 down run=5: run=: not a key of this line",
		"job a at=1 --nonsense":   "job a at=1 --nonsense: --nonsense: not an option of sbatch",
	} {
		if _, err := Parse(line, hpc.Unix(0)); err == nil || err.Error() != want {
			t.Errorf("%s: error is %v, want %s", line, err, want)
		}
	}
}
