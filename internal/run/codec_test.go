package run

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
)

// TestEncodeJobKeys fixes the names and units in the column request, because other programs read
// them.
func TestEncodeJobKeys(t *testing.T) {
	nice := false
	job := &hpc.Job{
		ID: "7", Submit: hpc.Unix(1000),
		Request: hpc.Request{
			Name: "a\"b", TimeLimit: time.Minute, MinNodes: 2, MemPerCPU: 1024,
			GPUsPerNode: "a100:2", Requeue: &nice, QOS: "high",
		},
		Behaviour: hpc.Behaviour{
			RunTime: 1500 * time.Millisecond, TaskRunTimes: map[int]time.Duration{3: time.Second},
		},
		Recorded: &hpc.Recorded{Start: hpc.Unix(1001), State: hpc.TimedOut},
	}
	got := EncodeJob(job)
	want := `{"id":"7","submit":"1970-01-01T00:16:40Z","name":"a\"b","qos":"high","requeue":false,"min_nodes":2,` +
		`"mem_per_cpu_mib":1024,"gpus_per_node":"a100:2","time_limit_s":60,"run_time_s":1.5,` +
		`"task_run_times_s":{"3":1},"recorded":{"start":"1970-01-01T00:16:41Z","state":"TIMEOUT"}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	back, err := DecodeJob([]byte(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(job, back); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := DecodeJob([]byte(`{"id":"7","submit_ns":1000000000000,"request":{},"behaviour":{}}`)); err == nil || !strings.Contains(err.Error(), "that of an earlier version of rmreplay (repeat the run)") {
		t.Errorf("an earlier version: %v", err)
	}
}

// fill sets every field below v to a nonzero value that differs from the values of its neighbours.
func fill(t *testing.T, v reflect.Value, next *int) {
	t.Helper()
	*next++
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("x", *next%7+1) + "ü\n")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*next))
	case reflect.Uint32:
		v.SetUint(uint64(*next))
	case reflect.Float64:
		v.SetFloat(float64(*next) + 0.1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), next)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, next)
		fill(t, value, next)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), next)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), next)
		}
	default:
		t.Fatalf("a field of kind %v: teach the codec and this test about it", v.Kind())
	}
}

// TestJobRoundTrip fails if the record loses a field of hpc.Job.
func TestJobRoundTrip(t *testing.T) {
	var full hpc.Job
	n := 0
	fill(t, reflect.ValueOf(&full).Elem(), &n)
	zero := uint32(0)
	for _, want := range []*hpc.Job{
		{}, &full,
		{ID: "explicit zero", Request: hpc.Request{Priority: &zero}},
		{ID: "endless", Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited}},
	} {
		data := EncodeJob(want)
		got, err := DecodeJob(data)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", data, diff)
		}
	}
}

func TestEventRoundTrip(t *testing.T) {
	var full rm.Event
	n := 0
	fill(t, reflect.ValueOf(&full).Elem(), &n)
	full.Submission = 0 // not encoded, because it has a meaning only within one process
	for _, want := range []rm.Event{{}, full, {Task: -1, Outcome: &rm.Outcome{}}} {
		data, err := appendEvent(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		var in eventIn
		if err := json.Unmarshal(data, &in); err != nil {
			t.Fatal(err)
		}
		got, err := in.event()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", data, diff)
		}
	}
}

func TestDecodeJobErrors(t *testing.T) {
	for _, bad := range []string{``, `{`, `[]`, `{"id":1}`, `{"request":[]}`, `{"request":{"min_nodes":"2"}}`,
		`{"behaviour":7}`, `{"recorded":{"start_ns":1.5}}`} {
		if job, err := DecodeJob([]byte(bad)); err == nil {
			t.Errorf("DecodeJob(%s) = %+v, want an error", bad, job)
		}
	}
}
