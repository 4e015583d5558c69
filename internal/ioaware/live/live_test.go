package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/ioaware/driver"
	"rmreplay/internal/rm/slurm/slurmtest"
)

// driverVariable is an environment variable with the path of a lease. If it is set, the test
// program runs as a driver with this lease.
const driverVariable = "RMREPLAY_TEST_LEASE"

func TestMain(m *testing.M) {
	lease := os.Getenv(driverVariable)
	if lease == "" {
		os.Exit(m.Run())
	}
	if err := drive(lease); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func now() hpc.Time { return hpc.Time(time.Now().UnixNano()) }

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// drive takes the lease at path and plays rounds until the process is killed.
func drive(path string) error {
	lease, err := Take(path)
	if err != nil {
		return err
	}
	c := New(Config{Partitions: []string{"batch"}, FileSystem: "lustre", Run: Exec, Now: now, Say: say})
	d := &driver.Driver{Options: ioaware.Options{Strategy: ioaware.Aware}, Patience: 10 * time.Second}
	ctx, stop := context.WithCancelCause(context.Background())
	c.Loop(ctx, d, 0, func(round driver.Round, err error) {
		if err != nil || round.Failed != nil {
			say("%v %v", err, round.Failed)
		}
		if err := lease.Touch(); err != nil {
			stop(err)
		}
	})
	return context.Cause(ctx)
}

// site is a live Slurm with nine nodes for the driver, and one node in another partition.
type site struct {
	*slurmtest.Site
	t *testing.T
}

const siteNodes = 10

func startSite(t *testing.T, release string) *site {
	t.Helper()
	lua, err := os.ReadFile("../../ioservice/site/hold.lua")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, Site: slurmtest.Start(t, release, slurmtest.Options{Nodes: siteNodes, Files: map[string]string{"job_submit.lua": string(lua)}, Lines: `
JobSubmitPlugins=lua
SchedulerType=sched/builtin
SchedulerParameters=defer,batch_sched_delay=0,sched_interval=5
Licenses=lustre:10000
PartitionName=batch Nodes=n[1-9] Default=YES OverSubscribe=EXCLUSIVE MaxTime=60
PartitionName=other Nodes=n10 OverSubscribe=EXCLUSIVE MaxTime=60
`})}
	runs := filepath.Join(s.Dir, "runs")
	if err := errors.Join(os.WriteFile(runs, nil, 0o666), os.Chmod(runs, 0o666)); err != nil { // all users' jobs write it
		t.Fatal(err)
	}
	return s
}

// submit submits a job that writes its ID to the file of runs and then sleeps. It returns the job's
// ID.
func (s *site) submit(seconds string, args ...string) string {
	s.t.Helper()
	return s.Submit("echo $SLURM_JOB_ID >> "+s.Dir+"/runs\nsleep "+seconds, append([]string{"--time=1"}, args...)...)
}

// runs returns the IDs of the jobs that have started, sorted. A job that started twice is listed
// twice.
func (s *site) runs() []string {
	text, err := os.ReadFile(filepath.Join(s.Dir, "runs"))
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return slices.Sorted(strings.FieldsSeq(string(text)))
}

func (s *site) queue() []string {
	out, err := Exec(s.t.Context(), "squeue", "-h", "-o", "%i")
	if err != nil {
		s.t.Fatal(err)
	}
	return slices.Sorted(strings.FieldsSeq(string(out)))
}

// field returns a field of what scontrol shows of a job.
func (s *site) field(job, name string) string {
	out, err := Exec(s.t.Context(), "scontrol", "-o", "show", "job", job)
	if err != nil {
		s.t.Fatal(err)
	}
	return fields(string(out))[name]
}

// TestKilledDriver runs jobs on a live Slurm with a driver that is killed again and again. Every
// job must run once, and the jobs that others hold must stay held.
func TestKilledDriver(t *testing.T) {
	for _, release := range []string{"", "24.11", "26.05"} {
		t.Run("Slurm "+release, func(t *testing.T) {
			if release == "" && os.Getenv("RMREPLAY_LONG_TESTS") != "" {
				killDriver(t, release, 200, 5)
			} else {
				killDriver(t, release, 20, 2)
			}
		})
	}
}

