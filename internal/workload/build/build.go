// Package build makes a workload from a site's records: the accounting of Slurm and of other
// resource managers, and tables of jobs. The output of scontrol and sacctmgr adds reservations,
// node states and accounts.
package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"rmreplay/internal/formats"
	"rmreplay/internal/formats/sacct"
	"rmreplay/internal/output"
	"rmreplay/internal/slurmdb"
	"rmreplay/internal/workload"
)

// Kind is a kind of source.
type Kind string

// The kinds of sources, beside the formats of [formats.AccountingNames].
const (
	Sacct    Kind = "sacct"    // a format of [formats.AccountingNames]
	Auto     Kind = "auto"     // records in any of these formats, recognized by their content
	Slurmdbd Kind = "slurmdbd" // a data source name of go-sql-driver/mysql
	Table    Kind = "table"    // a table with a row for each job, and a map of its columns
	// Accounting is a data directory of `rmreplay accounting`.
	Accounting Kind = "accounting"
)

// Kinds lists all kinds of sources.
var Kinds = kinds()

func kinds() (kinds []Kind) {
	for _, name := range formats.AccountingNames() {
		kinds = append(kinds, Kind(name))
	}
	return append(kinds, Slurmdbd, Table, Accounting, Auto)
}

// Options configures [From]. The options of package slurmdb include the options of all readers.
type Options struct {
	slurmdb.Options
	Files Files
	// More are further files of the source.
	More []string
	// Columns are the names of the columns of sacct's output without a header.
	Columns []string
	// Map is the map of a table: the path of a file, or the name of a built-in map.
	Map string
	// Accounting reads the jobs of a data directory of `rmreplay accounting`. It is set only in the
	// program that has the accounting service.
	Accounting func(ctx context.Context, dir string, opts workload.ReadOptions) (w *workload.Workload, missing []string,
		err error)
}

// Files are the paths of files with data that a source lacks. An empty path means no file.
type Files struct {
	Reservations string // scontrol show reservation
	NodeStates   string // scontrol show node
	Accounts     string // sacctmgr dump
}

// Result is the built workload and its accounts.
type Result struct {
	Workload *workload.Workload
	Missing  []string // data that the source lacks, in words
	Accounts string   // commands for sacctmgr -i; empty if the source has no accounts
}

// From builds a workload from a source: a file, a directory of files, "-" for standard input, or
// a database.
func From(ctx context.Context, kind Kind, source string, opts Options) (r *Result, err error) {
	paths := append([]string{source}, opts.More...)
	switch {
	case kind == Slurmdbd && len(opts.More) > 0:
		err = fmt.Errorf("reading slurmdbd: %d databases (want one)", len(paths))
	case kind == Slurmdbd:
		r, err = fromDatabase(ctx, source, opts.Options)
	case kind == Accounting && len(opts.More) > 0:
		err = fmt.Errorf("reading accounting: %d data directories (want one)", len(paths))
	case kind == Accounting && opts.Accounting == nil:
		err = errors.New("reading accounting: this program has no accounting service")
	case kind == Accounting:
		r = new(Result)
		r.Workload, r.Missing, err = opts.Accounting(ctx, source, opts.ReadOptions)
	case kind == Table:
		r, err = fromTable(paths, opts)
	default:
		r, err = fromRecords(kind, paths, opts)
	}
	if err != nil {
		return nil, err
	}
	if text := r.Workload.EmptyAtBegin("records of jobs that ran before, and --start"); text != "" {
		r.Missing = append(r.Missing, text)
	}
	if w := r.Workload; w.MachineProcessors == 0 && w.MachineNodes == 0 {
		r.Missing = append(r.Missing, "the size of the machine is not known: no utilization in metrics and compare, and "+
			"no causes of waits for nodes in explain (want machine_processors in the first line of the workload)")
	}
	return r, r.add(opts.Files, opts.ReadOptions)
}

