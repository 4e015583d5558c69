// Package slurmcmd is the command group `rmreplay slurm`: it puts releases of Slurm into the user's
// store, lists them, and removes them. Package slurmstore does the work.
package slurmcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/slurmstore"
)

// commands makes the commands of the group.
type commands struct{ console.Output }

// New returns the command with its subcommands.
func New(out console.Output) *cobra.Command {
	o := commands{out}
	c := &cobra.Command{
		Use:   "slurm",
		Short: "Install releases of Slurm beside the machine's own",
		Long: `Commands about the releases of Slurm that are installed to replay on them. A release is a
directory with Slurm's programs and all libraries that they need:
$XDG_CACHE_HOME/rmreplay/slurm/VERSION, by default below ~/.cache. Root's default is
` + slurmstore.SharedDir + `, which all users read, since root's daemons run as another
user. The machine's packages stay as they are, and no command needs root. docs/RELEASES.md
says which releases there are.`,
	}
	c.AddCommand(o.install(), o.list(), o.remove())
	return c
}

func (o commands) install() *cobra.Command {
	var req slurmstore.Request
	var database, asJSON bool
	c := &cobra.Command{
		Use:   "install [VERSION]",
		Short: "Install a release of Slurm, or MariaDB, from Debian or from files",
		Long: `Downloads a release from Debian's suites, with all libraries that it needs, and unpacks it
into the store. apt verifies the signatures of the packages. VERSION is a release
such as 24.11.5, or a series such as 24.11. A release that the store already has is not
changed.

Without a network, --from names one of these:

  a tarball of a root directory, which may be compressed with gzip or zstd
  the directory of an image in the OCI layout ("skopeo copy ... oci:DIR")
  a directory of .deb files: Slurm's packages and all that they depend on

With --from, VERSION may be left out. Before the command installs the release, it runs the
release's slurmctld to check the version. The exit status is 5 if the network or a tool
is missing.

--with-database also installs MariaDB and nss_wrapper, which replays take from the store
if the machine lacks them. Without VERSION it installs only these two. They work with
every Slurm, also with a site's own below /opt. With --from, the source must have both:
Debian's packages are mariadb-server-core and libnss-wrapper.`,
		Example: `  rmreplay slurm install 24.11
  rmreplay slurm install 24.11 --with-database
  rmreplay slurm install --with-database --from database.tar.gz
  rmreplay slurm install --from slurm-25.05.tar.zst
  rmreplay slurm install 24.11 --from packages
  rmreplay slurm install 26.05 --mirror http://ftp.de.debian.org/debian`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && (database || c.Flags().Changed("from")) {
				return nil
			}
			return console.WantArgs("VERSION")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			req.Version = strings.Join(args, "")
			return o.runInstall(c.Context(), req, database, asJSON)
		},
	}
	c.Flags().StringVar(&req.From, "from", "", "`FILE` of the source: a root tarball, an OCI image layout, or a directory of .deb files")
	c.Flags().StringVar(&req.Mirror, "mirror", slurmstore.DebianMirror, "`URL` of the Debian mirror")
	c.Flags().BoolVar(&database, "with-database", false, "install MariaDB and nss_wrapper, too; without VERSION, only these")
	console.AddJSON(c, &asJSON)
	return c
}

// installed is the JSON output of `slurm install`.
type installed struct {
	*slurmstore.Slurm                      // nil if the command installed only the database
	Database          *slurmstore.Database `json:"database,omitempty"`
}

func (o commands) runInstall(ctx context.Context, req slurmstore.Request, database, asJSON bool) error {
	store, err := slurmstore.Default()
	if err != nil {
		return err
	}
	show := o.Progress(false)
	hooks := slurmstore.Hooks{Step: show.Step, Progress: show.Update}
	var answer installed
	var already, paths []string
	if database {
		one, had, installErr := store.InstallDatabase(ctx, req, hooks)
		if err = installErr; had {
			already = append(already, "MariaDB "+one.Version)
		}
		answer.Database, paths = &one, append(paths, one.Path)
	}
	if err == nil && (req.Version != "" || !database) {
		one, had, installErr := store.Install(ctx, req, hooks)
		if err = installErr; had {
			already = append(already, "Slurm "+one.Version)
		}
		answer.Slurm, paths = &one, append(paths, one.Path)
	}
	show.End()
	if err != nil {
		return err
	}
	for _, what := range already {
		o.Say("%s is installed already", what)
	}
	if asJSON {
		return o.PrintJSON(answer)
	}
	return o.Print(strings.Join(paths, "\n") + "\n")
}

