package sacct_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/formats/sacct"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// The same two jobs as the data parsers of Slurm 22.05 and of 23.11 write them.
const (
	oldJSON = `{"meta":{"plugin":{"type":"openapi/dbv0.0.38"}},"errors":[],"jobs":[
{"account":"phys","cluster":"vale","constraints":"fast","comment":{"job":"c"},"allocation_nodes":2,"array":{"job_id":0,"task_id":null,"task":null,"limits":{"max":{"running":{"tasks":0}}}},
 "exit_code":{"status":"SUCCESS","return_code":0},"flags":["CLEAR_SCHEDULING","STARTED_ON_BACKFILL"],"group":"staff","job_id":17,"name":"a|b","nodes":"n[1-2]","partition":"batch","priority":99,"qos":"normal",
 "required":{"CPUs":8,"memory":2048},"het":{"job_id":0,"job_offset":null},"state":{"current":"COMPLETED","reason":"None"},
 "time":{"elapsed":60,"eligible":1709280000,"end":1709280120,"start":1709280060,"submission":1709280000,"suspended":0,"limit":30},
 "tres":{"allocated":[{"type":"cpu","name":null,"id":1,"count":8},{"type":"mem","name":null,"id":2,"count":4096},{"type":"energy","name":null,"id":3,"count":-2}],"requested":[{"type":"node","name":null,"count":2},{"type":"gres","name":"gpu","count":4},{"type":"gres","name":"gpu:a100","count":4}]},
 "user":"ann","wckey":{"wckey":"k"},"steps":[]},
{"account":"phys","cluster":"vale","job_id":19,"array":{"job_id":18,"task_id":3},"name":"t","required":{"CPUs":1},"state":{"current":"TIMEOUT"},
 "time":{"elapsed":60,"end":1709280120,"start":0,"submission":1709280010,"limit":1},"user":"ann","steps":[{"time":{"start":1709280060}}]},
{"account":"phys","cluster":"vale","job_id":20,"name":"k","required":{"CPUs":1},"state":{"current":"FAILED"},"exit_code":{"status":"SIGNALED","signal":{"signal_id":9,"name":"Killed"}},
 "time":{"elapsed":60,"end":1709280120,"start":1709280060,"submission":1709280020},"user":"ann"}]}`
	newJSON = `{"jobs":[
{"account":"phys","cluster":"vale","constraints":"fast","comment":{"job":"c"},"allocation_nodes":2,"array":{"job_id":0,"task_id":{"set":false,"infinite":false,"number":0},"task":""},
 "exit_code":{"status":["SUCCESS"],"return_code":{"set":true,"infinite":false,"number":0}},"flags":["STARTED_ON_BACKFILL"],"group":"staff","job_id":17,"name":"a|b","nodes":"n[1-2]","partition":"batch",
 "priority":{"set":true,"infinite":false,"number":99},"qos":"normal","required":{"CPUs":8,"memory_per_cpu":{"set":false},"memory_per_node":{"set":true,"infinite":false,"number":2048}},
 "state":{"current":["COMPLETED"],"reason":"None"},"time":{"elapsed":60,"eligible":1709280000,"end":1709280120,"start":1709280060,"submission":1709280000,"suspended":0,"limit":{"set":true,"infinite":false,"number":30}},
 "tres":{"allocated":[{"type":"cpu","name":"","id":1,"count":8},{"type":"mem","name":"","id":2,"count":4096},{"type":"energy","name":"","id":3,"count":-2}],"requested":[{"type":"node","name":"","count":2},{"type":"gres","name":"gpu","count":4},{"type":"gres","name":"gpu:a100","count":4}]},
 "user":"ann","wckey":{"wckey":"k","flags":[]},"steps":[]},
{"account":"phys","cluster":"vale","job_id":19,"array":{"job_id":18,"task_id":{"set":true,"infinite":false,"number":3}},"name":"t","required":{"CPUs":1},"state":{"current":["TIMEOUT"]},
 "time":{"elapsed":60,"end":1709280120,"start":0,"submission":1709280010,"limit":{"set":true,"number":1}},"user":"ann","steps":[{"time":{"start":{"set":true,"number":1709280060}}}]},
{"account":"phys","cluster":"vale","job_id":20,"name":"k","required":{"CPUs":1},"state":{"current":["FAILED"]},"exit_code":{"status":["SIGNALED"],"return_code":{"set":false,"infinite":false,"number":0},"signal":{"id":{"set":true,"infinite":false,"number":9},"name":"KILL"}},
 "time":{"elapsed":60,"end":1709280120,"start":1709280060,"submission":1709280020},"user":"ann"}],
 "meta":{},"errors":[],"warnings":[]}`
)

func TestReadJSON(t *testing.T) {
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
		w, err := sacct.Read(strings.NewReader(text), "x.json", workload.ReadOptions{})
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
		`[1]`:                     "no column JobID",
		`{"meta":{}}`:             "no list of jobs",
		`{"jobs":{}}`:             "jobs: not a list",
		`{"jobs":[]}`:             "no usable job",
		oldJSON[:len(oldJSON)-60]: "job 3: not JSON",
		oldJSON[:len(oldJSON)-1]:  "after 3 jobs: ",
		`{"jobs":[{"job_id":0}]}`: "it has no usable job (record_unreadable 1; the first: x: job 1: job_id: missing)",
		`{"jobs":[{"job_id":1,"time":{"submission":-4}}]}`: "record_unreadable 1",
	} {
		if _, _, err := sacct.Accounting(strings.NewReader(text), "x", workload.ReadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: error %v, want %q", text, err, want)
		}
	}
}

func FuzzReadJSON(f *testing.F) {
	f.Add(oldJSON)
	f.Add(newJSON)
	f.Fuzz(func(t *testing.T, text string) {
		w, _, err := sacct.Accounting(strings.NewReader(text), "fuzz", workload.ReadOptions{})
		if err != nil {
			return
		}
		if w.Rows.Lost() != 0 {
			t.Errorf("rows %+v, rules %v", w.Rows, w.Rules)
		}
		for _, job := range w.Jobs.All() {
			if job.Submit <= 0 || job.ID == "" || job.RunTime < 0 || workload.CPUs(&job.Request) < 1 {
				t.Errorf("job %+v", job)
			}
		}
	})
}
