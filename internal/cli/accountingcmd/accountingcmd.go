// Package accountingcmd is the command group `rmreplay accounting`: it receives, keeps and exports
// finished jobs. A [Service] does the work.
package accountingcmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/workload"
)

// commands makes the commands of the group.
type commands struct{ console.Output }

// Service does the work of the commands.
type Service interface {
	Serve(ctx context.Context, opts Serve, say func(format string, args ...any)) error
	Info(ctx context.Context, dir string) (*Info, error)
	Import(ctx context.Context, dir string, from Records) (*Imported, error)
	Reconcile(ctx context.Context, dir string, from Records, fill bool) (*Reconciled, error)
	Export(ctx context.Context, dir string, opts Export) (*Exported, error)
	Remove(ctx context.Context, dir string, opts Remove) (*Removed, error)
	Backup(ctx context.Context, dir, to string) (bytes int64, err error)
	// Verify reads the whole directory. progress is told how many of all parts were read.
	Verify(ctx context.Context, dir string, progress func(done, all int)) (*Verified, error)
	// Workload makes a workload of the jobs of a data directory. missing says what no job has.
	Workload(ctx context.Context, dir string, opts workload.ReadOptions) (w *workload.Workload, missing []string, err error)
}

type serviceKey struct{}

// With returns a context whose commands use a service.
func With(ctx context.Context, s Service) context.Context {
	return context.WithValue(ctx, serviceKey{}, s)
}

// From returns the service of a context.
func From(ctx context.Context) (Service, error) {
	if s, ok := ctx.Value(serviceKey{}).(Service); ok {
		return s, nil
	}
	return nil, errors.New("this program was made without the accounting service")
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

// New returns the command with its subcommands.
func New(out console.Output) *cobra.Command {
	o := commands{out}
	c := &cobra.Command{
		Use:   "accounting",
		Short: "Receive finished jobs from Slurm, keep and export them",
		Long: `Commands about a data directory of finished jobs. rmreplay accounting serve receives
them from the jobcomp/elasticsearch plugin of an unmodified slurmctld as they end, and
keeps them in Parquet files. docs/ACCOUNTING.md has the lines of slurm.conf.

One process has a data directory open. The other commands ask it, through a socket in the
directory, or open the directory themselves.

Pages and searches are answered by processes of rmreplay-engine, a program beside this
one. All else works without it.`,
	}
	c.AddCommand(o.serve(), o.info(), o.importJobs(), o.reconcile(), o.export(), o.remove(), o.backup(), o.verify())
	return c
}
