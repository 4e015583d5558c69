// Package accounting runs the stock accounting of a run: MariaDB in its own directory, and
// slurmdbd with the site's accounts. It asks slurmdbd for its records when the run ends.
package accounting

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/conf/slurmdbd"
	"rmreplay/internal/rm/slurm/daemons"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/rm/slurm/sandbox"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/supervise"
)

// Config says how to start accounting.
type Config struct {
	Daemons *daemons.Daemons
	Sandbox *sandbox.Sandbox
	Install *install.Installation
	// Port is slurmdbd's port.
	Port   uint16
	LogDir string
	// Cluster is the cluster's name. Commands are the site's commands for sacctmgr.
	Cluster  string
	Commands string
	// TRES are the trackable resources of the site, as AccountingStorageTRES lists them. The resources are registered
	// before the commands for sacctmgr run, so that the commands can set limits on the resources.
	TRES string
	// Since is the earliest instant that the run's records can have.
	Since hpc.Time
	// Progress is called with each step of the start.
	Progress func(string)
}

// Database is the accounting of a run.
type Database struct{ cfg Config }

// Start starts MariaDB and slurmdbd and runs the site's commands in sacctmgr. complaint is
// sacctmgr's first error message; it is empty if sacctmgr accepts all commands.
func Start(ctx context.Context, cfg Config) (d *Database, complaint string, err error) {
	d = &Database{cfg: cfg}
	if err := d.startMariaDB(ctx); err != nil {
		return nil, "", err
	}
	in := cfg.Install
	if err := cfg.Daemons.Start(ctx, "slurmdbd", supervise.Command{Path: in.Slurmdbd, Args: []string{in.Slurmdbd, "-D"}},
		cfg.Port); err != nil {
		return nil, "", err
	}
	cfg.Progress("filling the accounting database")
	var log strings.Builder
	for _, commands := range sessions(script(cfg.Commands, cfg.Cluster)) {
		out, errOut, err := cfg.Daemons.Run(ctx, strings.Join(commands, "\n")+"\n", in.Sacctmgr, "-i")
		log.WriteString(out + errOut)
		var failed *daemons.CommandError
		if refused := errors.As(err, &failed) && !failed.Exit.Status.Signaled(); err != nil && !refused {
			return nil, "", errors.Join(fmt.Errorf("filling the accounting database: %w", err), d.logCommands(log.String()))
		} else if refused && complaint == "" {
			// A refused command does not stop sacctmgr: it executes the commands that follow.
			complaint = firstComplaint(out + "\n" + errOut)
		}
	}
	return d, complaint, d.logCommands(log.String())
}

func (d *Database) logCommands(output string) error {
	if err := os.WriteFile(filepath.Join(d.cfg.LogDir, "sacctmgr.log"), []byte(output), 0o666); err != nil {
		return fmt.Errorf("logging sacctmgr's output: %w", err)
	}
	return nil
}

// addsQOS matches a command that adds a QOS. namesQOS matches a command that names a QOS in an
// option.
var (
	addsQOS  = regexp.MustCompile(`(?i)^(a|c)[a-z]*\s+q`)
	namesQOS = regexp.MustCompile(`(?i)(\bq[a-z]*|defaultqos|preempt)["']?\s*[+-]?=`)
)

// sessions splits the commands into several runs of sacctmgr. A command that names a QOS comes in
// a later run than the command that adds the QOS. One run of sacctmgr reads the list of QOS only
// once, at the first option that names a QOS (g_qos_list in src/sacctmgr).
func sessions(commands []string) (list [][]string) {
	hasList, stale := false, false // of the current run of sacctmgr
	for i, c := range commands {
		names := namesQOS.MatchString(c)
		if i == 0 || names && stale {
			list, hasList, stale = append(list, nil), false, false
		}
		hasList = hasList || names
		stale = stale || hasList && addsQOS.MatchString(c)
		list[len(list)-1] = append(list[len(list)-1], c)
	}
	return list
}

// firstComplaint returns the first error message in sacctmgr's output.
func firstComplaint(out string) string {
	for _, line := range strings.Split(out, "\n") {
		line = strings.TrimSpace(line)
		for _, sign := range []string{"error:", "Unknown", "Bad", "Problem", "doesn't exist", "Nothing"} {
			if strings.Contains(line, sign) {
				return line
			}
		}
	}
	return "sacctmgr printed no error message"
}

