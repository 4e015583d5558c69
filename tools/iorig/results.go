package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
)

// played names one simulation or replay: a realization of a workload, an engine and a policy.
type played struct {
	Engine    string `json:"engine"`
	Slurm     string `json:"slurm,omitempty"`
	Set       string `json:"set"`
	Bandwidth string `json:"bandwidth"`
	Limit     string `json:"limit,omitempty"`
	Rate      string `json:"rate"`
	Policy    string `json:"policy"`
	Seed      uint64 `json:"seed"`
}

// outcome is the figures of a simulation or replay.
type outcome struct {
	Makespan   float64 `json:"makespan_s"`
	Throughput float64 `json:"throughput_jobs_per_h"`
	Stretch    float64 `json:"mean_stretch"`
	AWRT       float64 `json:"awrt_s"`
}

// line is a line of a file of results.
type line struct {
	played
	outcome
}

// results are the outcomes so far. With a file name, they are also kept in a file of JSON Lines, so
// that an interrupted campaign can continue and several campaigns can share the file.
type results struct {
	mu    sync.Mutex
	file  *os.File // nil without a name
	known map[played]outcome
	order []played
}

// openResults reads the results of a file, if there are any.
func openResults(name string) (*results, error) {
	r := &results{known: map[played]outcome{}}
	if name == "" {
		return r, nil
	}
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := r.read(name, text); err != nil {
		return nil, err
	}
	r.file, err = os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	return r, err
}

// Close closes the file.
func (r *results) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// get returns a known outcome.
func (r *results) get(p played) (outcome, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o, known := r.known[p]
	return o, known
}

// add adds an outcome, and writes it to the file.
func (r *results) add(p played, o outcome) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[p] = o
	r.order = append(r.order, p)
	if r.file == nil {
		return nil
	}
	text, err := json.Marshal(line{p, o})
	if err != nil {
		return err
	}
	_, err = r.file.Write(append(text, '\n'))
	return err
}

// read reads the lines of a file.
func (r *results) read(name string, text []byte) error {
	number := 0
	for text := range bytes.Lines(text) {
		number++
		var l line
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			return fmt.Errorf("reading results: %s:%d: %w", name, number, err)
		}
		if _, twice := r.known[l.played]; !twice {
			r.order = append(r.order, l.played)
		}
		r.known[l.played] = l.outcome
	}
	return nil
}

// column returns the values of a policy's realizations, by seed.
func (r *results) column(p played, seeds []uint64, of func(outcome) float64) []float64 {
	list := make([]float64, len(seeds))
	for i, seed := range seeds {
		p.Seed = seed
		list[i] = of(r.known[p])
	}
	return list
}

// cell is the realizations of one workload with one file system, under some policies on some engines.
type cell struct {
	played   // without policy, engine and seed
	policies []string
	engines  []played // engine and Slurm
	seeds    []uint64 // the seeds with results under all policies on all engines
}

// cells returns the cells with results of at least two engines.
func (r *results) cells() []*cell {
	var list []*cell
	for _, p := range r.order {
		name := p
		name.Policy, name.Engine, name.Slurm, name.Seed = "", "", "", 0
		i := slices.IndexFunc(list, func(c *cell) bool { return c.played == name })
		if i < 0 {
			i = len(list)
			list = append(list, &cell{played: name})
		}
		c := list[i]
		if !slices.Contains(c.policies, p.Policy) {
			c.policies = append(c.policies, p.Policy)
		}
		if engine := (played{Engine: p.Engine, Slurm: p.Slurm}); !slices.Contains(c.engines, engine) {
			c.engines = append(c.engines, engine)
		}
		if !slices.Contains(c.seeds, p.Seed) {
			c.seeds = append(c.seeds, p.Seed)
		}
	}
	for _, c := range list {
		slices.Sort(c.seeds)
		slices.SortStableFunc(c.engines, func(a, b played) int {
			return cmp.Or(strings.Compare(a.Engine, b.Engine), strings.Compare(a.Slurm, b.Slurm))
		})
		c.seeds = slices.DeleteFunc(c.seeds, func(seed uint64) bool { return !r.complete(c, seed) })
	}
	return slices.DeleteFunc(list, func(c *cell) bool { return len(c.engines) < 2 || len(c.seeds) < 2 })
}

// complete reports whether a realization has results under all policies on all engines.
func (r *results) complete(c *cell, seed uint64) bool {
	for _, engine := range c.engines {
		for _, policy := range c.policies {
			if _, known := r.known[c.of(engine, policy, seed)]; !known {
				return false
			}
		}
	}
	return true
}

// of names a realization of the cell.
func (c *cell) of(engine played, policy string, seed uint64) played {
	p := c.played
	p.Engine, p.Slurm, p.Policy, p.Seed = engine.Engine, engine.Slurm, policy, seed
	return p
}
