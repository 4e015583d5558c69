// Package iocmd is the command group `rmreplay io`. It has two parts: a service that estimates the
// I/O of jobs for I/O-aware scheduling, and a driver that schedules a live cluster. Packages
// ioservice and ioaware do the work.
package iocmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/ioservice/site"
)

// commands makes the commands of the group.
type commands struct{ console.Output }

// New returns the command with its subcommands.
func New(out console.Output) *cobra.Command {
	o := commands{out}
	c := &cobra.Command{
		Use:   "io",
		Short: "Schedule with knowledge of the file system: learn jobs' I/O, and decide which jobs start",
		Long: `Commands for scheduling with knowledge of the file system. Jobs of one class have
similar I/O. A service learns the I/O of each class from finished jobs, measures the use
of the file system, and answers schedulers. A driver decides which jobs of a live
cluster start. docs/IO.md is the guide.`,
	}
	c.AddCommand(o.serve(), o.learn(), o.assign(), o.schedule(), o.release(), o.script())
	return c
}

// script prints a file for the site.
func (o commands) script() *cobra.Command {
	var names, docs []string
	for _, f := range site.Files {
		names = append(names, f.Name)
		docs = append(docs, fmt.Sprintf("  %-14s  %s\n", f.Name, f.Doc))
	}
	return &cobra.Command{
		Use:   "script NAME",
		Short: "Print a file that a site needs beside the service",
		Long: `Prints a file that a site with a stock Slurm needs beside the service. Check the paths
at the file's beginning. NAME is

` + strings.Join(docs, "") + `
docs/IO.md says where to install the files.`,
		Example: `  rmreplay io script job_submit.lua > /etc/slurm/job_submit.lua
  rmreplay io script epilog.sh > /etc/slurm/rmreplay-epilog.sh`,
		Args:      console.WantArgs("NAME"),
		ValidArgs: names,
		RunE: func(_ *cobra.Command, args []string) error {
			i := slices.Index(names, args[0])
			if i < 0 {
				return console.Usagef("%s: not a file for a site (want %s)", args[0], strings.Join(names, " or "))
			}
			return o.Print(site.Files[i].Text)
		},
	}
}
