package main

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rmreplay/internal/supervise"
)

// The program starts itself twice. The first process of the new namespaces (stageInit) mounts the
// daemons' root and reaps orphans. The worker below it runs the daemons.
const (
	stageInit   = "init-stage"
	stageWorker = "worker-stage"
)

// interpreter is the path of this program in the daemons' root.
const interpreter = "/bin/realslurm"

// start makes the directory of the run and starts the first process of its namespaces. When either
// of the two processes ends, the kernel ends all daemons.
func start(o options) error {
	jobs, err := readEvents(o.Workload)
	if err != nil {
		return err
	}
	if _, err := adapt(filepath.Join(o.Cluster, "slurm.conf")); err != nil {
		return err
	}
	if err := static(); err != nil {
		return err
	}
	if err := os.Mkdir(o.Output, 0o755); err != nil {
		return err
	}
	root := filepath.Join(o.Output, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	defer os.Remove(root) //nolint:errcheck // an empty directory is all that can be left
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the child ends with the thread that made it
	c := exec.Command("/proc/self/exe", stageInit, string(text))
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := c.Run(); err != nil {
		return fmt.Errorf("running the daemons, with logs in %s: %w", o.Output, err)
	}
	return report(o, jobs)
}

// static checks that this program needs no loader: the daemons' root has another C library.
func static() error {
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer program.Close()
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			return errors.New("this program is linked dynamically (build it with CGO_ENABLED=0)")
		}
	}
	return nil
}

func initStage(text string) error {
	var o options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if err := mountRoot(o); err != nil {
		return err
	}
	if err := supervise.RaiseLoopback(); err != nil {
		return err
	}
	runtime.LockOSThread()
	c := exec.Command("/proc/self/exe", stageWorker, text)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return err
	}
	for { // all orphans of the namespace are this process's children
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("waiting for the daemons: %w", err)
		case pid == c.Process.Pid && status.Exited() && status.ExitStatus() == 0:
			return nil
		case pid == c.Process.Pid:
			return errors.New("the run has failed")
		}
	}
}

// system returns the path of the daemons' root.
func (o *options) system() string { return filepath.Join(o.Output, "root", "system") }

// mountRoot mounts the daemons' root: an overlay of the release's root, whose changes are kept in
// memory.
func mountRoot(o options) error {
	dir := filepath.Join(o.Output, "root")
	type mount struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}
	mounts := []mount{
		{"none", "/", "", unix.MS_REC | unix.MS_PRIVATE, ""},
		{"tmpfs", dir, "tmpfs", 0, "mode=755"},
		{"overlay", o.system(), "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", o.Slurm, dir,
			dir)},
		{"proc", "/proc", "proc", 0, ""},
		{"proc", o.system() + "/proc", "proc", 0, ""},
		{"/dev", o.system() + "/dev", "", unix.MS_BIND | unix.MS_REC, ""},
		{"/sys", o.system() + "/sys", "", unix.MS_BIND | unix.MS_REC, ""},
		{o.Output, o.system() + "/var/log/slurm", "", unix.MS_BIND, ""},
	}
	c, err := adapt(filepath.Join(o.Cluster, "slurm.conf"))
	if err != nil {
		return err
	}
	users, err := os.ReadFile(filepath.Join(o.Cluster, "users.sim"))
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mounting %s on %s: %w", m.source, m.target, err)
		}
		switch m.kind {
		case "tmpfs":
			for _, sub := range []string{"upper", "work", "system"} {
				if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
					return err
				}
			}
		case "overlay":
			if err := c.write(o.system(), o.Cluster, string(users)); err != nil {
				return err
			}
			if err := copyProgram(o.system() + interpreter); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyProgram(path string) error {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	return os.WriteFile(path, program, 0o755)
}

// worker runs the daemons and submits the jobs.
type worker struct {
	options
	ended chan error // gets an error if a daemon ends too early
}

// patience is how long a daemon may take to start on a busy machine.
const patience = 2 * time.Minute

func workerStage(text string) error {
	w := worker{ended: make(chan error, 1)}
	if err := json.Unmarshal([]byte(text), &w.options); err != nil {
		return err
	}
	jobs, err := readEvents(w.Workload)
	if err != nil {
		return err
	}
	c, err := adapt(filepath.Join(w.Cluster, "slurm.conf"))
	if err != nil {
		return err
	}
	if err := w.startAccounting(c.cluster); err != nil {
		return err
	}
	if err := w.daemon("slurmctld", "/usr/sbin/slurmctld", "-D", "-i"); err != nil {
		return err
	}
	began, err := w.waitForController()
	if err != nil {
		return err
	}
	for _, node := range c.nodes {
		if err := w.daemon("slurmd."+node, "/usr/sbin/slurmd", "-D", "-N", node); err != nil {
			return err
		}
	}
	if err := w.waitForNodes(len(c.nodes), began.Add(w.Offset)); err != nil {
		return err
	}
	load, err := w.play(jobs, began.Add(w.Offset))
	if err != nil {
		return err
	}
	if err := w.writeRecords(began); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.Output, loadFile), []byte(fmt.Sprintf("%.2f\n", load)), 0o644)
}

