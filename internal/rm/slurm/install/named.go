package install

import (
	"slices"

	"rmreplay/internal/slurmspec"
)

// NamesVersion reports whether the user named a Slurm by a version and not by a directory. See
// [FindSlurm] for named.
func NamesVersion(named string) bool {
	release, err := slurmspec.ParseRelease(named)
	return err == nil && release.String() == named
}

// Series returns the series of releases of a Slurm, such as "22.05"; "" if the Slurm cannot be
// found. See [FindSlurm] for named.
func Series(named string) string {
	in, _ := FindSlurm(named) // the replay reports what is missing
	if in.Release.IsZero() {
		return ""
	}
	return in.Release.Series().String()
}

// Version returns the version of a Slurm, such as "22.05.8"; "" if the Slurm cannot be found. See
// [FindSlurm] for named.
func Version(named string) string {
	in, _ := FindSlurm(named) // the replay reports what is missing
	return in.Version
}

// Files returns the files and directories that decide the behaviour of a Slurm: its programs, its
// plugins and the library that they share. See [FindSlurm] for named. The list is empty if the
// Slurm cannot be found.
func Files(named string) []string {
	in, _ := FindSlurm(named) // the replay reports what is missing
	all := []string{in.Slurmctld, in.Slurmdbd, in.Sacctmgr, in.Sacct, in.Scontrol, in.PluginDir}
	return slices.DeleteFunc(all, func(path string) bool { return path == "" })
}
