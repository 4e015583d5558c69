package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/slurmspec"
	"rmreplay/internal/supervise"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// startAccounting starts MariaDB and slurmdbd and fills them through sacctmgr.
func (e *Engine) startAccounting(ctx context.Context) error {
	if err := e.startDatabase(ctx); err != nil {
		return err
	}
	in := e.cfg.Install
	if err := e.startDaemon(ctx, "slurmdbd", supervise.Command{Path: in.Slurmdbd, Args: []string{in.Slurmdbd, "-D"}}, e.daemons.dbPort); err != nil {
		return err
	}
	e.cfg.Progress("filling the accounting database")
	commands, madeUp := e.cfg.Cluster.AccountCommands(e.cfg.Users)
	if madeUp {
		e.warn("accounts-made-up", "the cluster directory has no accounts.sacctmgr: every user has an account of his group, all with equal shares", true)
	}
	script := sacctmgrScript(string(commands), e.cfg.Cluster.Name)
	out, errOut, err := e.run(ctx, script, in.Sacctmgr, "-i")
	log := filepath.Join(e.cfg.LogDir, "sacctmgr.log")
	if werr := os.WriteFile(log, []byte(out+errOut), 0o644); werr != nil {
		return fmt.Errorf("keeping what sacctmgr said: %w", werr)
	}
	var failed *CommandError
	if errors.As(err, &failed) && !failed.Exit.Status.Signaled() {
		// sacctmgr goes on after a command that it refuses, as an administrator's would.
		e.warn("sacctmgr", "filling the accounting database: sacctmgr refused a command; logs/sacctmgr.log says which: "+firstComplaint(out+"\n"+errOut), true)
		err = nil
	}
	if err != nil {
		return fmt.Errorf("filling the accounting database: %w", err)
	}
	return nil
}

// firstComplaint finds the line in which sacctmgr says what it does not like.
func firstComplaint(out string) string {
	for _, line := range strings.Split(out, "\n") {
		line = strings.TrimSpace(line)
		for _, sign := range []string{"error:", "Unknown", "Bad", "Problem", "doesn't exist", "Nothing"} {
			if strings.Contains(line, sign) {
				return line
			}
		}
	}
	return "it does not say why"
}

// sacctmgrScript makes a site's commands ones that sacctmgr can be fed: without
// comments, for which it would exit as if it had failed, and with the command that
// makes the cluster where there is none, since it refuses users of a cluster that
// does not exist.
func sacctmgrScript(commands, cluster string) string {
	var lines []string
	made := false
	for _, line := range strings.Split(commands, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		lines = append(lines, line)
		f := strings.Fields(strings.ToLower(line))
		if len(f) >= 2 && (f[0] == "add" || f[0] == "create") && strings.HasPrefix("cluster", f[1]) {
			made = true
		}
	}
	if !made {
		lines = slices.Insert(lines, 0, "add cluster "+cluster)
	}
	return strings.Join(lines, "\n") + "\n"
}

// databaseOptions make MariaDB small and fast: nothing of it outlives the run, and
// nobody but its owner reaches its socket.
var databaseOptions = []string{
	"--skip-networking", "--skip-grant-tables", "--skip-name-resolve", "--skip-log-bin", "--skip-slave-start",
	"--performance-schema=OFF", "--innodb-buffer-pool-size=128M", "--innodb-flush-log-at-trx-commit=0",
	"--innodb-flush-method=nosync", "--innodb-doublewrite=0", "--innodb-lock-wait-timeout=900",
	"--innodb-log-file-size=32M", "--max-allowed-packet=64M", "--max-connections=64", "--event-scheduler=OFF",
}

// startDatabase starts MariaDB in a directory of its own. It is not under virtual
// time: to the daemons it is the outside, whose answers take real time.
func (e *Engine) startDatabase(ctx context.Context) error {
	e.cfg.Progress("starting MariaDB")
	p, in := &e.place, e.cfg.Install
	common := []string{"--no-defaults", "--datadir=" + p.file("db")}
	if os.Geteuid() == 0 {
		common = append(common, "--user=root") // MariaDB wants to be told
	}
	log := filepath.Join(e.cfg.LogDir, "mariadb.log")
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C", "TMPDIR=" + p.file("out")}
	err := e.runOutside(ctx, supervise.Command{
		Path: in.MariadbInstallDB, Env: env, Dir: p.dir, Stdout: log, Stderr: log,
		Args: append([]string{in.MariadbInstallDB}, append(slices.Clone(common), "--skip-test-db",
			"--auth-root-authentication-method=normal", "--innodb-log-file-size=32M", "--innodb-flush-method=nosync")...),
	})
	if err != nil {
		return fmt.Errorf("making the accounting database: %w", err)
	}
	socket := p.file("db.sock")
	args := append(slices.Clone(common), databaseOptions...)
	args = append(args, "--socket="+socket, "--pid-file="+p.file("db.pid"), "--tmpdir="+p.file("out"))
	pid, err := e.guard.Run(supervise.Command{
		Path: in.Mariadbd, Args: append([]string{in.Mariadbd}, args...), Env: env, Dir: p.dir, Stdout: log, Stderr: log,
	})
	if err != nil {
		return err
	}
	e.daemons.names[pid] = "mariadb"
	return e.waitForSocket(ctx, socket)
}

