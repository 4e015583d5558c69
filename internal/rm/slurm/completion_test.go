package slurm

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf"
)

const sampleRecord = "JobId=7 UserId=ann(21001) GroupId=staff(21000) Name=a = b JobState=COMPLETED Partition=batch TimeLimit=60 " +
	"StartTime=2024-01-01T00:00:11 EndTime=2024-01-01T00:01:11 NodeList=c[1-2] NodeCnt=2 ProcCnt=8 WorkDir=/ ReservationName= " +
	"Tres=cpu=8 Account=physics QOS=normal WcKey= Cluster=tiny SubmitTime=2024-01-01T00:00:10 EligibleTime=2024-01-01T00:00:10 " +
	"ArrayJobId=5 ArrayTaskId=3 DerivedExitCode=0:0 ExitCode=3:9 \n"

func TestParseCompletion(t *testing.T) {
	c, err := parseCompletion([]byte(sampleRecord))
	if err != nil {
		t.Fatal(err)
	}
	o := c.outcome
	if c.job != 7 || c.arrayJob != 5 || c.task != 3 || c.truncated || o.State != hpc.Completed || o.Name != "a = b" ||
		since(o.Submit) != 10 || since(o.Start) != 11 || since(o.End) != 71 || o.Nodes != "c[1-2]" || o.Processors != 8 ||
		o.TimeLimit != 3600 || o.ExitCode != 3 || o.Signal != 9 || o.User != "ann" || o.Account != "physics" {
		t.Errorf("got %+v", c)
	}
	cut, err := parseCompletion([]byte(sampleRecord[:250]))
	if err != nil || !cut.truncated || cut.outcome.State != hpc.Completed {
		t.Errorf("a truncated record: %+v, %v", cut, err)
	}
	for _, bad := range []string{"", "\n", "JobState=x\n", "JobId=x UserId=\n"} {
		if _, err := parseCompletion([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// Records come out of the pipe whole, however the reads split them.
func TestNextCompletion(t *testing.T) {
	long := strings.Repeat("x", completionBuffer-1)
	var rest []byte
	var got []string
	for _, b := range []byte(sampleRecord + long + sampleRecord) {
		var record []byte
		if record, rest = nextCompletion(append(rest, b)); record != nil {
			got = append(got, string(record))
		}
	}
	if len(got) != 3 || got[0] != sampleRecord || got[1] != long || got[2] != sampleRecord || len(rest) > 0 {
		t.Errorf("got %d records, %d bytes left", len(got), len(rest))
	}
}

func FuzzParseCompletion(f *testing.F) {
	f.Add([]byte(sampleRecord))
	f.Add([]byte(sampleRecord[:300]))
	f.Fuzz(func(t *testing.T, data []byte) {
		for {
			record, rest := nextCompletion(data)
			if record == nil {
				return
			}
			if len(record) == 0 || len(record)+len(rest) != len(data) {
				t.Fatalf("%d bytes became %d and %d", len(data), len(record), len(rest))
			}
			c, err := parseCompletion(record)
			if err == nil && c.truncated == bytes.HasSuffix(record, []byte("\n")) {
				t.Fatalf("%q: truncated %t", record, c.truncated)
			}
			data = rest
		}
	})
}

func TestSacctmgrScript(t *testing.T) {
	for commands, want := range map[string]string{
		"# x\n\nadd account a\n":        "add cluster tiny\nadd account a\n",
		"create clus name=tiny\nadd x":  "create clus name=tiny\nadd x\n",
		"  ADD Cluster tiny\n# nothing": "ADD Cluster tiny\n",
	} {
		if got := sacctmgrScript(commands, "tiny"); got != want {
			t.Errorf("%q: got %q, want %q", commands, got, want)
		}
	}
}

// A node's address leads back to it, and no other address to any.
func TestNodeIndex(t *testing.T) {
	p := place{octet: 40, nodes: 70_000, address: conf.LoopbackAddresses(40)}
	for i := range p.nodes {
		if got, ok := p.nodeIndex(p.address(i).As4()); !ok || got != i {
			t.Fatalf("node %d: %v, %t", i, got, ok)
		}
	}
	for _, bad := range []string{"127.40.0.0", "127.40.0.251", "127.39.0.1", "127.41.255.1", "10.40.0.1"} {
		if i, ok := p.nodeIndex(netip.MustParseAddr(bad).As4()); ok {
			t.Errorf("%s is node %d", bad, i)
		}
	}
}
