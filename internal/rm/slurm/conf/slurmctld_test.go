package conf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/realdata"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload/example"
	"rmreplay/internal/workload/generate"
)

// installedSlurm returns the stock daemon of this machine, which Debian calls slurmctld-wlm. The
// error says why there is no daemon of the release.
func installedSlurm(release slurmspec.Release) (slurm, error) {
	found, _ := filepath.Glob("/usr/lib/*/slurm*/select_cons_tres.so")
	for _, path := range []string{"/usr/sbin/slurmctld-wlm", "/usr/sbin/slurmctld", "/usr/local/sbin/slurmctld"} {
		if _, err := os.Stat(path); err != nil || len(found) == 0 {
			continue
		}
		out, err := exec.Command(path, "-V").Output()
		if err != nil {
			return slurm{}, fmt.Errorf("%s -V: %w", path, err)
		}
		is, err := slurmspec.ParseRelease(string(out))
		if err != nil {
			return slurm{}, fmt.Errorf("%s -V: %w", path, err)
		}
		if is.Series() != release {
			return slurm{}, fmt.Errorf("%s is of %v (want %v)", path, is, release)
		}
		return slurm{release, path, filepath.Dir(found[0])}, nil
	}
	return slurm{}, errors.New("no slurmctld is installed (apt-get install slurmctld)")
}

func findNSSWrapper(t *testing.T) string {
	t.Helper()
	for _, pattern := range []string{"/usr/lib/*/libnss_wrapper.so", "/usr/lib64/libnss_wrapper.so"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	t.Skip("SKIPPED: libnss_wrapper is not installed, so no adapted configuration is tried on the real daemon (apt-get install libnss-wrapper)")
	return ""
}

// slurm is a slurmctld that the tests start.
type slurm struct {
	release slurmspec.Release
	// daemon is the program, or a script that starts it, and plugins is the directory of its
	// plugins.
	daemon, plugins string
}

// rootsVariable names a directory with the root of an unpacked Debian system for each release of
// Slurm: ROOTS/24.11, ROOTS/26.05.
const rootsVariable = "RMREPLAY_SLURM_ROOTS"

// slurms returns the slurmctld of 24.11 and 26.05 below rootsVariable, and the installed slurmctld
// if its release is 22.05.
func slurms(t *testing.T) []slurm {
	t.Helper()
	var found []slurm
	roots := os.Getenv(rootsVariable)
	for _, release := range []slurmspec.Release{slurmspec.R2205, slurmspec.R2411, slurmspec.R2605} {
		var one slurm
		var err error
		switch {
		case testing.Short():
			err = errors.New("-short")
		case release == slurmspec.R2205: // a root older than this machine cannot load its nss_wrapper
			one, err = installedSlurm(release)
		case roots == "":
			err = fmt.Errorf("%s names no directory of releases", rootsVariable)
		default:
			if _, err = os.Lstat(filepath.Join(roots, release.String())); err == nil {
				one = unpacked(t, roots, release)
			}
		}
		if err == nil {
			found = append(found, one)
			continue
		}
		t.Run(release.String(), func(t *testing.T) { // make test lists skipped tests, but not the logs of passed tests
			t.Skipf("SKIPPED: adapted configurations are not tried on Slurm %s: %v", release, err)
		})
	}
	return found
}

// unpacked returns the slurmctld of an unpacked root. A script starts it with the root's own
// loader and libraries.
func unpacked(t *testing.T, roots string, release slurmspec.Release) slurm {
	t.Helper()
	root, err := filepath.Abs(filepath.Join(roots, release.String()))
	if err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(root, "usr/lib/*/slurm-wlm/select_cons_tres.so"))
	if len(found) != 1 {
		t.Fatalf("%s=%s: %s has no Slurm", rootsVariable, roots, root)
	}
	plugins := filepath.Dir(found[0])
	libraries := filepath.Dir(plugins)
	loaders, _ := filepath.Glob(filepath.Join(libraries, "ld-linux-*.so.*"))
	if len(loaders) != 1 {
		t.Fatalf("%s has no dynamic loader", libraries)
	}
	script := filepath.Join(t.TempDir(), "slurmctld")
	text := fmt.Sprintf("#!/bin/sh\nexec '%s' --inhibit-cache --library-path '%s:%s' --argv0 \"$0\" '%s' \"$@\"\n",
		loaders[0], libraries, plugins, filepath.Join(root, "usr/sbin/slurmctld-wlm"))
	writeFile(t, script, text)
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	return slurm{release, script, plugins}
}