// runOutside runs a command that is not under virtual time, below the guard like
// everything else: an interrupt from the terminal does not reach it, and it does not
// outlive the replay. Its output goes to a log.
func (e *Engine) runOutside(ctx context.Context, c supervise.Command) error {
	pid, err := e.guard.Run(c)
	if err != nil {
		return err
	}
	exited := false
	cl := &client{name: filepath.Base(c.Path), exited: func(*client) { exited = true }}
	e.daemons.clients[pid] = cl
	for !exited {
		if err := e.pause(ctx); err != nil {
			return fmt.Errorf("running %s: %w", cl.name, err)
		}
	}
	if cl.exit.Status != 0 {
		out, _ := os.ReadFile(c.Stdout)
		return &CommandError{Name: cl.name, Args: c.Args[1:], Exit: cl.exit, Output: lastLines(string(out), 8)}
	}
	return nil
}

// pause lets a moment of real time pass.
func (e *Engine) pause(ctx context.Context) error {
	e.takeNotices()
	if e.err != nil {
		return e.err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Millisecond):
		return nil
	}
}

// waitForSocket waits, in real time, until somebody accepts connections.
func (e *Engine) waitForSocket(ctx context.Context, path string) error {
	for range 6000 {
		if c, err := net.Dial("unix", path); err == nil {
			return c.Close()
		}
		if err := e.pause(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("MariaDB did not accept connections within a minute; its last log lines:\n  %s", strings.Join(e.lastLog("mariadb"), "\n  "))
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// sacctFields are what sacct is asked for at the end, for every job and every time
// that it ran.
const sacctFields = "JobID,JobIDRaw,JobName,User,Group,Account,Partition,QOS,Submit,Eligible,Start,End,State,ExitCode,NNodes,NodeList,AllocCPUS,AllocTRES,Timelimit,Suspended,Priority"

// Sacct returns what slurmdbd has of the run, as `sacct -P` prints it, after the time
// that slurmctld needs to send its last records. It is empty without accounting.
func (e *Engine) Sacct(ctx context.Context) (string, error) {
	if !e.adapted.Accounting {
		return "", nil
	}
	if err := e.advanceQuietly(ctx, e.Now().Add(flushTime)); err != nil {
		return "", err
	}
	out, _, err := e.run(ctx, "", e.cfg.Install.Sacct, "-a", "-D", "-X", "-P", "-S", slurmspec.FormatTime(e.cfg.Epoch.Add(-prepareLead)),
		"-E", slurmspec.FormatTime(e.Now().Add(time.Hour)), "-o", sacctFields)
	return out, err
}

// flushTime is virtual time in which slurmctld's agent empties its queue for slurmdbd.
const flushTime = 30 * time.Second

// Outages returns when which nodes were out of service according to slurmdbd, as
// `sacctmgr -P list event` prints it, and Reservations what it has of reservations. Both
// are to be called after [Engine.Sacct], and are empty without accounting.
func (e *Engine) Outages(ctx context.Context) (string, error) {
	return e.list(ctx, "event", "NodeName,Start,End,State,Reason")
}

// farAhead is more than any reservation is made in advance.
const farAhead = 10 * 365 * 24 * time.Hour

// Reservations returns what slurmdbd has of reservations, as `sacctmgr -P list
// reservation` prints it.
func (e *Engine) Reservations(ctx context.Context) (string, error) {
	return e.list(ctx, "reservation", "Name,ID,Start,End,NodeNames,Assoc,Flags")
}

func (e *Engine) list(ctx context.Context, what, fields string) (string, error) {
	if !e.adapted.Accounting {
		return "", nil
	}
	out, _, err := e.run(ctx, "", e.cfg.Install.Sacctmgr, "-P", "list", what, "Start="+slurmspec.FormatTime(e.cfg.Epoch.Add(-prepareLead)),
		"End="+slurmspec.FormatTime(e.Now().Add(farAhead)), "Format="+fields)
	return out, err
}
