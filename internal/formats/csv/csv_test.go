package csv_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rmreplay/internal/formats/csv"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

func read(text string) (*workload.Workload, error) {
	return csv.Read(strings.NewReader(text), "x.csv", workload.ReadOptions{})
}

func TestRead(t *testing.T) {
	w, err := read("\xef\xbb\xbfsubmit,id,name,run_time_s,time_limit_s,recorded_start,recorded_end,recorded_state,requeue,user,user_uid,user_group,user_gid,mem_per_node_mib\r\n" +
		"2024-03-01T08:00:10Z,b,\"say \"\"hi\"\",\nthere\",,3600,1709280020,1709280080.5,TO,false,ann,7,g,8,-1\r\n" +
		"1709280000,a,,unlimited,unlimited,,,,,ann,7,g,8,\r\n")
	if err != nil {
		t.Fatal(err)
	}
	at := func(s int64) hpc.Time { return hpc.Unix(1709280000 + s) }
	want := &workload.Workload{
		Epoch: at(0), Source: "x.csv", Rules: map[string]int{workload.RuleOutOfOrder: 1},
		Mistake: "submitted at 2024-03-01T08:00:00Z, after a job that was submitted at 2024-03-01T08:00:10Z",
		Users:   []hpc.User{{Name: "ann", UID: 7, Group: "g", GID: 8}},
		Jobs: workload.JobsOf(
			&hpc.Job{ID: "a", Submit: at(0), Request: hpc.Request{User: "ann", TimeLimit: hpc.Unlimited}, Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited}},
			&hpc.Job{
				ID: "b", Submit: at(10),
				Request:   hpc.Request{Name: "say \"hi\",\nthere", User: "ann", TimeLimit: time.Hour, Requeue: new(false), MemPerNode: hpc.AllMemory},
				Behaviour: hpc.Behaviour{RunTime: 60500 * time.Millisecond},
				Recorded:  &hpc.Recorded{State: hpc.TimedOut, Start: at(20), End: at(80).Add(500 * time.Millisecond)},
			},
		),
	}
	if diff := cmp.Diff(want, w); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestErrors(t *testing.T) {
	const head = "id,submit,run_time_s,tasks,requeue\n"
	for text, want := range map[string]string{
		"":                                "reading csv: x.csv: empty",
		head:                              "x.csv: it has no job",
		"id,submit,runtime\n":             "x.csv:1:11: runtime: not a known column (workload build --from table reads other tables; did you mean run_time_s?)",
		"id,submit,Tasks,run_time_s\n":    "x.csv:1:11: Tasks: not a known column (workload build --from table reads other tables; did you mean tasks?)",
		"id,submit,cpus\n":                "x.csv:1:11: cpus: not a known column (workload build --from table reads other tables; did you mean tasks and cpus_per_task?)",
		"id,submit,start\n":               "start: not a known column (workload build --from table reads other tables; did you mean recorded_start?)",
		"id,submit,colour\n":              "colour: not a known column (workload build --from table reads other tables; want id, submit,",
		"id,submit,id\n":                  "x.csv:1:11: id: an earlier column has the same name",
		"id,run_time_s\n":                 "x.csv:1: no column submit",
		"id,submit\n":                     "x.csv:1: no column run_time_s",
		head + "a,noon,1,1,\n":            `x.csv:2:3: submit: "noon": not a time (want 2024-03-01T08:00:00Z`,
		head + "a,1709280000,1h,1,\n":     `x.csv:2:14: run_time_s: "1h": not a duration`,
		head + "a,1709280000,1,1.5,\n":    `tasks: "1.5": not a whole number`,
		head + "a,1709280000,1,1,maybe\n": `requeue: "maybe": not a truth value`,
		head + "a,1709280000,-1,1,\n":     "run_time_s: negative",
		head + "a,1709280000,,1,\n":       "run_time_s: missing",
		head + ",1709280000,1,1,\n":       "x.csv:2:1: id: missing",
		head + "a,,1,1,\n":                "submit: missing",
		head + "a,1709280000,1,1\n":       "x.csv:2: not as many fields as the header has (want 5)",
		head + "a,1709280000,\"1\"2,1,\n": "x.csv:2:",
		"id,submit,run_time_s,user,user_uid\na,1709280000,1,u,1\nb,1709280001,1,u,2\n": "x.csv:3:18: user_uid: user u has the user ID 1,",
	} {
		if _, err := read(text); err == nil || !strings.HasPrefix(err.Error(), "reading csv: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestRecognize(t *testing.T) {
	for text, want := range map[string]workload.Confidence{
		"submit,\"id\",tasks\n": workload.Sure, "id,submitt,tasks\n": workload.Maybe,
		"hello, world\n": workload.No, "JobID|Submit\n": workload.No, "": workload.No,
	} {
		if got := csv.Format.Recognize([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestWrite writes fields with and without a column, and reads the table again.
func TestWrite(t *testing.T) {
	at := hpc.Unix(1709280000)
	w := &workload.Workload{
		Users: []hpc.User{{Name: "ann", UID: 1, Group: "g", GID: 2}, {Name: "idle"}}, NodeEvents: []hpc.NodeEvent{{}},
		Unusable: []workload.Unusable{{}},
		Jobs: workload.JobsOf(
			&hpc.Job{
				ID: "a", Submit: at, Request: hpc.Request{User: "ann", Priority: new(uint32(0)), GPUs: "a100:2", SwitchWait: 1500 * time.Millisecond, Comment: "a\r\nb"},
				Behaviour: hpc.Behaviour{RunTime: 0, CancelAfter: 1, EndAt: at + 5},
				Recorded:  &hpc.Recorded{State: hpc.Failed, Start: at, End: at, Nodes: "n[1-2]", Processors: 2, Priority: 7},
			},
			&hpc.Job{
				ID: "b", Submit: at + 1, Request: hpc.Request{Array: "1-2", NoKill: true},
				Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited, TaskExitCodes: map[int]int{1: 3}},
				Recorded:  &hpc.Recorded{TaskNodes: map[int]string{1: "n1"}, Eligible: at + 2},
			},
		),
	}
	w.MachineProcessors = 100
	var b bytes.Buffer
	losses, err := csv.Write(&b, w)
	if err != nil {
		t.Fatal(err)
	}
	want := workload.Losses{
		"comment": 1, "task_exit_codes": 1, "recorded (of single tasks)": 1, "users": 1, "unusable records": 1, "node events": 1,
		"size of the machine": 1,
	}
	if diff := cmp.Diff(want, losses); diff != "" {
		t.Errorf("losses (-want +got)\n%s", diff)
	}
	again, err := read(b.String())
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.String())
	}
	jobs := w.Jobs.List()
	jobs[0].Comment, jobs[1].TaskExitCodes, jobs[1].Recorded.TaskNodes = "a\nb", nil, nil
	if diff := cmp.Diff(jobs, again.Jobs.List(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("jobs (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(w.Users[:1], again.Users); diff != "" {
		t.Errorf("users (-want +got)\n%s", diff)
	}
	if strings.Contains(b.String(), "tmp_disk_mib") {
		t.Errorf("a column that no job needs:\n%s", b.String())
	}
}

// FuzzRead checks that a table is written so that the same jobs are read from it.
func FuzzRead(f *testing.F) {
	f.Add("id,submit,run_time_s,tasks,name\na,1709280000,1.5,2,\"x\ny\"\nb,2024-03-01,unlimited,,\n")
	f.Add("id,submit,recorded_start,recorded_end,user,user_uid\na,1709280000,1709280000,1709280001,u,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := read(text)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if _, err := csv.Write(&b, w); err != nil {
			t.Fatal(err)
		}
		again, err := read(b.String())
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		if !w.Jobs.Equal(again.Jobs) {
			t.Errorf("-want +got\n%s", cmp.Diff(w.Jobs.List(), again.Jobs.List()))
		}
	})
}

// TestInert: texts that spreadsheets would take for formulas are written with a quote before them,
// and read without it.
func TestInert(t *testing.T) {
	at := hpc.Unix(1709280000)
	w := &workload.Workload{Jobs: workload.JobsOf(
		&hpc.Job{ID: "1", Submit: at, Request: hpc.Request{User: "@a", Name: "=1+1", Comment: "'=2"}},
		&hpc.Job{ID: "2", Submit: at, Request: hpc.Request{User: "-b", Name: "-1", Comment: "'it is'"}},
	)}
	var b bytes.Buffer
	if _, err := csv.Write(&b, w); err != nil {
		t.Fatal(err)
	}
	for _, cell := range []string{",'@a,", ",'=1+1,", ",''=2,", ",'-b,", ",-1,", ",'it is',"} {
		if !strings.Contains(b.String(), cell) {
			t.Errorf("%q is not in\n%s", cell, b.String())
		}
	}
	again, err := read(b.String())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.Jobs.List(), again.Jobs.List(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("jobs (-want +got)\n%s", diff)
	}
}