// TestSlurmctldAccepts starts the stock slurmctld of each release on each adapted configuration.
// slurmctld must come up without a complaint in its log. 22.05 has no option that only checks a
// configuration.
func TestSlurmctldAccepts(t *testing.T) {
	wrapper := findNSSWrapper(t)
	var dirs []string
	for _, site := range append(sites, "new", "block") {
		dirs = append(dirs, filepath.Join("testdata", site))
	}
	for _, name := range []string{"micro", "medium"} {
		dir, ok := realdata.Find(t, "slurm", name)
		if !ok {
			t.Logf("SKIPPED: not tested with a real cluster: there is no %s", dir)
			continue
		}
		dirs = append(dirs, dir)
	}
	dirs = append(dirs, generatedCluster(t), exampleCluster(t))
	clusters := map[string]*Cluster{"full x0.5": scaleSite(t, "full", 0.5), "gpu x2": scaleSite(t, "gpu", 2)}
	for _, dir := range dirs {
		clusters[filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir)] = mustOpen(t, dir)
	}
	for _, m := range manner {
		clusters["manner/"+m.name] = openManner(t, m.name)
	}
	for i, s := range slurms(t) {
		for j, name := range slices.Sorted(maps.Keys(clusters)) {
			if strings.HasSuffix(name, "/block") && !s.release.Since(slurmspec.R2311) {
				continue // 22.05 has no topology/block: see TestRefusedByRelease
			}
			t.Run(s.release.String()+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctl := &controller{slurm: s, wrapper: wrapper, address: netip.AddrFrom4([4]byte{127, byte(3 + i), byte(os.Getpid()), byte(1 + j)})}
				ctl.start(t, clusters[name])
				for line := range strings.Lines(ctl.waitUp(t)) {
					if complaint(line) {
						t.Errorf("slurmctld says: %s", strings.TrimSpace(line))
					}
				}
				ctl.checkLoopback(t)
			})
		}
	}
}

// exampleCluster writes the cluster directory of the bundled example.
func exampleCluster(t *testing.T) string {
	t.Helper()
	_, files := example.Example(1)
	return writeSite(t, "example", files)
}

// generatedCluster writes the cluster directory of the generated days of 7,139 nodes.
func generatedCluster(t *testing.T) string {
	t.Helper()
	site, err := generate.Daint(generate.DaintOptions{GPULoad: generate.DefaultGPULoad, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return writeSite(t, "daint", site.Files)
}

// writeSite writes the files of a cluster directory.
func writeSite(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name, "cluster")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		writeFile(t, filepath.Join(dir, name), text)
	}
	return dir
}

// complaint reports whether a line of slurmctld's log is an error or a warning about the
// configuration.
func complaint(line string) bool {
	if !strings.Contains(line, "error:") && !strings.Contains(line, "fatal:") {
		return false
	}
	for _, harmless := range []string{
		// Open has warned of the odd statements in the test's own sites.
		"Invalid hostnames in switch configuration", "_find_node_record: lookup failure",
		"Invalid GRES configured on node",
		// The test runs without slurmdbd. Adapt has warned of the effects.
		"can only be used with SlurmDBD", "We have no QOS on the system",
		// The test's own site sets the key that causes this message.
		"enabled experimental rpc queuing system",
		// At a first start there are no state files.
		"Could not open", "Trying backup state save file", "Trying backup partition state save file", "No last decay", "No Assoc usage file",
		// These are about the machine, not about the configuration.
		"High latency for 1000 calls to gettimeofday", "mpi/pmix", "Unable to open /proc",
	} {
		if strings.Contains(line, harmless) {
			return false
		}
	}
	return true
}

