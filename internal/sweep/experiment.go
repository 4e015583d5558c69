// Package sweep runs an experiment: a grid of engines, configurations, transforms of one
// workload, and seeds. A cell is a point of the grid without its seed. A cell has one run for
// each seed.
//
// [rmreplay/internal/parallel.Executor] makes many runs in parallel. Sets of realizations also use
// it. In a sweep, a task of the executor is a process with a command line of this program: `rmreplay
// simulate …` or `rmreplay replay …`. A sweep may have thousands of runs over days, and processes
// have advantages over calls of [rmreplay/internal/experiment.Run] in this process:
//
//   - If a run panics, or the kernel kills it because of its memory, the other runs continue.
//   - A run's memory is freed after the run. The peak memory in its manifest is that of this run.
//   - The sweep itself may be a task of a job array, with its SLURM_ variables. The daemons and
//     commands of a replay must not have these variables. Each process has its own environment.
//   - Each run has its own log of standard error.
//   - The command in a run's manifest repeats that run.
//
// So an experiment consists of named sets of options of those commands, and each of their options
// can be an axis. Starting a process takes 10 to 20 ms.
//
// A sweep may be killed at any moment. A run is complete if its record is complete and the fingerprint in the file
// beside the record equals the fingerprint of the run's inputs. The sweep first removes the old record, then writes the
// fingerprint, and then begins the run, so it never repeats a complete run, and never uses an old record as the result
// of new inputs. The sweep repeats an incomplete run from the run's beginning.
package sweep

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"rmreplay/internal/experiment"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/spelling"
)

// Experiment is the content of an experiment file, which docs/SWEEPS.md describes.
type Experiment struct {
	Name       string    `yaml:"name"`       // shown to users, and the job array's name; default: the file's name
	Workload   string    `yaml:"workload"`   // any WORKLOAD that the commands accept
	Seeds      Seeds     `yaml:"seeds"`      // for the runs of every cell; default: 1
	Transforms []Variant `yaml:"transforms"` // options of `workload transform`; default: the unchanged workload
	Sim        *Sim      `yaml:"sim"`
	Slurm      *Slurm    `yaml:"slurm"`

	Path string `yaml:"-"` // the path of the file
	// Model runs the experiment's Slurm part on the model of Slurm's scheduler, with the options that
	// Slurm and the model have in common.
	Model bool `yaml:"-"`
}

// Sim is the part of the grid for the simulator: policies x machines.
type Sim struct {
	Policies []Variant `yaml:"policies"` // default: easy
	Machines []Variant `yaml:"machines"` // default: the workload's machine
	Options  Options   `yaml:"options"`  // options of `simulate` for all cells
}

// Slurm is the part of the grid for the stock Slurm: clusters x edits x releases.
type Slurm struct {
	Clusters []Variant `yaml:"clusters"`
	Edits    []Variant `yaml:"edits"`    // settings of parameters, see package edit; default: the unchanged cluster
	Releases []Variant `yaml:"releases"` // options of `replay`, including --slurm; default: the default Slurm
	Options  Options   `yaml:"options"`  // options of `replay` for all cells
}

// Option is an option of a command or, in an edit, a parameter of the configuration.
type Option struct {
	Name, Value string
	Line        int  // the line in the experiment file
	Path        bool // the value is the path of a file or directory
}

// model returns the file of the trained model that the option's policy names; "" if it names no
// model.
func (o *Option) model() string {
	if o.Name != "policy" {
		return ""
	}
	return experiment.PolicyModel(o.Value)
}

// Options are options in the order of the file. The steps of a transform are in this order.
type Options []Option

// Get returns the value of the last option with the name.
func (o Options) Get(name string) (value string, ok bool) {
	for _, option := range o {
		if option.Name == name {
			value, ok = option.Value, true
		}
	}
	return value, ok
}

// String returns the options as one text. Equal texts have the same effect.
func (o Options) String() string { return strings.Join(o.arguments(), "\x00") }

// Variant is a point of one axis of the grid: a name and options. In the file it may be a single
// value, which is then the variant's Name.
type Variant struct {
	Name    string
	Options Options
	Line    int
	scalar  bool
}

// Seeds are the seeds of the runs of a cell. In the file they are a list, or a number n that means
// the seeds 1 to n.
type Seeds []uint64

// maxSeeds is the maximum number of seeds. It limits the effect of a mistyped number.
const maxSeeds = 100_000

// lineError is an error with its line in the experiment file.
type lineError struct {
	line int
	err  error
}

func (e *lineError) Error() string { return e.err.Error() }
func (e *lineError) Unwrap() error { return e.err }

