package model

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/predict/trees"
	"rmreplay/internal/workload"
)

// log makes a workload: users submit bursts of like jobs, whose run times depend on user and size.
func log(jobs int, seed uint64) *workload.Workload {
	rng := rand.New(rand.NewPCG(seed, 0))
	w := new(workload.Workload)
	at := hpc.Unix(1e9)
	for made := 0; made < jobs; {
		user, size := rng.IntN(10), 1<<rng.IntN(5)
		mean := 5 + float64(user)/2 + math.Log(float64(size))
		for range 1 + rng.IntN(6) {
			at = at.Add(time.Duration(rng.ExpFloat64() * float64(10*time.Minute)))
			j := &hpc.Job{ID: fmt.Sprint(made), Submit: at}
			j.User, j.Tasks, j.Name = fmt.Sprintf("user%d", user), size, fmt.Sprintf("app%d", user%3)
			j.TimeLimit = time.Duration(1+rng.IntN(4)) * 6 * time.Hour
			j.RunTime = min(time.Duration(math.Exp(mean+0.7*rng.NormFloat64()))*time.Second, j.TimeLimit)
			start := at.Add(time.Duration(rng.ExpFloat64() * float64(time.Hour)))
			j.Recorded = &hpc.Recorded{Start: start, End: start.Add(j.RunTime), State: hpc.Completed}
			w.Jobs.Append(j)
			made++
		}
	}
	w.Sort()
	return w
}