// daemon starts a daemon in the changed root, with its output in OUT/NAME.out.
func (w *worker) daemon(name string, args ...string) error {
	out, err := os.Create(filepath.Join(w.Output, name+".out"))
	if err != nil {
		return err
	}
	defer out.Close()
	c := w.command(nil, args...)
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		if err := c.Wait(); err != nil {
			w.ended <- fmt.Errorf("%s has ended, see %s.out: %w", name, name, err)
			return
		}
		w.ended <- fmt.Errorf("%s has ended, see %s.out", name, name)
	}()
	return nil
}

// command returns a command in the changed root, for root or for another user.
func (w *worker) command(user *syscall.Credential, args ...string) *exec.Cmd {
	return &exec.Cmd{
		Path: args[0], Args: args, Dir: "/tmp",
		Env:         []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=/tmp"},
		SysProcAttr: &syscall.SysProcAttr{Chroot: w.system(), Credential: user},
	}
}

// output runs a client in the changed root and returns what it prints.
func (w *worker) output(args ...string) (string, error) {
	out, err := w.command(nil, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), withText(err))
	}
	return string(out), nil
}

// withText adds the text that a client printed to the client's error.
func withText(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

// until waits until a condition holds. The error says if a daemon ends meanwhile.
func (w *worker) until(what string, limit time.Duration, holds func() (bool, error)) error {
	for end := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		ok, err := holds()
		if ok {
			return nil
		}
		select {
		case ended := <-w.ended:
			return fmt.Errorf("%s: %w", what, ended)
		default:
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("%s: not within %v", what, limit), err)
		}
	}
}

// startAccounting starts the installed MariaDB and the release's slurmdbd, and makes the accounts.
func (w *worker) startAccounting(cluster string) error {
	// MariaDB names temporary files by its process number, which other runs have as well.
	scratch, data, socket := w.system()+"/tmp", filepath.Join(w.Output, "root", "db"), w.system()+"/run/mysqld/mysqld.sock"
	log, err := os.Create(filepath.Join(w.Output, "mariadb.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	install := exec.Command("mariadb-install-db", "--no-defaults", "--user=root", "--datadir="+data, "--skip-test-db",
		"--auth-root-authentication-method=normal", "--tmpdir="+scratch)
	server := exec.Command("mariadbd", "--no-defaults", "--user=root", "--datadir="+data, "--socket="+socket,
		"--pid-file="+filepath.Join(w.Output, "root", "db.pid"),
		"--tmpdir="+scratch, "--skip-networking", "--skip-grant-tables", "--skip-log-bin", "--innodb-lock-wait-timeout=900",
		"--init-file="+filepath.Join(w.Output, "root", "db.sql"))
	install.Stdout, install.Stderr, server.Stdout, server.Stderr = log, log, log, log
	if err := install.Run(); err != nil {
		return fmt.Errorf("making the database: %w", err)
	}
	if err := os.WriteFile(filepath.Join(w.Output, "root", "db.sql"), []byte("CREATE DATABASE slurm_acct_db;\n"),
		0o600); err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("starting MariaDB: %w", err)
	}
	if err := w.until("waiting for MariaDB", patience, func() (bool, error) { return connects(socket) }); err != nil {
		return err
	}
	if err := w.daemon("slurmdbd", "/usr/sbin/slurmdbd", "-D"); err != nil {
		return err
	}
	err = w.until("waiting for slurmdbd", patience, func() (bool, error) {
		_, err := w.output("/usr/bin/sacctmgr", "-nP", "list", "cluster")
		return err == nil, err
	})
	if err != nil {
		return err
	}
	return w.makeAccounts(cluster)
}

// connects reports whether a server accepts connections on a socket of the file system.
func connects(path string) (bool, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	return err == nil, err
}

