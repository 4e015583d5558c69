package forecast

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
)

// past is a job of a made-up history, in seconds.
type past struct {
	user, name        string
	start, ran, limit float64
}

func (p past) submission(at float64) predict.Submission {
	limit := time.Duration(p.limit) * time.Second
	return predict.Submission{At: hpc.Unix(int64(at)), Request: &hpc.Request{User: p.user, Name: p.name, TimeLimit: limit, MinNodes: 1}}
}

// learnPast returns a learner that has seen the jobs until an instant. The learner does not see jobs that had
// ended by from. The result running has the jobs that run at until.
func learnPast(jobs []past, from, until float64) (s *Shares, running []past) {
	type event struct {
		at   float64
		tell func()
	}
	s = NewShares()
	var events []event
	for i, p := range jobs {
		end := p.start + p.ran
		if end <= from || p.start > until {
			continue
		}
		number := int64(i)
		events = append(events, event{p.start, func() {
			s.Submit(predict.Submission{Number: number, At: hpc.Unix(int64(p.start)), Request: p.submission(0).Request})
			s.Start(number, hpc.Unix(int64(p.start)))
		}})
		if end <= until {
			events = append(events, event{end, func() { s.End(number, hpc.Unix(int64(end)), hpc.Completed) }})
		} else {
			running = append(running, p)
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for _, e := range events {
		e.tell()
	}
	return s, running
}

// place returns where a run time lies in a distribution, from 0 to 1.
func place(d Distribution, ran, elapsed float64) float64 {
	low, high := 0.0, 1.0
	for range 40 {
		middle := (low + high) / 2
		if d.QuantileAfter(middle, elapsed) < ran {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// TestSharesCalibrated checks where the run times of running jobs lie in their distributions: evenly from 0
// to 1, like draws. The history begins and ends while jobs run. The share that a job uses depends on its
// limit and not on its user. The history is known from its sixth day on.
func TestSharesCalibrated(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED by -short: half a minute of forecasts")
	}
	const day = 86400.0
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var jobs []past
		for range 60000 {
			p := past{user: fmt.Sprint("u", rng.IntN(200)), name: fmt.Sprint("n", rng.IntN(5)), start: rng.Float64() * 8 * day, limit: 4 * 3600}
			p.ran = rng.Float64() * p.limit
			if rng.IntN(3) == 0 {
				p.limit = day
				p.ran = min(rng.ExpFloat64()*0.15, 1) * day
			}
			jobs = append(jobs, p)
		}
		slices.SortFunc(jobs, func(a, b past) int { return cmp.Compare(a.start, b.start) })
		const now = 7 * day
		s, running := learnPast(jobs, 6*day, now)
		var places []float64
		for _, p := range running {
			places = append(places, place(s.Distribution(p.submission(now)), p.ran, now-p.start))
		}
		slices.Sort(places)
		worst := 0.0 // the distance of Kolmogorov and Smirnov
		for i, x := range places {
			worst = max(worst, math.Abs(x-(float64(i)+0.5)/float64(len(places))))
		}
		if worst > 0.08 {
			t.Errorf("seed %d: the places of %d running jobs are %.3f from even: deciles %.2f", seed, len(places), worst, deciles(places))
		}
	}
}

func deciles(sorted []float64) (q [9]float64) {
	for i := range q {
		q[i] = sorted[len(sorted)*(i+1)/10]
	}
	return q
}

// TestSharesConcentrations: if run times depend on the class, the narrowest group counts. If they depend
// only on the limit, the users' groups do not count.
func TestSharesConcentrations(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 6))
	var classes, limits []past
	for i := range 3000 {
		user, name := rng.IntN(20), rng.IntN(4)
		p := past{user: fmt.Sprint("u", user), name: fmt.Sprint("n", name), start: float64(i) * 100, limit: 3600 * float64(1+rng.IntN(3))}
		classes = append(classes, p)
		classes[i].ran = p.limit * (float64((user*4+name)*7%80) + rng.Float64()) / 80
		limits = append(limits, p)
		limits[i].ran = p.limit * rng.Float64() * 3600 / p.limit
	}
	s, _ := learnPast(classes, 0, 1e9)
	s.learnConcentrations()
	if c := s.concentration[0]; c > 2 {
		t.Errorf("classes say all: concentration %g, want at most 2", c)
	}
	s, _ = learnPast(limits, 0, 1e9)
	s.learnConcentrations()
	if c := s.concentration; c[0] < 100 || c[1] < 100 || c[3] > 100 {
		t.Errorf("limits say all: concentrations %g, want large ones of classes and users, and a small one of limits", c)
	}
}
