package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/slurmspec"
)

// The linker sets version (see the Makefile).
var version string

// Version returns the program's version: the version that the linker set, or else the revision or
// the module version in the build information, or "unknown".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "unknown"
}

// versionInfo is the JSON output of `version --json`.
type versionInfo struct {
	Version        string `json:"version"`
	Go             string `json:"go"`
	Platform       string `json:"platform"`
	SupportedSlurm string `json:"supported_slurm"`
}

func newVersionCommand(g *globals) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of rmreplay and the supported releases of Slurm",
		Long: `Prints the version of this program, the Go release that built it, and the releases of
Slurm that it can replay on.`,
		Example: `  rmreplay version
  rmreplay version --json`,
		Args: console.WantArgs(),
		RunE: func(*cobra.Command, []string) error {
			return runVersion(g, asJSON)
		},
	}
	console.AddJSON(c, &asJSON)
	return c
}

func runVersion(g *globals, asJSON bool) error {
	v := versionInfo{
		Version: Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		SupportedSlurm: slurmspec.SupportedList(),
	}
	if asJSON {
		return g.PrintJSON(v)
	}
	err := g.Printf("rmreplay %s (%s, %s), for Slurm %s\n", v.Version, v.Go, v.Platform, v.SupportedSlurm)
	return err
}
