package experiment

import (
	"fmt"

	"rmreplay/internal/rm/slurm/admission"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/slurmspec"
)

// Target is a Slurm for which [Target.Preview] adapts configurations.
type Target struct {
	release slurmspec.Release
	plugins string // the directory of its plugins; "" if it is not installed
}

// FindTarget finds a Slurm. The parameter named is an argument of [install.FindSlurm], or a release that is not
// installed, such as "26.05". If named is empty, the default Slurm is used or, without a default, the newest
// supported release. The error is a [FieldError] if named is neither an installed Slurm nor a release.
func FindTarget(named string) (Target, error) {
	in, missing := install.FindSlurm(named)
	switch {
	case !in.Release.IsZero() && conf.CheckRelease(in.Release) == nil: // a missing program does not matter here
		return Target{in.Release, in.PluginDir}, nil
	case named != "":
		release, err := slurmspec.ParseRelease(named)
		if err != nil {
			return Target{}, fieldError("slurm", "%w", missing)
		}
		if err := conf.CheckRelease(release); err != nil {
			return Target{}, fieldError("slurm", "%s: %w", named, err)
		}
		return Target{release: release}, nil
	}
	supported := slurmspec.SupportedReleases()
	return Target{release: supported[len(supported)-1]}, nil
}

// Preview adapts a cluster's configuration as a replay would. site is the release that the site runs; if it is empty,
// the release is inferred from the configuration. If slurmctld would not start because a partition's QOS is missing,
// the result has a warning. The error is a [FieldError] or an [InputError].
func (t Target) Preview(cluster *conf.Cluster, site string) (*conf.Adapted, error) {
	if err := setSite(cluster, site); err != nil {
		return nil, err
	}
	adapted, err := conf.Preview(cluster, t.release, t.plugins)
	if err != nil {
		return nil, inputError(err)
	}
	rules, err := admission.New(cluster, nil, admission.Options{Release: t.release})
	if err != nil {
		adapted.Warnings = append(adapted.Warnings, fmt.Sprintf("the QOS of partitions could not be checked: %v", err))
		return adapted, nil
	}
	adapted.Warnings = append(adapted.Warnings, rules.UndeclaredQOS()...)
	return adapted, nil
}

// setSite sets the release of Slurm that a cluster's configuration is for, unless site is empty. The
// error is a [FieldError].
func setSite(cluster *conf.Cluster, site string) error {
	if site == "" {
		return nil
	}
	release, err := slurmspec.ParseRelease(site)
	if err != nil {
		return fieldError("site-slurm", "%w", err)
	}
	cluster.SiteRelease = release
	return nil
}
