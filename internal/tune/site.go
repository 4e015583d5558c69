package tune

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/conf/edit"
	"rmreplay/internal/slurmspec/options"
	"rmreplay/internal/sweep"
)

// openSite reads the site's cluster. It returns nil for the simulator.
func (f *File) openSite() (*conf.Cluster, error) {
	if f.Slurm == nil {
		return nil, nil
	}
	return conf.Open(f.cluster())
}

// ownValues sets the site's present values of those parameters that are in slurm.conf. It refuses another value of the
// tuning file, because the runs of the site's own setting have the value of slurm.conf.
func (f *File) ownValues(site *conf.Cluster) error {
	for i := range f.Space {
		p := &f.Space[i]
		own := p.ownValue(site)
		switch {
		case own == "":
		case p.Now == "":
			p.Now = own
		case !p.same(p.Now, own) && !strings.EqualFold(p.Now, own):
			return sweep.ErrorAt(p.line, "parameters: %s: now: %s: the site has %s=%s%s (want now left out)", p.Name, p.Now,
				p.Name, own, p.lineIn(site))
		}
	}
	return nil
}

// lineIn returns the file and line of a key that stands alone on its line, for an error; empty for other parameters.
func (p *Parameter) lineIn(site *conf.Cluster) string {
	key, _, _ := strings.Cut(p.Name, ".")
	for _, s := range slices.Backward(site.Statements) {
		if strings.EqualFold(s.Key, key) {
			return fmt.Sprintf(" in %s:%d", filepath.Base(s.File), s.Line)
		}
	}
	return ""
}

// ownValue returns the value of a key of slurm.conf, of an option in a list, or of a partition's
// attribute. The value is empty if the site uses the default. For a flag that is missing in its
// list, the value is "false".
func (p *Parameter) ownValue(site *conf.Cluster) string {
	words := strings.Fields(p.Name)
	if len(words) == 0 {
		return ""
	}
	key, option, isOption := strings.Cut(words[len(words)-1], ".")
	value, set := "", false
	switch {
	case len(words) == 1:
		value, set = site.Get(key)
	case strings.EqualFold(words[0], "partition") && len(words) == 3:
		for _, q := range site.Partitions {
			if q.Name == words[1] {
				value, set = q.Get(key)
			}
		}
	}
	if !set || !isOption {
		return value
	}
	for item := range strings.SplitSeq(value, ",") {
		name, value, hasValue := strings.Cut(strings.TrimSpace(item), "=")
		switch {
		case !strings.EqualFold(name, option):
		case hasValue:
			return value
		default:
			return "true"
		}
	}
	if p.flag() {
		return "false"
	}
	return ""
}

// slurmDefault returns Slurm's default of a parameter of slurm.conf; "" if it is not known.
func (p *Parameter) slurmDefault() string {
	words := strings.Fields(p.Name)
	switch {
	case len(words) == 1:
		return options.Default(words[0])
	case len(words) == 3 && strings.EqualFold(words[0], "partition"):
		return options.Default("partition " + words[2])
	}
	return ""
}

// flag reports whether true and false are the only values of the parameter. A parameter with only these values is
// either present in slurm.conf or absent.
func (p *Parameter) flag() bool {
	for _, v := range p.Values {
		if v != "true" && v != "false" {
			return false
		}
	}
	return p.Kind == Categorical
}

// edits converts a setting to the type of package edit.
func (f *File) edits(s Setting) []edit.Setting {
	var list []edit.Setting
	for _, o := range f.options(s) {
		list = append(list, edit.Setting{Name: o.Name, Value: o.Value})
	}
	return list
}

// checkEdit applies a setting to the site's cluster in memory.
func (f *File) checkEdit(site *conf.Cluster, s Setting, line int) error {
	if site == nil {
		return nil
	}
	if _, err := edit.Edit(site, f.edits(s)); err != nil {
		return sweep.Located(f.Path, sweep.ErrorAt(line, "parameters: %w", err))
	}
	return nil
}

// lines returns the lines that the site must write into its configuration for a setting, and
// warnings about changes without effect. For the simulator, the lines are the options of the
// command.
func (f *File) lines(s Setting) (lines []Line, warnings []string, err error) {
	site, err := f.openSite()
	if err != nil {
		return nil, nil, err
	}
	if site == nil {
		for _, o := range f.options(s) {
			lines = append(lines, Line{File: "rmreplay simulate", Text: fmt.Sprintf("--%s=%s", o.Name, o.Value)})
		}
		return lines, []string{}, nil
	}
	edited, err := edit.Edit(site, f.edits(s))
	if err != nil {
		return nil, nil, err
	}
	for _, line := range edited.Lines {
		lines = append(lines, Line(line))
	}
	return lines, append([]string{}, edited.Warnings...), nil
}
