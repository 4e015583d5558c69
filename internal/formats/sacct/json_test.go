package sacct

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
)

// The same two jobs as the data parsers of Slurm 22.05 and of 23.11 write them.
const (
	oldJSON = `{"meta":{"plugin":{"type":"openapi/dbv0.0.38"}},"errors":[],"jobs":[
{"account":"phys","cluster":"vale","constraints":"fast","comment":{"job":"c"},"allocation_nodes":2,"array":{"job_id":0,"task_id":null,"task":null,"limits":{"max":{"running":{"tasks":0}}}},
 "exit_code":{"status":"SUCCESS","return_code":0},"group":"staff","job_id":17,"name":"a|b","nodes":"n[1-2]","partition":"batch","priority":99,"qos":"normal",
 "required":{"CPUs":8,"memory":2048},"het":{"job_id":0,"job_offset":null},"state":{"current":"COMPLETED","reason":"None"},
 "time":{"elapsed":60,"eligible":1709280000,"end":1709280120,"start":1709280060,"submission":1709280000,"suspended":0,"limit":30},
 "tres":{"allocated":[{"type":"cpu","name":null,"id":1,"count":8}],"requested":[{"type":"node","name":null,"count":2},{"type":"gres","name":"gpu","count":4},{"type":"gres","name":"gpu:a100","count":4}]},
 "user":"ann","wckey":{"wckey":"k"},"steps":[]},
{"account":"phys","cluster":"vale","job_id":19,"array":{"job_id":18,"task_id":3},"name":"t","required":{"CPUs":1},"state":{"current":"TIMEOUT"},
 "time":{"elapsed":60,"end":1709280120,"start":0,"submission":1709280010,"limit":1},"user":"ann","steps":[{"time":{"start":1709280060}}]},
{"account":"phys","cluster":"vale","job_id":20,"name":"k","required":{"CPUs":1},"state":{"current":"FAILED"},"exit_code":{"status":"SIGNALED","signal":{"signal_id":9,"name":"Killed"}},
 "time":{"elapsed":60,"end":1709280120,"start":1709280060,"submission":1709280020},"user":"ann"}]}`
	newJSON = `{"jobs":[
{"account":"phys","cluster":"vale","constraints":"fast","comment":{"job":"c"},"allocation_nodes":2,"array":{"job_id":0,"task_id":{"set":false,"infinite":false,"number":0},"task":""},
 "exit_code":{"status":["SUCCESS"],"return_code":{"set":true,"infinite":false,"number":0}},"group":"staff","job_id":17,"name":"a|b","nodes":"n[1-2]","partition":"batch",
 "priority":{"set":true,"infinite":false,"number":99},"qos":"normal","required":{"CPUs":8,"memory_per_cpu":{"set":false},"memory_per_node":{"set":true,"infinite":false,"number":2048}},
 "state":{"current":["COMPLETED"],"reason":"None"},"time":{"elapsed":60,"eligible":1709280000,"end":1709280120,"start":1709280060,"submission":1709280000,"suspended":0,"limit":{"set":true,"infinite":false,"number":30}},
 "tres":{"allocated":[{"type":"cpu","name":"","id":1,"count":8}],"requested":[{"type":"node","name":"","count":2},{"type":"gres","name":"gpu","count":4},{"type":"gres","name":"gpu:a100","count":4}]},
 "user":"ann","wckey":{"wckey":"k","flags":[]},"steps":[]},
{"account":"phys","cluster":"vale","job_id":19,"array":{"job_id":18,"task_id":{"set":true,"infinite":false,"number":3}},"name":"t","required":{"CPUs":1},"state":{"current":["TIMEOUT"]},
 "time":{"elapsed":60,"end":1709280120,"start":0,"submission":1709280010,"limit":{"set":true,"number":1}},"user":"ann","steps":[{"time":{"start":{"set":true,"number":1709280060}}}]},
{"account":"phys","cluster":"vale","job_id":20,"name":"k","required":{"CPUs":1},"state":{"current":["FAILED"]},"exit_code":{"status":["SIGNALED"],"return_code":{"set":false,"infinite":false,"number":0},"signal":{"id":{"set":true,"infinite":false,"number":9},"name":"KILL"}},
 "time":{"elapsed":60,"end":1709280120,"start":1709280060,"submission":1709280020},"user":"ann"}],
 "meta":{},"errors":[],"warnings":[]}`
)

