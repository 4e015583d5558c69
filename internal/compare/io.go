package compare

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
	"rmreplay/internal/stats"
	"rmreplay/internal/waits"
)

// fileSystemNames returns the names of all file systems of all runs.
func fileSystemNames(sets []Set) (names []string) {
	for _, s := range sets {
		for _, r := range s.Runs {
			for _, f := range r.Manifest.FileSystems {
				if !slices.Contains(names, f.Name) {
					names = append(names, f.Name)
				}
			}
		}
	}
	return names
}

// ioOf computes the figures of file systems of a run. Some of these figures exist without a file
// system.
func ioOf(rows []run.Row, m *run.Manifest, how metrics.Options) (*metrics.IO, error) {
	io, err := metrics.NewIO(rows, m, how)
	if err != nil {
		return nil, err
	}
	if io == nil {
		io = &metrics.IO{MeanStretch: metrics.NoValue(), MaxStretch: metrics.NoValue(), LostNodeSeconds: metrics.NoValue()}
		io.AWRT, io.ASpWAS = metrics.Weighted(rows, how)
	}
	return io, nil
}

// compareIO returns the table of the figures of file systems, or nil if no run has a file system.
func compareIO(sets []Set, tables [][]table, opts Options) []Metric {
	names := fileSystemNames(sets)
	if len(names) == 0 {
		return nil
	}
	var list []gauge
	for _, f := range metrics.IOFigures(names) {
		list = append(list, newGauge(f.Figure, tables, func(t *table) metrics.Float { return f.Of(&t.Metrics, t.io) }))
	}
	opts.pairs = pairings(sets, 2)
	return compareQuantities(list, opts)
}

// enoughPairs is the smallest number of pairs for which figures are compared within pairs: with ten pairs, sixteen
// figures can be significant after Holm's correction. With fewer pairs the test of independent runs finds more. It
// stays valid, unless the runs of a pair differ from the means of their sets in opposite directions.
const enoughPairs = 10

// pairings returns the result of [pairing] for each set and the baseline. It is nil for a set with fewer than least
// pairs.
func pairings(sets []Set, least int) [][]int {
	list := make([][]int, len(sets))
	for i := 1; i < len(sets); i++ {
		if order := pairing(sets[0].Runs, sets[i].Runs); len(order) >= least {
			list[i] = order
		}
	}
	return list
}

// Pairing returns a text about runs of a set and the baseline that have the same workload and seed: whether the table
// of figures uses them as pairs. It returns "" without such pairs.
func (c *Comparison) Pairing(p *Pair) string {
	a, b := c.Sets[p.Baseline].Runs, c.Sets[p.Set].Runs
	switch {
	case !c.Inference || p.SeedPairs == 0 && (len(a) == len(b) || !shareSeeds(a, b)):
		return ""
	case p.SeedPairs == 0:
		return fmt.Sprintf("runs with equal seeds are not used as pairs: the sets differ in size (%s: %d, %s: %d; "+
			"want the same seeds)", Letter(p.Baseline), len(a), Letter(p.Set), len(b))
	case p.SeedPairs >= enoughPairs:
		return fmt.Sprintf("intervals and p come from the %d pairs of runs with the same workload and seed", p.SeedPairs)
	}
	return fmt.Sprintf("runs with equal seeds are not used as pairs: %d pairs are too few for a test of this table "+
		"(want %d or more)", p.SeedPairs, enoughPairs)
}

// shareSeeds reports whether a run of a and a run of b have the same seed.
func shareSeeds(a, b []RunInfo) bool {
	return slices.ContainsFunc(a, func(x RunInfo) bool {
		return slices.ContainsFunc(b, func(y RunInfo) bool { return x.Seed == y.Seed })
	})
}

