package tune

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"rmreplay/internal/metrics"
	"rmreplay/internal/quantity"
	"rmreplay/internal/spelling"
	"rmreplay/internal/sweep"
)

// File is the content of a tuning file, which docs/TUNING.md describes.
type File struct {
	Name      string          `yaml:"name"`
	Workloads []sweep.Variant `yaml:"workloads"` // the workloads of the search
	// HeldOut are the workloads of the proof. If the list is empty, the proof uses the workloads of
	// the search with different seeds.
	HeldOut      []sweep.Variant `yaml:"held-out"`
	Seeds        int             `yaml:"seeds"`          // realizations of each workload in the search; default 3
	HeldOutSeeds int             `yaml:"held-out-seeds"` // seeds of each workload in the proof; default 10
	// Transform has options of `workload transform` for all workloads.
	Transform sweep.Options `yaml:"transform"`
	Slurm     *slurm        `yaml:"slurm"`
	Sim       *simulator    `yaml:"sim"`

	Parameters  []parameter  `yaml:"parameters"`
	Objective   objective    `yaml:"objective"`
	Constraints []constraint `yaml:"constraints"`
	Budget      int          `yaml:"budget"` // largest number of runs of the search; 0 for the default
	Seed        uint64       `yaml:"seed"`   // seed of the search; default 1

	Path  string `yaml:"-"`
	Space Space  `yaml:"-"`
	Goal  Goal   `yaml:"-"`
}

// slurm says that the trials are replays.
type slurm struct {
	Cluster string        `yaml:"cluster"`
	Options sweep.Options `yaml:"options"` // options of the command replay
}

// simulator says that the trials are simulations. The parameters are options of `simulate`.
type simulator struct {
	Options sweep.Options `yaml:"options"`
}

type parameter struct {
	Parameter
	when []string // the condition, as NAME=VALUE
}

type objective struct {
	Metric string
	want   string
	line   int
}

type constraint struct {
	Constraint
	worseBy string
	line    int
}

// The limits of a file. They are far above the needs of any search.
const (
	maxParameters = 100
	maxSeeds      = 1000
	maxBudget     = 1_000_000
)

// firstHeldOutSeed is the first seed of the proof. The seeds of the search count from 1.
const firstHeldOutSeed = maxSeeds + 1

// fields are the values of a mapping by their keys.
type fields struct {
	what   string
	line   int
	values map[string][]string
	lines  map[string]int
}

// readFields decodes a mapping whose values are scalars or lists, and refuses unknown keys.
func readFields(n ast.Node, what string, known ...string) (*fields, error) {
	var options sweep.Options
	f := &fields{what: what, line: n.GetToken().Position.Line, values: map[string][]string{}, lines: map[string]int{}}
	if err := options.UnmarshalYAML(n); err != nil {
		return nil, err
	}
	for i, o := range options {
		if i == 0 {
			f.line = o.Line
		}
		if !slices.Contains(known, o.Name) {
			meant := ""
			if near := spelling.Nearest(o.Name, 3, known); near != "" {
				meant = fmt.Sprintf(" (did you mean %s?)", near)
			}
			return nil, sweep.ErrorAt(o.Line, "%s: %s: not known%s", what, o.Name, meant)
		}
		if line, have := f.lines[o.Name]; have && line != o.Line {
			return nil, sweep.ErrorAt(o.Line, "%s: %s occurs twice", what, o.Name)
		}
		f.values[o.Name] = append(f.values[o.Name], o.Value)
		f.lines[o.Name] = o.Line
	}
	return f, nil
}

func (f *fields) errorf(key, format string, args ...any) error {
	line := f.lines[key]
	if line == 0 {
		line = f.line
	}
	return sweep.ErrorAt(line, f.what+": "+format, args...)
}

// one returns the value of a key that must not be a list; empty if the key is missing.
func (f *fields) one(key string) (string, error) {
	switch v := f.values[key]; len(v) {
	case 0:
		return "", nil
	case 1:
		return v[0], nil
	}
	return "", f.errorf(key, "%s: this is a list (want one value)", key)
}

