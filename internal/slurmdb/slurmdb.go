// Package slurmdb makes a workload from slurmdbd's database. It reads jobs, steps of jobs that
// lack a start, reservations, node events, users, accounts with their limits, QOS, and the
// fair-share usage at the window's start.
//
// It connects to MariaDB or MySQL because slurmdbd's own protocol and sacct lack data that a
// replay needs: batch scripts, ended reservations, and usage at an earlier instant. The package
// only reads, in one read-only transaction, so that the tables are consistent although slurmdbd
// continues to write.
//
// The tables are defined in Slurm's src/plugins/accounting_storage/mysql (accounting_storage_mysql.c, job_table_fields
// and so on). The columns of the tables depend on the release. The package looks up which columns a table has, and
// treats missing columns as unknown values.
package slurmdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// Options are the options of [Read].
type Options struct {
	workload.ReadOptions
	// Password replaces the password in the data source, unless it is empty.
	Password string
	// UsageHalfLife is the half-life of fair-share usage (PriorityDecayHalfLife in slurm.conf); 0
	// means no decay.
	UsageHalfLife time.Duration
	// UsageSince is when Slurm last reset usage (PriorityUsageResetPeriod in slurm.conf); 0 means
	// never.
	UsageSince hpc.Time
}

// Result is the result of [Read].
type Result struct {
	Workload *workload.Workload
	// Missing lists what is missing for all jobs, with the consequences, and what Accounts leaves
	// out.
	Missing []string
	// Accounts has commands for `sacctmgr -i` that create the cluster's QOS, accounts and users,
	// with their limits, in an empty database.
	Accounts string
}

// Read reads a database. dsn has the form of go-sql-driver/mysql:
// "USER:PASSWORD@tcp(HOST:3306)/DATABASE" or "USER@unix(SOCKET)/DATABASE". Rows of jobs are read
// one at a time. Errors never contain the password.
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

	tres    map[int]string // number to name of TRES: "cpu", "gres/gpu:a100"
	qos     map[int]string
	assocs  map[int]*association
	order   []*association // parents before children
	users   map[uint32]string
	builder *finished.Builder
	leftOut []string // what accounts and usage leave out
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

// clusterName matches valid names of clusters in Slurm. The name becomes a part of table names, so
// other characters must not get into a query.
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
		return errors.New("the database has no cluster (want a database of slurmdbd)")
	case r.cluster == "":
		return fmt.Errorf("the database has the clusters %s (want --cluster-name with one of them)",
			strings.Join(names, ", "))
	case !slices.Contains(names, r.cluster) || !clusterName.MatchString(r.cluster):
		return fmt.Errorf("the database has no cluster %s (want %s)", r.cluster, strings.Join(names, ", "))
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

// columns returns the columns of a table in this version of the schema. The result is empty if the
// table does not exist.
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

// window returns the SQL condition for rows that overlap the window. The parameters begin and end
// are the columns with the row's begin and end.
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

// jobWindow returns the SQL condition for jobs that overlap the window. It also selects all runs of jobs of which a run
// in the window was requeued: the builder decides which of them belong to a job in the window.
func (r *reader) jobWindow() (condition string, args []any) {
	condition, args = r.window("j.time_submit", "j.time_end")
	if r.opts.End == 0 || r.opts.Record != nil {
		return condition, args
	}
	inWindow, more := r.window("q.time_submit", "q.time_end")
	var states []string
	for _, state := range []hpc.State{hpc.NodeFail, hpc.Preempted, hpc.BootFail} {
		number, _ := slurmspec.JobStateNumber(state)
		states = append(states, strconv.FormatUint(uint64(number), 10))
	}
	return fmt.Sprintf("(%s OR j.time_submit >= ? AND j.id_job IN (SELECT q.id_job FROM %s q WHERE q.deleted = 0 AND %s "+
			"AND (q.state & %d != 0 OR q.state & %d IN (%s))))", condition, r.table("job_table"), inWindow, slurmspec.JobRequeue,
			slurmspec.JobStateBase, strings.Join(states, ", ")),
		slices.Concat(args, []any{r.opts.End.UnixSeconds()}, more)
}

// begin returns the beginning of the window, from which events count.
func (r *reader) begin() hpc.Time { return r.opts.Start }