func errorAt(line int, format string, args ...any) error {
	return &lineError{line, fmt.Errorf(format, args...)}
}

func lineOf(n ast.Node) int { return n.GetToken().Position.Line }

// scalarText returns the text of a single value as in the file, without its quotes.
func scalarText(n ast.Node) (string, error) {
	if tag, ok := n.(*ast.AnchorNode); ok {
		n = tag.Value
	}
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, nil
	case *ast.LiteralNode:
		return s.Value.Value, nil
	case *ast.NullNode:
		return "", errorAt(lineOf(n), "a value is missing")
	case ast.ScalarNode:
		return s.GetToken().Value, nil
	}
	return "", errorAt(lineOf(n), "a list or a mapping is not allowed here (want a single value)")
}

// UnmarshalYAML decodes a mapping of options. A list as a value repeats the option.
func (o *Options) UnmarshalYAML(n ast.Node) error {
	var pairs []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		pairs = m.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{m}
	default:
		return errorAt(lineOf(n), "not a mapping (want NAME: VALUE)")
	}
	for _, p := range pairs {
		values := []ast.Node{p.Value}
		if list, ok := p.Value.(*ast.SequenceNode); ok {
			values = list.Values
		}
		for _, v := range values {
			text, err := scalarText(v)
			if err != nil {
				return errorAt(lineOf(p.Key), "%s: %w", p.Key.GetToken().Value, err)
			}
			*o = append(*o, Option{Name: p.Key.GetToken().Value, Value: text, Line: lineOf(p.Key)})
		}
	}
	return nil
}

// UnmarshalYAML decodes a single value, or a mapping with a name and options.
func (v *Variant) UnmarshalYAML(n ast.Node) error {
	v.Line = lineOf(n)
	if _, ok := n.(ast.ScalarNode); ok {
		text, err := scalarText(n)
		v.Name, v.scalar = text, true
		return err
	}
	var all Options
	if err := all.UnmarshalYAML(n); err != nil {
		return err
	}
	for _, o := range all {
		v.Line = min(v.Line, o.Line)
		switch {
		case o.Name != "name":
			v.Options = append(v.Options, o)
		case v.Name != "":
			return errorAt(o.Line, "name occurs twice")
		default:
			v.Name = o.Value
		}
	}
	return nil
}

// UnmarshalYAML decodes a number of seeds or a list of seeds.
func (s *Seeds) UnmarshalYAML(n ast.Node) error {
	list, isList := n.(*ast.SequenceNode)
	if !isList {
		text, err := scalarText(n)
		if err != nil {
			return err
		}
		count, err := strconv.Atoi(text)
		if err != nil || count < 1 || count > maxSeeds {
			return errorAt(lineOf(n), "seeds: %s: not a number of seeds (want a number from 1 to %d, or a list of seeds)",
				text, maxSeeds)
		}
		for i := range count {
			*s = append(*s, uint64(i)+1)
		}
		return nil
	}
	seen := map[uint64]bool{}
	for _, v := range list.Values {
		text, err := scalarText(v)
		if err != nil {
			return err
		}
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return errorAt(lineOf(v), "seeds: %s: not a seed (want a whole number from 0)", text)
		}
		if seen[seed] {
			return errorAt(lineOf(v), "seeds: %d occurs twice", seed)
		}
		seen[seed] = true
		*s = append(*s, seed)
	}
	return nil
}

// CheckOption checks an option of a command: "simulate", "replay" or "workload transform". It
// reports whether the value is a path. It returns an error if the command lacks the option, if the
// sweep itself sets the option, or if the value is wrong.
type CheckOption func(command, name, value string) (isPath bool, err error)

// Load reads an experiment file, with the parameter model for [Experiment.Model]. Its errors name the file and the
// line.
func Load(path string, model bool, check CheckOption) (*Experiment, error) {
	text, err := readLimited(path)
	if err != nil {
		return nil, fmt.Errorf("reading experiment: %w", err)
	}
	e, err := parse(path, text, model, check)
	if err != nil {
		return nil, located(path, err)
	}
	return e, nil
}

// located adds to an error the file and the line in it.
func located(path string, err error) error {
	var at *lineError
	var syntax yaml.Error
	switch {
	case errors.As(err, &at):
		return fmt.Errorf("reading experiment: %s:%d: %w", path, at.line, at)
	case errors.As(err, &syntax) && syntax.GetToken() != nil:
		text := syntax.GetMessage()
		if strings.HasPrefix(text, "found character '\t'") {
			text = "the line begins with a tab, which is not YAML (want spaces)"
		}
		return fmt.Errorf("reading experiment: %s:%d: %s", path, syntax.GetToken().Position.Line, text)
	}
	return fmt.Errorf("reading experiment: %s: %w", path, err)
}

