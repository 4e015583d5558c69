package features

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
)

// request is what a user asks for.
func request(user string, tasks int) *hpc.Request {
	return &hpc.Request{User: user, Tasks: tasks, TimeLimit: time.Hour}
}

// at returns the features of a submission by their names.
func at(t *testing.T, h *History, second int64, r *hpc.Request) map[string]float64 {
	t.Helper()
	x := h.Vector(predict.Submission{At: hpc.Unix(1e9 + second), Request: r}, nil)
	names := Names()
	if len(x) != len(names) || len(x) != Count {
		t.Fatalf("%d features, %d names, count %d", len(x), len(names), Count)
	}
	if sorted := slices.Sorted(slices.Values(names)); len(slices.Compact(sorted)) != len(names) {
		t.Fatal("two features have one name")
	}
	all := map[string]float64{}
	for i, name := range names {
		all[name] = float64(x[i])
	}
	return all
}

// near reports whether two values are equal within the precision of a feature.
func near(got, want float64) bool { return math.Abs(got-want) < 1e-5 }

// run plays a job from its submission to its end.
func run(h *History, number, submit, start, end int64, r *hpc.Request) {
	h.Submit(predict.Submission{Number: number, At: hpc.Unix(1e9 + submit), Request: r})
	h.Start(number, hpc.Unix(1e9+start))
	if end > 0 {
		h.End(number, hpc.Unix(1e9+end), hpc.Completed)
	}
}

func TestVector(t *testing.T) {
	h := New(predict.RunTime)
	x := at(t, h, 0, request("a", 4))
	for _, name := range []string{"user_last", "user_oldest_running_s", "since_user_submit_s", "all_log_mean", "user_failed"} {
		if !math.IsNaN(x[name]) {
			t.Errorf("%s is %g before anything happened", name, x[name])
		}
	}
	run(h, 1, 0, 10, 110, request("a", 4))   // 100 s
	run(h, 2, 20, 120, 420, request("a", 8)) // 300 s, another size
	run(h, 3, 450, 500, 0, request("a", 4))  // runs
	h.Submit(predict.Submission{Number: 4, At: hpc.Unix(1e9 + 600), Request: request("a", 4)})
	log := math.Log1p
	x = at(t, h, 1000, request("a", 4))
	for name, want := range map[string]float64{
		"log_limit": log(3600), "log_processors": log(4),
		"user_last": log(300), "user_last_two": log(200), "user_count": log(2), "user_since_end_s": log(580),
		"user_average": log((300 + 0.8*100) / 1.8), "user_mean": (log(300) + 0.8*log(100)) / 1.8,
		"user_size_last": log(100), "user_size_count": log(1),
		"user_name_size_limit_last": log(100), "user_name_size_limit_average": log(100),
		"user_running": 1, "user_waiting": 1, "user_oldest_running_s": log(500), "user_newest_running_s": log(500), "user_mean_running_s": log(500),
		"class_running": 1, "class_waiting": 1, "since_user_submit_s": log(400), "since_class_submit_s": log(400),
		"user_failed": 0, "user_at_limit": 0,
	} {
		if got := x[name]; !near(got, want) {
			t.Errorf("%s: %g, want %g", name, got, want)
		}
	}
	if other := at(t, h, 1000, request("b", 4)); !math.IsNaN(other["user_last"]) || other["user_running"] != 0 || !near(other["size_limit_count"], log(1)) {
		t.Errorf("another user: %v", other)
	}
	h.End(3, hpc.Unix(1e9+4100), hpc.TimedOut)
	h.End(4, hpc.Unix(1e9+4100), hpc.Cancelled) // it never ran
	x = at(t, h, 4200, request("a", 4))
	if x["user_running"] != 0 || x["user_waiting"] != 0 || !near(x["user_count"], log(3)) || x["user_at_limit"] <= 0.3 || x["user_failed"] <= 0.3 {
		t.Errorf("after the ends: %v", x)
	}
}

// TestUnknownJobs reports events of jobs that were not submitted, and reports events twice.
func TestUnknownJobs(t *testing.T) {
	h := New(predict.RunTime)
	h.Start(7, hpc.Unix(5))
	if _, ran := h.End(7, hpc.Unix(6), hpc.Completed); ran {
		t.Error("an unknown job ran")
	}
	run(h, 1, 0, 10, 0, request("a", 1))
	h.Start(1, hpc.Unix(1e9+20))
	if seconds, ran := h.End(1, hpc.Unix(1e9+30), hpc.Completed); !ran || seconds != 20 {
		t.Errorf("ran %v for %g s", ran, seconds)
	}
	if _, ran := h.End(1, hpc.Unix(1e9+40), hpc.Completed); ran {
		t.Error("it ended twice")
	}
}

