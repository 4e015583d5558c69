package experiment

import (
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/slurmspec"
)

// PreviewConfiguration adapts a cluster's configuration as a replay would. named is a Slurm as
// [install.FindSlurm] takes it, or a release that is not installed, such as "26.05". If it is empty,
// the default Slurm is taken, or without one the newest supported release. site names the release
// that the site runs; if it is empty, the configuration tells it. The error is a [FieldError] for a
// name that is no such Slurm or release, or an [InputError].
func PreviewConfiguration(cluster *conf.Cluster, named, site string) (*conf.Adapted, error) {
	if site != "" {
		release, err := slurmspec.ParseRelease(site)
		if err != nil {
			return nil, fieldError("site-slurm", "%w", err)
		}
		cluster.SiteRelease = release
	}
	in, missing := install.FindSlurm(named)
	to, plugins := in.Release, in.PluginDir
	switch {
	case !to.IsZero() && conf.CheckRelease(to) == nil: // what else is missing does not matter here
	case named != "":
		release, err := slurmspec.ParseRelease(named)
		if err != nil {
			return nil, fieldError("slurm", "%w", missing)
		}
		if err := conf.CheckRelease(release); err != nil {
			return nil, fieldError("slurm", "%w", err)
		}
		to, plugins = release, "" // no directory has the release's plugins
	default:
		supported := slurmspec.SupportedReleases()
		to, plugins = supported[len(supported)-1], ""
	}
	adapted, err := conf.Preview(cluster, to, plugins)
	return adapted, inputError(err)
}
