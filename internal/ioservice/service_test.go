package ioservice

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioservice/counters"
)

// start is an instant of the tests.
var start = hpc.Unix(1_700_000_000)

// known is a source that knows the use of some jobs and, if rate is not 0, the rate of all jobs. It
// notes the IDs of the jobs for which it is asked.
type known struct {
	uses  map[string]counters.Use
	rate  float64
	asked []string
}

func (k *known) Use(j Job) (counters.Use, bool) {
	k.asked = append(k.asked, j.ID)
	use, found := k.uses[j.ID]
	return use, found
}

func (k *known) Rate(from, to hpc.Time) (float64, bool) {
	return k.rate, k.rate > 0 && to.Sub(from) == 10*time.Second
}

func use(seconds, mean float64) counters.Use {
	return counters.Use{RunTime: time.Duration(seconds * float64(time.Second)), Mean: mean}
}

func newService(t testing.TB, source Source, change func(*Config)) *Service {
	t.Helper()
	config := DefaultConfig()
	config.Bandwidth = 14e6 // the original's factor: 10000 licences for 14 MB/s
	if change != nil {
		change(&config)
	}
	s, err := New(config, []Source{source}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(t testing.TB, s *Service, at hpc.Time, text string) map[string]any {
	t.Helper()
	line := s.Handle(at, []byte(text))
	if len(line) > MaxAnswer || line[len(line)-1] != '\n' {
		t.Errorf("%s: answer of %d bytes: %s", text, len(line), line)
	}
	var answer map[string]any
	if err := json.Unmarshal(line, &answer); err != nil {
		t.Fatalf("%s: %v: %s", text, err, line)
	}
	return answer
}

func TestClassID(t *testing.T) {
	// The original prints this ID for these arguments.
	if got := ClassOfArguments([]string{"/xch/scripts/jobs/adj-batch", "32", "32", "16", "0"}); !strings.HasPrefix(got, "75711587824953c3") || len(got) != 64 {
		t.Error(got)
	}
	// printf test | sha256sum prints this ID.
	if got := NamedClass("test"); got != "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"a\"b\\c/": `"a\"b\\c/"`, "\n\r\t\b\f\x00\x1f\x7f": `"\n\r\t\b\f\u0000\u001f\u007f"`, "ä€": `"\u00e4\u20ac"`, "😀 ~": `"\ud83d\ude00 ~"`,
	} {
		if got := pythonString(text); got != want { // as python3 -c 'import json; print(json.dumps(...))'
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestComment(t *testing.T) {
	for _, test := range []struct {
		comment, name, id string
		bad               bool
	}{
		{"", "", "", false},
		{"my job", "", "", false},
		{"jobtype=ior_W;rest", "ior_W", "", false},
		{"variety_id=abc;jobtype=ior;", "ior", "abc", false},
		{"variety_id=N/A;", "", "", false},
		{"jobtype=no-hyphen;", "", "", true},
		{"jobtype=open", "", "", true},
		{"jobtype=;", "", "", true},
	} {
		name, err := NameInComment(test.comment)
		if name != test.name || (err != nil) != test.bad || IDInComment(test.comment) != test.id {
			t.Errorf("%q: %q, %v, %q", test.comment, name, err, IDInComment(test.comment))
		}
	}
}

func TestEstimate(t *testing.T) {
	// By hand, after one and two jobs: C = 1, 1.8; S = 100, 200+80 = 280; A = 155.5...; V = (9 +
	// 44.4² + .8 (4 + 55.5²)) / 1.8.
	e := Estimate{}.Add(100, 4, 0.2)
	if e != (Estimate{Mean: 100, Variance: 4, Count: 1, Sum: 100}) {
		t.Errorf("one job: %+v", e)
	}
	e = e.Add(200, 9, 0.2)
	want := (9 + square(200-280/1.8) + 0.8*(4+square(100-280/1.8))) / 1.8
	if math.Abs(e.Mean-280/1.8) > 1e-9 || e.Count != 1.8 || e.Sum != 280 || math.Abs(e.Variance-want) > 1e-9 {
		t.Errorf("two jobs: %+v, want variance %g", e, want)
	}
	for _, test := range []struct {
		e              Estimate
		sigmas, factor float64
		want           int64
	}{
		{Estimate{Mean: 301}, 0, 1.0 / 60, 6}, {Estimate{Mean: 300}, 0, 1.0 / 60, 5},
		{Estimate{Mean: 2847600, Variance: 1e12}, 0, 10000.0 / 14e6, 2034}, {Estimate{Mean: 2847601}, 0, 10000.0 / 14e6, 2035},
		{Estimate{Mean: 10, Variance: 4}, 3, 1, 16}, {Estimate{Mean: 300 * (1 + 1e-15)}, 0, 1.0 / 60, 5}, {Estimate{Mean: 1e-13}, 0, 1, 0}, {Estimate{Mean: math.Inf(1)}, 0, 1, math.MaxInt64}, {Estimate{Mean: math.NaN()}, 0, 1, 0},
	} {
		if got := test.e.Predict(test.sigmas, test.factor); got != test.want {
			t.Errorf("%+v: %d, want %d", test.e, got, test.want)
		}
	}
}

// TestEstimateWeights: without decay, an estimate has the plain mean and variance of the values.
// With any decay, the mean is between the least and the greatest value, and the variance is not
// negative.
func TestEstimateWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1e9), 1, 30).Draw(t, "values")
		decay := rapid.SampledFrom([]float64{0, 0.2, 0.9}).Draw(t, "decay")
		var e Estimate
		sum, low, high := 0.0, math.Inf(1), 0.0
		for _, x := range values {
			e = e.Add(x, 0, decay)
			sum, low, high = sum+x, min(low, x), max(high, x)
		}
		if e.Mean < low*(1-1e-9) || e.Mean > high*(1+1e-9) || e.Variance < 0 {
			t.Fatalf("%v: %+v", values, e)
		}
		mean := sum / float64(len(values))
		if decay == 0 && math.Abs(e.Mean-mean) > 1e-6*(1+mean) {
			t.Fatalf("%v: %+v, want the mean %g", values, e, mean)
		}
	})
}