// controller is one run of slurmctld.
type controller struct {
	slurm
	wrapper string
	address netip.Addr
	port    int
	log     string
	output  bytes.Buffer
	exited  chan error
	added   string // lines after the adapted slurm.conf
}

func (ctl *controller) start(t *testing.T, c *Cluster) {
	t.Helper()
	dir := t.TempDir()
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", ctl.address.String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	ctl.port = listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	ctl.log = filepath.Join(dir, "slurmctld.log")
	ad, err := Adapt(c, ctl.release, Environment{
		StateDir: dir, LogDir: dir, DaemonUser: "replayer", Hostname: hostname, ControlAddress: ctl.address,
		ControlPort: uint16(ctl.port), NodePort: uint16(ctl.port) ^ 1, NodeAddress: LoopbackAddresses(10),
		PluginDir: ctl.plugins, WithoutAccounting: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	ad.Files[slurmConf] = append(ad.Files[slurmConf], ctl.added...)
	if err := ad.Write(dir); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "passwd"), fmt.Sprintf("replayer:x:%d:%d::/:/bin/sh\n", os.Getuid(), os.Getgid()))
	writeFile(t, filepath.Join(dir, "group"), fmt.Sprintf("replayer:x:%d:\nusers:x:100:\n", os.Getgid()))
	name := filepath.Join(dir, "slurmctld") // the daemon checks its own name
	if err := os.Symlink(ctl.daemon, name); err != nil {
		t.Fatal(err)
	}
	ctl.run(t, name, dir)
}

// run starts the daemon so that it ends with this test, even if the test is killed. The kernel
// sends the death signal when the thread that forked ends. So a goroutine keeps that thread until
// the daemon has ended.
func (ctl *controller) run(t *testing.T, name, dir string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	log, err := os.Create(ctl.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	started := make(chan error, 1)
	ctl.exited = make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := exec.CommandContext(ctx, name, "-D", "-c", "-f", filepath.Join(dir, "slurm.conf"))
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "SLURM_CONF="+filepath.Join(dir, "slurm.conf"), "LD_PRELOAD="+ctl.wrapper,
			"NSS_WRAPPER_PASSWD="+filepath.Join(dir, "passwd"), "NSS_WRAPPER_GROUP="+filepath.Join(dir, "group"),
			"NSS_WRAPPER_HOSTS="+filepath.Join(dir, "hosts"))
		cmd.Stdout, cmd.Stderr = log, &ctl.output
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = 5 * time.Second
		err := cmd.Start()
		started <- err
		if err == nil {
			ctl.exited <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		<-ctl.exited
	})
}

// wait waits until slurmctld is ready or has ended. It returns the log, and whether slurmctld is
// ready.
func (ctl *controller) wait(t *testing.T) (log []byte, up bool) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ctl.exited:
			ctl.exited <- err
			log, _ = os.ReadFile(ctl.log)
			return fmt.Appendf(log, "%s%v\n", ctl.output.Bytes(), err), false
		case <-deadline:
			log, _ = os.ReadFile(ctl.log)
			t.Fatalf("slurmctld is neither up nor down after 60 s:\n%s", log)
		case <-tick.C:
		}
		if log, _ = os.ReadFile(ctl.log); bytes.Contains(log, []byte("Running as primary controller")) {
			return log, true
		}
	}
}

// ends reports whether a slurmctld that is up ends within a few seconds.
func (ctl *controller) ends(t *testing.T) bool {
	t.Helper()
	select {
	case err := <-ctl.exited:
		ctl.exited <- err
		return true
	case <-time.After(10 * time.Second):
		return false
	}
}