func cases(t testing.TB, w *workload.Workload) *predict.Cases {
	t.Helper()
	c, err := predict.CasesOf(w)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// predictions plays cases to a new predictor of a kind.
func predictions(t testing.TB, list []predict.Case, k Kind) (all []predict.Prediction) {
	t.Helper()
	online := NewOnline(Options{Kind: k, Seed: 1, Growth: 0.5})
	err := predict.Play(context.Background(), list, online, func(_ *predict.Case, p predict.Prediction) { all = append(all, p) })
	if err == nil {
		err = online.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	if k.Trained() && online.Trainings() < 2 {
		t.Fatalf("%s was trained %d times", k, online.Trainings())
	}
	return all
}

// TestFutureChangesNothing changes all that happens after an instant: the ends of open jobs, the
// starts of waiting jobs, and all later jobs. No prediction up to the instant may change, and
// later predictions must (otherwise the test would prove nothing).
func TestFutureChangesNothing(t *testing.T) {
	original := cases(t, log(600, 1)).List
	now := original[450].At
	altered := slices.Clone(original)
	rng := rand.New(rand.NewPCG(9, 9))
	changed := 0
	for i := range altered {
		c := &altered[i]
		if c.At > now {
			other := altered[i+rng.IntN(len(altered)-i)].Request
			c.Request = other
		}
		if c.Start > now || c.At > now {
			c.Start = max(c.At, now) + 1 + hpc.Time(rng.Int64N(int64(24*time.Hour)))
			c.End = c.Start
		}
		if c.End > now || c.At > now {
			c.End = max(c.Start, now) + 1 + hpc.Time(rng.Int64N(int64(240*time.Hour)))
			c.State = hpc.Failed
			if c.At <= now {
				changed++
			}
		}
	}
	if changed < 5 {
		t.Fatalf("only %d open jobs were altered", changed)
	}
	futureChangesNothing(t, original, altered, now, Kinds())
}

func futureChangesNothing(t *testing.T, original, altered []predict.Case, now hpc.Time, kinds []Kind) {
	t.Helper()
	later, _ := slices.BinarySearchFunc(original, now+1, func(c predict.Case, at hpc.Time) int { return cmp.Compare(c.At, at) })
	for _, k := range kinds {
		before, after := predictions(t, original, k), predictions(t, altered, k)
		for i := range later {
			if before[i] != after[i] {
				t.Errorf("%s: job %d was submitted before the future was altered: %v, then %v", k, i, before[i], after[i])
				break
			}
		}
		if slices.Equal(before[later:], after[later:]) {
			t.Errorf("%s: the altered history changed no later prediction", k)
		}
	}
}

// withArrays turns a third of the jobs into arrays. All tasks fail, and the last task ends a day
// after the others. If altered is not 0 and the last task ends after this instant, the task
// completes instead, a day later. The record of such an array has no state.
func withArrays(w *workload.Workload, altered hpc.Time) *workload.Workload {
	for i := 0; i < w.Jobs.Len(); i += 3 {
		w.Jobs.Change(i, func(j *hpc.Job) {
			r := j.Recorded
			if r.Start == 0 {
				return
			}
			last := r.End.Add(24 * time.Hour)
			j.Array, j.ExitCode, r.State = "0-2", 1, hpc.Failed
			if altered != 0 && last > altered {
				last = last.Add(24 * time.Hour)
				j.TaskExitCodes, r.State = map[int]int{2: 0}, ""
			}
			r.TaskStarts = map[int]hpc.Time{0: r.Start, 1: r.Start, 2: r.Start}
			r.TaskEnds = map[int]hpc.Time{0: r.End, 1: r.End, 2: last}
			r.TaskUsedMemory = map[int]int64{0: r.UsedMemory, 1: r.UsedMemory, 2: r.UsedMemory}
			r.End = last
		})
	}
	return w
}

// TestFutureOfArraysChangesNothing changes the last tasks of arrays. Earlier predictions must not
// depend on the record of the whole array, which changes with them.
func TestFutureOfArraysChangesNothing(t *testing.T) {
	original := cases(t, withArrays(log(360, 1), 0)).List
	now := original[400].At
	altered := cases(t, withArrays(log(360, 1), now)).List
	futureChangesNothing(t, original, altered, now, []Kind{LastTwo, Forest})
}

// TestModelKnowsNoLaterEnd trains at an instant on a log, and on the same log with other events
// after the instant. Both models must be equal.
func TestModelKnowsNoLaterEnd(t *testing.T) {
	until := log(500, 2).Jobs.Submit(400)
	made := func(target predict.Target, altered hpc.Time) *predict.Cases {
		w := log(500, 2)
		rng := rand.New(rand.NewPCG(5, 5))
		for i := range w.Jobs.Len() {
			w.Jobs.Change(i, func(j *hpc.Job) {
				if j.Recorded.UsedMemory = rng.Int64N(1 << 20); i%7 == 1 { // the job is cancelled after a day
					j.RunTime = 0
					j.Recorded = &hpc.Recorded{End: j.Submit.Add(24 * time.Hour), State: hpc.Cancelled}
				}
				if altered != 0 && i%7 == 1 && j.Recorded.End > altered { // the job is rejected later instead
					j.Recorded.End = j.Recorded.End.Add(1000 * time.Hour)
					j.Recorded.State = hpc.Rejected
				}
			})
		}
		all, err := predict.TargetCases(withArrays(w, altered), target)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for _, target := range []predict.Target{predict.RunTime, predict.Memory} {
		knowsNoLaterEnd(t, made(target, 0), made(target, until), until)
	}
}

func knowsNoLaterEnd(t *testing.T, all, altered *predict.Cases, until hpc.Time) {
	known := &predict.Cases{Target: all.Target}
	for _, c := range altered.List {
		if c.At > until {
			break
		}
		if c.End > until {
			c.End = c.End.Add(1000 * time.Hour)
			c.Used *= 7
		}
		if c.Start > until {
			c.Start = c.End
		}
		known.List = append(known.List, c)
	}
	for _, k := range []Kind{Linear, Forest, Boost} {
		if a, b := file(t, all, k, until), file(t, known, k, until); !bytes.Equal(a, b) {
			t.Errorf("%s of %s: the model depends on what happened after %v", k, all.Target, until)
		}
	}
}

// file trains a model and returns its file.
func file(t testing.TB, c *predict.Cases, k Kind, until hpc.Time) []byte {
	t.Helper()
	m, err := Train(context.Background(), c, TrainOptions{Kind: k, Seed: 5, Until: until, Source: "log", Program: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestFile reads a model that was written: it predicts the same, and is the same file again.
func TestFile(t *testing.T) {
	w := log(700, 3)
	all := cases(t, w)
	until := all.List[499].At
	later := all.List[500:]
	for _, k := range []Kind{Linear, Forest, Boost} {
		written := file(t, all, k, until)
		if !IsModel(written) {
			t.Errorf("%s: a model's file is not recognized", k)
		}
		m, err := Read(bytes.NewReader(written), "m")
		if err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		if err := m.Write(&again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(written, again.Bytes()) {
			t.Errorf("%s: written again, the file differs", k)
		}
		trained, err := Train(t.Context(), all, TrainOptions{Kind: k, Seed: 5, Until: until})
		if err != nil {
			t.Fatal(err)
		}
		var first, second []predict.Prediction
		for to, m := range map[*[]predict.Prediction]*Model{&first: m, &second: trained} {
			if err := predict.Play(t.Context(), later, m.Online(), func(_ *predict.Case, p predict.Prediction) { *to = append(*to, p) }); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(first, second) {
			t.Errorf("%s: read from a file, the model predicts otherwise", k)
		}
		if m.Scores.Jobs < 50 || m.Scores.Coverage < 0.3 || m.Data.Until != until.String() {
			t.Errorf("%s: header %+v", k, m.Header)
		}
	}
}

// TestFinalModelKeepsNoRows plays jobs to a model that was read. It is never trained again, so the features
// of jobs would only fill the memory of a service.
func TestFinalModelKeepsNoRows(t *testing.T) {
	all := cases(t, log(700, 3))
	m, err := Train(t.Context(), all, TrainOptions{Kind: Boost, Until: all.List[499].At})
	if err != nil {
		t.Fatal(err)
	}
	online := m.Online()
	if err := predict.Play(t.Context(), all.List[500:], online, nil); err != nil {
		t.Fatal(err)
	}
	kept := len(online.table.X) + len(online.table.Y)
	for _, job := range online.open {
		kept += len(job.x)
	}
	if kept != 0 || online.Trainings() != 1 {
		t.Errorf("%d numbers are kept, and it was trained %d times", kept, online.Trainings())
	}
}

func TestHostileFiles(t *testing.T) {
	written := file(t, cases(t, log(300, 4)), Boost, 0)
	text := unzip(t, written)
	header, body, _ := strings.Cut(text, "\n")
	for name, file := range map[string][]byte{
		"not a model of rmreplay": []byte("{}"),
		"not a model of rmreplay (want a file of rmreplay predict train)": zipped("{\"format\":\"other\"}\n{}"),
		"has version 3 (want version 4: train the model again)":           zipped(strings.Replace(header, `"version":4`, `"version":3`, 1) + "\n" + body),
		"rmreplay test trained the model on different features":           zipped(strings.Replace(header, `"log_limit"`, `"limit"`, 1) + "\n" + body),
		"the file is damaged: unexpected EOF":                             written[:len(written)/2],
		"the file is damaged":                                             zipped(header + "\n" + body[:len(body)/2]),
		"the file has no model of kind linear":                            zipped(strings.Replace(header, `"boost"`, `"linear"`, 1) + "\n" + body),
		"the file has no model":                                           zipped(header + "\n{}"),
		"nodes has":                                                       zipped(header + "\n" + strings.Replace(body, `"left":[`, `"left":[99999,`, 1)),
		"model of rmreplay (want a file":                                  zipped(strings.Replace(header, "{", "{"+strings.Repeat(" ", 1<<16), 1) + "\n" + body),
	} {
		_, err := Read(bytes.NewReader(file), "m")
		if err == nil || !strings.Contains(err.Error(), name) || !strings.HasPrefix(err.Error(), "reading a model: m: ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestTwoModels reads a file with a second model, which is not of the file's kind. A prediction
// with it would panic.
func TestTwoModels(t *testing.T) {
	all := cases(t, log(60, 4))
	for _, k := range []Kind{Linear, Forest, Boost} {
		text := unzip(t, file(t, all, k, 0))
		for _, other := range []Kind{Linear, Forest, Boost} {
			if other == k {
				continue
			}
			_, err := Read(bytes.NewReader(zipped(strings.Replace(text, `{"model":{`, `{"model":{"`+string(other)+`":{},`, 1))), "m")
			if err == nil || !strings.Contains(err.Error(), "more than one model") {
				t.Errorf("%s and %s: %v", k, other, err)
			}
		}
	}
}

// FuzzRead reads changed files of models. Those that are accepted must predict.
func FuzzRead(f *testing.F) {
	all := cases(f, log(60, 4))
	for _, k := range []Kind{Linear, Forest, Boost} {
		text := unzip(f, file(f, all, k, 0))
		f.Add(text)
		for _, other := range []string{`"boost":{},`, `"forest":{},`, `"linear":{},`} {
			f.Add(strings.Replace(text, `{"model":{`, `{"model":{`+other, 1))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Read(bytes.NewReader(zipped(text)), "m")
		if err != nil {
			return
		}
		online := m.Online()
		for i, c := range all.List[:3] {
			c.Number, c.At = int64(i), m.Until().Add(time.Hour)
			p := online.Submit(c.Submission)
			if !(0 <= p.P10 && p.P10 <= p.P50 && p.P50 <= p.P90) {
				t.Errorf("predicted %v", p)
			}
			online.Start(c.Number, c.At)
			online.End(c.Number, c.At.Add(time.Minute), hpc.Completed)
		}
	})
}

// TestIsModel checks that other compressed files are not recognized as models: a training may
// overwrite a model.
func TestIsModel(t *testing.T) {
	for name, head := range map[string][]byte{"a log": zipped("; UnixStartTime: 5"), "nothing": nil, "a short file": {0x1f, 0x8b}} {
		if IsModel(head) {
			t.Errorf("%s is taken for a model", name)
		}
	}
}

func zipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.Bytes()
}

func unzip(t testing.TB, b []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTrainRefuses(t *testing.T) {
	few := cases(t, log(3, 1))
	for want, o := range map[string]TrainOptions{
		"is not one that can be trained (want linear, forest or boost)": {Kind: LastTwo},
		"jobs with a run time ended by":                                 {Kind: Boost},
	} {
		if _, err := Train(t.Context(), few, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestDegenerateLogs trains on logs that lack a field or have constant values. Every prediction
// must have finite, ascending quantiles.
func TestDegenerateLogs(t *testing.T) {
	for name, change := range map[string]func(*hpc.Job){
		"no users":          func(j *hpc.Job) { j.User = "" },
		"no limits":         func(j *hpc.Job) { j.TimeLimit = 0 },
		"unlimited":         func(j *hpc.Job) { j.TimeLimit = hpc.Unlimited },
		"one user":          func(j *hpc.Job) { j.User = "only" },
		"constant run time": func(j *hpc.Job) { j.RunTime, j.Recorded.End = time.Minute, j.Recorded.Start.Add(time.Minute) },
		"zero run time":     func(j *hpc.Job) { j.RunTime, j.Recorded.End = 0, j.Recorded.Start },
		"nothing recorded":  func(j *hpc.Job) { j.Recorded = nil },
		"all at one time":   func(j *hpc.Job) { j.Submit = hpc.Unix(1e9) },
	} {
		w := log(260, 6)
		for i := range w.Jobs.Len() {
			w.Jobs.Change(i, change)
		}
		w.Sort()
		list := cases(t, w).List
		for _, k := range Kinds() {
			online := NewOnline(Options{Kind: k, Growth: 0.2, First: 50})
			bad := 0
			err := predict.Play(t.Context(), list, online, func(c *predict.Case, p predict.Prediction) {
				if !(0 <= p.P10 && p.P10 <= p.P50 && p.P50 <= p.P90) || math.IsInf(p.P90, 0) || p.Limit > 0 && p.P90 > p.Limit {
					bad++
				}
			})
			if err != nil || online.Err() != nil || bad > 0 {
				t.Errorf("%s: %s: %d predictions are not distributions; %v; %v", name, k, bad, err, online.Err())
			}
		}
	}
}

// TestBurst checks that many equal jobs, submitted before the first of them ends, do not move a
// bound far beyond their value.
func TestBurst(t *testing.T) {
	var c conformal
	raw := predict.Point(100, &hpc.Request{})
	made := c.apply(raw)
	for range 1000 {
		c.learn(raw, made, 110)
	}
	if p := c.apply(raw); p.P90 < 104 || p.P90 > 117 || p.P10 != 100 {
		t.Errorf("after 1,000 jobs of 110 s the prediction of 100 s has the bounds %g and %g", p.P10, p.P90)
	}
}

// TestCoverage checks that calibrated intervals cover four fifths of the run times, also for models
// that predict a single number. The model limit is not tested: it covers more, because no run time
// exceeds the limit.
func TestCoverage(t *testing.T) {
	list := cases(t, log(8000, 8)).List
	for _, k := range []Kind{LastTwo, Class, Linear} {
		covered, n := 0, 0
		for i, p := range predictions(t, list, k) {
			if i < 1000 {
				continue
			}
			n++
			if y := list[i].Seconds(); p.P10 <= y && y <= p.P90 {
				covered++
			}
		}
		if share := float64(covered) / float64(n); math.Abs(share-0.8) > 0.03 {
			t.Errorf("%s: %.3f are covered", k, share)
		}
	}
}

// TestLinear fits the regression to a linear function without noise.
func TestLinear(t *testing.T) {
	table := draw(500)
	l, err := fitLinear(table)
	if err != nil {
		t.Fatal(err)
	}
	for i, y := range table.Y {
		if got := l.seconds(table.Row(i)); math.Abs(got-y) > 0.02*math.Abs(y)+0.1 {
			t.Fatalf("row %d: %g, want %g", i, got, y)
		}
	}
}

// draw makes rows of y = 3 + 2a - 5b. A third feature is constant, and a fourth always missing.
func draw(n int) *trees.Table {
	rng := rand.New(rand.NewPCG(3, 3))
	t := &trees.Table{Width: 4}
	for range n {
		a, b := rng.Float32(), rng.Float32()
		t.X = append(t.X, a, b, 7, float32(math.NaN()))
		t.Y = append(t.Y, 3+2*float64(a)-5*float64(b))
	}
	return t
}
