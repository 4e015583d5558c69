// Package accountingcmd is the command group `rmreplay accounting`: it receives, keeps and exports
// finished jobs. A [Service] does the work.
//
// The service is not in the main program. Its database (DuckDB, a C++ library) would make the
// program of 51 MB one of 121 MB, and would make a C++ toolchain necessary to build it. So there
// are two programs: rmreplay has the commands, their flags and their help, and hands them over to
// rmreplay-accounting, which is the same program with the service.
package accountingcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/workload"
)

// Program is the name of the program with the service. It lies beside rmreplay.
const Program = "rmreplay-accounting"

// commands makes the commands of the group.
type commands struct{ console.Output }

// Service does the work of the commands.
type Service interface {
	Serve(ctx context.Context, opts Serve, say func(format string, args ...any)) error
	Info(ctx context.Context, dir string) (*Info, error)
	Import(ctx context.Context, dir string, from Records) (*Imported, error)
	Reconcile(ctx context.Context, dir string, from Records, fill bool) (*Reconciled, error)
	Export(ctx context.Context, dir string, opts Export) (*Exported, error)
	Backup(ctx context.Context, dir, to string) (bytes int64, err error)
	// Workload makes a workload of the jobs of a data directory. missing says what no job has.
	Workload(ctx context.Context, dir string, opts workload.ReadOptions) (w *workload.Workload, missing []string, err error)
}

type serviceKey struct{}

// With returns a context whose commands use a service. Without one they are handed over.
func With(ctx context.Context, s Service) context.Context {
	return context.WithValue(ctx, serviceKey{}, s)
}

// From returns the service of a context. In a program without it, From executes the one that has it,
// with the same arguments, and returns only if that fails.
func From(ctx context.Context) (Service, error) {
	if s, ok := ctx.Value(serviceKey{}).(Service); ok {
		return s, nil
	}
	return nil, HandOver()
}

// Workload is [Service.Workload] of the context's service.
func Workload(ctx context.Context, dir string, opts workload.ReadOptions) (w *workload.Workload, missing []string, err error) {
	s, err := From(ctx)
	if err != nil {
		return nil, nil, err
	}
	return s.Workload(ctx, dir, opts)
}

func (o commands) service(c *cobra.Command) (Service, error) {
	s, err := From(c.Context())
	if err != nil {
		return nil, console.Missing(err)
	}
	return s, nil
}

// HandOver executes the program with the service in place of this one. It returns only if that fails.
func HandOver() error {
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding %s: %w", Program, err)
	}
	if resolved, err := filepath.EvalSymlinks(own); err == nil {
		own = resolved
	}
	path := filepath.Join(filepath.Dir(own), Program)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is not there: the accounting commands are in a program of their own (want it beside rmreplay: make build, or make install)", path)
	}
	if err := syscall.Exec(path, append([]string{path}, os.Args[1:]...), os.Environ()); err != nil {
		return fmt.Errorf("executing %s: %w", path, err)
	}
	return nil
}

// New returns the command with its subcommands.
func New(out console.Output) *cobra.Command {
	o := commands{out}
	c := &cobra.Command{
		Use:   "accounting",
		Short: "Receive finished jobs from Slurm, keep and export them",
		Long: `Commands about a data directory of finished jobs. rmreplay accounting serve receives
them from the jobcomp/elasticsearch plugin of an unmodified slurmctld as they end, and
keeps them in an embedded database. docs/ACCOUNTING.md has the lines of slurm.conf.

One process has a data directory open. The other commands ask it, through a socket in the
directory, or open the directory themselves.

The commands are in a program of their own, rmreplay-accounting, which rmreplay executes.`,
	}
	c.AddCommand(o.serve(), o.info(), o.importJobs(), o.reconcile(), o.export(), o.backup())
	return c
}