// TestSave writes a history and reads it again: the features are the same.
func TestSave(t *testing.T) {
	h := New(predict.RunTime)
	run(h, 1, 0, 10, 110, request("a", 4))
	run(h, 2, 20, 120, 420, request("b", 8))
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	read := New(predict.RunTime)
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"a", "b", "c"} {
		s := predict.Submission{At: hpc.Unix(1e9 + 999), Request: request(user, 4)}
		want, got := h.Vector(s, nil), read.Vector(s, nil)
		for i := range want {
			if want[i] != got[i] && !(want[i] != want[i] && got[i] != got[i]) {
				t.Errorf("%s: %s: %g, want %g", user, Names()[i], got[i], want[i])
			}
		}
	}
	if again, err := json.Marshal(read); err != nil || string(again) != string(text) {
		t.Errorf("written again: %s, %v", again, err)
	}
	if err := json.Unmarshal([]byte(`{"groups":[{"key":{"k":99},"group":{}}]}`), read); err == nil {
		t.Error("a group of an unknown kind was read")
	}
}

// TestOpenWhenSaved reads a saved history and reports a job to it that was open when it was saved.
// The history has counted this submission already. The count, which is halved each hour, must not
// grow because the submission lies before the last event.
func TestOpenWhenSaved(t *testing.T) {
	h := New(predict.RunTime)
	run(h, 1, 0, 10, 0, request("a", 4))
	run(h, 2, 90*86400, 90*86400+10, 90*86400+110, request("a", 4))
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	read := New(predict.RunTime)
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	run(read, 1, 0, 10, 0, request("a", 4))
	want, got := at(t, h, 91*86400, request("a", 4)), at(t, read, 91*86400, request("a", 4))
	for _, name := range []string{"user_submits_decayed", "since_user_submit_s", "user_running", "user_oldest_running_s"} {
		if !near(got[name], want[name]) {
			t.Errorf("%s: %g, want %g", name, got[name], want[name])
		}
	}
}

// TestForget plays jobs with different names, with a bound of ten groups instead of thousands. The
// history keeps the last groups, and the crowds of open jobs.
func TestForget(t *testing.T) {
	h := New(predict.RunTime)
	named := func(user string, i int64) *hpc.Request {
		r := request(user, 4)
		r.Name = fmt.Sprint("job", i)
		return r
	}
	run(h, 1000, 0, 1, 0, named("old", 1000))                                                    // runs
	run(h, 1001, 0, 1, 2, named("older", 1001))                                                  // the user's last job ended first
	h.Submit(predict.Submission{Number: 1002, At: hpc.Unix(1e9), Request: named("never", 1002)}) // waits
	h.Submit(predict.Submission{Number: 1003, At: hpc.Unix(1e9), Request: named("gone", 1003)})  // leaves
	h.End(1003, hpc.Unix(1e9+1), hpc.Cancelled)
	for i := range int64(100) {
		run(h, i, 10*i+10, 10*i+11, 10*i+12, named(fmt.Sprint("u", i%10), i))
	}
	last := named("u9", 99)
	want := at(t, h, 2000, last)
	h.most = 10
	h.forget()
	if got := at(t, h, 2000, last); !maps.EqualFunc(got, want, func(a, b float64) bool { return a == b || a != a && b != b }) {
		t.Errorf("the features of the last group are %v, want %v", got, want)
	}
	for kind := range kinds {
		n := 0
		for k := range h.groups {
			if int(k.kind) == kind {
				n++
			}
		}
		if n != h.counts[kind] || n > 10 {
			t.Errorf("%d groups of %s, counted as %d, want at most 10", n, kindNames[kind], h.counts[kind])
		}
	}
	if len(h.past) != 10 || len(h.users) != 2*10+2*2 {
		t.Errorf("%d users with jobs that ended and %d crowds, want 10 and 24", len(h.past), len(h.users))
	}
	for number, user := range map[int64]string{1000: "old", 1002: "never"} { // they can still end
		h.Start(number, hpc.Unix(1e9+3000))
		h.End(number, hpc.Unix(1e9+3001), hpc.Completed)
		if x := at(t, h, 4000, named(user, number)); x["user_running"] != 0 || x["user_waiting"] != 0 || !near(x["user_count"], math.Log1p(1)) {
			t.Errorf("user %s: %v", user, x)
		}
	}
}

// TestBounded checks that memory is bounded if each job has another name, for jobs that run and for
// jobs that leave without a start.
func TestBounded(t *testing.T) {
	h := New(predict.RunTime)
	h.most, h.maxCrowds = 50, 200
	for i := range int64(1000) {
		r := request("a", 4)
		r.Name = fmt.Sprint(i)
		run(h, 1, i, i, i+1, r)
		if i%2 == 0 {
			r.Name = fmt.Sprint("never", i)
			h.Submit(predict.Submission{Number: 2, At: hpc.Unix(1e9 + i), Request: r})
			h.End(2, hpc.Unix(1e9+i), hpc.Cancelled)
		}
		if len(h.groups) > 4*2*h.most || len(h.users) > 200 {
			t.Fatalf("after %d names: %d groups and %d crowds", i, len(h.groups), len(h.users))
		}
	}
	for i := range 1000 { // predictions without events
		at(t, h, 2000, request(fmt.Sprint("asked", i), 4))
		if len(h.places) > h.most {
			t.Fatalf("after questions for %d users: %d places", i, len(h.places))
		}
	}
}

