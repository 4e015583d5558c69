package document_test

import (
	"testing"
	"time"
	"unicode/utf8"

	"rmreplay/internal/accounting/document"
)

// FuzzParse checks that every text becomes a job that can be stored: always the same job, with
// valid texts and without negative amounts.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jobid":1,"@submit":"2024-03-01T00:00:00","@start":"2024-03-01T00:01:00","@end":"2024-03-01T00:11:00","nodes":"n1","tres_alloc":"cpu=4,mem=8G,gres/gpu:a=2"}`))
	f.Add([]byte(`{"jobid":1,"state":"PENDING","exit_code":"0:9","job_name":"M` + "\xfc" + `ller"}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, text []byte) {
		j := document.Parse(text, "vale")
		if j != document.Parse(text, "vale") {
			t.Error("not the same job each time")
		}
		for _, s := range []string{j.State, j.Name, j.User, j.NodeList, j.TRESAlloc, j.Cluster} {
			if !utf8.ValidString(s) {
				t.Errorf("%q is not UTF-8", s)
			}
		}
		for _, n := range []document.Int{j.Elapsed, j.Wait, j.Limit, j.CPUs, j.Nodes, j.GPUs, j.MemMiB, j.Billing} {
			if n.Value < 0 || n.Value != 0 && !n.Known {
				t.Errorf("%+v", n)
			}
		}
		for _, h := range []document.Hours{j.CPUHours, j.GPUHours, j.NodeHours} {
			if h.Value < 0 || h.Value != 0 && !h.Known {
				t.Errorf("%+v", j)
			}
		}
	})
}

// TestEndBy checks that an end after the limit is a bad value, and an earlier end is not.
func TestEndBy(t *testing.T) {
	text := []byte(`{"jobid":7,"cluster":"moor","@start":"2024-03-01T00:00:00","@end":"2024-03-01T01:00:00","nodes":"n1","state":"COMPLETED","total_cpus":2}`)
	begin := document.Parse(text, "")
	got := begin
	got.EndBy(begin.End)
	if got != begin || got.CPUHours != (document.Hours{Value: 2, Known: true}) {
		t.Errorf("an end in time: %+v, want %+v", got, begin)
	}
	got.EndBy(begin.End.Add(-1))
	want := begin
	want.End, want.Elapsed, want.Marks = time.Time{}, document.Int{}, document.BadValue
	want.CPUHours, want.NodeHours = document.Hours{}, document.Hours{}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got = begin
	got.State = ""
	if got.EndBy(begin.Start); got.Marks != document.BadValue|document.StartEvent {
		t.Errorf("without a state: %v", got.Marks.Names())
	}
}

// TestReleases parses documents in the forms of several releases.
func TestReleases(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want func(j *document.Job) bool
	}{
		"22.05": {`{"jobid":5,"container":null,"username":"ann","user_id":1000,"groupname":"staff","group_id":100,"@start":"2024-03-01T00:01:00","@end":"2024-03-01T00:11:00","elapsed":600,"partition":"batch","alloc_node":"login","nodes":"n[1-2]","total_cpus":8,"total_nodes":2,"derived_ec":"0:0","exit_code":"0:9","state":"CANCELLED","cpu_hours":1.33,"@submit":"2024-03-01T00:00:00","@eligible":"2024-03-01T00:00:30","@queue_wait":30,"qos":"normal","time_limit":3600,"tres_alloc":"cpu=8,mem=16G,node=2,billing=8,gres\/gpu=4,gres\/gpu:a100=4"}`,
			func(j *document.Job) bool {
				return j.Run == 1709251260 && j.Wait == document.KnownInt(60) && j.SinceEligible == document.KnownInt(30) && j.WaitParts[10] == document.KnownInt(60) && j.Elapsed.Value == 600 && j.CPUs.Value == 8 && j.GPUs.Value == 4 && j.MemMiB.Value == 16384 &&
					j.ExitCode.Value == 0 && j.ExitSignal.Value == 9 && j.Marks == document.NoCluster && j.Cluster == "vale" && j.Limit.Value == 3600
			}},
		"never ran: its start is the cancellation": {`{"jobid":6,"cluster":"moor","@start":"2024-03-01T00:09:00","@end":"2024-03-01T00:09:00","elapsed":0,"nodes":null,"total_cpus":8,"state":"CANCELLED","@submit":"2024-03-01T00:00:00","@eligible":"2024-03-01T00:00:00"}`,
			func(j *document.Job) bool {
				return j.Run == -1709251200 && j.Start.IsZero() && !j.Wait.Known && j.Elapsed == document.KnownInt(0) && j.CPUHours == document.Hours{Known: true} && j.Marks == 0
			}},
		"amounts that the document lacks": {`{"jobid":6,"cluster":"moor","@start":"2024-03-01T00:00:00","@end":"2024-03-01T01:00:00","nodes":"n[1-3,7]","state":"COMPLETED"}`,
			func(j *document.Job) bool {
				return j.Nodes == document.KnownInt(4) && j.NodeHours == document.Hours{Value: 4, Known: true} && !j.CPUHours.Known && !j.GPUs.Known && !j.GPUHours.Known && j.Marks == 0
			}},
		"nodes without names": {`{"jobid":6,"cluster":"moor","@start":"2024-03-01T00:00:00","@end":"2024-03-01T01:00:00","nodes":"unknown","total_cpus":8,"state":"COMPLETED","tres_alloc":"cpu=8"}`,
			func(j *document.Job) bool {
				return !j.Nodes.Known && !j.NodeHours.Known && j.CPUHours.Value == 8 && j.GPUHours == document.Hours{Known: true}
			}},
		"nodes that are no list": {`{"jobid":6,"cluster":"moor","@start":"2024-03-01T00:00:00","@end":"2024-03-01T01:00:00","nodes":"n[1-","state":"COMPLETED"}`,
			func(j *document.Job) bool { return !j.Nodes.Known && !j.NodeHours.Known }},
		"start unknown, elapsed nonsense": {`{"jobid":6,"cluster":"moor","@start":"Unknown","@end":"2024-03-01T00:09:00","elapsed":1709251740,"nodes":"(null)","state":"CANCELLED","@submit":"2024-03-01T00:00:00","@queue_wait":-3600}`,
			func(j *document.Job) bool { return j.Run == -1709251200 && j.Elapsed.Value == 0 && j.Marks == 0 }},
		"26.05": {`{"jobid":7,"sluid":"s1","original_sluid":"s0","cluster":"moor","@start":"2024-03-01T00:01:00","@end":"2024-03-01T00:02:00","nodes":"n1","state":"COMPLETED","failed_node":null,"priority":9,"features":"a&b","tres_req_raw":"1=2","tres_alloc_raw":"1=2","admin_comment":"c","comment":"d"}`,
			func(j *document.Job) bool {
				return j.SLUID == "s1" && j.OriginalSLUID == "s0" && j.Priority.Value == 9 && j.Features == "a&b" && j.AdminComment == "c" && j.Marks == 0
			}},
		"a start": {`{"jobid":7,"cluster":"moor","@start":"2024-03-01T00:01:00","nodes":"n1","state":null}`,
			func(j *document.Job) bool {
				return j.Marks == document.StartEvent && !j.Elapsed.Known && j.Run == 1709251260
			}},
		"a record of a job that ran": {`{"jobid":7,"cluster":"moor","@submit":"2024-03-01T00:00:00","@start":"2024-03-01T00:01:00","nodes":"n1","state":"RUNNING","time_limit":null}`,
			func(j *document.Job) bool {
				return j.Marks == document.StartEvent && !j.Finished() && !j.Elapsed.Known && !j.Limit.Known && j.Run == 1709251260
			}},
		"a requeue": {`{"jobid":7,"cluster":"moor","@submit":"2024-03-01T00:00:00","@start":"2024-03-01T00:01:00","@end":"2024-03-01T00:02:00","nodes":"n1","state":"PENDING"}`,
			func(j *document.Job) bool { return j.Marks == 0 && j.Finished() && j.Elapsed.Value == 60 }},
		"keys of records": {`{"jobid":7,"cluster":"moor","@submit":"2024-03-01T00:00:00","array_task_str":"1-3","req_mem":8,"held":true,"state":"CANCELLED"}`,
			func(j *document.Job) bool { return j.Marks == 0 }},
	} {
		if j := document.Parse([]byte(c.text), "vale"); !c.want(&j) {
			t.Errorf("%s: %+v", name, j)
		}
	}
}
