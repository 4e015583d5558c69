package jobjson

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/hpc/hpctest"
)

// TestRoundTrip checks that a written job is read as the same job, for any job.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &hpc.Job{}
		hpctest.Draw(t, "job", want)
		text := Append([]byte("x"), want)[1:]
		var read Job
		if err := Unmarshal(text, &read); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		var epoch Epoch
		if diff := cmp.Diff(want, read.Decode(&epoch), cmpopts.EquateEmpty()); diff != "" || epoch.Used {
			t.Fatalf("relative instants %t, -want +got\n%s\n%s", epoch.Used, diff, text)
		}
	})
}

// TestAppend checks the written JSON: the fields' names, units and order. Unset fields are left
// out.
func TestAppend(t *testing.T) {
	priority, requeue := uint32(0), false
	job := &hpc.Job{
		ID: `a"b`, Submit: hpc.Unix(1_700_000_000),
		Request: hpc.Request{
			User: "ü<", TimeLimit: hpc.Unlimited, Begin: 1500 * time.Millisecond, Priority: &priority, Requeue: &requeue, MemPerNode: -1, Hold: true,
		},
		Behaviour: hpc.Behaviour{RunTime: time.Minute, TaskRunTimes: map[int]time.Duration{10: time.Second, 9: hpc.Unlimited}},
		Recorded:  &hpc.Recorded{State: hpc.Completed, End: hpc.Unix(1_700_000_000) + 5e8},
	}
	want := `{"id":"a\"b","submit":"2023-11-14T22:13:20Z","user":"ü<","hold":true,"priority":0,"requeue":false,"mem_per_node_mib":-1,` +
		`"begin_after_s":1.5,"time_limit_s":"unlimited","run_time_s":60,"task_run_times_s":{"10":1,"9":"unlimited"},` +
		`"recorded":{"end":"2023-11-14T22:13:20.5Z","state":"COMPLETED"}}`
	if got := string(Append(nil, job)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(Append(nil, &hpc.Job{ID: "1", Recorded: &hpc.Recorded{}})); got != `{"id":"1","run_time_s":0,"recorded":{}}` {
		t.Errorf("a job without anything: %s", got)
	}
}

// TestUnmarshalErrors checks that an object with a wrong key or value is refused, and that the
// error names the key and says what would be right.
func TestUnmarshalErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":"1","id":"2"}`: "id: the key occurs twice in one record",
		`{"recorded":{"start":"2024-03-01T08:00:00Z","start":5}}`: "start: the key occurs twice in one record",
		`{"ID":"1"}`:                             "ID: not a field of this record (want it in lower case)",
		`{"Tasks":1}`:                            "Tasks: not a field of this record (want it in lower case)",
		`{"time_limit":60}`:                      "time_limit: not a field of this record (did you mean time_limit_s?)",
		`{"mempernode":60}`:                      "mempernode: not a field of this record (did you mean mem_per_node_mib?)",
		`{"cpus":4}`:                             "cpus: not a field of this record (did you mean tasks and cpus_per_task?)",
		`{"nodes":4}`:                            "nodes: not a field of this record (did you mean min_nodes?)",
		`{"usre":"ann"}`:                         "usre: not a field of this record (did you mean user?)",
		`{"qwertyuiop":1}`:                       "qwertyuiop: not a field of this record",
		`{"recorded":{"nodse":"x"}}`:             "nodse: not a field of this record (did you mean nodes?)",
		`{"tasks":"4"}`:                          "tasks: is a string (want int)",
		`{"tasks":4.5}`:                          "tasks: is a number 4.5 (want int)",
		`{"hold":1}`:                             "hold: is a number (want bool)",
		`{"submit":"yesterday"}`:                 `submit: "yesterday": not a time (want "2024-03-01T08:00:00Z", or seconds from the epoch)`,
		`{"run_time_s":"1h"}`:                    `run_time_s: "1h": not a duration (want seconds or "unlimited")`,
		`{"task_run_times_s":{"3":true}}`:        `task_run_times_s: true: not a duration (want seconds or "unlimited")`,
		`{"recorded":{"task_starts":{"3":"x"}}}`: `recorded.task_starts: "x": not a time (want "2024-03-01T08:00:00Z", or seconds from the epoch)`,
		`[1]`:                                    "a record is a list (want an object, {...})",
		`{"id":"1"`:                              "not JSON: the line ends too early",
		``:                                       "not JSON: the line ends too early",
	} {
		if err := Unmarshal([]byte(text), &Job{}); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
	for _, text := range []string{`{"id":"1"} x`, `{"id":}`, "{\"id\":\"\xff\"}"} {
		if err := Unmarshal([]byte(text), &Job{}); err == nil || !strings.HasPrefix(err.Error(), "not JSON: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestUnmarshalKnown checks that unknown and duplicate keys, as in records of other versions, are
// no error.
func TestUnmarshalKnown(t *testing.T) {
	var job Job
	if err := UnmarshalKnown([]byte(`{"id":"1","later":{"x":[1]},"id":"2","tasks":3}`), &job); err != nil || job.ID != "2" || job.Tasks != 3 {
		t.Errorf("%+v, %v", job, err)
	}
	if err := UnmarshalKnown([]byte(`{"tasks":"3"}`), &job); err == nil || err.Error() != "tasks: is a string (want int)" {
		t.Error(err)
	}
}

func TestRelativeInstants(t *testing.T) {
	var read Job
	if err := Unmarshal([]byte(`{"id":"1","submit":90.5,"run_time_s":1,"recorded":{"start":100,"task_ends":{"2":-1}}}`), &read); err != nil {
		t.Fatal(err)
	}
	epoch := Epoch{Time: hpc.Unix(1000)}
	got := read.Decode(&epoch)
	if !epoch.Used || got.Submit != hpc.Unix(1090)+5e8 || got.Recorded.Start != hpc.Unix(1100) || got.Recorded.TaskEnds[2] != hpc.Unix(999) {
		t.Errorf("%+v, %+v", got, got.Recorded)
	}
}

// FuzzUnmarshal checks that no input makes the reader panic, and that a job that it accepts is
// written and read as the same job.
func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"id":"1","submit":"2023-11-14T22:13:20Z","priority":0,"requeue":false,"mem_per_node_mib":-1,"begin_after_s":1.5,"run_time_s":"unlimited"}`))
	f.Add([]byte(`{"id":"1","submit":5,"task_run_times_s":{"10":1},"task_exit_codes":{"-3":4},"recorded":{"end":"2023-11-14T22:13:20.5Z","task_nodes":{"1":"n1"}}}`))
	f.Add([]byte(`{"submit":9223372036.854775807,"run_time_s":-0.000000001,"id":"\ud800","tasks":1e400}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var read Job
		if Unmarshal(text, &read) != nil {
			_ = UnmarshalKnown(text, &read)
			return
		}
		job := read.Decode(&Epoch{})
		written := Append(nil, job)
		var again Job
		if err := Unmarshal(written, &again); err != nil {
			t.Fatalf("%v\n%s\n%s", err, text, written)
		}
		if diff := cmp.Diff(job, again.Decode(&Epoch{}), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-read +written and read\n%s\n%s", diff, written)
		}
	})
}
