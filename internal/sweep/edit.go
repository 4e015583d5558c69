package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/experiment"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/conf/edit"
)

// settings converts the options of an edit to settings of parameters.
func settings(options Options) []edit.Setting {
	list := make([]edit.Setting, len(options))
	for i, o := range options {
		list[i] = edit.Setting{Name: o.Name, Value: o.Value}
	}
	return list
}

// checkEdit makes those checks of an edit's settings that do not depend on a cluster.
func checkEdit(v *Variant) error {
	seen := map[string]bool{}
	for _, o := range v.Options {
		if err := (edit.Setting{Name: o.Name, Value: o.Value}).Check(); err != nil {
			return errorAt(o.Line, "edits: %s: %w", v.Name, err)
		}
		if seen[strings.ToLower(o.Name)] {
			return errorAt(o.Line, "edits: %s: %s has more than one value (want one value, or a text such as a,b)", v.Name,
				o.Name)
		}
		seen[strings.ToLower(o.Name)] = true
	}
	return nil
}

// targets are the Slurms that were found, by the value of the option slurm.
type targets map[string]experiment.Target

// checkEdits applies every edit to every cluster in memory, and adapts the edited cluster to every Slurm of the
// experiment as a run does. An edit that is wrong for a cluster, for example because the cluster lacks a partition, is
// an error in the experiment. If a cluster cannot be read or adapted even without the edit, only the runs on this
// cluster fail. checkEdits returns the edits without effect, and adds the Slurms that it finds to the map known.
func (e *Experiment) checkEdits(known targets) (warnings []string, err error) {
	if e.Slurm == nil || len(e.Slurm.Edits) == 0 {
		return nil, nil
	}
	for _, cluster := range e.Slurm.Clusters {
		path, _ := cluster.Options.Get("cluster")
		site, err := conf.Open(path)
		if err != nil {
			continue
		}
		adaptations := e.adaptations(cluster, known)
		adaptations = slices.DeleteFunc(adaptations, func(a adaptation) bool { return a.mistake(site) != nil })
		for _, v := range e.Slurm.Edits {
			edited, err := edit.Edit(site, settings(v.Options))
			if err != nil {
				return nil, errorAt(v.Line, "edits: %s: %w (cluster %s)", v.Name, err, cluster.Name)
			}
			for _, warning := range edited.Warnings {
				warnings = append(warnings, fmt.Sprintf("%s:%d: edits: %s: %s (cluster %s)", e.Path, v.Line, v.Name, warning,
					cluster.Name))
			}
			copied, err := edited.Open(site)
			for i := 0; err == nil && i < len(adaptations); i++ {
				err = adaptations[i].mistake(copied)
			}
			if err != nil {
				return nil, errorAt(v.Line, "edits: %s: %w (cluster %s, edited)", v.Name, err, cluster.Name)
			}
		}
	}
	return warnings, nil
}

// adaptation has the values that determine, together with the cluster, how a run adapts the
// configuration.
type adaptation struct {
	target experiment.Target
	site   string // the option site-slurm
}

// adaptations returns the different adaptations of a cluster in the experiment. It leaves out a Slurm that cannot be
// found: only the runs on this Slurm fail. The map known has the Slurms that were found before.
func (e *Experiment) adaptations(cluster Variant, known targets) []adaptation {
	releases := e.Slurm.Releases
	if len(releases) == 0 {
		releases = []Variant{{}}
	}
	var list []adaptation
	for _, release := range releases {
		options := slices.Concat(e.Slurm.Options, cluster.Options, release.Options)
		slurm, _ := options.Get("slurm")
		site, _ := options.Get("site-slurm")
		if e.Model {
			slurm = cmp.Or(slurm, experiment.ModelRelease)
		}
		target, found := known[slurm]
		if !found {
			var err error
			if target, err = experiment.FindTarget(slurm); err != nil {
				continue
			}
			known[slurm] = target
		}
		if a := (adaptation{target, site}); !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	return list
}

// mistake returns the error that would end a run on the cluster before it begins; nil if the run
// would begin.
func (a adaptation) mistake(cluster *conf.Cluster) error {
	copied := *cluster // because Preview sets the field for the site's release
	_, err := a.target.Preview(&copied, a.site)
	return err
}