// listed is a row of `slurm list`.
type listed struct {
	slurmstore.Slurm
	Store bool `json:"in_store"` // false for the Slurm installed on the machine
}

func (o commands) list() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the releases of Slurm: those of the store, and the machine's own",
		Long: `Lists the releases of Slurm in the user's store, in root's store, and on the machine
itself. Each row has the version, the size, where the release came from, and its root
directory (for the machine's own Slurm, the path of slurmctld). The row "database" is
MariaDB with nss_wrapper, installed by slurm install --with-database.`,
		Example: `  rmreplay slurm list
  rmreplay slurm list --json`,
		Args: console.WantArgs(),
		RunE: func(*cobra.Command, []string) error {
			rows, err := rows()
			if err != nil {
				return err
			}
			database, err := slurmstore.InstalledDatabase()
			has := err == nil
			switch {
			case err != nil && !errors.Is(err, fs.ErrNotExist):
				return err
			case asJSON:
				answer := map[string]any{"slurm": rows}
				if has {
					answer["database"] = database
				}
				return o.PrintJSON(answer)
			}
			if has {
				database.Version = "database"
				rows = append(rows, listed{Slurm: slurmstore.Slurm(database), Store: true})
			}
			return o.Print(table(rows))
		},
	}
	console.AddJSON(c, &asJSON)
	return c
}

// Stored returns the releases of the stores, for completion.
func Stored() (list []string) {
	stored, _ := slurmstore.List() // a shell cannot show the error
	for _, one := range stored {
		list = append(list, one.Version)
	}
	return list
}

// removable completes what slurm remove can remove.
func removable(_ *cobra.Command, before []string, typed string) (list []cobra.Completion, d cobra.ShellCompDirective) {
	if len(before) == 0 {
		list = Stored()
		if _, err := slurmstore.InstalledDatabase(); err == nil {
			list = append(list, "database")
		}
	}
	return slices.DeleteFunc(list, func(v string) bool { return !strings.HasPrefix(v, typed) }), cobra.ShellCompDirectiveNoFileComp
}

// rows lists the machine's own Slurm, if there is one, and then the releases in the store.
func rows() ([]listed, error) {
	rows := []listed{}
	if own, _ := install.Find(); own.Version != "" { // a Slurm that lacks a plugin is listed, too
		rows = append(rows, listed{Slurm: slurmstore.Slurm{Version: own.Version, Source: "installed on this machine", Path: own.Slurmctld}})
	}
	stored, err := slurmstore.List()
	for _, one := range stored {
		rows = append(rows, listed{Slurm: one, Store: true})
	}
	return rows, err
}

func table(rows []listed) string {
	if len(rows) == 0 {
		return "no Slurm is installed (install one with: rmreplay slurm install 24.11)\n"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERSION\tSIZE\tFROM\tPATH")
	for _, r := range rows {
		size := "-"
		if r.Store {
			size = fmt.Sprintf("%d MiB", r.Size>>20)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Version, size, r.Source, r.Path)
	}
	_ = w.Flush() // writing to a strings.Builder returns no error
	return b.String()
}

func (o commands) remove() *cobra.Command {
	return &cobra.Command{
		Use:   "remove VERSION|database",
		Short: "Remove a release of Slurm, or MariaDB, from the store",
		Long: `Removes a release from the user's store. If the store has only one release of a series,
the series, such as 24.11, is enough. "database" removes MariaDB and nss_wrapper. Only
root can remove from root's store. The machine's own Slurm is never removed.`,
		Example: `  rmreplay slurm remove 24.11.5
  rmreplay slurm remove database`,
		Args:              console.WantArgs("VERSION"),
		ValidArgsFunction: removable,
		RunE: func(_ *cobra.Command, args []string) error {
			store, err := slurmstore.Default()
			if err != nil {
				return err
			}
			if args[0] == "database" {
				one, err := store.RemoveDatabase()
				if err != nil {
					return err
				}
				o.Say("removed MariaDB %s (%d MiB)", one.Version, one.Size>>20)
				return nil
			}
			one, err := store.Remove(args[0])
			if err != nil {
				return err
			}
			o.Say("removed Slurm %s (%d MiB)", one.Version, one.Size>>20)
			return nil
		},
	}
}