// UnmarshalYAML decodes a parameter.
func (p *parameter) UnmarshalYAML(n ast.Node) error {
	f, err := readFields(n, "parameters", "name", "integer", "real", "values", "log", "now", "when")
	if err != nil {
		return err
	}
	p.line = f.line
	if p.Name, err = f.one("name"); err != nil {
		return err
	}
	if p.Name == "" {
		return f.errorf("name", "a parameter has no name (want name: NAME)")
	}
	f.what = "parameters: " + p.Name
	var kinds []string
	for _, kind := range []Kind{Integer, Real, Categorical} {
		if _, have := f.values[string(kind)]; have {
			kinds, p.Kind = append(kinds, string(kind)), kind
		}
	}
	if len(kinds) != 1 {
		return f.errorf("name", "%d of integer, real and values are given (want one: integer: [LOW, HIGH], "+
			"real: [LOW, HIGH] or values: [A, B])", len(kinds))
	}
	if p.Now, err = f.one("now"); err != nil {
		return err
	}
	p.when = f.values["when"]
	log, err := f.one("log")
	if err != nil {
		return err
	}
	switch log {
	case "", "false":
	case "true":
		p.Log = true
	default:
		return f.errorf("log", "log: %s: not true or false", log)
	}
	if p.Kind == Categorical {
		return p.readValues(f)
	}
	return p.readRange(f)
}

func (p *parameter) readValues(f *fields) error {
	p.Values = f.values[string(Categorical)]
	switch {
	case p.Log:
		return f.errorf("log", "log is only for integer and real (remove log)")
	case slices.Contains(p.Values, ""):
		return f.errorf("values", "values: a value is empty (want a text; the site's own value is always tried)")
	case len(p.Values) == 0, len(p.Values) == 1 && p.Values[0] == p.Now:
		return f.errorf("values", "values: there is no value to choose (want two values, or one that is not the site's own)")
	}
	for i, v := range p.Values {
		if slices.Contains(p.Values[:i], v) {
			return f.errorf("values", "values: %s occurs twice", v)
		}
	}
	return nil
}

func (p *parameter) readRange(f *fields) error {
	key := string(p.Kind)
	ends := f.values[key]
	if len(ends) != 2 {
		return f.errorf(key, "%s: %d values (want [LOW, HIGH])", key, len(ends))
	}
	for i, to := range []*float64{&p.Low, &p.High} {
		v, err := strconv.ParseFloat(ends[i], 64)
		switch {
		case err != nil || math.IsNaN(v) || math.Abs(v) > 1e15:
			return f.errorf(key, "%s: %s: not a number", key, ends[i])
		case p.Kind == Integer && v != math.Trunc(v):
			return f.errorf(key, "%s: %s: not a whole number (want whole numbers, or real in place of integer)", key, ends[i])
		}
		*to = v
	}
	switch {
	case p.Low >= p.High:
		return f.errorf(key, "%s: [%s, %s]: the second number is not above the first (want the lower end first)",
			key, ends[0], ends[1])
	case p.Log && p.Low <= 0:
		return f.errorf(key, "%s: [%s, %s]: log needs a lower end above 0", key, ends[0], ends[1])
	}
	if p.Now != "" {
		if _, err := strconv.ParseFloat(p.Now, 64); err != nil {
			return f.errorf("now", "now: %s: not a number", p.Now)
		}
	}
	return nil
}

// UnmarshalYAML decodes the objective: a metric, or a mapping with a metric.
func (o *objective) UnmarshalYAML(n ast.Node) error {
	if _, ok := n.(ast.ScalarNode); ok {
		o.Metric, o.line = n.GetToken().Value, n.GetToken().Position.Line
		return nil
	}
	f, err := readFields(n, "objective", "metric", "want")
	if err != nil {
		return err
	}
	o.line = f.line
	if o.Metric, err = f.one("metric"); err != nil {
		return err
	}
	o.want, err = f.one("want")
	return err
}