// suggest adds a similar known key to the error about an unknown key, with the parts of the file to which it belongs.
func suggest(err error) error {
	var unknown *yaml.UnknownFieldError
	if !errors.As(err, &unknown) {
		return err
	}
	paths := map[string][]string{}
	for part, t := range []reflect.Type{reflect.TypeFor[Experiment](), reflect.TypeFor[Sim](), reflect.TypeFor[Slurm]()} {
		for _, f := range reflect.VisibleFields(t) {
			if name, _, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "-" {
				paths[name] = append(paths[name], []string{"", "sim.", "slurm."}[part]+name)
			}
		}
	}
	token := unknown.GetToken()
	near := spelling.Nearest(strings.ToLower(token.Value), 2, slices.Sorted(maps.Keys(paths)))
	if near == "" {
		return err
	}
	return errorAt(token.Position.Line, "%s; did you mean %s?", unknown.GetMessage(), strings.Join(paths[near], " or "))
}

func parse(path string, text []byte, model bool, check CheckOption) (*Experiment, error) {
	e := &Experiment{Path: path, Model: model}
	if err := checkLimits(text); err != nil {
		return nil, err
	}
	if err := checkAliases(text); err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalWithOptions(text, e, yaml.Strict()); err != nil {
		return nil, ofOther(text, suggest(err), "tune", "objective", "workload")
	}
	if e.Name == "" {
		e.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	switch {
	case e.Workload == "":
		return nil, errors.New("workload is missing (want workload: PATH)")
	case e.Sim == nil && e.Slurm == nil:
		return nil, errors.New("sim and slurm are missing, so there is nothing to run (want one of them)")
	case e.Slurm != nil && len(e.Slurm.Clusters) == 0:
		return nil, errors.New("slurm has no clusters (want clusters: [DIR], directories with a slurm.conf)")
	case e.Slurm == nil && e.Model:
		return nil, errors.New("slurm is missing, so there is nothing to run on the model (without --policy, " +
			"sim.policies may be slurm)")
	}
	if len(e.Seeds) == 0 {
		e.Seeds = Seeds{1}
	}
	e.Workload = e.resolve(e.Workload)
	if e.Sim != nil && len(e.Sim.Policies) == 0 {
		e.Sim.Policies = []Variant{{Name: "easy", scalar: true}}
	}
	return e, e.check(check)
}

// resolve makes a relative path relative to the directory of the experiment file.
func (e *Experiment) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(e.Path), path)
}

// The commands whose options an experiment can set.
const (
	simulateCommand  = "simulate"
	replayCommand    = "replay"
	transformCommand = "workload transform"
)

// slurmCommand returns the command of the part for Slurm.
func (e *Experiment) slurmCommand() string {
	if e.Model {
		return simulateCommand
	}
	return replayCommand
}

// slurmOptions returns the options that all runs of the part for Slurm have.
func (e *Experiment) slurmOptions() Options {
	if e.Model {
		return append(Options{{Name: "policy", Value: experiment.SlurmPolicy}}, e.Slurm.Options...)
	}
	return e.Slurm.Options
}

// axis is a list of variants, with the command that has the variants' options.
type axis struct {
	what     string // the name of the axis in the file
	variants []Variant
	command  string  // the command of the options; empty for edits
	plain    string  // the option that a single value sets; may be empty
	named    bool    // a variant must have a name
	common   Options // the options that all variants have
}

// axes returns the axes of the grid.
func (e *Experiment) axes() (axes []axis) {
	axes = []axis{{"transforms", e.Transforms, transformCommand, "", true, nil}}
	if e.Sim != nil {
		axes = append(axes,
			axis{"policies", e.Sim.Policies, simulateCommand, "policy", false, e.Sim.Options},
			axis{"machines", e.Sim.Machines, simulateCommand, "", false, e.Sim.Options})
	}
	if e.Slurm != nil {
		axes = append(axes,
			axis{"clusters", e.Slurm.Clusters, e.slurmCommand(), "cluster", false, e.slurmOptions()},
			axis{"edits", e.Slurm.Edits, "", "", true, nil},
			axis{"releases", e.Slurm.Releases, e.slurmCommand(), "slurm", false, e.slurmOptions()})
	}
	return axes
}

func (e *Experiment) check(check CheckOption) error {
	if e.Sim != nil {
		if err := e.checkOptions(simulateCommand, e.Sim.Options, check); err != nil {
			return err
		}
	}
	if e.Slurm != nil {
		if err := e.checkOptions(e.slurmCommand(), e.Slurm.Options, check); err != nil {
			return err
		}
	}
	for _, a := range e.axes() {
		if err := e.checkAxis(a, check); err != nil {
			return err
		}
	}
	return nil
}

