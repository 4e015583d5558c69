package install

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/vclock"
)

// slurmLibrary is Slurm's own library, which all of its programs and plugins use.
const slurmLibrary = "libslurmfull.so"

// libraryImports are functions that Slurm's library may import although the preload library does
// not handle them:
//
//   - clone, in env_array_user_default (common/env.c), which only salloc and slurmd call;
//   - syscall, for close_range where the C library lacks it (common/fd.c), which does not wait.
var libraryImports = []string{"clone", "syscall"}

// controllerPlugins are the types of plugins that slurmctld, slurmdbd and the client commands load
// in a replay. Plugins of other types are loaded only by slurmd, or a replay's configuration does
// not use them.
var controllerPlugins = []string{
	"accounting_storage_", "auth_none", "certmgr_", "cred_none", "gres_", "hash_", "job_submit_", "jobcomp_filetxt",
	"mcs_",
	"node_features_", "preempt_", "prep_", "priority_", "sched_", "select_", "serializer_", "site_factor_", "switch_",
	"tls_none", "topology_",
}

// Unhandled returns the C library functions that Slurm's programs, library and plugins import and
// that the preload library does not handle. A daemon that calls such a function may stop the
// virtual clock, or get real time. The error names the file that cannot be read.
func (in *Installation) Unhandled() ([]vclock.Import, error) {
	paths := []string{in.Slurmctld, in.Slurmdbd}
	entries, err := os.ReadDir(in.PluginDir)
	if err != nil {
		return nil, fmt.Errorf("looking for Slurm's plugins: %w", err)
	}
	for _, e := range entries {
		name := e.Name()
		ofController := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if filepath.Ext(name) == ".so" && (name == slurmLibrary || slices.ContainsFunc(controllerPlugins, ofController)) {
			paths = append(paths, filepath.Join(in.PluginDir, name))
		}
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return p == "" })
	list, err := vclock.UnhandledImports(paths...)
	return slices.DeleteFunc(list, func(i vclock.Import) bool {
		return filepath.Base(i.Path) == slurmLibrary && slices.Contains(libraryImports, i.Name)
	}), err
}

// checkImports looks for functions that the preload library does not handle, in an installation
// with plugins.
func (in *Installation) checkImports() Check {
	c := Check{
		Name: "clock's functions", Why: "virtual time passes only in functions that the preload library handles",
		Fix: "name another build of Slurm with --slurm; a replay on this one warns",
	}
	list, err := in.Unhandled()
	switch {
	case err != nil:
		c.Found = err.Error()
	case len(list) > 0:
		c.Found = DescribeImports(list)
	default:
		c.OK, c.Found = true, "the library handles all functions that it has to"
	}
	return c
}

// DescribeImports names the first functions and counts the others.
func DescribeImports(list []vclock.Import) string {
	text := list[0].String()
	if n := len(list) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}