// TestPlaces checks that a stored place has the groups that a look-up would find. Two histories get
// the same events, and one of them looks up all groups each time. Groups are created and forgotten
// all the time, also those of open jobs.
func TestPlaces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	kept, fresh := New(predict.RunTime), New(predict.RunTime)
	for _, h := range []*History{kept, fresh} {
		h.most, h.maxCrowds = 4, 20
	}
	var waiting, running []int64
	take := func(list *[]int64) int64 {
		i := rng.IntN(len(*list))
		number := (*list)[i]
		*list = slices.Delete(*list, i, i+1)
		return number
	}
	for i := range int64(5000) {
		fresh.forgot++
		clear(fresh.places)
		now := hpc.Unix(1e9 + 10*i)
		switch what := rng.IntN(3); {
		case what == 0 && len(waiting) > 0:
			number := take(&waiting)
			kept.Start(number, now)
			fresh.Start(number, now)
			running = append(running, number)
		case what == 1 && len(running) > 0:
			number := take(&running)
			kept.End(number, now, hpc.Completed)
			fresh.End(number, now, hpc.Completed)
		default:
			r := request(fmt.Sprint("user", rng.IntN(8)), 1+rng.IntN(3))
			r.Name = fmt.Sprint("name", rng.IntN(6))
			s := predict.Submission{Number: i, At: now, Request: r}
			got, want := kept.Vector(s, nil), fresh.Vector(s, nil)
			if !slices.EqualFunc(got, want, func(a, b float32) bool { return a == b || a != a && b != b }) {
				t.Fatalf("event %d: the features are %v, want %v", i, got, want)
			}
			kept.Submit(s)
			fresh.Submit(s)
			waiting = append(waiting, i)
		}
	}
	if kept.forgot < 10 {
		t.Errorf("the history forgot %d times, so this shows little", kept.forgot)
	}
}

// TestFileSize saves a history in which every user has one program with its own size and limit, so
// seven kinds have as many groups as there are users. It scales the size to maxSaved groups of
// each kind: with 1 MB of trees, a model's file must have less than 20 MB.
func TestFileSize(t *testing.T) {
	const users = 1000
	rng := rand.New(rand.NewPCG(1, 1))
	h := New(predict.RunTime)
	for i := range int64(3 * users) { // each group has three jobs
		k := i % users
		r := &hpc.Request{User: fmt.Sprint("user", k), Account: fmt.Sprint("account", k%50), Name: fmt.Sprint("program_", k), Tasks: int(k) + 1, TimeLimit: time.Hour + time.Duration(k)*time.Second}
		run(h, i, 100*i, 100*i+rng.Int64N(50), 100*i+60+rng.Int64N(20000), r)
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	zip := gzip.NewWriter(&file)
	if _, err := zip.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	if size := float64(file.Len()) / users * maxSaved; size > 19e6 {
		t.Errorf("%.1f MB, want at most 19", size/1e6)
	}
}

func TestGuess(t *testing.T) {
	h := New(predict.RunTime)
	guess := func(user string, tasks int) float64 {
		return Guess(h.Vector(predict.Submission{At: hpc.Unix(2e9), Request: request(user, tasks)}, nil))
	}
	if got := guess("a", 1); got != 0 {
		t.Errorf("before anything: %g", got)
	}
	run(h, 1, 0, 10, 110, request("a", 1))
	run(h, 2, 200, 210, 510, request("a", 2))
	for _, test := range []struct {
		user  string
		tasks int
		want  float64
	}{{"a", 1, 100}, {"a", 2, 300}, {"a", 3, (300 + 0.8*100) / 1.8}} {
		if got := guess(test.user, test.tasks); math.Abs(got-test.want) > 1e-3 {
			t.Errorf("user %s, %d tasks: %g, want %g", test.user, test.tasks, got, test.want)
		}
	}
	if got := guess("b", 1); got < 100 || got > 300 {
		t.Errorf("another user: %g", got)
	}
	run(h, 3, 600, 610, 1110, request("a", 1)) // 500 s
	for _, test := range []struct {
		user       string
		tasks      int
		two, class float64
	}{{"a", 1, 400, 500}, {"a", 2, 400, 300}, {"a", 3, 400, guess("a", 3)}, {"b", 1, guess("b", 1), guess("b", 1)}} {
		x := h.Vector(predict.Submission{At: hpc.Unix(2e9), Request: request(test.user, test.tasks)}, nil)
		if two, class := LastTwo(x), LastOfClass(x); math.Abs(two-test.two) > 1e-3 || math.Abs(class-test.class) > 1e-3 {
			t.Errorf("user %s, %d tasks: last two %g, last of the class %g; want %g and %g", test.user, test.tasks, two, class, test.two, test.class)
		}
	}
}