// UnmarshalYAML decodes a constraint.
func (c *constraint) UnmarshalYAML(n ast.Node) error {
	f, err := readFields(n, "constraints", "metric", "by", "worse-by", "ignore", "want")
	if err != nil {
		return err
	}
	c.line = f.line
	if c.Metric, err = f.one("metric"); err != nil {
		return err
	}
	figure, err := figureOf(c.Metric, f.line, "constraints")
	if err != nil {
		return err
	}
	want, err := f.one("want")
	if err != nil {
		return err
	}
	if c.Lower, err = direction(figure, want, f.line, "constraints"); err != nil {
		return err
	}
	by, err := f.one("by")
	if err != nil {
		return err
	}
	if by != "" {
		if c.By, err = metrics.ParseBy(by); err != nil {
			return f.errorf("by", "%s: by: %w", c.Metric, err)
		}
		if !figure.OfGroups() {
			return f.errorf("by", "%s: by: %s: this metric is about the whole machine and has no value for a group of "+
				"jobs (leave by out, or take a metric of jobs such as mean_wait_s)", c.Metric, by)
		}
	}
	if c.worseBy, err = f.one("worse-by"); err != nil {
		return err
	}
	number, percent := strings.CutSuffix(c.worseBy, "%")
	c.Relative = percent
	if c.Limit, err = strconv.ParseFloat(strings.TrimSpace(number), 64); err != nil || !(c.Limit >= 0) ||
		math.IsInf(c.Limit, 0) || strings.HasPrefix(number, "+") {
		return f.errorf("worse-by", "%s: worse-by: %q: want a share such as 5%%, or a number in the metric's unit, from 0",
			c.Metric, c.worseBy)
	}
	if percent {
		c.Limit /= 100
	}
	ignore, err := f.one("ignore")
	if err != nil || ignore == "" {
		return err
	}
	if c.Ignore, err = strconv.ParseFloat(ignore, 64); err != nil || !(c.Ignore >= 0) || math.IsInf(c.Ignore, 0) {
		return f.errorf("ignore", "%s: ignore: %q: want a number in the metric's unit, from 0", c.Metric, ignore)
	}
	return nil
}

// figureOf returns the figure with the key of a metric.
func figureOf(key string, line int, what string) (metrics.Figure, error) {
	var keys []string
	for _, f := range slices.Concat(metrics.Figures, metrics.NodeFigures) {
		if f.Key == key {
			return f, nil
		}
		keys = append(keys, f.Key)
	}
	if key == "" {
		return metrics.Figure{}, sweep.ErrorAt(line, "%s: metric is missing (want a key of rmreplay metrics --json, such "+
			"as mean_bounded_slowdown)", what)
	}
	meant := "want one of " + strings.Join(keys, ", ")
	if near := spelling.Nearest(key, 5, keys); near != "" {
		meant = "did you mean " + near + "?"
	}
	return metrics.Figure{}, sweep.ErrorAt(line, "%s: %s: not a metric that can be compared (%s)", what, key, meant)
}

// direction reports whether lower values of a figure are better.
func direction(f metrics.Figure, want string, line int, what string) (lower bool, err error) {
	switch want {
	case "lower":
		return true, nil
	case "higher":
		return false, nil
	case "":
		switch f.Better {
		case metrics.Lower:
			return true, nil
		case metrics.Higher:
			return false, nil
		}
		return false, sweep.ErrorAt(line, "%s: %s: rmreplay does not know whether lower or higher is better (add want: "+
			"lower or want: higher)", what, f.Key)
	}
	return false, sweep.ErrorAt(line, "%s: %s: want: %s: not known (want lower or higher)", what, f.Key, want)
}

// Load reads a tuning file. Its errors name the file and the line.
func Load(path string) (*File, error) {
	f := &File{Seeds: 3, HeldOutSeeds: 10, Seed: 1}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("reading experiment: %w", err)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("reading experiment: %w", err)
	}
	if err := sweep.Decode(path, f); err != nil {
		return nil, err
	}
	f.Path = path
	if f.Name == "" {
		f.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	if err := f.complete(); err != nil {
		return nil, sweep.Located(path, err)
	}
	return f, nil
}