// script prepares a site's commands for sacctmgr. It removes comments, because comments make
// sacctmgr exit with an error code. If no command adds the cluster, script adds this command,
// because sacctmgr refuses users of an unknown cluster. Users with equal options are added by one
// command.
func script(commands, cluster string) []string {
	var lines []string
	for _, line := range strings.Split(commands, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		lines = append(lines, line)
	}
	if !associations.AddsCluster(commands) {
		lines = slices.Insert(lines, 0, "add cluster "+cluster)
	}
	return together(lines)
}

// addUser matches a command that adds one user and has no quotes after the user's name.
var addUser = regexp.MustCompile(`(?i)^(add +user +(?:name=)?)([a-z0-9_.-]+)( [^"'\\]*)$`)

// longestCommand is the length of the longest line that sacctmgr reads whole, not counting the line
// break (_getline in src/sacctmgr/sacctmgr.c).
const longestCommand = 4094

// together joins successive commands that add users with the same options into one command with a
// list of names. For each command slurmdbd reads and changes the rows of other associations, so a
// thousand commands take half a minute. A user whom an earlier command added keeps a separate
// command. sacctmgr may refuse that command, and within one command sacctmgr adds new users first.
func together(lines []string) []string {
	var list []string
	var verb, options string // of the last command; empty if users cannot be added to it
	added := map[string]bool{}
	for _, line := range lines {
		m := addUser.FindStringSubmatch(line)
		if m == nil || added[strings.ToLower(m[2])] {
			verb = ""
			list = append(list, line)
			continue
		}
		added[strings.ToLower(m[2])] = true
		last := len(list) - 1
		if m[1] == verb && m[3] == options && len(list[last])+len(",")+len(m[2]) <= longestCommand {
			list[last] = strings.TrimSuffix(list[last], options) + "," + m[2] + options
			continue
		}
		verb, options = m[1], m[3]
		list = append(list, line)
	}
	return list
}

// databaseOptions make MariaDB small and fast. The options are safe, because MariaDB's data do not
// outlive the run and only the owner of the run can reach its socket.
var databaseOptions = []string{
	"--skip-networking", "--skip-grant-tables", "--skip-name-resolve", "--skip-log-bin", "--skip-slave-start",
	"--performance-schema=OFF", "--innodb-buffer-pool-size=128M", "--innodb-flush-log-at-trx-commit=0",
	"--innodb-flush-method=nosync", "--innodb-doublewrite=0", "--innodb-lock-wait-timeout=900",
	"--innodb-log-file-size=32M", "--max-allowed-packet=64M", "--max-connections=64", "--event-scheduler=OFF",
}

// startMariaDB starts MariaDB in its own, empty directory. The server itself creates the system
// tables: mariadb-install-db would start a second server for this. MariaDB runs in real time.
// While a daemon waits for MariaDB's answer, virtual time stands still.
func (d *Database) startMariaDB(ctx context.Context) error {
	d.cfg.Progress("starting MariaDB")
	p, in := d.cfg.Sandbox, d.cfg.Install
	log := filepath.Join(d.cfg.LogDir, "mariadb.log")
	env := []string{daemons.SearchPath, "LANG=C", "TMPDIR=" + p.File("tmp")}
	tables, err := os.ReadFile(in.SystemTables)
	if err != nil {
		return fmt.Errorf("making the accounting database: %w", err)
	}
	// slurmdbd can create a missing database itself, but the script must create it here. After such a
	// creation, MariaDB's client library from version 3.4 on would ask for TLS
	// (src/database/mysql_common.c). The server has no TLS, so slurmdbd would lose five seconds of
	// virtual time before it connects again.
	statements := "CREATE DATABASE mysql;\nUSE mysql;\n" + string(tables) + "\nCREATE DATABASE " + slurmdbd.Database +
		";\n" + registration(d.cfg.TRES)
	if err := p.WriteFile([]byte(statements), "db.sql"); err != nil {
		return fmt.Errorf("making the accounting database: %w", err)
	}
	socket := p.File("db.sock")
	options := append([]string{"--no-defaults", "--datadir=" + p.File("db")}, databaseOptions...)
	path, args := in.MariaDB(append(options, "--socket="+socket, "--pid-file="+p.File("db.pid"), "--tmpdir="+p.File("tmp"),
		"--init-file="+p.File("db.sql"))...)
	err = d.cfg.Daemons.StartOutside("mariadb", supervise.Command{
		Path: path, Args: args, Env: env, Dir: p.Dir, Stdout: log, Stderr: log,
	})
	if err != nil {
		return err
	}
	return d.waitForSocket(ctx, socket)
}