func TestReadSacctJSON(t *testing.T) {
	at := func(s int64) hpc.Time { return hpc.Unix(1709280000 + s) }
	want := []*hpc.Job{
		{
			ID: "17", Submit: at(0),
			Request: hpc.Request{
				Name: "a|b", User: "ann", Group: "staff", Account: "phys", Partition: "batch", QOS: "normal", WCKey: "k", Comment: "c", Constraint: "fast",
				TimeLimit: 30 * time.Minute, MinNodes: 2, MaxNodes: 2, Tasks: 8, MemPerNode: 2048, GPUs: "a100:4",
			},
			Behaviour: hpc.Behaviour{RunTime: time.Minute},
			Recorded:  &hpc.Recorded{Eligible: at(0), Start: at(60), End: at(120), State: hpc.Completed, Nodes: "n[1-2]", Processors: 8, Priority: 99},
		}, {
			ID: "18", Submit: at(10),
			Request:   hpc.Request{Name: "t", User: "ann", Account: "phys", TimeLimit: time.Minute, Tasks: 1, Array: "3"},
			Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited},
			Recorded: &hpc.Recorded{
				Start: at(60), End: at(120), State: hpc.TimedOut,
				TaskStarts: map[int]hpc.Time{3: at(60)}, TaskEnds: map[int]hpc.Time{3: at(120)},
			},
		}, {
			ID: "20", Submit: at(20),
			Request:   hpc.Request{Name: "k", User: "ann", Account: "phys", Tasks: 1},
			Behaviour: hpc.Behaviour{RunTime: time.Minute, ExitCode: 137},
			Recorded:  &hpc.Recorded{Start: at(60), End: at(120), State: hpc.Failed},
		},
	}
	for _, text := range []string{oldJSON, newJSON} {
		w, err := Read(strings.NewReader(text), "x.json", ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, w.Jobs.List()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestSacctJSONErrors(t *testing.T) {
	for text, want := range map[string]string{
		`[1]`:                     "not an object",
		`{"meta":{}}`:             "no list of jobs",
		`{"jobs":{}}`:             "jobs: not a list",
		`{"jobs":[]}`:             "no usable job",
		oldJSON[:len(oldJSON)-60]: "job 3: not JSON",
		oldJSON[:len(oldJSON)-1]:  "after 3 jobs: ",
		`{"jobs":[{"job_id":0}]}`: "no usable job in it (record_unreadable 1)",
		`{"jobs":[{"job_id":1,"time":{"submission":-4}}]}`: "record_unreadable 1",
	} {
		if _, _, err := ReadSacctJSON(strings.NewReader(text), "x", ReadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: error %v, want %q", text, err, want)
		}
	}
}

const reservationText = `ReservationName=maint StartTime=2024-03-01T06:00:00 EndTime=2024-03-01T10:00:00 Duration=04:00:00
   Nodes=n[1-4] NodeCnt=4 CoreCnt=16 Features=(null) PartitionName=batch Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES
   TRES=cpu=16
   Users=root,ann Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a
   MaxStartDelay=(null)

ReservationName=over StartTime=2024-02-01T06:00:00 EndTime=2024-02-01T10:00:00 Duration=04:00:00 Nodes=n1 Users=ann
ReservationName=count StartTime=2024-03-02T06:00:00 EndTime=2024-03-02T10:00:00 Nodes=(null) NodeCnt=2 Accounts=phys Users=(null)
`

func TestReadReservations(t *testing.T) {
	window := ReadOptions{Start: hpc.Unix(1709280000), End: hpc.Unix(1709280000 + 2*86400)} // 2024-03-01T08:00:00Z
	got, err := ReadReservations(strings.NewReader(reservationText), "x", window)
	if err != nil {
		t.Fatal(err)
	}
	want := []hpc.ReservationEvent{
		{At: window.Start, Action: "create", Reservation: hpc.Reservation{
			Name: "maint", Start: window.Start.Add(-2 * time.Hour), Duration: 4 * time.Hour, Nodes: "n[1-4]", Partition: "batch",
			Users: []string{"root", "ann"}, Flags: []string{"MAINT", "IGNORE_JOBS"},
		}},
		{At: window.Start, Action: "create", Reservation: hpc.Reservation{
			Name: "count", Start: hpc.Unix(1709359200), Duration: 4 * time.Hour, NodeCount: 2, Accounts: []string{"phys"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got, err := ReadReservations(strings.NewReader("No reservations in the system\n"), "x", window); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestReadNodeStates(t *testing.T) {
	got, err := ReadNodeStates(strings.NewReader(`NodeName=n1 Arch=x86_64 CoresPerSocket=8
   OS=Linux 5.10 #1 SMP Debian
   State=IDLE+DRAIN ThreadsPerCore=1 Owner=N/A
   Reason=bad memory in slot 4 [root@2024-03-01T07:00:00]

NodeName=n2 State=ALLOCATED ThreadsPerCore=1
NodeName=n3 State=DOWN*+NOT_RESPONDING Reason=Not responding [slurm@2024-03-01T07:00:00]
NodeName=n4 State=MIXED+PLANNED
`), "x", ReadOptions{Start: 7})
	if err != nil {
		t.Fatal(err)
	}
	want := []hpc.NodeEvent{
		{At: 7, Nodes: "n1", State: "drain", Reason: "bad memory in slot 4"},
		{At: 7, Nodes: "n3", State: "down", Reason: "Not responding"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestScontrolErrors(t *testing.T) {
	for text, want := range map[string]string{
		"hello\n":                                "reading reservations: x:1: \"hello\": want ReservationName=",
		"\nReservationName=a StartTime=b\n":      "x:2: StartTime=b: not a time",
		"ReservationName=a StartTime=2024-03-01": "x:1: EndTime=: not a time",
		"ReservationName=a StartTime=2024-03-01 EndTime=2024-03-02 NodeCnt=-4": "NodeCnt=-4: not a count",
	} {
		if _, err := ReadReservations(strings.NewReader(text), "x", ReadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	if _, err := ReadNodeStates(strings.NewReader("NodeName=a\n"), "x", ReadOptions{}); err == nil || !strings.Contains(err.Error(), "x:1: a node without State=") {
		t.Error(err)
	}
}

func TestConvertAccountsDump(t *testing.T) {
	got, qos, err := ConvertAccountsDump(strings.NewReader(`# To edit this file start with a cluster line
Cluster - 'vale':Fairshare=1:QOS='normal':DefaultQOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'phys':Description='physics: all':Organization='phys':Fairshare=50:GrpTRES=cpu=10
Parent - 'phys'
User - 'ann':DefaultAccount='phys':Fairshare=10:QOS='+high,normal'
`), "x")
	want := `add qos name=high
add cluster name=vale Fairshare=1 QOS=normal DefaultQOS=normal
add account name=phys parent=root Description="physics: all" Organization=phys Fairshare=50 GrpTRES=cpu=10
add user name=ann account=phys DefaultAccount=phys Fairshare=10 QOS=+high,normal
`
	if diff := cmp.Diff(want, got); diff != "" || err != nil || fmt.Sprint(qos) != "[normal high]" {
		t.Errorf("%v, QOS %v, (-want +got)\n%s", err, qos, diff)
	}
	for text, want := range map[string]string{
		"":                             "reading accounts: x: no line Cluster",
		"Cluster 'a'":                  "x:1: \"Cluster 'a'\": want Cluster",
		"Cluster - 'a":                 "x:1: ' without a closing '",
		"Cluster - :a=b":               "an empty name",
		"Group - 'a'":                  "Group: not known",
		"Cluster - 'a'\nCluster - 'b'": "x:2: a second cluster",
	} {
		if _, _, err := ConvertAccountsDump(strings.NewReader(text), "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzReadSacctJSON(f *testing.F) {
	f.Add(oldJSON)
	f.Add(newJSON)
	f.Fuzz(func(t *testing.T, text string) {
		w, _, err := ReadSacctJSON(strings.NewReader(text), "fuzz", ReadOptions{})
		if err != nil {
			return
		}
		for _, job := range w.Jobs.All() {
			if job.Submit <= 0 || job.ID == "" || job.RunTime < 0 || CPUs(&job.Request) < 1 {
				t.Errorf("job %+v", job)
			}
		}
	})
}

func FuzzScontrol(f *testing.F) {
	f.Add(reservationText)
	f.Add("NodeName=n1 State=IDLE+DRAIN Reason=a b [c@d]\n")
	f.Fuzz(func(t *testing.T, text string) {
		events, err := ReadReservations(strings.NewReader(text), "fuzz", ReadOptions{Start: 5})
		for _, e := range events {
			if err == nil && (e.Duration <= 0 || e.Start < 5) {
				t.Errorf("reservation %+v", e)
			}
		}
		nodes, err := ReadNodeStates(strings.NewReader(text), "fuzz", ReadOptions{})
		for _, e := range nodes {
			if err == nil && e.State != "down" && e.State != "drain" {
				t.Errorf("node event %+v", e)
			}
		}
	})
}

func FuzzConvertAccountsDump(f *testing.F) {
	f.Add("Cluster - 'a':QOS='b'\nParent - 'root'\nAccount - 'c':Fairshare=1\nUser - 'd'\n")
	f.Fuzz(func(t *testing.T, text string) {
		commands, _, err := ConvertAccountsDump(strings.NewReader(text), "fuzz")
		if (err == nil) == (commands == "") {
			t.Errorf("%q with error %v", commands, err)
		}
	})
}
