package trace

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/hpc/hpctest"
	"rmreplay/internal/workload"
)

func TestTraceRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &workload.Workload{Epoch: hpc.Time(rapid.Int64Range(0, 4e18).Draw(t, "epoch")), Source: "any"}
		hpctest.Draw(t, "machine", &want.MachineProcessors)
		hpctest.Draw(t, "header", &want.Header)
		hpctest.Draw(t, "unusable", &want.Unusable)
		for range rapid.IntRange(1, 3).Draw(t, "jobs") {
			job := &hpc.Job{}
			hpctest.Draw(t, "job", job)
			job.ID = "j" + job.ID
			want.Jobs.Append(job)
		}
		hpctest.Draw(t, "users", &want.Users)
		for i := range want.Users {
			want.Users[i].Name = "u" + want.Users[i].Name
		}
		hpctest.Draw(t, "nodes", &want.NodeEvents)
		for i := range want.NodeEvents {
			want.NodeEvents[i].Nodes, want.NodeEvents[i].State = "n1", "drain"
		}
		hpctest.Draw(t, "reservations", &want.Reservations)
		for i := range want.Reservations {
			want.Reservations[i].Name, want.Reservations[i].Action = "r", "create"
		}
		hpctest.Draw(t, "actions", &want.Actions)
		for i := range want.Actions {
			want.Actions[i] = hpc.Action{At: want.Actions[i].At, Run: []string{"scontrol", want.Actions[i].Shell}}
		}
		want.Start = hpc.Time(rapid.Int64Range(0, 4e18).Draw(t, "start"))
		want.Usage = []hpc.Usage{{Account: "a", User: "u", Raw: rapid.Float64Range(0, 1e12).Draw(t, "usage")}}
		want.FileSystems = []hpc.FileSystem{{Name: "lustre", Bandwidth: rapid.Int64Range(1, 1<<40).Draw(t, "bandwidth"), Licenses: rapid.Int64Range(0, 1<<20).Draw(t, "licenses")}}
		want.Sort()
		want.Rules = map[string]int{"some_rule": 3}

		var text bytes.Buffer
		if err := Write(&text, want); err != nil {
			t.Fatal(err)
		}
		got, err := Read(bytes.NewReader(text.Bytes()), "trace", workload.ReadOptions{})
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Transformer("jobs", func(l workload.Jobs) []*hpc.Job { return l.List() })); diff != "" {
			t.Fatalf("(-want +got)\n%s\n%s", diff, text.String())
		}
	})
}

const testHeader = `{"rmreplay_trace":1,"epoch":"2024-01-01T00:00:00Z","source":"test"}` + "\n"