func TestProtocol(t *testing.T) {
	source := &known{uses: map[string]counters.Use{"7": {Start: start, End: start.Add(90 * time.Second), RunTime: 110 * time.Second, Mean: 2847600, Variance: 1400 * 1400}}}
	s := newService(t, source, nil)
	type m = map[string]any
	for _, test := range []struct {
		request string
		want    m
	}{
		{`{"type":"usage","request":["lustre"],"req_id":"1"}`, m{"req_id": "1", "status": "OK", "response": m{"lustre": "0"}}},
		{`{"type":"variety_id/manual","variety_name":"test","min_nodes":"1","max_nodes":"-2","UID":"1000","req_id":"2"}`,
			m{"req_id": "2", "status": "OK", "variety_id": NamedClass("test")}},
		{`{"type":"variety_id/auto","script_args":["/xch/scripts/jobs/adj-batch","32","32","16","0"],"script_name":"#!/bin/sh\nsleep 1\n","req_id":"3"}`,
			m{"req_id": "3", "status": "OK", "variety_id": ClassOfArguments([]string{"/xch/scripts/jobs/adj-batch", "32", "32", "16", "0"})}},
		{`{"type":"job_utilization","variety_id":"x","req_id":"4"}`, m{"req_id": "4", "status": "OK", "response": m{}}},
		{`{"type":"process_job","job_id":"7","variety_id":"x","req_id":"5"}`, m{"req_id": "5", "status": "ACK"}},
		{`{"type":"process_canary_probe","start_time":"1700000000","end_time":"1700000004","OST":"3","duration":"0.25","req_id":"6"}`, m{"req_id": "6", "status": "ACK"}},
		{`{"type":"analyze_job","job_id":7,"req_id":"7"}`, m{"req_id": "7", "status": "OK", "job_id": "7", "start_time": "1700000000", "end_time": "1700000090",
			"duration": "110", "canary_time": "0.25", "lustre": m{"avg": "2034", "std": "1"}}},
		{`{"type":"analyze_job","job_id":"8","req_id":"7"}`, m{"req_id": "7", "status": "error", "error": "no data for the job 8"}},
		{`{"type":"dance","req_id":"8"}`, m{"req_id": "8", "status": "not implemented"}},
		{`{"req_id":"9"}`, m{"req_id": "9", "status": "error", "error": "type not specified"}},
		{`{"type":"variety_id/other","req_id":"9"}`, m{"req_id": "9", "status": "error", "error": `"variety_id/other": not an option of variety_id (want variety_id/manual or variety_id/auto)`}},
		{`{"type":"variety_id/auto","req_id":"9"}`, m{"req_id": "9", "status": "error", "error": "script_args is not specified"}},
		{`{"type":"variety_id/auto","script_args":[],"req_id":"9"}`, m{"req_id": "9", "status": "error", "error": "script_args is empty"}},
		{`{"type":"variety_id/auto","script_args":["a",null],"req_id":"9"}`, m{"req_id": "9", "status": "error", "error": "script_args: not an array of strings"}},
		{`{"type":"process_job","job_id":"7","variety_id":"N/A","req_id":"9"}`, m{"req_id": "9", "status": "error", "error": "variety_id: N/A means that the job has no class (the submission did not reach the service)"}},
		{`{"type":"process_job","job_id":"7","variety_id":"x","job_start":"1","req_id":"9"}`, m{"req_id": "9", "status": "error", "error": "job_start, job_end, and job_nodes must be specified together"}},
		{`{"type":"process_job","job_id":"7","variety_id":"x","job_start":"2024-03-05T12:00:00","job_end":"1","job_nodes":"n[1-2]","req_id":"9"}`,
			m{"req_id": "9", "status": "error", "error": "job_end: 1970-01-01T00:00:01Z is before job_start"}},
		{`not JSON`, m{"req_id": "error", "status": "error", "error": "JSON decode error"}},
		{`null`, m{"req_id": "error", "status": "error", "error": "JSON decode error"}},
		{`{"type":"variety_id/manual","variety_name":null,"req_id":"9"}`, m{"req_id": "9", "status": "error", "error": "variety_name not specified"}},
		{`{"type":"usage","req_id":null}`, m{"req_id": "error", "status": "OK", "response": m{"lustre": "0"}}},
		{`{"type":"usage","req_id":true}`, m{"req_id": "error", "status": "error", "error": "req_id: not a string or a number of at most 128 bytes"}},
		{"{\"type\":\"usage\",\"req_id\":\"\xff\"}", m{"req_id": "error", "status": "error", "error": "JSON decode error"}},
	} {
		got := ask(t, s, start, test.request)
		if text, _ := got["error"].(string); strings.HasPrefix(text, "job_end") {
			got["error"], test.want["error"] = text[:8], test.want["error"].(string)[:8] // hpc formats the time
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.request, diff)
		}
	}
	if mean, n := s.Probes(start, start.Add(time.Second)); mean != 0.25 || n != 1 {
		t.Errorf("probes: %g, %d", mean, n)
	}
	if _, n := s.Probes(start.Add(13*time.Second), start.Add(14*time.Second)); n != 0 {
		t.Errorf("a probe 11 s before the job counts")
	}
}

