// Command modelcases compares the model of Slurm's scheduler with Slurm on random small clusters and workloads.
// Each case is replayed on Slurm under the frozen clock and simulated with the same seed:
//
//	go run ./tools/modelcases -out cases.jsonl -slurm 22.05 -from 1 -to 300
//
// The file gets a line for each case, and a later call runs only the cases that it lacks. -show
// prints a case as a scenario. -keep writes scenarios with Slurm's answers into a directory. A case
// with an answer there is only simulated. So -again shows in seconds how a change of the model
// affects the cases in the file.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/experiment"
	"rmreplay/internal/experiment/scenario"
	"rmreplay/internal/supervise"
)

// result is a line of the file.
type result struct {
	Case   uint64 `json:"case"`
	Slurm  string `json:"slurm"`
	Family string `json:"family"`
	Jobs   int    `json:"jobs"`            // jobs of the record: a task of an array counts as one job
	Differ int    `json:"differ"`          // the number of jobs with other starts or nodes
	First  string `json:"first,omitempty"` // the earliest difference
	Error  string `json:"error,omitempty"` // why there is no comparison
}

// settings are the flags.
type settings struct {
	out, slurm, keep, family string
	from, to                 uint64
	again, all               bool
}

func main() {
	supervise.RunIfGuard() // the guard of the daemons is this program again
	var s settings
	flag.StringVar(&s.out, "out", "cases.jsonl", "`FILE` of the results")
	flag.StringVar(&s.slurm, "slurm", "22.05", "`RELEASE` of Slurm")
	flag.StringVar(&s.keep, "keep", "", "`DIR` of scenarios with Slurm's answers")
	flag.StringVar(&s.family, "family", "", "only cases of these `NAMES`, with commas")
	flag.Uint64Var(&s.from, "from", 1, "first case")
	flag.Uint64Var(&s.to, "to", 100, "last case")
	flag.BoolVar(&s.again, "again", false, "play the cases again that the file has, and only those")
	flag.BoolVar(&s.all, "all", false, "print all differences of each case")
	show := flag.Uint64("show", 0, "print case `N` and end")
	table := flag.Bool("table", false, "print the table of the file and end")
	flag.Parse()
	if *show > 0 {
		say("%s\n", text(Draw(*show), ""))
		return
	}
	if err := s.run(*table); err != nil {
		fmt.Fprintln(os.Stderr, "modelcases:", err)
		os.Exit(1)
	}
}

// run runs the cases, unless only the table is asked for, and prints the table.
func (s *settings) run(only bool) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if !only {
		if err := s.play(ctx); err != nil {
			return err
		}
	}
	return s.table()
}

// say prints to the standard output.
func say(format string, args ...any) { _, _ = fmt.Fprintf(os.Stdout, format, args...) }

// text returns a case as a scenario, in the form of internal/experiment/testdata/model.
func text(c Case, answer string) string {
	const form = "# Drawn at random: %s.\ncluster\n%s\n----\n\nworkload\n%s----\n\n%s"
	return fmt.Sprintf(form, c.Family, c.Cluster, c.Lines, answer)
}

// read reads the results of the file. The last result of a case counts.
func (s *settings) read() (map[string]map[uint64]result, error) {
	done := map[string]map[uint64]result{}
	f, err := os.Open(s.out)
	if errors.Is(err, fs.ErrNotExist) {
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // an incomplete line of a killed run
		}
		if done[r.Slurm] == nil {
			done[r.Slurm] = map[uint64]result{}
		}
		done[r.Slurm][r.Case] = r
	}
	return done, lines.Err()
}