// waitUp waits until slurmctld is ready and has scheduled once, and returns the log.
func (ctl *controller) waitUp(t *testing.T) string {
	t.Helper()
	if log, up := ctl.wait(t); !up {
		t.Fatalf("slurmctld ended:\n%s", log)
	}
	time.Sleep(700 * time.Millisecond) // background threads start and may log complaints
	log, err := os.ReadFile(ctl.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(log)
}

// checkLoopback checks that slurmctld listens at its own address only.
func (ctl *controller) checkLoopback(t *testing.T) {
	t.Helper()
	dial := func(host string) error {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", host, ctl.port), time.Second)
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := dial(ctl.address.String()); err != nil {
		t.Errorf("slurmctld does not listen at its address: %v", err)
	}
	if dial("127.0.0.1") == nil {
		t.Errorf("slurmctld listens at 127.0.0.1 as well as at %v: it is not bound to one address", ctl.address)
	}
}

// refusedLines are lines with which slurmctld does not start in any release. The test adds each to
// a configuration with which slurmctld starts.
var refusedLines = []string{
	"EnforcePartLimits=MAYBE", "FirstJobId=0", "Licenses=a:3@server", "MaxDBDMsgs=9999", "MaxJobCount=0",
	"PreemptExemptTime=never", "PreemptType=preempt/qos\nPreemptMode=CANCEL,REQUEUE", "PriorityCalcPeriod=0",
	"PriorityDecayHalfLife=weekly", "PriorityUsageResetPeriod=14-0", "SchedulerParameters=max_script_size=536870913",
	"SchedulerParameters=max_job_bf=3", "PrologFlags=Nothing", "AccountingStorageEnforce=jobs",
	"FirstJobId=10\nMaxJobId=9", "GresTypes=mps", "MCSParameters=ondemand", "MCSPlugin=mcs/group", "PreemptType=preempt/qos",
	"PreemptMode=REQUEUE", "PreemptType=preempt/qos\nPreemptMode=SUSPEND", "PriorityDecayHalfLife=0",
	"SelectTypeParameters=CR_Core,CR_Memory", "SelectTypeParameters=CR_LLN", "SelectTypeParameters=CR_CPU,CR_ONE_TASK_PER_CORE",
	"PartitionName=x Nodes=ALL MaxTime=7days", "PartitionName=x Nodes=ALL DefaultTime=NONE", "PartitionName=x Nodes=ALL OverSubscribe=MAYBE",
	"PartitionName=x Nodes=ALL SelectTypeParameters=CR_CPU", "PartitionName=x Nodes=ALL State=IDLE",
	"PartitionName=x Nodes=ALL TRESBillingWeights=CPU:1.0", "PartitionName=x Nodes=ALL TRESBillingWeights=CPU=",
	"PriorityWeightTRES=cpu=abc\nPriorityType=priority/multifactor", "PropagateResourceLimits=SOME", "PropagateResourceLimits=all",
	"PropagateResourceLimits=cpu", "PropagateResourceLimits=none", "PropagateResourceLimitsExcept=LOCKS", "PropagateResourceLimits=CPU:NOFILE",
}

// TestSlurmctldRefuses: Adapt and the stock slurmctld of each release refuse the same lines.
func TestSlurmctldRefuses(t *testing.T) {
	wrapper := findNSSWrapper(t)
	const site = "ClusterName=c\nSelectType=select/cons_tres\nNodeName=n[1-2] CPUs=4\nPartitionName=p Nodes=ALL\n"
	for i, s := range slurms(t) {
		for j, line := range refusedLines {
			t.Run(fmt.Sprintf("%v/%s", s.release, line), func(t *testing.T) {
				t.Parallel()
				c, err := openText(t, site+line+"\n")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := Adapt(c, s.release, testEnvironment()); err == nil && !strings.Contains(line, "max_job_bf") { // Adapt translates it
					t.Error("Adapt accepts it")
				}
				good, err := openText(t, site)
				if err != nil {
					t.Fatal(err)
				}
				ctl := &controller{slurm: s, wrapper: wrapper, added: line + "\n", address: netip.AddrFrom4([4]byte{127, byte(6 + i), byte(os.Getpid()), byte(1 + j)})}
				ctl.start(t, good)
				if log, up := ctl.wait(t); up && !ctl.ends(t) { // its threads may refuse more
					t.Errorf("slurmctld accepts it:\n%s", log)
				}
			})
		}
	}
}