// complete checks the whole file. It sets the space, the goal and the default budget.
func (f *File) complete() error {
	switch {
	case len(f.Workloads) == 0:
		return errors.New("workloads is missing (want the workloads on which the search measures settings)")
	case f.Slurm == nil && f.Sim == nil:
		return errors.New("slurm and sim are missing, so there is nothing to run (want one of them)")
	case f.Slurm != nil && f.Sim != nil:
		return errors.New("slurm and sim exclude each other, because they have no parameter in common (want one of them)")
	case f.Slurm != nil && f.Slurm.Cluster == "":
		return errors.New("slurm: cluster is missing (want cluster: DIR, a directory with a slurm.conf)")
	case len(f.Parameters) == 0:
		return errors.New("parameters is missing, so there is nothing to search")
	case len(f.Parameters) > maxParameters:
		return fmt.Errorf("parameters: %d (want at most %d)", len(f.Parameters), maxParameters)
	case f.Seeds < 1 || f.Seeds > maxSeeds:
		return fmt.Errorf("seeds: %d (want a number from 1 to %d)", f.Seeds, maxSeeds)
	case f.HeldOutSeeds < 1 || f.HeldOutSeeds > maxSeeds:
		return fmt.Errorf("held-out-seeds: %d (want a number from 1 to %d)", f.HeldOutSeeds, maxSeeds)
	case f.Budget < 0 || f.Budget > maxBudget:
		return fmt.Errorf("budget: %d (want a number of runs up to %d, or no budget for the default)", f.Budget, maxBudget)
	case f.Objective.Metric == "":
		return errors.New("objective is missing (want a key of rmreplay metrics --json, such as mean_bounded_slowdown)")
	}
	for _, list := range []struct {
		what      string
		workloads []sweep.Variant
	}{{"workloads", f.Workloads}, {"held-out", f.HeldOut}} {
		if err := checkWorkloads(list.what, list.workloads); err != nil {
			return err
		}
	}
	for _, h := range f.HeldOut {
		for _, w := range f.Workloads {
			if h.Options.String() == w.Options.String() {
				return sweep.ErrorAt(h.Line, "held-out: %s: the search uses this workload too (want data that the search "+
					"does not use; without held-out, other seeds of its workloads are held out)", h.Name)
			}
		}
	}
	if n := len(f.heldOut()); Smallest(n, f.HeldOutSeeds) > 1-Confidence {
		return fmt.Errorf("held-out-seeds: %d with %d workloads: no difference could be significant, because the smallest "+
			"p-value is %.3g (want at least 6 pairs of runs)",
			f.HeldOutSeeds, n, Smallest(n, f.HeldOutSeeds))
	}
	if err := f.completeSpace(); err != nil {
		return err
	}
	figure, err := figureOf(f.Objective.Metric, f.Objective.line, "objective")
	if err != nil {
		return err
	}
	f.Goal.Metric = f.Objective.Metric
	if f.Goal.Lower, err = direction(figure, f.Objective.want, f.Objective.line, "objective"); err != nil {
		return err
	}
	for _, c := range f.Constraints {
		f.Goal.Constraints = append(f.Goal.Constraints, c.Constraint)
	}
	s := f.search()
	if f.Budget == 0 {
		f.Budget = s.DefaultBudget()
	}
	if f.Budget < s.Least() {
		return fmt.Errorf("budget: %d %s for %d parameters and %d blocks (%d workloads x %d %s): too few (want at "+
			"least %d; the default is %d)",
			f.Budget, quantity.Plural(f.Budget, "run", "runs"), len(f.Space), s.Blocks, len(f.Workloads), f.Seeds,
			quantity.Plural(f.Seeds, "seed", "seeds"), s.Least(), s.DefaultBudget())
	}
	return nil
}

// search returns the search that the file describes, without its runs.
func (f *File) search() *Search {
	return &Search{Space: f.Space, Goal: f.Goal, Blocks: len(f.Workloads) * f.Seeds, Budget: f.Budget, Seed: f.Seed}
}

