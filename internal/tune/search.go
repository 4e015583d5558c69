package tune

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"rmreplay/internal/stats"
)

// The constants of the search.
const (
	// level is the significance level of the tests in a race. The tests in a race only decide which settings are tried
	// next.
	level = 0.05
	// firstTest is the number of blocks before the first test of a race.
	firstTest = 3
	// finalists is the number of settings that run on all blocks at the end.
	finalists = 3
	// keptGain is the share of the gain that a simpler setting must have.
	keptGain = 0.95
)

// Trial is one run to make: a setting on a block.
type Trial struct {
	Setting Setting
	Block   int // counted from 0
}

// Measure makes the runs of trials and returns a measurement of each. An error ends the search.
type Measure func(ctx context.Context, trials []Trial) ([]Measurement, error)

// Search searches for a better setting. Observe may be nil.
type Search struct {
	Space   Space
	Goal    Goal
	Blocks  int // number of blocks of the search
	Budget  int // largest number of runs, including runs of the site's own setting
	Seed    uint64
	Measure Measure
	// Observe is called before the runs of every step.
	Observe func(Step)

	done  map[string]*Tried // settings by their names
	order []*Tried
	races []Race
	used  int
}

// Step is the progress of a search.
type Step struct {
	What     string // race 2, final, simplify
	Runs     int    // number of runs of the step
	Used     int    // number of runs before the step
	Budget   int
	Settings int // number of settings in the step
	Blocks   int // number of blocks on which the settings will have run after the step
}

// Tried is a setting with all its measurements.
type Tried struct {
	Name    string
	Setting Setting
	Of      map[int]Measurement // by the number of the block
}

// Race is the course of one race.
type Race struct {
	Settings  int // settings at the beginning, including the site's own setting
	New       int // settings that were drawn for this race
	Blocks    int // blocks on which the survivors ran
	Survivors int // settings at the end, including the site's own setting
	Runs      int // runs that the race needed
}

// Found is the result of a search.
type Found struct {
	// Best is the simplified best setting, which the proof tests. It is the site's own setting if no
	// setting had better results.
	Best *Tried
	// Before is the best setting before it was simplified.
	Before *Tried
	Site   *Tried
	Races  []Race
	Tried  []*Tried // all settings, in the order in which they were drawn
	Runs   int
}

// plannedRaces returns the number of races that irace plans for a number of parameters.
func plannedRaces(parameters int) int { return int(2 + math.Log2(float64(parameters))) }

// elites returns the number of remaining settings at which a race ends.
func elites(parameters int) int { return int(2 + math.Log2(float64(parameters))) }

// reserve returns the largest number of runs that the end of a search needs, without runs of the
// site's own setting.
func (s *Search) reserve() int {
	first := min(firstTest, s.Blocks)
	return finalists*(s.Blocks-first) + len(s.Space)*s.Blocks
}

// open returns how many runs the races may still make of settings other than the site's own setting.
// The runs of the site's own setting on all blocks are reserved.
func (s *Search) open() int {
	return s.Budget - s.used - s.reserve() - s.missing([]*Tried{s.tried(nil)}, upTo(s.Blocks))
}

// Least returns the smallest budget. It is enough for the site's own setting on all blocks, for five
// settings up to the first test of a race, and for the end of the search.
func (s *Search) Least() int { return s.reserve() + s.Blocks + 5*min(firstTest, s.Blocks) }

// DefaultBudget returns a budget with which each race has about 4 + 2 x parameters new settings.
func (s *Search) DefaultBudget() int {
	return s.reserve() + s.Blocks + plannedRaces(len(s.Space))*(4+2*len(s.Space))*(min(firstTest, s.Blocks)+1)
}

// Run searches. It returns an error if Measure returns an error, or if a run of the site's own
// setting failed.
func (s *Search) Run(ctx context.Context) (*Found, error) {
	s.done = map[string]*Tried{}
	random := rand.New(rand.NewPCG(s.Seed, 0x74756e65))
	site := s.tried(nil)
	parents := []*Tried{site}
	for number := 1; ; number++ {
		planned := max(1, plannedRaces(len(s.Space))-number+1)
		allowance := (s.Budget - s.reserve() - s.used) / planned
		if number == 1 {
			allowance += s.Blocks / planned // for the site's own setting
		}
		n := min(allowance/min(min(firstTest, s.Blocks)+min(5, number), s.Blocks), s.open()/min(firstTest, s.Blocks))
		if n < 1 || allowance < n*min(firstTest, s.Blocks) {
			break
		}
		fresh := s.draw(parents, number, n, random)
		if len(fresh) == 0 {
			break // all settings of the space have been tried
		}
		var err error
		if parents, err = s.race(ctx, number, parents, fresh, s.used+allowance); err != nil {
			return nil, err
		}
	}
	best, err := s.final(ctx, site, parents)
	if err != nil {
		return nil, err
	}
	simple := best
	if best != site {
		if simple, err = s.simplify(ctx, site, best); err != nil {
			return nil, err
		}
	}
	return &Found{Best: simple, Before: best, Site: site, Races: s.races, Tried: s.order, Runs: s.used}, nil
}