// pairing returns, for each run of a, the number of the run of b with the same workload and seed. It returns nil if
// the runs do not form pairs, or form fewer than two pairs.
func pairing(a, b []Realization) []int {
	type identity struct {
		workload string
		seed     uint64
	}
	of := func(r *Realization) identity { return identity{r.Manifest.Workload.SHA256, r.Manifest.Seed} }
	place := make(map[identity]int, len(b))
	for i := range b {
		place[of(&b[i])] = i
	}
	if len(a) < 2 || len(a) != len(b) || len(place) != len(b) {
		return nil
	}
	order := make([]int, len(a))
	for i := range a {
		id := of(&a[i])
		at, found := place[id]
		if !found || id.workload == "" {
			return nil
		}
		delete(place, id) // this run has a partner
		order[i] = at
	}
	return order
}

// pairUp replaces the intervals and the test of a difference by those over pairs of runs.
func pairUp(d *MetricDifference, a, b []metrics.Float, order []int, opts Options) {
	var x, y, differences []float64
	for i, at := range order {
		if a[i].Known() && b[at].Known() {
			x, y = append(x, float64(a[i])), append(y, float64(b[at]))
			differences = append(differences, float64(b[at]-a[i]))
		}
	}
	if len(x) < 2 {
		return
	}
	d.Paired = true
	absolute := stats.PairedBootstrap(stats.Difference, opts.bootstrap(), x, y)
	d.Difference, d.Low, d.High = metrics.Float(absolute.Estimate), metrics.Float(absolute.Low),
		metrics.Float(absolute.High)
	relative := stats.PairedBootstrap(stats.Relative, opts.bootstrap(), x, y)
	d.Relative, d.RelativeLow, d.RelativeHigh = metrics.Float(relative.Estimate), metrics.Float(relative.Low),
		metrics.Float(relative.High)
	t := stats.PairedTest(differences, opts.test())
	d.P, d.Exact = metrics.Float(t.P), t.Exact
	d.HedgesG, d.CliffsDelta, d.Detectable = metrics.NoValue(), metrics.NoValue(), metrics.NoValue()
}

// ioWarnings returns warnings about sets whose file systems differ from those of the first set.
func ioWarnings(sets []Set) (list []string) {
	first := fileSystems(sets[0].Runs[0].Manifest)
	var driven []string
	for i := range sets {
		if waits.Driven(sets[i].Runs[0].Manifest) {
			driven = append(driven, Letter(i))
		}
	}
	if len(driven) > 0 {
		list = append(list, strings.Join(driven, ", ")+": "+waits.OnlyHeld)
	}
	for i := 1; i < len(sets); i++ {
		switch other := fileSystems(sets[i].Runs[0].Manifest); {
		case other == first:
		case first == "" || other == "":
			with, without := 0, i
			if first == "" {
				with, without = i, 0
			}
			list = append(list, fmt.Sprintf("only %s has file systems that its jobs share: in %s no job slows another one "+
				"down, and figures of I/O have no value", Letter(with), Letter(without)))
		default:
			list = append(list, fmt.Sprintf("the file systems differ: %s in A and %s in %s", first, other, Letter(i)))
		}
	}
	return list
}

// fileSystems describes the file systems of a run: "lustre 200 MiB/s (limit 150 MiB/s, 10000 licenses)".
func fileSystems(m *run.Manifest) string {
	var parts []string
	for _, given := range m.FileSystems {
		f := hpc.FileSystem(given).Complete()
		parts = append(parts, fmt.Sprintf("%s %.6g MiB/s (limit %.6g MiB/s, %s)", f.Name, float64(f.Bandwidth)/(1<<20),
			float64(f.Limit)/(1<<20), quantity.Regular(int(f.Licenses), "license")))
	}
	return strings.Join(parts, ", ")
}

// renderIO writes the figures of file systems of one set and the baseline, if a run has file
// systems.
func (c *Comparison) renderIO(b *bytes.Buffer, p *Pair) {
	if len(c.IO) == 0 {
		return
	}
	c.renderTable(b, p, "file systems", c.IO)
	if !c.Inference {
		return
	}
	b.WriteString("Holm's correction is for this table")
	if d := c.IO[0].difference(p.Set); d != nil && d.Paired {
		b.WriteString("; intervals and p come from pairs of runs with the same workload and seed")
	}
	b.WriteString("\n")
}
