package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"rmreplay/internal/stats"
)

// compare prints the results of the engines side by side, and whether the engines agree on the
// order of the policies. It uses the realizations for which all engines of a cell have results
// under all policies.
func (r *results) compare(stdout io.Writer) error {
	cells := r.cells()
	if len(cells) == 0 {
		return errors.New("no two engines have played the same realizations under the same policies (want at least 2 " +
			"realizations)")
	}
	p := &printer{to: stdout}
	p.head("workload", "bandwidth", "policy", "n", "engine", "makespan, s", "difference", "jobs/h", "stretch")
	for _, c := range cells {
		for _, policy := range c.policies {
			for i, engine := range c.engines {
				name, difference := c.of(engine, policy, 0), ""
				spans := r.column(name, c.seeds, makespan)
				if i > 0 {
					first := r.column(c.of(c.engines[0], policy, 0), c.seeds, makespan)
					difference = change(first, spans)
				}
				p.row(c.Set, c.Bandwidth, policy, fmt.Sprint(len(c.seeds)), name.engine(), written(spans, 0), difference,
					written(r.column(name, c.seeds, throughput), 1), fmt.Sprintf("%.2f", stats.Mean(r.column(name, c.seeds, stretch))))
			}
		}
	}
	p.line()
	p.head("workload", "bandwidth", "engine", "makespans in order", "pairs of policies")
	for _, c := range cells {
		first := r.pairs(c, c.engines[0])
		for i, engine := range c.engines {
			agreement := ""
			if i > 0 {
				agreement = agree(first, r.pairs(c, engine))
			}
			p.row(c.Set, c.Bandwidth, engine.engine(), r.ranking(c, engine), agreement)
		}
	}
	return p.err
}

// engine returns the engine's name for the tables.
func (p played) engine() string {
	return strings.TrimSpace(strings.Replace(p.Engine, "sim", "simulator", 1) + " " + p.Slurm)
}

// sign says which of two policies has the shorter makespan on an engine: -1 is the first, and 1 is
// the second. 0 means that the interval of their paired difference contains 0.
func (r *results) sign(c *cell, engine played, a, b string) int {
	i := stats.PairedBootstrap(stats.Difference, stats.BootstrapOptions{},
		r.column(c.of(engine, b, 0), c.seeds, makespan), r.column(c.of(engine, a, 0), c.seeds, makespan))
	switch {
	case i.Low > 0:
		return 1
	case i.High < 0:
		return -1
	}
	return 0
}

// pairs returns the signs of all pairs of policies.
func (r *results) pairs(c *cell, engine played) (signs []int) {
	for i, a := range c.policies {
		for _, b := range c.policies[i+1:] {
			signs = append(signs, r.sign(c, engine, a, b))
		}
	}
	return signs
}

// agree counts three kinds of pairs of policies: pairs that two engines put in the same order,
// pairs that they put in opposite orders, and pairs that at least one engine does not separate.
func agree(a, b []int) string {
	same, opposite := 0, 0
	for i := range a {
		switch a[i] * b[i] {
		case 1:
			same++
		case -1:
			opposite++
		}
	}
	return fmt.Sprintf("%d the same, %d opposite, %d not separated", same, opposite, len(a)-same-opposite)
}

// ranking lists the policies by their mean makespans. "<" separates two neighbours if the interval of their paired
// difference does not contain 0; "=" separates all others.
func (r *results) ranking(c *cell, engine played) string {
	list := slices.Clone(c.policies)
	slices.SortStableFunc(list, func(a, b string) int {
		return cmp.Compare(stats.Mean(r.column(c.of(engine, a, 0), c.seeds, makespan)),
			stats.Mean(r.column(c.of(engine, b, 0), c.seeds, makespan)))
	})
	text := list[0]
	for i, b := range list[1:] {
		between := " = "
		if r.sign(c, engine, list[i], b) != 0 {
			between = " < "
		}
		text += between + b
	}
	return text
}

func makespan(o outcome) float64   { return o.Makespan }
func throughput(o outcome) float64 { return o.Throughput }
func stretch(o outcome) float64    { return o.Stretch }
func awrt(o outcome) float64       { return o.AWRT }

// written writes the mean of a sample and its interval.
func written(list []float64, digits int) string {
	i := stats.Bootstrap(stats.Mean, stats.BootstrapOptions{}, list)
	return fmt.Sprintf("%.*f [%.*f, %.*f]", digits, i.Estimate, digits, i.Low, digits, i.High)
}

// change writes the paired change of the mean of a second sample.
func change(first, second []float64) string {
	i := stats.PairedBootstrap(stats.Relative, stats.BootstrapOptions{}, first, second)
	return fmt.Sprintf("%+.1f %% [%+.1f, %+.1f]", 100*i.Estimate, 100*i.Low, 100*i.High)
}

// printer prints tables in Markdown.
type printer struct {
	to  io.Writer
	err error
}

func (p *printer) line(text ...string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.to, strings.Join(text, " "))
	}
}

func (p *printer) row(cells ...string) { p.line("| " + strings.Join(cells, " | ") + " |") }

func (p *printer) head(cells ...string) {
	p.row(cells...)
	p.row(slices.Repeat([]string{"---"}, len(cells))...)
}