// tried returns the record of a setting and its measurements.
func (s *Search) tried(setting Setting) *Tried {
	name := s.Space.Name(setting)
	if s.done[name] == nil {
		s.done[name] = &Tried{Name: name, Setting: setting, Of: map[int]Measurement{}}
		s.order = append(s.order, s.done[name])
	}
	return s.done[name]
}

// draw returns at most n settings that have not been tried.
func (s *Search) draw(parents []*Tried, number, n int, random *rand.Rand) []*Tried {
	var fresh []*Tried
	add := func(setting Setting) {
		if s.done[s.Space.Name(setting)] == nil && len(fresh) < n {
			fresh = append(fresh, s.tried(setting))
		}
	}
	if number == 1 {
		for _, setting := range s.Space.hypercube(n, random) {
			add(setting)
		}
	}
	// In each race, new settings are drawn closer to the parents: n settings fill the space n times
	// as densely.
	deviation := 0.5
	for range number - 1 {
		deviation *= math.Pow(1/float64(max(2, n)), 1/float64(len(s.Space)))
	}
	keep := min(0.9, float64(number-1)/float64(plannedRaces(len(s.Space))))
	for range 50 * n {
		if len(fresh) == n {
			break
		}
		add(s.Space.near(choose(parents, random).Setting, max(deviation, 0.02), keep, random))
	}
	return fresh
}

// choose draws a parent. The first of k parents is k times as likely as the last.
func choose(parents []*Tried, random *rand.Rand) *Tried {
	k := len(parents)
	pick := random.IntN(k * (k + 1) / 2)
	for i, parent := range parents {
		if pick -= k - i; pick < 0 {
			return parent
		}
	}
	return parents[k-1]
}

// race makes a race of the parents and the fresh settings. It stops before a block for which the search would use more
// than limit runs, or after which it would have too few runs for the end of the search. It returns the remaining
// settings, in descending order of their results.
func (s *Search) race(ctx context.Context, number int, parents, fresh []*Tried, limit int) ([]*Tried, error) {
	site := s.tried(nil)
	alive := []*Tried{site}
	for _, t := range slices.Concat(parents, fresh) {
		if t != site {
			alive = append(alive, t)
		}
	}
	r := Race{Settings: len(alive), New: len(fresh), Runs: s.used}
	what := fmt.Sprintf("race %d", number)
	blocks := upTo(min(firstTest, s.Blocks))
	for {
		if err := s.measure(ctx, what, alive, blocks); err != nil {
			return nil, err
		}
		alive = s.eliminate(alive, blocks)
		next := upTo(len(blocks) + 1)
		if len(alive)-1 <= elites(len(s.Space)) || len(next) > s.Blocks ||
			s.used+s.missing(alive, next) > limit || s.missing(alive[1:], next) > s.open() { // alive[0] is site
			break
		}
		blocks = next
	}
	s.sort(alive, blocks)
	alive = alive[:min(len(alive), elites(len(s.Space))+1)]
	r.Blocks, r.Survivors, r.Runs = len(blocks), len(alive), s.used-r.Runs
	s.races = append(s.races, r)
	return alive, nil
}

// upTo returns the first n blocks.
func upTo(n int) []int {
	blocks := make([]int, n)
	for i := range blocks {
		blocks[i] = i
	}
	return blocks
}

// missing returns how many of the runs of these settings on these blocks have not been made.
func (s *Search) missing(settings []*Tried, blocks []int) (n int) {
	for _, t := range settings {
		for _, b := range blocks {
			if _, have := t.Of[b]; !have {
				n++
			}
		}
	}
	return n
}

// measure makes, block by block, the runs of these settings that have not been made.
func (s *Search) measure(ctx context.Context, what string, settings []*Tried, blocks []int) error {
	var trials []Trial
	var whose []*Tried
	for _, b := range blocks {
		for _, t := range settings {
			if _, have := t.Of[b]; !have {
				trials = append(trials, Trial{t.Setting, b})
				whose = append(whose, t)
			}
		}
	}
	if len(trials) == 0 {
		return nil
	}
	if s.Observe != nil {
		s.Observe(Step{what, len(trials), s.used, s.Budget, len(settings), len(blocks)})
	}
	results, err := s.Measure(ctx, trials)
	if err != nil {
		return err
	}
	for i, m := range results {
		m = checked(m)
		if whose[i].Setting.Own() && m.Failure != "" {
			return fmt.Errorf("the site's own setting: %s", m.Failure)
		}
		whose[i].Of[trials[i].Block] = m
	}
	s.used += len(trials)
	return nil
}

