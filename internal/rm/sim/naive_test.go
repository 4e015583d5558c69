package sim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
	"rmreplay/internal/rm/sim/simtest"
)

// naive is EASY on nodes as in the literature: at each change it reserves nodes for the head, and
// tries every job. The machine stores no results of earlier looks.
type naive struct {
	m     *sim.Machine
	queue []*sim.Job
}

func (p *naive) Add(j *sim.Job) {
	p.queue = append(p.queue, j)
	p.Schedule()
}

func (p *naive) Remove(j *sim.Job) {
	p.queue = slices.DeleteFunc(p.queue, func(q *sim.Job) bool { return q == j })
}

func (p *naive) Change(_ *sim.Job, change func()) { change() }

func (p *naive) Queue(yield func(*sim.Job) bool) { slices.Values(p.queue)(yield) }

func (p *naive) fits(j *sim.Job) bool {
	p.m.Forget()
	return p.m.Fits(j)
}

func (p *naive) Schedule() {
	slices.SortFunc(p.queue, func(a, b *sim.Job) int { return a.Seq - b.Seq })
	for len(p.queue) > 0 && p.fits(p.queue[0]) {
		p.m.Start(p.queue[0])
		p.queue = p.queue[1:]
	}
	if len(p.queue) == 0 || p.m.Free() == 0 {
		return
	}
	head := p.queue[0]
	p.m.Reserve(head)
	p.queue = slices.DeleteFunc(p.queue, func(j *sim.Job) bool {
		if j == head || !p.fits(j) {
			return false
		}
		p.m.Start(j)
		return true
	})
	p.m.Unreserve(head)
}

// TestNaive plays random cases on nodes with two policies: EASY, which skips tries that cannot
// find a start, and a policy that makes every try.
func TestNaive(t *testing.T) {
	easy, err := policy.New("easy")
	if err != nil {
		t.Fatal(err)
	}
	clusters := 0
	for seed := range randomCases(t) {
		k := simtest.Random(simtest.Seeded(uint64(seed)))
		if k.Config.Cluster == nil {
			continue
		}
		clusters++
		compareNaive(t, seed, k, easy)
	}
	if clusters == 0 {
		t.Error("no case has nodes")
	}
}

// TestNaiveWholeNodes plays jobs of whole nodes that wait in long queues behind heads with
// reservations.
func TestNaiveWholeNodes(t *testing.T) {
	easy, err := policy.New("easy")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range 40 {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		k := &simtest.Case{Config: sim.Config{Cluster: &sim.Cluster{WholeNodes: true}, Epoch: simtest.Epoch}}
		for i := range 70 + rng.IntN(5) {
			k.Config.Cluster.Nodes = append(k.Config.Cluster.Nodes, hpc.Node{Name: fmt.Sprint("n", i), CPUs: 1})
		}
		at := simtest.Epoch
		for i := range 100 {
			at = at.Add(time.Duration(rng.IntN(20)) * time.Second)
			run := time.Duration(1+rng.IntN(300)) * time.Second
			j := &hpc.Job{ID: fmt.Sprint(i + 1), Submit: at}
			j.RunTime, j.TimeLimit, j.MinNodes = run, run+time.Duration(rng.IntN(100))*time.Second, 1+rng.IntN(60)
			submit := func(m rm.ResourceManager) error { return m.Submit(j) }
			k.Inputs = append(k.Inputs, simtest.Input{At: at, Apply: submit, Text: "submit " + j.ID})
		}
		compareNaive(t, seed, k, easy)
	}
}

// compareNaive plays a case with EASY and with the policy that makes every look.
func compareNaive(t *testing.T, number int, k *simtest.Case, easy sim.NewPolicy) {
	t.Helper()
	quick := playPlain(t, k, easy)
	all := playPlain(t, k, func(m *sim.Machine) sim.Policy { return &naive{m: m} })
	if !reflect.DeepEqual(quick, all) {
		t.Fatalf("case %d:\n%s\nwithout a look left out:\n%s\n%s", number, story(quick), story(all), describeCase(k))
	}
}

// playPlain plays a case without a witness, because the machine would see the witness's
// reservations.
func playPlain(t *testing.T, k *simtest.Case, made sim.NewPolicy) (events []rm.Event) {
	t.Helper()
	cfg := k.Config
	cfg.Policy = made
	e, err := sim.New(cfg)
	if err != nil { // a machine without processors
		return nil
	}
	inputs := k.Inputs
	for range 100_000 {
		for len(inputs) > 0 && inputs[0].At <= e.Now() {
			if err := inputs[0].Apply(e); err != nil {
				t.Fatalf("%s: %v", inputs[0].Text, err)
			}
			inputs = inputs[1:]
		}
		until := simtest.End
		if len(inputs) > 0 {
			until = inputs[0].At
		}
		if until > simtest.End || e.Now() == simtest.End {
			return events
		}
		list, err := e.AdvanceTo(context.Background(), until)
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range list {
			if ev.Outcome != nil {
				outcome := *ev.Outcome
				ev.Outcome = &outcome
			}
			events = append(events, ev)
		}
	}
	t.Fatal("it does not end")
	return nil
}
