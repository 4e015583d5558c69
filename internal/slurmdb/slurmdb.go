// Package slurmdb makes a workload from the database of slurmdbd. It reads jobs, steps of jobs
// without a start, reservations, node events, users, accounts with their limits, QOS, and
// fair-share usage at the window's start.
//
// It connects to MariaDB or MySQL. slurmdbd's own protocol and sacct leave out facts that a
// replay needs: batch scripts, reservations that are over, and usage at an earlier instant. The
// package only reads, in one read-only transaction. So the tables agree with each other although
// slurmdbd continues to write.
//
// The tables are those of Slurm's src/plugins/accounting_storage/mysql
// (accounting_storage_mysql.c, table_fields). Releases of Slurm have different columns. The
// package looks up which columns a table has, and treats a missing column as unknown.
package slurmdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// Options are the choices in reading a database.
type Options struct {
	workload.ReadOptions
	// Password replaces the password of the data source unless it is empty.
	Password string
	// UsageHalfLife is the half-life of fair-share usage, PriorityDecayHalfLife of slurm.conf.
	// 0 means no decay.
	UsageHalfLife time.Duration
	// UsageSince is when Slurm last reset usage (PriorityUsageResetPeriod of slurm.conf), or 0
	// if it never did.
	UsageSince hpc.Time
}

// Result is the result of Read.
type Result struct {
	Workload *workload.Workload
	// Missing says what no job has and what follows from that. It also says what Accounts
	// leaves out.
	Missing []string
	// Accounts are commands for `sacctmgr -i` that make the cluster's QOS, accounts
	// and users, with their limits, in an empty database.
	Accounts string
}

// Read reads the database of a data source name in the form of go-sql-driver/mysql,
// "USER:PASSWORD@tcp(HOST:3306)/DATABASE" or "USER@unix(SOCKET)/DATABASE". It reads one job at
// a time. No error repeats the password.
func Read(ctx context.Context, dsn string, opts Options) (*Result, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, errors.New(
			"reading slurmdbd: not a data source (want USER:PASSWORD@tcp(HOST:3306)/DATABASE or USER@unix(SOCKET)/DATABASE)")
	}
	if opts.Password != "" {
		config.Passwd = opts.Password
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, fmt.Errorf("reading slurmdbd: %w", err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("reading slurmdbd: %s: %w", config.Addr, err)
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	r := &reader{ctx: ctx, tx: tx, opts: opts, source: config.DBName + " at " + config.Addr}
	result, err := r.read()
	if err != nil {
		return nil, fmt.Errorf("reading slurmdbd: %s: %w", r.source, err)
	}
	return result, nil
}

// reader reads one cluster's tables.
type reader struct {
	ctx     context.Context
	tx      *sql.Tx
	opts    Options
	source  string
	cluster string

	tres    map[int]string // the names of TRES by number: "cpu", "gres/gpu:a100"
	qos     map[int]string
	assocs  map[int]*association
	order   []*association // from the root down
	users   map[uint32]string
	builder *finished.Builder
	leftOut []string // facts left out of the accounts and usage
}

func (r *reader) read() (*Result, error) {
	for _, step := range []func() error{r.findCluster, r.readTRES, r.readQOSNames, r.readAssociations} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	r.builder = finished.NewBuilder(r.cluster+" in "+r.source, r.opts.ReadOptions)
	if err := r.readJobs(); err != nil {
		return nil, err
	}
	if err := r.readSteps(); err != nil {
		return nil, err
	}
	w, err := r.builder.Finish()
	if err != nil {
		return nil, err
	}
	result := &Result{Workload: w, Missing: r.builder.Missing()}
	until := r.opts.End
	if until == 0 && w.Jobs.Len() > 0 {
		until = w.Jobs.Submit(w.Jobs.Len() - 1)
	}
	if w.Reservations, err = r.readReservations(until); err != nil {
		return nil, err
	}
	if w.NodeEvents, err = r.readEvents(); err != nil {
		return nil, err
	}
	if w.Usage, err = r.readUsage(); err != nil {
		return nil, err
	}
	if result.Accounts, err = r.readAccounts(); err != nil {
		return nil, err
	}
	result.Missing = append(result.Missing, r.leftOut...)
	return result, nil
}

// clusterName matches what Slurm accepts as the name of a cluster. The name becomes a part of
// table names, so that nothing else may get into a query.
var clusterName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

func (r *reader) findCluster() error {
	var names []string
	err := r.each("SELECT name FROM cluster_table WHERE deleted = 0 ORDER BY name", func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	})
	if err != nil {
		return fmt.Errorf("%w (want a database of slurmdbd)", err)
	}
	r.cluster = r.opts.Cluster
	if r.cluster == "" && len(names) == 1 {
		r.cluster = names[0]
	}
	switch {
	case r.cluster == "" && len(names) == 0:
		return errors.New("it has no cluster")
	case r.cluster == "":
		return fmt.Errorf("clusters %s (want --cluster-name with one of them)", strings.Join(names, ", "))
	case !slices.Contains(names, r.cluster) || !clusterName.MatchString(r.cluster):
		return fmt.Errorf("it has no cluster %s (want %s)", r.cluster, strings.Join(names, ", "))
	}
	return nil
}

// table returns the quoted name of one of the cluster's own tables, for a query.
func (r *reader) table(name string) string { return "`" + r.cluster + "_" + name + "`" }

// each calls f for every row of a query.
func (r *reader) each(query string, f func(*sql.Rows) error, args ...any) error {
	rows, err := r.tx.QueryContext(r.ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// columns returns the columns that a table has in this version of the schema. It returns none
// if the table does not exist.
func (r *reader) columns(table string) (map[string]bool, error) {
	columns := make(map[string]bool)
	err := r.each("SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?",
		func(rows *sql.Rows) error {
			var name string
			err := rows.Scan(&name)
			columns[strings.ToLower(name)] = true
			return err
		}, table)
	return columns, err
}

func (r *reader) readTRES() error {
	r.tres = make(map[int]string)
	return r.each("SELECT id, type, name FROM tres_table WHERE deleted = 0", func(rows *sql.Rows) error {
		var id int
		var kind, name string
		if err := rows.Scan(&id, &kind, &name); err != nil {
			return err
		}
		if name != "" {
			kind += "/" + name
		}
		r.tres[id] = kind
		return nil
	})
}

func (r *reader) readQOSNames() error {
	r.qos = make(map[int]string)
	return r.each("SELECT id, name FROM qos_table", func(rows *sql.Rows) error {
		var id int
		var name string
		err := rows.Scan(&id, &name)
		r.qos[id] = name
		return err
	})
}

// window returns the condition that a row touches the window. begin and end are the columns of
// the row's beginning and end.
func (r *reader) window(begin, end string) (condition string, args []any) {
	condition = "1 = 1"
	if r.opts.End != 0 {
		condition += " AND " + begin + " < ?"
		args = append(args, r.opts.End.UnixSeconds())
	}
	if r.opts.Start != 0 {
		condition += " AND (" + end + " = 0 OR " + end + " > ?)"
		args = append(args, r.opts.Start.UnixSeconds())
	}
	return condition, args
}

// begin returns the instant at which the cluster must have its first state.
func (r *reader) begin() hpc.Time { return r.opts.Start }
