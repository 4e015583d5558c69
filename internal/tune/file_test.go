package tune

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// minimal is a valid file to which tests add lines.
const minimal = `workloads: [a.jsonl, b.jsonl]
sim: {}
objective: mean_wait_s
parameters:
  - {name: policy, values: [fcfs, easy]}
`

func load(t *testing.T, text string) (*File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tune.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

func TestLoad(t *testing.T) {
	f, err := load(t, minimal+`  - {name: x, integer: [1, 1000], log: true, now: 10, when: policy=easy}
  - {name: y, real: [0.5, 2]}
held-out:
  - c.jsonl
  - {workload: a.jsonl, start: 2024-03-06}
constraints:
  - {metric: utilization, worse-by: 1%}
  - {metric: mean_wait_s, by: qos, worse-by: 60, ignore: 5}
`)
	if err != nil {
		t.Fatal(err)
	}
	if !f.Goal.Lower || f.Goal.Constraints[0].Lower || !f.Goal.Constraints[0].Relative || f.Goal.Constraints[0].Limit != 0.01 {
		t.Errorf("goal %+v", f.Goal)
	}
	if c := f.Goal.Constraints[1]; !c.Lower || c.Relative || c.Limit != 60 || c.Ignore != 5 || c.By != "qos" {
		t.Errorf("constraint %+v", c)
	}
	if p := f.Space[1]; p.When == nil || p.When.Parameter != 0 || p.When.Values[0] != "easy" || p.Now != "10" {
		t.Errorf("parameter %+v", p)
	}
	p := f.Plan()
	if p.Blocks != 6 || p.HeldOutRuns != 40 || p.Budget == 0 || p.HeldOutUnseen != "workloads" {
		t.Errorf("plan %+v", p)
	}
	if p.HeldOut[1] == p.HeldOut[0] || !strings.Contains(p.HeldOut[1], "2024-03-06") {
		t.Errorf("held out %q", p.HeldOut)
	}
}

// TestOwnOptions checks that the runs of all settings have the site's own values of options of simulate, unless the
// setting has another value or the option has no effect.
func TestOwnOptions(t *testing.T) {
	text := strings.Replace(minimal, "easy]", "easy, sjf], now: fcfs", 1) +
		"  - {name: depth, integer: [1, 9], now: 3, when: policy=easy}\n  - {name: ties, values: [a, b]}\n"
	f, err := load(t, strings.Replace(text, "sim: {}", "sim: {options: {ties: b}}", 1))
	if err != nil {
		t.Fatal(err)
	}
	settings := []Setting{{"sjf", "", ""}, {"easy", "", "a"}, {"easy", "5", ""}, {"fcfs", "", ""}}
	var got []string
	for _, v := range f.experiment(f.Workloads[0], settings).Sim.Policies {
		got = append(got, strings.ReplaceAll(v.Options.String(), "\x00", " "))
	}
	want := []string{"--policy=fcfs", "--policy=sjf", "--policy=easy --ties=a --depth=3", "--policy=easy --depth=5"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if now := f.Space[2].Now; now != "b" {
		t.Errorf("ties is %q at the site, want b of sim.options", now)
	}
}

// TestLoadRefuses checks that a mistake in a file has an error with the line and what would be right.
func TestLoadRefuses(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "workloads is missing"},
		{"workloads: [a]\n", "slurm and sim are missing"},
		{"workloads: [a]\nsim: {}\nslurm: {cluster: c}\n", "slurm and sim exclude each other"},
		{"workloads: [a]\nslurm: {}\n", "cluster is missing"},
		{"workloads: [a]\nsim: {}\n", "parameters is missing"},
		{minimal + "bugdet: 5\n", ":6: unknown field"},
		{minimal + "seeds: 0\n", "seeds: 0 (want"},
		{minimal + "seeds: many\n", ":6: "},
		{minimal + "budget: -1\n", "budget: -1"},
		{minimal + "budget: 10\n", "too few (want at least"},
		{minimal + "held-out-seeds: 2\n", "no difference could be significant, because the smallest p-value is 0.125"},
		{minimal + "held-out: [a.jsonl]\n", ":6: held-out: a.jsonl: the search uses this workload too"},
		{strings.Replace(minimal, "b.jsonl", "a.jsonl", 1), ":1: workloads: a.jsonl occurs twice"},
		{strings.Replace(minimal, "b.jsonl", "{start: 2024-01-01}", 1), "an entry has no workload (want workload: PATH)"},
		{strings.Replace(minimal, "b.jsonl", "'///'", 1), "not a name"},
		{strings.Replace(minimal, "mean_wait_s", "mean_wait", 1), ":3: objective: mean_wait: not a metric that can be compared (did you mean mean_wait_s?)"},
		{strings.Replace(minimal, "mean_wait_s", "rejected", 1), "does not know whether lower or higher is better"},
		{strings.Replace(minimal, "mean_wait_s", "{metric: rejected, want: less}", 1), "want: less: not known"},
		{strings.Replace(minimal, "mean_wait_s", "{metrics: rejected}", 1), "metrics: not known (did you mean metric?)"},
		{minimal + "  - {values: [a, b]}\n", ":6: parameters: a parameter has no name"},
		{minimal + "  - {name: x}\n", "0 of integer, real and values are given"},
		{minimal + "  - {name: x, integer: [1, 2], real: [1, 2]}\n", "2 of integer, real and values are given"},
		{minimal + "  - {name: x, integer: [1, 2.5]}\n", "2.5: not a whole number"},
		{minimal + "  - {name: x, integer: 5}\n", "1 values (want [LOW, HIGH])"},
		{minimal + "  - {name: x, integer: [5, 1]}\n", "want the lower end first"},
		{minimal + "  - {name: x, integer: [0, 5], log: true}\n", "log needs a lower end above 0"},
		{minimal + "  - {name: x, integer: [0, 5], log: maybe}\n", "not true or false"},
		{minimal + "  - {name: x, real: [nan, 5]}\n", "not a number"},
		{minimal + "  - {name: x, real: [0, 1e300]}\n", "not a number"},
		{minimal + "  - {name: x, real: [0, 1], now: fast}\n", "now: fast: not a number"},
		{minimal + "  - {name: x, values: [a, a]}\n", "a occurs twice"},
		{minimal + "  - {name: x, values: [a], now: a}\n", "there is no value to choose"},
		{minimal + "  - {name: Policy, values: [a, b]}\n", "Policy occurs twice"},
		{minimal + "  - {name: x, values: [a, b], when: policy=sjf}\n", "policy never has the value sjf"},
		{minimal + "  - {name: x, values: [a, b], when: later=1}\n", "no earlier parameter has that name"},
		{minimal + "  - {name: x, integer: [1, 5]}\n  - {name: y, integer: [1, 5], when: x=1}\n", "x is a number"},
		{minimal + "constraints: [{metric: utilization}]\n", `worse-by: "": want a share`},
		{minimal + "constraints: [{metric: utilization, worse-by: -1%}]\n", "want a share"},
		{minimal + "constraints: [{metric: utilization, worse-by: +1%}]\n", "want a share"},
		{minimal + "constraints: [{metric: mean_wait_s, worse-by: 1%, by: colour}]\n", "jobs cannot be grouped by this"},
		{minimal + "constraints: [{metric: makespan_s, worse-by: 1%, by: size}]\n",
			":6: constraints: makespan_s: by: size: this metric is about the whole machine"},
		{minimal + "constraints: [{metric: node_utilization, worse-by: 1%, by: size}]\n", "no value for a group of jobs"},
		{strings.Replace(strings.Replace(minimal, "easy]", "easy], now: fcfs", 1), "sim: {}", "sim: {options: {policy: easy}}", 1),
			":5: parameters: policy: now: fcfs: sim.options has policy: easy, with which the site's own setting runs"},
		{minimal + "constraints: [{metric: mean_wait_s, worse-by: 1%, ignore: x}]\n", `ignore: "x"`},
		{minimal + strings.Repeat("x", 9000), "line of 9000 bytes"},
		{"a: &a [1,1]\nb: &b [*a,*a]\n" + minimal, "unknown field"},
	} {
		_, err := load(t, test.text)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.200s\ngot  %v\nwant %s", test.text, err, test.want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(minimal)
	f.Add(minimal + "  - {name: x, integer: [1, 1000], log: true, now: 10, when: policy=easy}\nconstraints: [{metric: utilization, worse-by: 1%}]\n")
	path := filepath.Join(f.TempDir(), "tune.yaml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Load(path)
		if err != nil {
			return
		}
		for _, s := range file.Space.hypercube(3, randomOf(1)) {
			file.Space.near(s, 0.3, 0.5, randomOf(2))
		}
	})
}