// heldOut returns the workloads of the proof.
func (f *File) heldOut() []sweep.Variant {
	if len(f.HeldOut) == 0 {
		return f.Workloads
	}
	return f.HeldOut
}

// checkWorkloads completes and checks a list of workloads. A plain value is a path. A mapping has the
// key workload, and options of `workload transform` such as start and end.
func checkWorkloads(what string, list []sweep.Variant) error {
	seen := map[string]bool{}
	for i := range list {
		v := &list[i]
		if len(v.Options) == 0 {
			v.Options = sweep.Options{{Name: "workload", Value: v.Name, Line: v.Line}}
		}
		path, ok := v.Options.Get("workload")
		if !ok || path == "" {
			return sweep.ErrorAt(v.Line, "%s: an entry has no workload (want workload: PATH)", what)
		}
		if v.Name == "" {
			v.Name = path
			for _, o := range v.Options {
				if o.Name != "workload" {
					v.Name += "-" + o.Name + o.Value
				}
			}
		}
		name := sweep.FileName(v.Name)
		switch {
		case name == "":
			return sweep.ErrorAt(v.Line, "%s: %q: not a name (want letters or digits)", what, v.Name)
		case seen[name]:
			return sweep.ErrorAt(v.Line, "%s: %s occurs twice (want other names)", what, v.Name)
		}
		seen[name] = true
	}
	return nil
}

// completeSpace makes the space of the parameters.
func (f *File) completeSpace() error {
	for i := range f.Parameters {
		p := &f.Parameters[i]
		for _, before := range f.Space {
			if strings.EqualFold(before.Name, p.Name) {
				return sweep.ErrorAt(p.line, "parameters: %s occurs twice", p.Name)
			}
		}
		if err := f.ownOption(&p.Parameter); err != nil {
			return err
		}
		if len(p.when) > 0 {
			c, err := condition(p, f.Space)
			if err != nil {
				return err
			}
			p.When = c
		}
		f.Space = append(f.Space, p.Parameter)
	}
	return nil
}

// ownOption checks that the site's own value of an option of simulate is the one that all runs have, and takes it from
// there if the parameter lacks it.
func (f *File) ownOption(p *Parameter) error {
	if f.Sim == nil {
		return nil
	}
	value, set := f.Sim.Options.Get(p.Name)
	switch {
	case !set:
	case p.Now == "":
		p.Now = value
	case !p.same(p.Now, value):
		return sweep.ErrorAt(p.line, "parameters: %s: now: %s: sim.options has %s: %s, with which the site's own setting "+
			"runs (want one of the two)", p.Name, p.Now, p.Name, value)
	}
	return nil
}

// condition reads the condition of a parameter: NAME=VALUE, or several values of one parameter.
func condition(p *parameter, before Space) (*Condition, error) {
	c := &Condition{Parameter: -1}
	for _, text := range p.when {
		at := slices.IndexFunc(before, func(q Parameter) bool { return strings.HasPrefix(text, q.Name+"=") })
		switch {
		case at < 0:
			return nil, sweep.ErrorAt(p.line, "parameters: %s: when: %s: no earlier parameter has that name (want NAME=VALUE)",
				p.Name, text)
		case c.Parameter >= 0 && c.Parameter != at:
			return nil, sweep.ErrorAt(p.line, "parameters: %s: when: two parameters are named (want values of one parameter)",
				p.Name)
		}
		c.Parameter = at
		c.Values = append(c.Values, strings.TrimPrefix(text, before[at].Name+"="))
	}
	if q := &before[c.Parameter]; q.Kind == Categorical {
		for _, v := range c.Values {
			if !slices.Contains(q.Values, v) && v != q.Now {
				return nil, sweep.ErrorAt(p.line, "parameters: %s: when: %s never has the value %s", p.Name, q.Name, v)
			}
		}
		return c, nil
	}
	return nil, sweep.ErrorAt(p.line, "parameters: %s: when: %s is a number (want a parameter with values)", p.Name,
		before[c.Parameter].Name)
}
