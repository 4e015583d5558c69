package policy

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
)

// workloads is the number of random workloads for each policy and each order of events.
var workloads = flag.Int("workloads", 150, "random workloads for the comparison with the reference scheduler")

// refJob is a job of the reference. Times are in seconds.
type refJob struct {
	id, submit, size, run, limit int
	user                         int
	expected, corrections        int // expected is the limit, or the prediction
	start, due, end              int
	started                      bool
	order                        int // of its start
	promise                      int // start that conservative backfilling promises
}

// reference is a slow and obvious scheduler. It keeps lists, sorts them, and counts processors
// again for every decision.
type reference struct {
	processors     int
	now            int
	running, queue []*refJob // in the order of their starts; in the order of their arrival
	arrive         func(*refJob)
	ended          func()

	head          *refJob // head of the queue by the rules of the feedback paper
	shadow, extra int
	sjbf          bool
	starts        int
	forecast      *refForecast // nil without predictions
}

const forever = 1 << 40

// free returns how many processors will be free at an instant if all running jobs end when they
// are due.
func (r *reference) free(at int) int {
	free := r.processors
	for _, j := range r.running {
		if j.due > at {
			free -= j.size
		}
	}
	return free
}

// freeNow returns how many processors are free.
func (r *reference) freeNow() int {
	free := r.processors
	for _, j := range r.running {
		free -= j.size
	}
	return free
}

func (r *reference) start(j *refJob) {
	if j.size > r.freeNow() {
		panic("the reference is wrong")
	}
	r.queue = slices.DeleteFunc(r.queue, func(q *refJob) bool { return q == j })
	j.start, j.due, j.end = r.now, r.now+j.expected, r.now+min(j.run, j.limit)
	r.starts++
	j.started, j.order = true, r.starts
	r.running = append(r.running, j)
}

// simulate returns when each job starts; -1 for jobs larger than the machine.
func (r *reference) simulate(jobs []*refJob, ties sim.Ties) []int {
	starts := make([]int, len(jobs))
	next := 0
	for _, j := range jobs {
		j.expected = j.limit
	}
	for next < len(jobs) || len(r.running) > 0 {
		r.now = forever
		if next < len(jobs) {
			r.now = jobs[next].submit
		}
		for _, j := range r.running {
			r.now = min(r.now, j.end, j.due)
		}
		r.correct()
		var over []*refJob
		for _, j := range r.running {
			if j.end == r.now {
				over = append(over, j)
			}
		}
		off := func(j *refJob) {
			r.running = slices.DeleteFunc(r.running, func(q *refJob) bool { return q == j })
		}
		if ties == sim.EndsFirst && len(over) > 0 {
			for _, j := range over {
				off(j)
			}
			r.ended()
		}
		if ties == sim.ArrivalsFirst {
			for _, j := range over {
				if j.due == r.now {
					off(j)
				}
			}
		}
		r.predict(jobs, ties)
		for ; next < len(jobs) && jobs[next].submit == r.now; next++ {
			if j := jobs[next]; j.size > r.processors {
				j.start = -1
			} else {
				r.arrive(j)
			}
		}
		if ties == sim.ArrivalsFirst {
			for _, j := range over {
				off(j)
				r.ended()
			}
		}
	}
	for i, j := range jobs {
		starts[i] = j.start
	}
	return starts
}

// byDue returns the running jobs, the first due first.
func (r *reference) byDue() []*refJob {
	sorted := slices.Clone(r.running)
	slices.SortStableFunc(sorted, func(a, b *refJob) int { return a.due - b.due })
	return sorted
}

// foresee returns when a job will fit, and how many processors it will then leave over. The result
// first counts only jobs up to the running job at whose end the job fits. The result all counts
// every job that is due by then.
func (r *reference) foresee(size int) (at, first, all int) {
	free := r.freeNow()
	for _, j := range r.byDue() {
		if free += j.size; free >= size {
			return j.due, free - size, r.free(j.due) - size
		}
	}
	panic("the reference is wrong")
}

func newReference(name string, processors int, ties TieRules) *reference {
	r := &reference{processors: processors}
	name, options, _ := strings.Cut(name, ":")
	r.sjbf = name == "easy-sjbf" || name == "easy++"
	r.forecast = newRefForecast(name, options)
	switch name {
	case "fcfs":
		r.ended = func() {
			for len(r.queue) > 0 && r.queue[0].size <= r.freeNow() {
				r.start(r.queue[0])
			}
		}
		r.arrive = func(j *refJob) { r.queue = append(r.queue, j); r.ended() }
	case "easy":
		r.arrive, r.ended = r.feedbackArrive, r.feedbackEnded
	case "conservative":
		r.arrive, r.ended = r.conservativeArrive, r.conservativeEnded
	default:
		o := arrival
		if i := slices.IndexFunc(orders, func(o order) bool { return o.name == name }); i >= 0 {
			o = orders[i]
		}
		r.ended = func() { r.textbook(o, ties) }
		r.arrive = func(j *refJob) { r.queue = append(r.queue, j); r.ended() }
	}
	return r
}