func killDriver(t *testing.T, release string, jobs, kills int) {
	s := startSite(t, release)
	s.Patience += time.Duration(jobs) * 3 * time.Second
	c := New(Config{Partitions: []string{"batch"}, FileSystem: "lustre", Run: Exec, Now: now, Say: t.Logf})
	if err := c.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	users := s.submit("1", "--hold")
	admins := s.submit("1")
	other := s.submit("1", "--partition=other")
	if _, err := Exec(t.Context(), "scontrol", "update", "JobId="+admins, "AdminComment=mine", "Priority=0"); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range jobs {
		args := []string{"--nodes=" + strconv.Itoa(1+i%3)}
		if i%2 == 0 {
			args = append(args, "--licenses=lustre:4000")
		}
		want = append(want, s.submit("1", args...))
	}
	first := want[0]
	if mark, reason := s.field(first, "AdminComment"), s.field(first, "Reason"); mark != "rmreplay-io=submitted;" || reason != "JobHeldUser" {
		t.Errorf("job_submit.lua: admin comment %s, reason %s", mark, reason)
	}
	after := s.submit("1", "--dependency=afterok:"+first)
	want = append(want, after, other)
	array := s.submit("1", "--array=1-3")
	given := s.submit("1", "--nodes=9")
	// The driver turns the holds by job_submit.lua into its own.
	round, err := c.Round(t.Context(), &driver.Driver{Options: ioaware.Options{Strategy: ioaware.Aware}, Patience: time.Hour})
	if err != nil || round.Failed != nil || len(round.Released) == 0 {
		t.Errorf("a round released %q, %v, %v", round.Released, err, round.Failed)
	}
	if last := want[jobs-1]; s.field(last, "AdminComment") != "rmreplay-io=held;" || s.field(last, "Reason") != "JobHeldAdmin" {
		t.Errorf("after a round: job %s has the mark %s, and waits for %s", last, s.field(last, "AdminComment"), s.field(last, "Reason"))
	}
	if _, err := Exec(t.Context(), "scontrol", "uhold", given); err != nil {
		t.Fatal(err)
	}
	t.Setenv(driverVariable, filepath.Join(s.Dir, "lease"))
	for kill := range kills {
		d := s.Start(os.Args[0])
		goal := len(s.runs()) + 2
		s.Until("the driver works and jobs run", func() bool {
			dead, err := Dead(filepath.Join(s.Dir, "lease"), time.Hour)
			return err == nil && !dead && (len(s.runs()) >= goal || len(s.runs()) >= jobs+5)
		})
		if err := d.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = d.Wait()
		if dead, err := Dead(filepath.Join(s.Dir, "lease"), time.Hour); err != nil || dead {
			t.Errorf("after kill %d the lease is dead %t, %v, within an hour", kill, dead, err)
		}
	}
	d := s.Start(os.Args[0])
	left := slices.Sorted(slices.Values([]string{users, admins, given}))
	s.Until("all jobs have ended", func() bool { return slices.Equal(s.queue(), left) })
	if err := d.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.Wait()
	runs := s.runs()
	if len(runs) != len(want)+3 {
		t.Errorf("%d runs of %d jobs", len(runs), len(want)+3)
	}
	for _, job := range want {
		if n := len(slices.DeleteFunc(slices.Clone(runs), func(r string) bool { return r != job })); n != 1 {
			t.Errorf("job %s ran %d times", job, n)
		}
	}
	if len(slices.Compact(slices.Clone(runs))) != len(runs) {
		t.Errorf("jobs ran twice: %q (array %s)", runs, array)
	}
	// The watchdog releases only the jobs that the driver held.
	late := s.submit("1")
	n, err := c.ReleaseAll(t.Context())
	if n != 1 || err != nil {
		t.Errorf("the watchdog released %d jobs, %v, want 1", n, err)
	}
	s.Until("the released job has ended", func() bool { return slices.Equal(s.queue(), left) })
	if !slices.Contains(s.runs(), late) {
		t.Errorf("job %s did not run", late)
	}
	if u, a, g := s.field(users, "Reason"), s.field(admins, "Reason"), s.field(given, "Reason"); u != "JobHeldUser" || a != "JobHeldAdmin" || g != "JobHeldUser" {
		t.Errorf("the held jobs wait for %s, %s and %s", u, a, g)
	}
}