func TestRead(t *testing.T) {
	w, err := Read(strings.NewReader(testHeader+`
{"type":"job","id":"b","submit":6.025e1,"run_time_s":"unlimited","time_limit_s":3.6E+3,"mem_per_node_mib":-1.0,"requeue":false}
{"type":"job","id":"a","submit":"2024-01-01T00:00:30Z","run_time_s":0,"recorded":{"start":0.9e2,"state":"FAILED"}}
{"type":"node","at":10,"nodes":"n[1-2]","state":"down"}
{"type":"reservation","at":0,"action":"create","name":"r","start":3600,"duration_s":60}
{"type":"user","name":"u","uid":0,"group":"g","gid":1}
{"type":"action","at":20,"shell":"date"}
{"type":"action","at":10,"slurm_conf":"later.conf"}
{"type":"action","at":15,"run":["scontrol","update","partitionname=a b"]}
{"type":"usage","account":"acc","user":"u","raw_s":1.5e6}
`), "t", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	epoch := workload.DefaultEpoch
	want := &workload.Workload{
		Epoch: epoch, Source: "test", Rules: map[string]int{workload.RuleOutOfOrder: 1},
		Jobs: workload.JobsOf([]*hpc.Job{
			{ID: "a", Submit: epoch + 30*hpc.Second, Recorded: &hpc.Recorded{Start: epoch + 90*hpc.Second, State: hpc.Failed}},
			{ID: "b", Submit: epoch.Add(60250 * time.Millisecond), Request: hpc.Request{TimeLimit: time.Hour, MemPerNode: hpc.AllMemory, Requeue: new(false)}, Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited}},
		}...),
		NodeEvents:   []hpc.NodeEvent{{At: epoch + 10*hpc.Second, Nodes: "n[1-2]", State: "down"}},
		Reservations: []hpc.ReservationEvent{{At: epoch, Action: "create", Reservation: hpc.Reservation{Name: "r", Start: epoch + 3600*hpc.Second, Duration: time.Minute}}},
		Users:        []hpc.User{{Name: "u", Group: "g", GID: 1}},
		Actions: []hpc.Action{
			{At: epoch + 10*hpc.Second, SlurmConf: "later.conf"},
			{At: epoch + 15*hpc.Second, Run: []string{"scontrol", "update", "partitionname=a b"}},
			{At: epoch + 20*hpc.Second, Shell: "date"},
		},
		Usage: []hpc.Usage{{Account: "acc", User: "u", Raw: 1.5e6}},
	}
	if diff := cmp.Diff(want, w); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReadTraceErrors(t *testing.T) {
	const job = `{"type":"job","id":"a","submit":0,"run_time_s":1`
	tests := []struct{ text, want string }{
		{"", "reading trace: t: empty"},
		{testHeader + `{"type":"action","at":1}`, "t:2: what to do: want exactly one of run, shell and slurm_conf"},
		{testHeader + `{"type":"action","at":1,"shell":"a","slurm_conf":"b"}`, "t:2: what to do: want exactly one of"},
		{testHeader + `{"type":"action","shell":"a"}`, "t:2: at: missing"},
		{testHeader + `{"type":"usage","raw_s":1}`, "t:2: account: missing"},
		{testHeader + `{"type":"usage","account":"a","raw_s":-1}`, "t:2: raw_s: negative"},
		{testHeader, "reading trace: t: it has no job"},
		{`{"rmreplay_trace":2}`, "reading trace: t:1: header: rmreplay_trace 2: not a version that this program reads (want 1)"},
		{`{"type":"job"}`, "t:1: header: type: not a field"},
		{`{"rmreplay_trace":1,"file_systems":[{"name":"lustre"}]}`, "header: file system lustre: a bandwidth of 0 bytes/s (want more than 0)"},
		{`{"rmreplay_trace":1,"epoch":5}`, "header: epoch: not a time"},
		{testHeader + job + `,"runtime":4}`, "reading trace: t:2: runtime: not a field of this record"},
		{testHeader + job + `,"tasks":"4"}`, "t:2: tasks: is a string (want int)"},
		{testHeader + job, "t:2: not JSON"},
		{testHeader + job + `}{}`, "not JSON"},
		{testHeader + `{"type":"job","id":"a","submit":0}`, "run_time_s: missing"},
		{testHeader + `{"type":"job","id":"a","submit":0,"run_time_s":null}`, "run_time_s: missing"},
		{testHeader + `{"type":"job","id":"a","submit":0,"run_time_s":-1}`, "run_time_s: negative"},
		{testHeader + `{"type":"job","id":"a","submit":0,"run_time_s":"1h"}`, `t:2: run_time_s: "1h": not a duration (want seconds or "unlimited")`},
		{testHeader + job + `,"time_limit_s":"1h"}`, `t:2: time_limit_s: "1h": not a duration`},
		{testHeader + job + `,"recorded":{"start":"noon"}}`, `t:2: recorded.start: "noon": not a time`},
		{testHeader + job + `,"task_run_times_s":{"1":"x"}}`, `t:2: task_run_times_s: "x": not a duration`},
		{testHeader + job + `,"Tasks":4}`, "t:2: Tasks: not a field of this record (want it in lower case)"},
		{testHeader + job + `,"recorded":{"NODES":"n1"}}`, "t:2: NODES: not a field of this record"},
		{testHeader + job + `,"tasks":4,"tasks":5}`, "t:2: tasks: the key occurs twice in one record"},
		{testHeader + job + `,"tasks":4,"task\u0073":5}`, "t:2: tasks: the key occurs twice in one record"},
		{testHeader + job + `,"name":"a{\"tasks\":1,}\\","tasks":4,"comment":"]","tasks":5}`, "t:2: tasks: the key occurs twice in one record"},
		{testHeader + job + `,"recorded":{"end":5, "nodes":"n1" , "end":6}}`, "t:2: end: the key occurs twice in one record"},
		{testHeader + job + `,"task_run_times_s":{"1":5,"2":5,"1":6}}`, "t:2: 1: the key occurs twice in one record"},
		{testHeader + `{"type":"job","type":"user","name":"u"}`, "t:2: type: the key occurs twice in one record"},
		{`{"rmreplay_trace":1,"Epoch":"2024-01-01T00:00:00Z"}`, "t:1: header: Epoch: not a field"},
		{testHeader + `{"type":"job","id":"a","submit":0,"run_time_s":1e-10}`, `t:2: run_time_s: 0.0000000001: not a duration`},
		{testHeader + `{"type":"job","id":"a","submit":0,"run_time_s":1e300}`, `t:2: run_time_s: 1e300: not a duration`},
		{testHeader + job + `,"tasks":1.5e0}`, "t:2: tasks: is a number 1.5 (want int)"},
		{testHeader + job + `,"tasks":1e20}`, "t:2: tasks: is a number 100000000000000000000 (want int)"},
		{testHeader + `{"type":"job","id":"a","run_time_s":1}`, "submit: missing"},
		{testHeader + `{"type":"job","id":"a","submit":"noon","run_time_s":1}`, `t:2: submit: "noon": not a time (want "2024-03-01T08:00:00Z", or seconds from the epoch)`},
		{testHeader + `{"type":"job","id":"a","submit":"1709596810","run_time_s":1}`, `t:2: submit: "1709596810": not a time`},
		{testHeader + `{"type":"job","id":"a","submit":"9999-12-31T00:00:00Z","run_time_s":1}`, "not a time"},
		{testHeader + `{"type":"job","submit":0,"run_time_s":1}`, "id: missing"},
		{testHeader + `{"type":"jobs"}`, "type jobs: not known (want job, user, node, reservation, action, usage or unusable)"},
		{testHeader + `{"id":"a"}`, "a record without a type"},
		{testHeader + `{"type":"node","at":1,"nodes":"n1","state":"off"}`, `state "off": not known`},
		{testHeader + `{"type":"node","nodes":"n1","state":"down"}`, "at: missing"},
		{testHeader + `{"type":"reservation","at":1,"name":"r","action":"make"}`, `action "make": not known`},
		{testHeader + `{"type":"user","uid":5}`, "name: missing"},
		{testHeader + "[1]", "a record is a list (want an object"},
		{testHeader + "x", "not JSON"},
	}
	for _, tt := range tests {
		_, err := Read(strings.NewReader(tt.text), "t", workload.ReadOptions{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.text, err, tt.want)
		}
	}
}

// TestReadTraceEpoch checks the epoch and the beginning of a workload if the header gives no epoch.
func TestReadTraceEpoch(t *testing.T) {
	const (
		relative = `{"type":"job","id":"a","submit":10,"run_time_s":1}` + "\n"
		absolute = `{"type":"job","id":"b","submit":"2024-03-05T00:00:10.5Z","run_time_s":1}` + "\n"
	)
	for _, test := range []struct{ text, epoch, submit string }{
		{`{"rmreplay_trace":1}` + "\n" + relative, "2024-01-01T00:00:00Z", "2024-01-01T00:00:10Z"},
		{`{"rmreplay_trace":1}` + "\n" + absolute, "2024-03-05T00:00:10Z", "2024-03-05T00:00:10.5Z"},
		{`{"rmreplay_trace":1}` + "\n" + absolute + relative, "2024-01-01T00:00:00Z", "2024-01-01T00:00:10Z"},
		{`{"rmreplay_trace":1}` + "\n" + absolute + `{"type":"node","at":"2024-03-04T00:00:00Z","nodes":"n1","state":"down"}`,
			"2024-03-04T00:00:00Z", "2024-03-05T00:00:10.5Z"},
		{`{"rmreplay_trace":1,"epoch":"1970-01-01T00:00:00Z"}` + "\n" + relative, "unset", "1970-01-01T00:00:10Z"},
		{`{"rmreplay_trace":1,"epoch":"2023-01-01T00:00:00Z"}` + "\n" + absolute, "2023-01-01T00:00:00Z", "2024-03-05T00:00:10.5Z"},
	} {
		w, err := Read(strings.NewReader(test.text), "t", workload.ReadOptions{})
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if w.Epoch.String() != test.epoch || w.Jobs.Submit(0).String() != test.submit {
			t.Errorf("%s: epoch %s, submitted at %s; want %s and %s", test.text, w.Epoch, w.Jobs.Submit(0), test.epoch, test.submit)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(testHeader + `{"type":"job","id":"a","submit":0,"run_time_s":1,"task_run_times_s":{"1":2.5}}`)
	f.Add(testHeader + `{"type":"node","at":10,"nodes":"n1","state":"down"}` + "\n" + `{"type":"job","id":"a","submit":"2024-01-01","run_time_s":"unlimited"}`)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Read(strings.NewReader(text), "fuzz", workload.ReadOptions{})
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := Write(&out, w); err != nil {
			t.Fatal(err)
		}
		workload.Validate(w, workload.Cluster{})
		workload.NewInfo(w)
	})
}