func (r *reference) feedbackArrive(j *refJob) {
	fits := j.size <= r.freeNow()
	switch {
	case r.head == nil && fits:
		r.start(j)
	case r.head == nil:
		r.head = j
		r.shadow, r.extra, _ = r.foresee(j.size)
	case fits && r.now+j.expected <= r.shadow:
		r.start(j)
	case fits && j.size <= r.extra:
		r.extra -= j.size
		r.start(j)
	default:
		r.queue = append(r.queue, j)
	}
}

func (r *reference) feedbackEnded() {
	for r.head != nil && r.head.size <= r.freeNow() {
		r.start(r.head)
		r.head = nil
		if len(r.queue) > 0 {
			r.head = r.queue[0]
			r.queue = r.queue[1:]
		}
	}
	if r.head == nil {
		return
	}
	r.shadow, r.extra, _ = r.foresee(r.head.size)
	for _, j := range slices.Clone(r.queue) {
		switch {
		case j.size > r.freeNow():
		case r.now+j.expected <= r.shadow:
			r.start(j)
		case j.size <= r.extra:
			r.extra -= j.size
			r.start(j)
		}
	}
}

func (r *reference) textbook(o order, ties TieRules) {
	key := func(j *refJob) float64 {
		return o.key(facts{r: float64(j.expected), n: float64(j.size), s: float64(max(j.submit, 1)), w: float64(r.now - j.submit)})
	}
	slices.SortFunc(r.queue, func(a, b *refJob) int { return cmp.Or(cmp.Compare(key(a), key(b)), a.id-b.id) })
	for len(r.queue) > 0 && r.queue[0].size <= r.freeNow() {
		r.start(r.queue[0])
	}
	if len(r.queue) == 0 {
		return
	}
	shadow, extra, all := r.foresee(r.queue[0].size)
	if !ties.ExtraFirst {
		extra = all
	}
	rest := slices.Clone(r.queue[1:])
	if r.sjbf {
		slices.SortStableFunc(rest, func(a, b *refJob) int { return a.expected - b.expected })
	}
	for _, j := range rest {
		over := r.now+j.expected > shadow || ties.EndBefore && r.now+j.expected == shadow
		switch {
		case j.size > r.freeNow():
		case !over:
			r.start(j)
		case j.size <= extra:
			extra -= j.size
			r.start(j)
		}
	}
}

// promised returns the first instant at which a job can run, given all running jobs and the
// reservations of all other jobs.
func (r *reference) promised(j *refJob) int {
	type use struct{ from, until, size int }
	var uses []use
	instants := []int{r.now}
	for _, q := range r.running {
		uses = append(uses, use{r.now, q.due, q.size})
	}
	for _, q := range r.queue {
		if q != j {
			uses = append(uses, use{q.promise, q.promise + q.limit, q.size})
		}
	}
	for _, u := range uses {
		instants = append(instants, max(u.from, r.now), max(u.until, r.now))
	}
	slices.Sort(instants)
	free := func(at int) int {
		n := r.processors
		for _, u := range uses {
			if u.from <= at && at < u.until {
				n -= u.size
			}
		}
		return n
	}
	for _, at := range instants {
		fits := true
		for _, t := range instants {
			if (t == at || t > at && t < at+j.limit) && free(t) < j.size {
				fits = false
			}
		}
		if fits {
			return at
		}
	}
	panic("the reference is wrong")
}

func (r *reference) conservativeArrive(j *refJob) {
	r.queue = append(r.queue, j)
	if j.promise = r.promised(j); j.promise == r.now {
		r.start(j)
	}
}

func (r *reference) conservativeEnded() {
	for _, j := range slices.Clone(r.queue) {
		at := r.promised(j)
		if at > j.promise {
			panic("a promise was broken")
		}
		if j.promise = at; at == r.now {
			r.start(j)
		}
	}
}

// randomJobs returns a workload of up to 40 jobs that keeps a small machine busy.
func randomJobs(rng *rand.Rand, processors int) []*refJob {
	jobs := make([]*refJob, 1+rng.IntN(40))
	at := 0
	gap := 1 + rng.IntN(30)
	for i := range jobs {
		at += rng.IntN(gap)
		j := &refJob{id: i, submit: at, size: 1 + rng.IntN(processors), limit: 1 + rng.IntN(60)}
		if rng.IntN(2) == 0 {
			j.size = 1 + rng.IntN(1+processors/4)
		}
		if rng.IntN(3) == 0 {
			j.limit = 10 * (1 + rng.IntN(4)) // so that events coincide
		}
		j.run = rng.IntN(j.limit + 1)
		switch rng.IntN(8) {
		case 0:
			j.run = j.limit
		case 1:
			j.run = j.limit + rng.IntN(20)
		case 2:
			j.size = processors + rng.IntN(2)
		}
		j.user = i % 3
		jobs[i] = j
	}
	return jobs
}