// play runs the cases that the file lacks or, with -again, the cases that it has.
func (s *settings) play(ctx context.Context) error {
	done, err := s.read()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(s.out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for n := s.from; n <= s.to && ctx.Err() == nil; n++ {
		c := Draw(n)
		_, known := done[s.slurm][n]
		if !s.wanted(c.Family) || known != s.again {
			continue
		}
		r := s.one(ctx, n, c)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := f.Write(append(line, '\n')); err != nil {
			return err
		}
		if r.Differ > 0 || r.Error != "" {
			say("%s\n", line)
		}
	}
	return nil
}

// wanted reports whether the flags select a family.
func (s *settings) wanted(family string) bool {
	return s.family == "" || slices.Contains(strings.Split(s.family, ","), family)
}

// one runs a case on Slurm and on the model, and compares them.
func (s *settings) one(ctx context.Context, n uint64, c Case) result {
	r := result{Case: n, Slurm: s.slurm, Family: c.Family}
	fail := func(err error) result { r.Error = err.Error(); return r }
	dir, err := os.MkdirTemp("", "modelcases-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cluster := filepath.Join(dir, "cluster")
	if err := errors.Join(os.Mkdir(cluster, 0o700), scenario.WriteCluster(cluster, c.Cluster)); err != nil {
		return fail(err)
	}
	played, err := s.answer(ctx, n, c, dir)
	if err != nil {
		return fail(fmt.Errorf("on Slurm: %w", err))
	}
	model, err := scenario.Play(ctx, c.Lines, experiment.Spec{Seed: c.Seed, Output: filepath.Join(dir, "model"),
		Simulator: &experiment.Simulator{Policy: experiment.SlurmPolicy, Cluster: cluster, Release: s.slurm}})
	if err != nil {
		return fail(fmt.Errorf("on the model: %w", err))
	}
	differences := scenario.Differences(played, model)
	r.Jobs, r.Differ = strings.Count(played, "\n"), len(differences)
	if len(differences) == 0 {
		return r
	}
	slices.SortStableFunc(differences, func(a, b string) int { return begin(a) - begin(b) })
	r.First = differences[0]
	for _, d := range differences {
		if s.all {
			say("%d: %s\n", n, d)
		}
	}
	return r
}

// answer returns Slurm's schedule of a case, from the kept scenario or from a replay.
func (s *settings) answer(ctx context.Context, n uint64, c Case, dir string) (string, error) {
	path := filepath.Join(s.keep, fmt.Sprintf("%d-%s.txt", n, s.slurm))
	begins := text(c, fmt.Sprintf("replay slurm=%s seed=%d\n----\n", s.slurm, c.Seed))
	if s.keep != "" {
		kept, err := os.ReadFile(path)
		if answer, same := strings.CutPrefix(string(kept), begins); err == nil && same {
			return answer, nil
		}
	}
	played, err := scenario.Play(ctx, c.Lines, experiment.Spec{Seed: c.Seed, Output: filepath.Join(dir, "slurm"),
		Slurm: &experiment.Slurm{Cluster: filepath.Join(dir, "cluster"), Installation: s.slurm}})
	if err != nil || s.keep == "" {
		return played, err
	}
	return played, errors.Join(os.MkdirAll(s.keep, 0o755), os.WriteFile(path, []byte(begins+played), 0o600))
}

// begin returns the earlier of the two starts in a difference.
func begin(difference string) int {
	first := 1 << 30
	for _, word := range strings.Fields(difference) {
		var at int
		if n, err := fmt.Sscanf(word, "%d", &at); n == 1 && err == nil && fmt.Sprint(at) == strings.TrimSuffix(word, ")") {
			first = min(first, at)
		}
	}
	return first
}

// table prints how many cases of the file have no difference, by family and release.
func (s *settings) table() error {
	done, err := s.read()
	if err != nil {
		return err
	}
	for _, release := range slices.Sorted(maps.Keys(done)) {
		type tally struct{ cases, equal, failed, jobs, differ int }
		tallies := map[string]*tally{}
		for _, r := range done[release] {
			for _, name := range []string{r.Family, "all"} {
				t := tallies[name]
				if t == nil {
					t = &tally{}
					tallies[name] = t
				}
				t.cases++
				t.jobs += r.Jobs
				t.differ += r.Differ
				switch {
				case r.Error != "":
					t.failed++
				case r.Differ == 0:
					t.equal++
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(tallies)) {
			t := tallies[name]
			say("%s %-12s %4d of %4d cases without a difference (%.1f %%), %d not compared; %d of %d jobs differ\n",
				release, name,
				t.equal, t.cases, 100*float64(t.equal)/float64(t.cases), t.failed, t.differ, t.jobs)
		}
	}
	return nil
}
