package install

import (
	"slices"

	"rmreplay/internal/slurmspec"
)

// NamesVersion reports whether the name of a Slurm is a version and not a directory. The parameter
// named is as for [FindSlurm].
func NamesVersion(named string) bool {
	release, err := slurmspec.ParseRelease(named)
	return err == nil && release.String() == named
}

// Series returns the series of releases of a Slurm, such as "22.05"; "" if the Slurm cannot be
// found. The parameter named is as for [FindSlurm].
func Series(named string) string {
	in, _ := FindSlurm(named) // the replay reports what is missing
	if in.Release.IsZero() {
		return ""
	}
	return in.Release.Series().String()
}

// Version returns the version of a Slurm, such as "22.05.8"; "" if the Slurm cannot be found. The parameter named is as
// for [FindSlurm].
func Version(named string) string {
	in, _ := FindSlurm(named) // the replay reports what is missing
	return in.Version
}

// Files returns the files and directories that decide what a Slurm does: its programs, and its
// plugins with the library that they share. The parameter named is as for [FindSlurm]. The list is
// empty if the Slurm cannot be found.
func Files(named string) []string {
	in, _ := FindSlurm(named) // the replay reports what is missing
	all := []string{in.Slurmctld, in.Slurmdbd, in.Sacctmgr, in.Sacct, in.Scontrol, in.PluginDir}
	return slices.DeleteFunc(all, func(path string) bool { return path == "" })
}