// TestAnswersAreShort: the answer to any request fits the buffer of the client.
func TestAnswersAreShort(t *testing.T) {
	s := newService(t, &known{}, nil)
	long := strings.Repeat("ä\\u0001", 50_000)
	for _, request := range []string{
		`{"req_id":"` + long + `","type":"usage"}`, `{"req_id":"1","type":"` + long + `"}`, `{"req_id":"1","type":"variety_id/manual","variety_name":"` + long + `"}`,
		`{"req_id":"1","type":"process_job","job_id":"` + long + `"}`, `{"req_id":"1","type":"job_utilization","variety_id":"` + long + `"}`,
		`{"req_id":"1","type":"variety_id/auto","script_args":["a"],"script_name":"` + strings.Repeat("x", 600<<10) + `"}`,
		`{"req_id":"1","type":"process_job","job_id":"1","variety_id":"x","job_start":"1","job_end":"2","job_nodes":"n[` + strings.Repeat("1,", 30000) + `"}`,
	} {
		if got := ask(t, s, start, request); got["status"] != StatusError {
			t.Errorf("%.60s: %v", request, got)
		}
	}
}

// TestProcessing: sources are asked for a job's use 20, 40 and 60 s after its epilog's request.
func TestProcessing(t *testing.T) {
	source := &known{uses: map[string]counters.Use{}}
	s := newService(t, source, nil)
	at := func(seconds int) hpc.Time { return start.Add(time.Duration(seconds) * time.Second) }
	ask(t, s, at(0), `{"type":"process_job","job_id":"1","variety_id":"c","req_id":"1"}`)
	ask(t, s, at(1), `{"type":"process_job","job_id":"1","variety_id":"c","req_id":"2"}`) // as if the client tried again
	var tries []int
	for second := range 100 {
		source.asked = nil
		if second == 41 {
			source.uses["1"] = use(301, 1400)
		}
		if err := s.Advance(at(second)); err != nil {
			t.Fatal(err)
		}
		for range source.asked {
			tries = append(tries, second)
		}
	}
	if diff := cmp.Diff([]int{20, 40, 60}, tries); diff != "" {
		t.Errorf("tries: %s", diff)
	}
	want := map[string]any{"time_limit": "6", "lustre": "1"}
	if diff := cmp.Diff(want, ask(t, s, at(100), `{"type":"job_utilization","variety_id":"c","req_id":"1"}`)["response"]); diff != "" {
		t.Error(diff)
	}
	ask(t, s, at(100), `{"type":"process_job","job_id":"2","variety_id":"c","req_id":"1"}`)
	for second := 100; second < 200; second++ {
		if err := s.Advance(at(second)); err != nil {
			t.Fatal(err)
		}
	}
	got := s.Status(at(200))
	if got.Accepted != 2 || got.Processed != 1 || got.GivenUp != 1 || got.Waiting != 0 || got.Classes != 1 {
		t.Errorf("%+v", got)
	}
}