// makeAccounts gives the site's commands to sacctmgr. sacctmgr continues after a command that it
// refuses, so its exit status does not count. But afterwards the cluster must have a user.
func (w *worker) makeAccounts(cluster string) error {
	commands, err := os.ReadFile(filepath.Join(w.Cluster, "sacctmgr.script"))
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(w.Output, "sacctmgr.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	c := w.command(nil, "/usr/bin/sacctmgr", "-i")
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(withoutComments(string(commands))), log, log
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("making the accounts: %w", err)
	}
	list, err := w.output("/usr/bin/sacctmgr", "-nP", "list", "associations", "cluster="+cluster, "format=user")
	if err == nil && strings.TrimSpace(list) == "" {
		err = fmt.Errorf("sacctmgr.script made no user of cluster %s", cluster)
	}
	return err
}

// withoutComments removes the comments, which sacctmgr does not understand.
func withoutComments(commands string) string {
	var b strings.Builder
	for line := range strings.Lines(commands) {
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			b.WriteString(text + "\n")
		}
	}
	return b.String()
}

// waitForController waits until slurmctld is the primary controller, and returns that instant from
// slurmctld's log. Its main loop begins then.
func (w *worker) waitForController() (began time.Time, err error) {
	err = w.until("waiting for slurmctld", patience, func() (bool, error) {
		l, err := readLog(filepath.Join(w.Output, controllerLog))
		if err != nil {
			return false, err
		}
		began = l.began
		return !began.IsZero(), nil
	})
	return began, err
}

// waitForNodes waits until all nodes are idle. It fails a second before the deadline, the first
// submission.
func (w *worker) waitForNodes(n int, deadline time.Time) error {
	return w.until("waiting for the nodes", time.Until(deadline)-time.Second, func() (bool, error) {
		text, err := w.output("/usr/bin/sinfo", "-h", "-N", "-o", "%N %t")
		if err != nil {
			return false, err
		}
		idle := map[string]bool{}
		for line := range strings.Lines(text) {
			if f := strings.Fields(line); len(f) == 2 && f[1] == "idle" {
				idle[f[0]] = true
			}
		}
		return len(idle) == n, fmt.Errorf("%d of %d nodes are idle", len(idle), n)
	})
}

// play submits each job at its time. If the previous submission has not been accepted by then, it
// waits. It waits until all jobs have ended. It returns the machine's mean load after the last
// submission.
func (w *worker) play(jobs []job, begin time.Time) (load float64, err error) {
	ids, err := w.userIDs()
	if err != nil {
		return 0, err
	}
	for i, j := range jobs {
		script := fmt.Sprintf("/tmp/job-%d.sh", i)
		if err := os.WriteFile(w.system()+script, []byte(j.script()), 0o755); err != nil {
			return 0, err
		}
		user, known := ids[j.user]
		if !known {
			return 0, fmt.Errorf("user %s of job %s: not in users.sim", j.user, j.name)
		}
		time.Sleep(time.Until(begin.Add(j.at)))
		args := append([]string{"/usr/bin/sbatch", "--parsable", "--output=/dev/null", "--error=/dev/null"}, j.options...)
		if _, err := w.command(&user, append(args, script)...).Output(); err != nil {
			return 0, fmt.Errorf("submitting job %s: %w", j.name, withText(err))
		}
	}
	n := 0
	err = w.until("waiting for the jobs' ends", time.Hour, func() (bool, error) {
		time.Sleep(2 * time.Second)
		now, err := loadAverage()
		if err != nil {
			return false, err
		}
		load, n = load+now, n+1
		l, err := readLog(filepath.Join(w.Output, controllerLog))
		return err == nil && l.ended() == len(jobs), err
	})
	return load / float64(max(n, 1)), err
}

// userIDs returns the users' ids.
func (w *worker) userIDs() (map[string]syscall.Credential, error) {
	text, err := os.ReadFile(w.system() + "/etc/passwd")
	if err != nil {
		return nil, err
	}
	ids := map[string]syscall.Credential{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(line, ":")
		uid, err := strconv.ParseUint(f[2], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", f[0], err)
		}
		gid, err := strconv.ParseUint(f[3], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("user %s: %w", f[0], err)
		}
		ids[f[0]] = syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return ids, nil
}

func loadAverage() (float64, error) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.Fields(string(text))[0], 64)
}

// writeRecords writes sacct's records of the jobs.
func (w *worker) writeRecords(began time.Time) error {
	time.Sleep(3 * time.Second) // slurmctld sends its records to slurmdbd now and then
	text, err := w.output("/usr/bin/sacct", "-a", "-D", "-X", "-P", "-S",
		began.Add(-time.Hour).Format("2006-01-02T15:04:05"),
		"-o", "JobID,JobName,User,Account,Partition,QOS,Submit,Start,End,State,ExitCode,NNodes,NodeList,AllocCPUS,AllocTRES,Timelimit,Priority")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.Output, "sacct.txt"), []byte(text), 0o644)
}