// CheckVariant checks the arguments of a command line together, without the workload and the
// output, as the command does before it reads its input.
type CheckVariant func(command string, arguments []string) error

// checkVariants checks each variant's options together with the common options of its axis.
func (e *Experiment) checkVariants(check CheckVariant) error {
	for _, a := range e.axes() {
		for _, v := range a.variants {
			if a.command == "" {
				continue
			}
			options := slices.Concat(a.common, v.Options)
			switch {
			case a.what == "releases": // a replay needs a cluster
				options = slices.Concat(e.Slurm.Clusters[0].Options, options)
			case a.what == "policies" && len(e.Sim.Machines) > 0: // the model of Slurm needs a cluster
				for _, o := range e.Sim.Machines[0].Options {
					if o.Name == "cluster" {
						options = append(Options{o}, options...)
					}
				}
			}
			if err := check(a.command, options.arguments()); err != nil {
				return errorAt(v.Line, "%s: %s: %w", a.what, v.Name, err)
			}
		}
	}
	return nil
}

// checkAxis completes and checks the variants of an axis.
func (e *Experiment) checkAxis(a axis, check CheckOption) error {
	seen := map[string]bool{}
	alike := map[string]*Variant{} // the variants by their options
	for i := range a.variants {
		v := &a.variants[i]
		if v.scalar && a.plain != "" {
			v.Options = Options{{Name: a.plain, Value: v.Name, Line: v.Line}}
			if a.plain == "cluster" || a.plain == "slurm" {
				v.Name = filepath.Base(v.Name)
			}
		}
		if a.command != "" { // before nameOf, which needs Option.Path
			if err := e.checkOptions(a.command, v.Options, check); err != nil {
				return err
			}
		}
		switch _, cluster := v.Options.Get("cluster"); {
		case v.Name == "" && a.named:
			return errorAt(v.Line, "%s: an entry has no name (want name: NAME)", a.what)
		case v.Name == "":
			v.Name = nameOf(v.Options)
		case a.what == "clusters" && !cluster:
			return errorAt(v.Line, "clusters: %s: cluster is missing (want cluster: DIR)", v.Name)
		case v.scalar && a.plain == "":
			return errorAt(v.Line, "%s: %s: not a mapping (want NAME: VALUE)", a.what, v.Name)
		}
		switch name := slug(v.Name); {
		case name == "":
			return errorAt(v.Line, "%s: %q: not a name (want letters or digits)", a.what, v.Name)
		case seen[name]:
			return errorAt(v.Line, "%s: %s: the name occurs twice", a.what, v.Name)
		default:
			seen[name] = true
		}
		if a.command == "" {
			if err := checkEdit(v); err != nil {
				return err
			}
		}
		options := v.Options.String()
		if same := alike[options]; same != nil {
			return errorAt(v.Line, "%s: %s has the same options as %s in line %d (want different options, or only "+
				"one of the two)", a.what, v.Name,
				same.Name, same.Line)
		}
		alike[options] = v
	}
	return nil
}

// checkOptions checks options of a command and resolves their paths.
func (e *Experiment) checkOptions(command string, options Options, check CheckOption) error {
	for i := range options {
		o := &options[i]
		isPath, err := check(command, o.Name, o.Value)
		if err != nil {
			return errorAt(o.Line, "%s: %w", o.Name, err)
		}
		if file := o.model(); file != "" {
			o.Value = strings.Replace(o.Value, ":"+file, ":"+e.resolve(file), 1)
		}
		switch {
		case o.Name != "slurm":
			if isPath {
				o.Path, o.Value = true, e.resolve(o.Value)
			}
		case !install.NamesVersion(o.Value): // a path; replay finds a version itself
			o.Value = e.resolve(o.Value) // without Path, because contents.ofSlurm selects the files of the fingerprint
		}
	}
	return nil
}

// nameOf makes a name from options: procs128-perfx2. For a path, the name has only the last
// element.
func nameOf(options Options) string {
	var parts []string
	for _, o := range options {
		if o.Path {
			parts = append(parts, filepath.Base(o.Value))
			continue
		}
		parts = append(parts, o.Name+o.Value)
	}
	return strings.Join(parts, "-")
}

// slug returns a name with only those characters that file names may have.
func slug(name string) string {
	mapped := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("_-+=%.", r):
			return r
		}
		return '-'
	}, name)
	return strings.Trim(mapped, "-.")
}