// namedTRES are the trackable resources that slurmctld registers and that have names: gres/gpu,
// gres/gpu:a100, license/matlab. slurmdbd registers all other resources.
var namedTRES = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(bb|fs|gres|ic|license)/([a-z0-9_.:@+-]{1,200})$`)
})

// registration returns the SQL statements that register the named resources of
// AccountingStorageTRES. slurmctld registers them when it starts for the first time (_init_tres in
// src/slurmctld/controller.c), and sacctmgr refuses limits on resources that are not registered.
// At a site, slurmctld has started long before sacctmgr is run. In a replay, sacctmgr runs before
// slurmctld starts: slurmctld reads fair-share usage when it starts, and the accounts must exist
// by then.
//
// slurmdbd treats an existing table as a table of an older release, and alters it to its own
// definition (mysql_db_create_table in src/database/mysql_common.c). The columns, the index and
// the first id equal those of table tres_table from 22.05 to 26.05
// (src/plugins/accounting_storage/mysql/accounting_storage_mysql.c).
func registration(list string) string {
	var rows []string
	for _, name := range strings.Split(strings.ToLower(list), ",") {
		if m := namedTRES().FindStringSubmatch(strings.TrimSpace(name)); m != nil && m[0] != "fs/disk" {
			rows = append(rows, fmt.Sprintf("(0, '%s', '%s')", m[1], m[2]))
		}
	}
	if rows == nil {
		return ""
	}
	return "CREATE TABLE " + slurmdbd.Database + ".tres_table (creation_time bigint unsigned not null, " +
		"deleted tinyint default 0 not null, id int not null auto_increment, type tinytext not null, " +
		"name tinytext not null default '', primary key (id), unique index udex (type(42), name(42))) " +
		"auto_increment=1001 engine=innodb;\n" +
		"INSERT IGNORE INTO " + slurmdbd.Database + ".tres_table (creation_time, type, name) VALUES " +
		strings.Join(rows, ", ") + ";\n"
}

// waitForSocket waits, in real time, until MariaDB accepts connections.
func (d *Database) waitForSocket(ctx context.Context, path string) error {
	for range 6000 {
		if c, err := net.Dial("unix", path); err == nil {
			return c.Close()
		}
		if err := d.cfg.Daemons.Pause(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("MariaDB did not accept connections within a minute; its last log lines:\n  %s",
		strings.Join(d.cfg.Daemons.LastLog("mariadb"), "\n  "))
}

// sacctFields are the columns that sacct prints for every job and each of its runs.
const sacctFields = "JobID,JobIDRaw,JobName,User,Group,Account,Partition,QOS,Submit,Eligible,Start,End,State,ExitCode,NNodes,NodeList,AllocCPUS,AllocTRES,Timelimit,Suspended,Priority"

// Sacct returns slurmdbd's records of the run's jobs up to now, as `sacct -P` prints them.
func (d *Database) Sacct(ctx context.Context, now hpc.Time) (string, error) {
	out, _, err := d.cfg.Daemons.Run(ctx, "", d.cfg.Install.Sacct, "-a", "-D", "-X", "-P", "-S",
		slurmspec.FormatTime(d.cfg.Since),
		"-E", slurmspec.FormatTime(now.Add(time.Hour)), "-o", sacctFields)
	return out, err
}

// Outages returns slurmdbd's records of the times at which nodes were out of service, as
// `sacctmgr -P list event` prints them.
func (d *Database) Outages(ctx context.Context, now hpc.Time) (string, error) {
	return d.list(ctx, now, "event", "NodeName,Start,End,State,Reason")
}

// Reservations returns slurmdbd's records of reservations, as `sacctmgr -P list reservation`
// prints them.
func (d *Database) Reservations(ctx context.Context, now hpc.Time) (string, error) {
	return d.list(ctx, now, "reservation", "Name,ID,Start,End,NodeNames,Assoc,Flags")
}

// farAhead is a time within which every reservation of a site begins.
const farAhead = 10 * 365 * 24 * time.Hour

func (d *Database) list(ctx context.Context, now hpc.Time, what, fields string) (string, error) {
	out, _, err := d.cfg.Daemons.Run(ctx, "", d.cfg.Install.Sacctmgr, "-P", "list", what,
		"Start="+slurmspec.FormatTime(d.cfg.Since),
		"End="+slurmspec.FormatTime(now.Add(farAhead)), "Format="+fields)
	return out, err
}

// List returns the output of `sacctmgr -nP list` with the given arguments.
func (d *Database) List(ctx context.Context, args ...string) (string, error) {
	out, _, err := d.cfg.Daemons.Run(ctx, "", d.cfg.Install.Sacctmgr, append([]string{"-nP", "list"}, args...)...)
	return out, err
}