// epoch is the start of the tests' times. It is a number of whole weeks, so that features of
// learners that depend on the day or week are the same.
const epoch = 14 * 24 * 3600 * hpc.Second

// hpcJobs converts jobs of the reference to jobs of a workload.
func hpcJobs(jobs []*refJob) []*hpc.Job {
	list := make([]*hpc.Job, len(jobs))
	for i, j := range jobs {
		list[i] = &hpc.Job{ID: strconv.Itoa(j.id), Submit: epoch.Add(time.Duration(j.submit) * time.Second)}
		list[i].Tasks, list[i].User = j.size, strconv.Itoa(j.user)
		list[i].TimeLimit = time.Duration(j.limit) * time.Second
		list[i].RunTime = time.Duration(j.run) * time.Second
	}
	return list
}

// play submits jobs at their instants and passes all events to each.
func play(t testing.TB, cfg sim.Config, jobs []*hpc.Job, each func(rm.Event)) *sim.Engine {
	t.Helper()
	cfg.Epoch = epoch
	e, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for next := 0; ; {
		for ; next < len(jobs) && jobs[next].Submit <= e.Now(); next++ {
			if err := e.Submit(jobs[next]); err != nil {
				t.Fatal(err)
			}
		}
		until := hpc.Never
		if next < len(jobs) {
			until = jobs[next].Submit
		}
		events, err := e.AdvanceTo(context.Background(), until)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			each(ev)
		}
		if len(events) == 0 && until == hpc.Never {
			return e
		}
	}
}

// startTimes returns the seconds at which the jobs start; -1 for rejected jobs.
func startTimes(t testing.TB, cfg sim.Config, jobs []*hpc.Job) []int {
	t.Helper()
	starts := make([]int, len(jobs))
	index := make(map[string]int, len(jobs))
	for i, j := range jobs {
		starts[i] = -2
		index[j.ID] = i
	}
	cfg.Lean = true
	play(t, cfg, jobs, func(ev rm.Event) {
		switch ev.Kind {
		case rm.Started:
			starts[index[ev.Job]] = int(ev.At.Sub(epoch) / time.Second)
		case rm.Refused:
			starts[index[ev.Job]] = -1
		}
	})
	return starts
}

// TestReference compares every policy with the reference on random workloads. The flag
// -workloads=10000 makes it compare more workloads.
func TestReference(t *testing.T) {
	names := append(Names(), "easy-textbook:extra=first", "easy-textbook:end=before", "easy-textbook:extra=first,end=before",
		"easy:predict=last-two", "easy:predict=clairvoyant", "easy-textbook:predict=last-two,correct=doubling", "easy-textbook:predict=requested",
		"easy-sjbf:predict=clairvoyant", "easy++:correct=requested", "easy++:correct=doubling", "sjf:predict=last-two", "saf:predict=clairvoyant")
	names = slices.DeleteFunc(names, func(name string) bool { return ioOptions(name) != nil }) // these plan in rounds
	for _, name := range names {
		for _, ties := range []sim.Ties{sim.EndsFirst, sim.ArrivalsFirst} {
			t.Run(name+"/"+string(ties), func(t *testing.T) {
				t.Parallel()
				for seed := range *workloads {
					compareWithReference(t, name, ties, uint64(seed))
				}
			})
		}
	}
}

func compareWithReference(t *testing.T, name string, ties sim.Ties, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	processors := 1 + rng.IntN(24)
	jobs := randomJobs(rng, processors)
	for _, j := range jobs { // long enough for several corrections by increments
		j.submit, j.run, j.limit = 97*j.submit, 97*j.run+j.run%2, 97*j.limit
	}
	made, err := New(name)
	if err != nil {
		t.Fatal(err)
	}
	got := startTimes(t, sim.Config{Processors: processors, Policy: made, Ties: ties}, hpcJobs(jobs))
	rules := TieRules{}
	base := name // may have options of predictions
	if i := slices.Index([]string{"easy-textbook:extra=first", "easy-textbook:end=before", "easy-textbook:extra=first,end=before"}, name); i >= 0 {
		base = "easy-textbook"
		rules = TieRules{ExtraFirst: i != 1, EndBefore: i != 0}
	}
	want := newReference(base, processors, rules).simulate(jobs, ties)
	for i := range jobs {
		if got[i] != want[i] {
			t.Fatalf("seed %d, %d processors: job %d starts at %d, and with the reference at %d\n%s", seed, processors, i, got[i], want[i], listing(jobs, got))
		}
	}
}

// listing formats a workload and its schedule for people.
func listing(jobs []*refJob, got []int) string {
	s := "job submit size run limit start reference\n"
	for i, j := range jobs {
		s += fmt.Sprintf("%3d %6d %4d %3d %5d %5d %9d\n", j.id, j.submit, j.size, j.run, j.limit, got[i], j.start)
	}
	return s
}
