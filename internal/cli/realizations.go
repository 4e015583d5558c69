package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/replay"
	"rmreplay/internal/run"
)

// realizationOptions are the flags of commands that can make several realizations.
type realizationOptions struct {
	count    int
	parallel int
}

func (o *realizationOptions) addFlags(f *pflag.FlagSet) {
	f.IntVar(&o.count, "realizations", 0, "make `N` realizations, with the seeds --seed, --seed + 1, ..., as runs below the output directory, for compare and report")
	f.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "make as many as `N` realizations at once")
}

// check refuses numbers that cannot be meant.
func (o *realizationOptions) check() error {
	if o.count < 0 {
		return usagef("--realizations %d: negative (want 1 or more, or 0 for a single run)", o.count)
	}
	return nil
}

// realizationSet is a set of realizations to be made. Its JSON is realizations.json.
type realizationSet struct {
	realizationOptions
	dir             string
	seed            uint64
	overwrite, json bool
	command         []string
}

// realization is one of a set.
type realization struct {
	number int // from 1
	dir    string
	seed   uint64
}

// runRealizations makes the realizations of a set with the function one, several at a
// time, and prints the metrics of each. The first that fails ends the others; one that
// is merely not valid does not.
func runRealizations(ctx context.Context, g *globals, set realizationSet, one func(context.Context, realization) (*metrics.Summary, error), display *progress) error {
	if set.parallel < 1 {
		return usagef("--parallel %d: want at least 1", set.parallel)
	}
	list := set.list()
	if err := set.prepare(list); err != nil {
		return err
	}
	display.together(len(list))
	summaries := make([]*metrics.Summary, len(list))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(set.parallel)
	for i, r := range list {
		group.Go(func() (err error) {
			if groupCtx.Err() != nil {
				return groupCtx.Err()
			}
			summaries[i], err = one(groupCtx, r)
			display.done(r.number)
			if err != nil {
				return fmt.Errorf("realization %d (seed %d): %w", r.number, r.seed, err)
			}
			return nil
		})
	}
	err := group.Wait()
	display.end()
	if err != nil {
		return g.unlessInterrupted(ctx, err, set.dir+" has what happened until then")
	}
	return set.print(g, list, summaries)
}

func (s *realizationSet) list() []realization {
	list := make([]realization, s.count)
	for i := range list {
		list[i] = realization{i + 1, filepath.Join(s.dir, run.RealizationDir(i+1)), s.seed + uint64(i)}
	}
	return list
}

// prepare makes the set's directory and its index.
func (s *realizationSet) prepare(list []realization) error {
	index := filepath.Join(s.dir, run.RealizationsFile)
	entries, err := os.ReadDir(s.dir)
	if err == nil && len(entries) > 0 {
		_, noIndex := os.Stat(index)
		switch {
		case !s.overwrite:
			return badInput(fmt.Errorf("creating %s: %w (want a new directory, or --overwrite)", s.dir, run.ErrNotEmpty))
		case noIndex != nil:
			return badInput(fmt.Errorf("overwriting %s: it is no set of realizations, and is left alone", s.dir))
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), run.RealizationPrefix) {
				if err := os.RemoveAll(filepath.Join(s.dir, e.Name())); err != nil {
					return fmt.Errorf("overwriting %s: %w", s.dir, err)
				}
			}
		}
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return badInput(fmt.Errorf("creating %s: %w", s.dir, err))
	}
	out := run.SetIndex{Command: s.command, Seed: s.seed}
	for _, r := range list {
		out.Realizations = append(out.Realizations, run.SetEntry{Run: filepath.Base(r.dir), Seed: r.seed})
	}
	return run.WriteSetIndex(s.dir, out)
}

// print prints a line, or an object, for each realization.
func (s *realizationSet) print(g *globals, list []realization, summaries []*metrics.Summary) error {
	var invalid []string
	for i, m := range summaries {
		if !m.Valid {
			invalid = append(invalid, filepath.Base(list[i].dir))
		}
	}
	if err := s.render(g, list, summaries); err != nil {
		return err
	}
	if len(invalid) > 0 {
		return invalidf("%d of %d realizations are not valid: %s (rmreplay metrics says why)", len(invalid), len(list), few(invalid, 5))
	}
	return nil
}

func (s *realizationSet) render(g *globals, list []realization, summaries []*metrics.Summary) error {
	if s.json {
		return g.printJSON(struct {
			Dir          string             `json:"dir"`
			Realizations []*metrics.Summary `json:"realizations"`
		}{s.dir, summaries})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s %8s %6s %9s %12s %12s %12s %8s\n", "realization", "seed", "valid", "jobs", "makespan", "mean wait", "utilization", "wall")
	for i, m := range summaries {
		fmt.Fprintf(&b, "%-16s %8d %6t %9d %10.0f s %10.1f s %10.1f %% %6.1f s\n",
			filepath.Base(list[i].dir), list[i].seed, m.Valid, m.Jobs, m.MakespanSeconds, m.Wait.Mean, 100*m.Utilization, m.WallSeconds)
	}
	fmt.Fprintf(&b, "compare them with others: rmreplay compare %s OTHER\n", s.dir)
	if _, err := g.stdout.Write([]byte(b.String())); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// together is the state of a display of several replays.
type together struct {
	mu       sync.Mutex
	total    int
	finished int
	shares   map[int]float64 // of those that run, by number
	last     time.Time
}

// together makes the display one of several replays at once.
func (p *progress) together(total int) {
	p.set = &together{total: total, shares: map[int]float64{}, last: time.Now()}
	p.begun = time.Now()
}

// of is the display of one of several replays.
func (p *progress) of(number int) replayDisplay { return &member{p, number} }

// done says that one of several replays is over.
func (p *progress) done(number int) {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	delete(p.set.shares, number)
	p.set.finished++
	p.showSet(true)
}

// showSet shows how far all have come; now and then, or at once.
func (p *progress) showSet(atOnce bool) {
	s := p.set
	if now := time.Now(); !p.quiet && (atOnce || now.Sub(s.last) >= p.every) {
		s.last = now
		sum := float64(s.finished)
		for _, share := range s.shares {
			sum += share
		}
		text := fmt.Sprintf("%d of %d realizations done, %d running, %.0f%%", s.finished, s.total, len(s.shares), 100*sum/float64(s.total))
		if share := sum / float64(s.total); share > 0.02 && share < 1 {
			elapsed := now.Sub(p.begun)
			text += fmt.Sprintf("  left %v", time.Duration(float64(elapsed)*(1-share)/share).Round(time.Second))
		}
		if p.terminal {
			p.line(text)
			return
		}
		p.print(text + "\n")
	}
}

// member is the display of one of several replays.
type member struct {
	p      *progress
	number int
}

func (m *member) say(string)                {}
func (m *member) begin(hpc.Time, time.Time) {}
func (m *member) observe(n replay.Progress) {
	m.p.set.mu.Lock()
	defer m.p.set.mu.Unlock()
	m.p.set.shares[m.number] = m.p.share(n)
	m.p.showSet(false)
}