// TestTwice: a run of a job with known times counts once, however often it is sent. After a
// requeue, a job with the same ID and another start is another run.
func TestTwice(t *testing.T) {
	source := &known{uses: map[string]counters.Use{"1": use(60, 1000)}}
	s := newService(t, source, nil)
	request := `{"type":"process_job","job_id":"1","variety_id":"c","job_start":"%d","job_end":"1700000000","job_nodes":"n1","req_id":"1"}`
	for i, from := range []int{1699990000, 1699990000, 1699995000, 1699990000} {
		at := start.Add(time.Duration(i) * time.Hour)
		if got := ask(t, s, at, fmt.Sprintf(request, from)); got["status"] != StatusACK {
			t.Errorf("%v", got)
		}
		if err := s.Advance(at.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Status(start); got.Processed != 2 {
		t.Errorf("%+v", got)
	}
}

func TestUsage(t *testing.T) {
	source := &known{rate: 2847600}
	s := newService(t, source, nil)
	for _, step := range []struct {
		second int
		rate   float64
		want   int64
	}{{0, 2847600, 2034}, {4, 1400, 2034}, {5, 1400, 1}, {10, 0, 1}, {65, 0, 1}, {66, 0, 0}} {
		source.rate = step.rate
		at := start.Add(time.Duration(step.second) * time.Second)
		if err := s.Advance(at); err != nil {
			t.Fatal(err)
		}
		if got := s.Usage(at); got != step.want {
			t.Errorf("after %d s: %d, want %d", step.second, got, step.want)
		}
	}
	source.rate = 1e6
	base := newService(t, source, func(c *Config) { c.Baseline = true })
	if err := errors2(base.Advance(start), base.Learn(start, Job{ID: "1", Class: "c"}, use(60, 1000))); err != nil {
		t.Fatal(err)
	}
	if _, known := base.Predict("c"); known || base.Usage(start) != 0 {
		t.Error("the baseline knows something")
	}
}

func errors2(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func TestManyClasses(t *testing.T) {
	s := newService(t, &known{}, func(c *Config) { c.MostClass = 3 })
	for i, class := range []string{"a", "b", "c", "a", "d"} {
		if err := s.Learn(start.Add(time.Duration(i)*time.Second), Job{ID: fmt.Sprint(i + 1), Class: class}, use(60, 1)); err != nil {
			t.Fatal(err)
		}
	}
	var ids []string
	for _, c := range s.Classes() {
		ids = append(ids, c.ID)
	}
	if diff := cmp.Diff([]string{"a", "c", "d"}, ids); diff != "" || s.Status(start).Forgotten != 1 {
		t.Errorf("%s, %+v", diff, s.Status(start))
	}
}

// TestUnsound: a use that is NaN, infinite or negative is refused, and changes no class.
func TestUnsound(t *testing.T) {
	source := &known{uses: map[string]counters.Use{"1": use(60, math.NaN())}}
	s := newService(t, source, nil)
	for _, bad := range []float64{math.NaN(), math.Inf(1), -1} {
		if err := s.Learn(start, Job{ID: "2", Class: "c"}, use(60, bad)); err == nil {
			t.Errorf("%g is learned", bad)
		}
	}
	if err := s.Finished(start, Job{ID: "1", Class: "c"}); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := s.Advance(start.Add(time.Duration(i) * time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Status(start); got.GivenUp != 1 || got.Classes != 0 {
		t.Errorf("%+v", got)
	}
}

func TestConfig(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.Bandwidth = 0 }, func(c *Config) { c.Bandwidth = math.NaN() }, func(c *Config) { c.Decay = 1 }, func(c *Config) { c.Licenses = -1 },
		func(c *Config) { c.Tries = 0 }, func(c *Config) { c.RateSigmas = math.NaN() },
	} {
		c := DefaultConfig()
		c.Bandwidth = 1
		change(&c)
		if _, err := New(c, nil, nil, nil, nil); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

func FuzzHandle(f *testing.F) {
	for _, seed := range []string{`{"type":"usage","req_id":"1"}`, `{"type":"variety_id/auto","script_args":["\ud800"]}`, `{"type":"process_job","job_id":1e3,"variety_id":{}}`,
		`{"type":"process_job","job_id":"1","variety_id":"x","job_start":"nan","job_end":"1e300","job_nodes":"n[1-"}`, `{"type":"process_canary_probe","OST":-1}`, `{"req_id":{}}`} {
		f.Add([]byte(seed))
	}
	s := newService(f, &known{rate: 1}, func(c *Config) { c.MostJobs = 100 })
	f.Fuzz(func(t *testing.T, text []byte) {
		line := s.Handle(start, text)
		var answer Answer
		if len(line) > MaxAnswer || json.Unmarshal(line, &answer) != nil || answer.Status == "" {
			t.Errorf("%q: %s", text, line)
		}
	})
}

// memory is a log in memory. synced are the records that are certainly on disk, because the writer
// waited for them.
type memory struct {
	saved           []byte
	records, synced [][]byte
}

func (m *memory) Begin(record []byte) (func() error, error) {
	m.records = append(m.records, append([]byte(nil), record...))
	return func() error { m.synced = m.records; return nil }, nil
}
func (m *memory) Snapshot(state []byte) error {
	m.saved, m.records, m.synced = append([]byte(nil), state...), nil, nil
	return nil
}

// TestRestore: after every step, a service that is restored from the log has the same classes and
// jobs as the original service.
func TestRestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := &known{uses: map[string]counters.Use{}}
		for id := range 20 {
			if id%5 != 0 {
				source.uses[fmt.Sprint(id)] = use(float64(10+id), float64(1000*id))
			}
		}
		config := DefaultConfig()
		config.Bandwidth, config.MostClass = 1e6, 3
		log := &memory{}
		restored := func(log Log, saved []byte, records [][]byte) *Service {
			s, err := New(config, []Source{source}, log, saved, records)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s, now := restored(log, nil, nil), start
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second)
			var err error
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				id := rapid.IntRange(0, 19).Draw(t, "job")
				job := Job{ID: fmt.Sprint(id), Class: fmt.Sprint("c", id%4), Start: hpc.Unix(int64(1 + id%2)), End: hpc.Unix(100)}
				if id%3 == 0 {
					job.Start, job.End = 0, 0
				}
				err = s.Finished(now, job)
			case 2:
				err = s.Advance(now)
			case 3:
				err = s.Save()
			}
			if err != nil {
				t.Fatal(err)
			}
			again := restored(nil, log.saved, log.synced)
			if diff := cmp.Diff(s.Classes(), again.Classes()); diff != "" {
				t.Fatal(diff)
			}
			a, b := s.Status(now), again.Status(now)
			a.Rate, a.Usage = 0, 0 // not in the saved state
			if diff := cmp.Diff(a, b); diff != "" {
				t.Fatal(diff)
			}
			if rapid.Bool().Draw(t, "crash") {
				s = restored(log, log.saved, log.synced)
			}
		}
	})
}

