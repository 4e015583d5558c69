package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/predict"
)

type past struct {
	name        string
	group       string
	size, limit float64
	at          hpc.Time
	hour        float64
	y           float64
	st          hpc.Time
}

type knn struct {
	jobs                             map[int64]past
	start                            map[int64]hpc.Time
	users                            map[string][]past
	simple                           predict.Predictor
	km                               bool
	cap                              int
	cw                               float64
	mode                             int
	running                          map[string]map[int64]past
	K                                int
	wName, wSize, wLimit, wAge, wSec float64 // penalties (log weight)
}

func newKNN(k int, name, size, limit, age, sec float64) *knn {
	return &knn{jobs: map[int64]past{}, start: map[int64]hpc.Time{}, users: map[string][]past{}, simple: predict.NewLastTwo(), K: k, wName: name, wSize: size, wLimit: limit, wAge: age, wSec: sec}
}

func pastOf(s predict.Submission) past {
	return past{name: s.Request.Name, group: s.Request.Partition + "/" + s.Request.QOS, size: predict.Processors(s.Request), limit: predict.Limit(s.Request), at: s.At}
}

func (k *knn) Predict(s predict.Submission) predict.Prediction {
	list := k.users[s.Request.User]
	if len(list) == 0 {
		return k.simple.Predict(s)
	}
	p := pastOf(s)
	type wy struct {
		y, w float64
		cens bool
		st   hpc.Time
	}
	var v []wy
	dist := func(q *past) (c float64) {
		if q.name != p.name {
			c += k.wName
		}
		if q.size != p.size {
			c += k.wSize + math.Abs(math.Log(q.size/p.size))
		}
		if q.limit != p.limit {
			c += k.wLimit + math.Abs(math.Log((q.limit+1)/(p.limit+1)))
		}
		return
	}
	for i := range list {
		q := &list[len(list)-1-i]
		c := dist(q)
		if k.mode == 0 || k.mode == 1 {
			c += k.wAge * float64(i)
		}
		v = append(v, wy{q.y, math.Exp(-c), false, q.st})
	}
	if k.mode > 0 {
		for n, q := range k.running[s.Request.User] {
			v = append(v, wy{s.At.Sub(k.start[n]).Seconds(), math.Exp(-dist(&q)), true, k.start[n]})
		}
	}
	if k.mode == 2 { // joint ranks by start
		slices.SortFunc(v, func(a, b wy) int { return cmp.Or(-cmp.Compare(a.st, b.st), cmp.Compare(a.w, b.w)) })
		for i := range v {
			v[i].w *= math.Exp(-k.wAge * float64(i))
		}
	}
	if k.mode == 3 { // running ranked among themselves; as many censored by age
		slices.SortFunc(v, func(a, b wy) int { return cmp.Or(-cmp.Compare(a.st, b.st), cmp.Compare(a.w, b.w)) })
		e, r := 0, 0
		for i := range v {
			if v[i].cens {
				v[i].w *= math.Exp(-k.wAge * float64(r))
				r++
			} else {
				v[i].w *= math.Exp(-k.wAge * float64(e))
				e++
			}
		}
	}
	total := 0.0
	for _, e := range v {
		total += e.w
	}
	slices.SortFunc(v, func(a, b wy) int { return cmp.Or(cmp.Compare(a.y, b.y), cmp.Compare(a.w, b.w)) })
	surv, lastY := 1.0, 0.0
	for _, e := range v {
		lastY = max(lastY, e.y)
		if !e.cens {
			surv *= 1 - e.w/total
			if surv <= 0.5+1e-12 {
				return predict.Point(e.y, s.Request)
			}
		}
		if total -= e.w; total < 1e-300 {
			break
		}
	}
	return predict.Point(lastY, s.Request)
}

func (k *knn) Submit(s predict.Submission) predict.Prediction {
	k.simple.Submit(s)
	k.jobs[s.Number] = pastOf(s)
	k.jobs[s.Number] = func() past { p := pastOf(s); p.group = s.Request.User; return p }()
	return k.Predict(s)
}
func (k *knn) Start(n int64, at hpc.Time) {
	k.simple.Start(n, at)
	k.start[n] = at
	p := k.jobs[n]
	if k.running == nil {
		k.running = map[string]map[int64]past{}
	}
	if k.running[p.group] == nil {
		k.running[p.group] = map[int64]past{}
	}
	k.running[p.group][n] = p
}
func (k *knn) End(n int64, at hpc.Time, st hpc.State) {
	k.simple.End(n, at, st)
	p := k.jobs[n]
	s, ok := k.start[n]
	delete(k.jobs, n)
	delete(k.running[p.group], n)
	delete(k.start, n)
	if !ok || st == hpc.Pending {
		return
	}
	p.y = at.Sub(s).Seconds()
	p.st = s
	l := append(k.users[p.group], p)
	if len(l) > k.K {
		l = slices.Delete(l, 0, len(l)-k.K)
	}
	k.users[p.group] = l
}

func knns(name string, c *predict.Cases, last2 float64) {
	for _, age := range []float64{0.05} {
		for mode := range 4 {
			q := newKNN(100, 4, 3, 4, age, 0)
			q.mode = mode
			m, _ := mae(c, q)
			fmt.Printf("%s knn age %v mode %v: %.0f (%+.1f %%)\n", name, age, mode, m, 100*(m/last2-1))
		}
	}
}
