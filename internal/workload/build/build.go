// Package build makes a workload from a site's records: from sacct's output or slurmdbd's
// database, with the states that scontrol and sacctmgr print.
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
	"rmreplay/internal/slurmdb"
	"rmreplay/internal/workload"
)

// Kind is a kind of source.
type Kind string

// The kinds of sources.
const (
	Sacct    Kind = "sacct"    // a file with what sacct -P or sacct --json prints; "-" is standard input
	Slurmdbd Kind = "slurmdbd" // a data source name of go-sql-driver/mysql
)

// Kinds are all kinds of sources.
var Kinds = []Kind{Sacct, Slurmdbd}

// Options describe the workload to build. The options of package slurmdb include those of all
// readers.
type Options struct {
	slurmdb.Options
	Files Files
}

// Files are the paths of files that a source lacks; empty for none.
type Files struct {
	Reservations string // scontrol show reservation
	NodeStates   string // scontrol show node
	Accounts     string // sacctmgr dump
}

// Result is the workload with the facts that are missing in the source.
type Result struct {
	Workload *workload.Workload
	Missing  []string // facts missing in the source, as sentences
	Accounts string   // commands for sacctmgr -i; empty if the source has none
}

// From builds a workload from a source.
func From(ctx context.Context, kind Kind, source string, opts Options) (r *Result, err error) {
	switch kind {
	case Sacct:
		r, err = fromSacct(source, opts.ReadOptions)
	case Slurmdbd:
		r, err = fromDatabase(ctx, source, opts.Options)
	default:
		err = fmt.Errorf("%s: not a kind of source (want %s or %s)", kind, Sacct, Slurmdbd)
	}
	if err != nil {
		return nil, err
	}
	return r, r.add(opts.Files, opts.ReadOptions)
}

func fromSacct(path string, read workload.ReadOptions) (*Result, error) {
	f := os.Stdin
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return nil, fmt.Errorf("reading sacct: %w", err)
		}
		defer f.Close()
	}
	w, missing, err := formats.ReadAccounting(f, filepath.Base(path), read)
	return &Result{Workload: w, Missing: missing}, err
}

func fromDatabase(ctx context.Context, dsn string, read slurmdb.Options) (*Result, error) {
	r, err := slurmdb.Read(ctx, dsn, read)
	if err != nil {
		return nil, err
	}
	return &Result{r.Workload, r.Missing, r.Accounts}, nil
}

// add adds what scontrol and sacctmgr have printed.
func (r *Result) add(files Files, read workload.ReadOptions) error {
	if read.Start == 0 {
		read.Start = r.Workload.Begin() // a state needs an instant
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
				r.Missing = append(r.Missing, "a dump does not say what QOS are: "+strings.Join(qos, ", ")+" have sacctmgr's defaults")
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

// Presets counts the jobs that run when the window begins.
func (r *Result) Presets() (n int) {
	for _, job := range r.Workload.Jobs.All() {
		if r.Workload.Preset(job) {
			n++
		}
	}
	return n
}

// Write writes the workload as a trace. Unless cluster is empty, it also writes the source's
// facts about the cluster to that directory. It returns the paths of the cluster's files.
func (r *Result) Write(trace, cluster string) ([]string, error) {
	if err := formats.Save(trace, r.Workload); err != nil {
		return nil, err
	}
	if cluster == "" {
		return nil, nil
	}
	if err := os.MkdirAll(cluster, 0o755); err != nil {
		return nil, fmt.Errorf("writing the cluster directory: %w", err)
	}
	var users strings.Builder
	for _, u := range r.Workload.Users {
		fmt.Fprintf(&users, "%s:%d:%s:%d\n", u.Name, u.UID, u.Group, u.GID)
	}
	var files []string
	for _, f := range []struct{ name, text string }{{"users", users.String()}, {"accounts.sacctmgr", r.Accounts}} {
		if f.text == "" {
			continue
		}
		path := filepath.Join(cluster, f.name)
		if err := os.WriteFile(path, []byte(f.text), 0o644); err != nil {
			return nil, fmt.Errorf("writing the cluster directory: %w", err)
		}
		files = append(files, path)
	}
	return files, nil
}