func TestBadState(t *testing.T) {
	config := DefaultConfig()
	config.Bandwidth = 1
	for _, test := range []struct{ saved, record, want string }{
		{"{", "", "reading the saved state"}, {`{"version":2}`, "", "version 2 (want 1)"}, {"", "{}", "record 1 of the journal: it changes nothing"}, {"", "x", "record 1 of the journal"},
	} {
		var records [][]byte
		if test.record != "" {
			records = [][]byte{[]byte(test.record)}
		}
		if _, err := New(config, nil, nil, []byte(test.saved), records); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// full is a log on a full disk. With room, it writes like memory.
type full struct {
	memory
	room bool
}

var errFull = errors.New("no space left on device")

func (f *full) Begin(record []byte) (func() error, error) {
	if f.room {
		return f.memory.Begin(record)
	}
	return func() error { return errFull }, nil
}

func (f *full) Snapshot(state []byte) error {
	if !f.room {
		return errFull
	}
	return f.memory.Snapshot(state)
}

// TestFull: a job that could not be written to the log is refused, even if it is sent again, until
// the whole state has been saved.
func TestFull(t *testing.T) {
	config := DefaultConfig()
	config.Bandwidth = 1e6
	log := &full{}
	s, err := New(config, nil, log, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	job := Job{ID: "1", Class: "c", Start: hpc.Unix(1), End: hpc.Unix(100)}
	for range 2 {
		if err := s.Finished(start, job); !errors.Is(err, errFull) {
			t.Errorf("on a full disk: %v", err)
		}
		if err := s.Advance(start); !errors.Is(err, errFull) {
			t.Errorf("saving on a full disk: %v", err)
		}
	}
	log.room = true
	if err := s.Advance(start); err != nil {
		t.Error(err)
	}
	if err := s.Finished(start, job); err != nil {
		t.Error(err)
	}
	again, err := New(config, nil, nil, log.saved, log.synced)
	if err != nil || again.Status(start).Accepted != 1 {
		t.Errorf("%d jobs are known after a start: %v", again.Status(start).Accepted, err)
	}
}
