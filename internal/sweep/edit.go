package sweep

import (
	"fmt"
	"strings"

	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/conf/edit"
)

// settings returns the options of an edit as the settings of parameters.
func settings(options Options) []edit.Setting {
	list := make([]edit.Setting, len(options))
	for i, o := range options {
		list[i] = edit.Setting{Name: o.Name, Value: o.Value}
	}
	return list
}

// checkEdit checks the settings of an edit as far as they do not depend on a cluster.
func checkEdit(v *Variant) error {
	seen := map[string]bool{}
	for _, o := range v.Options {
		if err := (edit.Setting{Name: o.Name, Value: o.Value}).Check(); err != nil {
			return errorAt(o.Line, "edits: %s: %w", v.Name, err)
		}
		if seen[strings.ToLower(o.Name)] {
			return errorAt(o.Line, "edits: %s: %s: more than one value (want one, or a text such as a,b)", v.Name, o.Name)
		}
		seen[strings.ToLower(o.Name)] = true
	}
	return nil
}

// checkEdits applies every edit to every cluster in memory. An edit that is wrong for a cluster,
// for example because it has no such partition, is an error in the experiment. If a cluster cannot
// be read, only its own runs fail. checkEdits returns the edits without effect.
func (e *Experiment) checkEdits() (warnings []string, err error) {
	if e.Slurm == nil || len(e.Slurm.Edits) == 0 {
		return nil, nil
	}
	for _, cluster := range e.Slurm.Clusters {
		path, _ := cluster.Options.Get("cluster")
		site, err := conf.Open(path)
		if err != nil {
			continue
		}
		for _, v := range e.Slurm.Edits {
			edited, err := edit.Edit(site, settings(v.Options))
			if err != nil {
				return nil, errorAt(v.Line, "edits: %s: %w (cluster %s)", v.Name, err, cluster.Name)
			}
			for _, warning := range edited.Warnings {
				warnings = append(warnings, fmt.Sprintf("%s:%d: edits: %s: %s (cluster %s)", e.Path, v.Line, v.Name, warning,
					cluster.Name))
			}
		}
	}
	return warnings, nil
}
