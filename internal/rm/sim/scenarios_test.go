package sim_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/rmtest"
	"rmreplay/internal/rm/sim"
	"rmreplay/internal/rm/sim/policy"
)

// TestScenarios simulates the scenarios in testdata/scenarios. `make golden` writes their schedules
// again. A file has these directives:
//
//	machine processors=N         the machine of all scenarios below it: a pool, or
//	machine                      the nodes and partitions of its lines
//	workload                     the jobs and events of all scenarios below it
//	simulate policy=NAME         what happens, one event a line
//	schedule policy=NAME         what becomes of each job: ID STATE START-END [NODES]
//
// simulate and schedule may have ties=ORDER and a workload of their
// own; package rmtest describes its lines. Times are seconds.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var machine sim.Config
		var workload string
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "machine":
				machine = parseMachine(t, d)
				return ""
			case "workload":
				workload = d.Input
				return ""
			}
			cfg := machine
			configure(t, d, &cfg)
			what, err := rmtest.Parse(cmp.Or(d.Input, workload), epoch, "--uid=ada")
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			events := play(t, cfg, inputs(what), time.Hour)
			switch d.Cmd {
			case "simulate":
				return withoutAcceptance(story(events))
			case "schedule":
				return schedule(events)
			}
			d.Fatalf(t, "%s: not a directive (want machine, workload, simulate or schedule)", d.Cmd)
			return ""
		})
	})
}

// configure reads the arguments of simulate and schedule.
func configure(t *testing.T, d *datadriven.TestData, cfg *sim.Config) {
	var name, ties string
	d.ScanArgs(t, "policy", &name)
	d.MaybeScanArgs(t, "ties", &ties)
	var err error
	if cfg.Policy, err = policy.New(name); err != nil {
		d.Fatalf(t, "%v", err)
	}
	cfg.Ties = sim.Ties(ties)
}

// parseMachine reads a pool or, from lines such as these, nodes:
//
//	node n[1-3] cpus=4 memory=1000 gres=gpu:a100:2
//	partition short nodes=n1 default=yes max-time=60 memory-per-cpu=100
func parseMachine(t *testing.T, d *datadriven.TestData) sim.Config {
	if d.HasArg("processors") {
		var cfg sim.Config
		d.ScanArgs(t, "processors", &cfg.Processors)
		return cfg
	}
	c := &sim.Cluster{CountMemory: true}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		values := map[string]string{}
		for _, w := range words[2:] {
			key, value, _ := strings.Cut(w, "=")
			values[key] = value
		}
		number := func(key string) int {
			n, err := strconv.Atoi(cmp.Or(values[key], "0"))
			if err != nil {
				d.Fatalf(t, "%s: %v", line, err)
			}
			return n
		}
		switch words[0] {
		case "node":
			n := hpc.Node{CPUs: number("cpus"), RealMemory: int64(number("memory")), Weight: 1}
			if parts := strings.Split(values["gres"], ":"); len(parts) == 3 {
				count, _ := strconv.ParseInt(parts[2], 10, 64)
				n.GRES = []hpc.GRES{{Name: parts[0], Type: parts[1], Count: count}}
			}
			for _, n.Name = range expand(t, words[1]) {
				c.Nodes = append(c.Nodes, n)
			}
		case "partition":
			c.Partitions = append(c.Partitions, sim.Partition{
				Name: words[1], Default: values["default"] == "yes", Nodes: expand(t, values["nodes"]),
				MaxTime: time.Duration(number("max-time")) * time.Second, DefMemPerCPU: int64(number("memory-per-cpu")),
				Closed: values["closed"] == "yes", Stopped: values["stopped"] == "yes",
			})
		default:
			d.Fatalf(t, "%s: not part of a machine (want node or partition)", line)
		}
	}
	return sim.Config{Cluster: c}
}

func expand(t tb, hosts string) []string {
	names, err := hostlist.Expand(hosts)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// inputs returns the inputs of a scenario. At one instant, events of the machine come before
// submissions.
func inputs(s rmtest.Scenario) []input {
	var list []input
	for _, ev := range s.Nodes {
		list = append(list, input{ev.At, func(e *sim.Engine) error { return e.SetNode(ev) }})
	}
	for _, ev := range s.Reservations {
		list = append(list, input{ev.At, func(e *sim.Engine) error { return e.Reserve(ev) }})
	}
	return append(list, submissions(s.Jobs)...)
}

// schedule describes what happened to every job and task, in the order of their submission.
func schedule(events []rm.Event) string {
	var order []string
	rows := map[string]string{}
	since := func(t hpc.Time) string {
		if t.IsZero() {
			return ""
		}
		return fmt.Sprintf("%g", t.Sub(epoch).Seconds())
	}
	for _, ev := range events {
		name := ev.Job
		if ev.Task >= 0 {
			name += "_" + strconv.Itoa(ev.Task)
		}
		switch {
		case ev.Kind == rm.Accepted, ev.Job != "" && rows[name] == "":
			if rows[name] == "" {
				order = append(order, name)
			}
			rows[name] = "PENDING"
		}
		switch ev.Kind {
		case rm.Refused:
			rows[name] = "REJECTED " + ev.Reason
		case rm.Started:
			rows[name] = "RUNNING " + since(ev.Outcome.Start) + "-"
		case rm.Ended:
			rows[name] = fmt.Sprintf("%s %s-%s %s", ev.Outcome.State, since(ev.Outcome.Start), since(ev.Outcome.End), ev.Outcome.Nodes)
		}
	}
	var b strings.Builder
	for _, name := range order {
		if rows[name] != "PENDING" || !slices.ContainsFunc(order, func(s string) bool { return strings.HasPrefix(s, name+"_") }) {
			fmt.Fprintln(&b, strings.TrimSpace(name+" "+rows[name]))
		}
	}
	return b.String()
}