// checked marks a measurement as a failure if it has no value of the objective.
func checked(m Measurement) Measurement {
	if m.Failure == "" && (math.IsNaN(m.Objective) || math.IsInf(m.Objective, 0)) {
		m.Failure = "the run has no value of the objective (no job started, or no started job counts)"
	}
	return m
}

// eliminate removes the settings that are significantly worse than the best setting. The site's own
// setting stays.
func (s *Search) eliminate(alive []*Tried, blocks []int) []*Tried {
	ranking := s.rank(alive, blocks)
	if !(ranking.P < level) {
		return alive
	}
	worst := slices.Min(ranking.Sums) + ranking.Critical(level)
	var left []*Tried
	for i, t := range alive {
		if t.Setting.Own() || ranking.Sums[i] <= worst {
			left = append(left, t)
		}
	}
	return left
}

// rank ranks settings within blocks: first the settings that fulfil the constraints, by the objective, and then the
// other settings, by their violation.
func (s *Search) rank(settings []*Tried, blocks []int) stats.Ranking {
	site := s.tried(nil)
	violations := make([]float64, len(settings))
	for i, t := range settings {
		violations[i] = s.Goal.violation(site.Of, t.Of, blocks)
	}
	rows := make([][]float64, len(blocks))
	for k, b := range blocks {
		order := make([]int, len(settings))
		for i := range order {
			order[i] = i
		}
		compare := func(i, j int) int {
			if c := cmp.Compare(violations[i], violations[j]); c != 0 || math.IsInf(violations[i], 1) {
				return c
			}
			return cmp.Compare(s.cost(settings[i].Of[b].Objective), s.cost(settings[j].Of[b].Objective))
		}
		slices.SortStableFunc(order, compare)
		rows[k] = make([]float64, len(settings))
		place := 0.0
		for at, i := range order {
			if at > 0 && compare(order[at-1], i) != 0 {
				place++
			}
			rows[k][i] = place
		}
	}
	return stats.Friedman(rows)
}

// cost returns a value of the objective, negated if a higher value is better.
func (s *Search) cost(objective float64) float64 {
	if s.Goal.Lower {
		return objective
	}
	return -objective
}

// sort sorts the remaining settings of a race by their ranks.
func (s *Search) sort(alive []*Tried, blocks []int) {
	ranking := s.rank(alive, blocks)
	sums := map[*Tried]float64{}
	for i, t := range alive {
		sums[t] = ranking.Sums[i]
	}
	slices.SortStableFunc(alive, func(a, b *Tried) int { return cmp.Compare(sums[a], sums[b]) })
}

// final runs the best settings on all blocks. Among the settings that fulfil the constraints, it returns the setting
// with the best mean. If no setting is better than the site's own setting, final returns the site's own setting.
func (s *Search) final(ctx context.Context, site *Tried, parents []*Tried) (*Tried, error) {
	last := []*Tried{site}
	for _, t := range parents {
		if t != site && len(last) <= finalists {
			last = append(last, t)
		}
	}
	if err := s.measure(ctx, "final", last, upTo(s.Blocks)); err != nil {
		return nil, err
	}
	best := site
	for _, t := range last[1:] {
		if s.Goal.violation(site.Of, t.Of, upTo(s.Blocks)) == 0 && s.meanCost(t) < s.meanCost(best) {
			best = t
		}
	}
	return best, nil
}

// meanCost returns the mean cost over all blocks.
func (s *Search) meanCost(t *Tried) float64 { return s.cost(mean(t.Of, upTo(s.Blocks))) }

// simplify sets parameters back to the site's values, one after the other, if the setting still has
// most of its gain ([keptGain]).
func (s *Search) simplify(ctx context.Context, site, best *Tried) (*Tried, error) {
	bound := s.meanCost(site) - keptGain*(s.meanCost(site)-s.meanCost(best))
	for i := range s.Space {
		if best.Setting[i] == "" {
			continue
		}
		less := slices.Clone(best.Setting)
		less[i] = ""
		t := s.tried(s.Space.normalize(less))
		if t == site {
			continue
		}
		if err := s.measure(ctx, "simplify", []*Tried{t}, upTo(s.Blocks)); err != nil {
			return nil, err
		}
		if s.Goal.violation(site.Of, t.Of, upTo(s.Blocks)) == 0 && s.meanCost(t) <= bound {
			best = t
		}
	}
	return best, nil
}
