package forecast

import (
	"fmt"
	"testing"
	"time"

	"rmreplay/internal/forecast/rate"
	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
	"rmreplay/internal/workload"
)

// TestRecent repeats the jobs of a day. A job that was cancelled before its start is not repeated.
// The tasks of an array count as one job. A copy of a job that still runs or waits gets a run time
// from the learner, which is not the job's limit and not less than the job has run so far.
func TestRecent(t *testing.T) {
	now := hpc.Time(20000 * 24 * time.Hour)
	w := &workload.Workload{Epoch: now.Add(-period), Source: "a day"}
	add := func(user string, hours float64, array string, recorded hpc.Recorded) {
		job := &hpc.Job{ID: user, Submit: now.Add(-time.Duration(hours * float64(time.Hour))), Recorded: &recorded}
		job.User, job.Array, job.Tasks, job.TimeLimit, job.RunTime = user, array, 1, 10*time.Hour, hpc.Unlimited
		w.Jobs.Append(job)
	}
	ended := func(from, to float64) hpc.Recorded {
		return hpc.Recorded{Start: now.Add(-time.Duration(from * float64(time.Hour))), End: now.Add(-time.Duration(to * float64(time.Hour))), State: hpc.Completed}
	}
	add("ended", 24, "", ended(23, 22))
	add("cancelled", 22, "", hpc.Recorded{End: now.Add(-21 * time.Hour), State: hpc.Cancelled})
	add("array", 20, "1-3%1", hpc.Recorded{
		TaskStarts: map[int]hpc.Time{1: now.Add(-20 * time.Hour), 2: now.Add(-18 * time.Hour)},
		TaskEnds:   map[int]hpc.Time{1: now.Add(-18 * time.Hour), 2: now.Add(-17 * time.Hour)},
	})
	add("runs", 4, "", ended(4, -5)) // it ends in five hours, which the forecast does not know
	add("waits", 2, "", hpc.Recorded{State: hpc.Pending})
	history, err := predict.CasesOf(w)
	if err != nil {
		t.Fatal(err)
	}
	q := &Queue{At: now, Workload: &workload.Workload{Epoch: now, Start: now}, History: history}
	opts := Options{RunTimes: FromModel, Arrivals: Recent, Learner: tenths{}}
	l, err := q.learn(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	seen, unlike := map[string]int{}, map[time.Duration]bool{}
	for i := range 200 {
		later := q.copy()
		q.arrive(later, draws{learned: l}, opts, i)
		for _, job := range later.Jobs.All() {
			seen[job.User]++
			switch job.User {
			case "ended":
				if job.RunTime != time.Hour {
					t.Errorf("a job that ran for an hour runs for %s", job.RunTime)
				}
			case "array":
				if job.Array != "1,2,3%1" || job.RunTimeOf(1) != 2*time.Hour || job.RunTimeOf(2) != time.Hour || job.RunTimeOf(3) == hpc.Unlimited {
					t.Errorf("array %s with run times %v", job.Array, job.TaskRunTimes)
				}
			default:
				unlike[job.RunTime] = true
				least := time.Hour
				if job.User == "runs" {
					least = 4 * time.Hour
				}
				if job.RunTime < least || job.RunTime > 9*time.Hour {
					t.Errorf("a job that %s: it runs for %s", job.User, job.RunTime)
				}
			}
		}
	}
	if seen["cancelled"] > 0 || seen["array"] < 120 || seen["array"] > 280 || seen["runs"] < 120 || seen["waits"] < 120 || len(unlike) < 20 {
		t.Errorf("jobs by their users: %v, with %d run times", seen, len(unlike))
	}
}

// tenths predicts that a job runs for one to nine tenths of its limit.
type tenths struct{ predict.Predictor }

func (tenths) Submit(predict.Submission) predict.Prediction { return predict.Prediction{} }
func (tenths) Start(int64, hpc.Time)                        {}
func (tenths) End(int64, hpc.Time, hpc.State)               {}

// Distribution implements [Learner].
func (tenths) Distribution(s predict.Submission) Distribution {
	return uniform{0.1 * predict.Limit(s.Request), 0.9 * predict.Limit(s.Request)}
}

type uniform struct{ from, to float64 }

// QuantileAfter implements [Distribution].
func (u uniform) QuantileAfter(q, elapsed float64) float64 {
	from := max(u.from, elapsed)
	return from + q*(u.to-from)
}

// TestBusy repeats the submissions of eight hours. If these followed the daily cycle, more jobs are repeated towards
// noon and fewer at night. If their rate was even, the same number is repeated at any hour. Realizations differ by more
// than chance.
func TestBusy(t *testing.T) {
	midnight := hpc.Time(20000 * 24 * time.Hour)
	for _, tt := range []struct {
		name        string
		hour        float64       // hour of the instant; the history begins eight hours earlier
		from, to    time.Duration // the period ahead in which jobs are counted
		least, most float64       // bounds of the number of jobs; the history has 30 an hour
		dispersion  float64       // the least value of the variance of this number / its mean
		even        bool          // the history has an even rate
	}{
		{"the next hour", 16, 0, time.Hour, 20, 40, 1.05, false},
		{"night", 16, 9 * time.Hour, 10 * time.Hour, 1, 18, 1, false},
		{"noon", 8, 4 * time.Hour, 5 * time.Hour, 40, 200, 3, false},
		{"an even night", 16, 9 * time.Hour, 10 * time.Hour, 25, 35, 1, true},
		{"an even noon", 8, 4 * time.Hour, 5 * time.Hour, 25, 40, 1, true},
	} {
		now := midnight.Add(time.Duration(tt.hour * float64(time.Hour)))
		q := &Queue{At: now, Workload: &workload.Workload{Epoch: now, Start: now}, History: &predict.Cases{}}
		shape := func(minute int) float64 {
			if tt.even {
				return 1
			}
			return rate.Busy(now.Add(-8*time.Hour + time.Duration(minute)*time.Minute))
		}
		usual := 0.0
		for minute := range 8 * 60 {
			usual += shape(minute) / (8 * 30)
		}
		for minute, due := 0, 0.0; minute < 8*60; minute++ {
			if due += shape(minute) / usual; due < 1 {
				continue
			}
			due--
			i, at := len(q.History.List), now.Add(-8*time.Hour+time.Duration(minute)*time.Minute)
			q.History.List = append(q.History.List, predict.Case{ID: fmt.Sprint(i), Job: i, Start: at, End: at.Add(time.Minute),
				Submission: predict.Submission{At: at, Request: &hpc.Request{User: "u"}}})
		}
		var counts [400]float64
		mean := 0.0
		for i := range counts {
			later := q.copy()
			q.arrive(later, draws{}, Options{Arrivals: Recent}, i)
			for _, job := range later.Jobs.All() {
				if ahead := job.Submit.Sub(now); ahead >= tt.from && ahead < tt.to {
					counts[i]++
				}
			}
			mean += counts[i] / float64(len(counts))
		}
		variance := 0.0
		for _, n := range counts {
			variance += (n - mean) * (n - mean) / float64(len(counts))
		}
		if mean < tt.least || mean > tt.most || variance < tt.dispersion*mean {
			t.Errorf("%s: %.1f jobs (want %v to %v), variance %.1f", tt.name, mean, tt.least, tt.most, variance)
		}
	}
}