// fromRecords reads the records of a resource manager.
func fromRecords(kind Kind, source []string, opts Options) (*Result, error) {
	files, err := formats.Files(source)
	if err != nil {
		return nil, err
	}
	name := string(kind)
	if kind == Auto {
		if name, err = formats.DetectAccounting(files[0]); err != nil {
			return nil, err
		}
	}
	read, err := formats.AccountingReader(name)
	if err != nil {
		return nil, err
	}
	if len(opts.Columns) > 0 {
		if name != sacct.Format.Name {
			return nil, fmt.Errorf("reading %s: columns: only the output of sacct can be without a header", name)
		}
		read = sacct.NewReader(opts.Columns...)
	}
	w, missing, err := formats.Accounting(name, read, files, opts.ReadOptions)
	return &Result{Workload: w, Missing: missing}, err
}

func fromDatabase(ctx context.Context, dsn string, read slurmdb.Options) (*Result, error) {
	r, err := slurmdb.Read(ctx, dsn, read)
	if err != nil {
		return nil, err
	}
	return &Result{r.Workload, r.Missing, r.Accounts}, nil
}

// add adds the data in the output of scontrol and sacctmgr.
func (r *Result) add(files Files, read workload.ReadOptions) error {
	if read.Start == 0 {
		read.Start = r.Workload.Begin() // node states and reservations need an instant
	}
	return errors.Join(
		withFile(files.Reservations, func(f io.Reader, name string) error {
			events, err := workload.ReadReservations(f, name, read)
			r.Workload.Reservations = append(r.Workload.Reservations, events...)
			return err
		}),
		withFile(files.NodeStates, func(f io.Reader, name string) error {
			events, err := workload.ReadNodeStates(f, name, read)
			r.Workload.NodeEvents = append(events, r.Workload.NodeEvents...)
			return err
		}),
		withFile(files.Accounts, func(f io.Reader, name string) error {
			commands, qos, err := workload.ConvertAccountsDump(f, name)
			r.Accounts = commands
			if len(qos) > 0 {
				r.Missing = append(r.Missing, "a dump does not say what QOS are: "+strings.Join(qos, ", ")+
					" have sacctmgr's defaults")
			}
			return err
		}),
	)
}

// withFile reads a file, unless its path is empty.
func withFile(path string, read func(f io.Reader, name string) error) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(f, filepath.Base(path))
}

// Write writes the workload as a trace. If cluster is not empty, Write also writes the source's cluster data to
// that directory. If the source has no users or accounts, Write makes them from the names in the jobs, and adds a
// text to Missing. If the directory has a slurm.conf, Missing also says which jobs its partitions will refuse.
// Write returns the paths of the cluster's files.
func (r *Result) Write(trace, cluster string) ([]string, error) {
	if cluster != "" {
		named := namesOf(r.Workload)
		r.usersOfJobs(named)
		site := r.openCluster(cluster)
		if site != nil {
			named.addPartitions(site)
			r.Missing = append(r.Missing, refused(r.Workload, site)...)
		}
		r.accountsOfJobs(named)
	}
	if err := formats.Save(trace, r.Workload); err != nil {
		return nil, err
	}
	if cluster == "" {
		return nil, nil
	}
	if err := os.MkdirAll(cluster, 0o777); err != nil {
		return nil, fmt.Errorf("writing the cluster directory: %w", err)
	}
	var users strings.Builder
	for _, u := range r.Workload.Users {
		users.WriteString(workload.UserLine(u))
	}
	var files []string
	for _, f := range []struct{ name, text string }{{"users", users.String()}, {"accounts.sacctmgr", r.Accounts}} {
		if f.text == "" {
			r.Missing = append(r.Missing, cluster+" gets no file "+f.name+": it would be empty")
			continue
		}
		path := filepath.Join(cluster, f.name)
		if err := output.Text(path, f.text); err != nil {
			return nil, fmt.Errorf("writing the cluster directory: %w", err)
		}
		files = append(files, path)
	}
	return files, nil
}
