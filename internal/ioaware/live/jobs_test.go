package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/ioaware/driver"
	"rmreplay/internal/ioservice"
)

// squeues has, for an older and a newer release of Slurm, what squeue prints of the same jobs.
var squeues = map[string]string{
	"22.05": `{"errors": [], "jobs": [
 {"job_id": 7, "array_job_id": 0, "array_task_id": null, "array_task_string": "", "partition": "batch", "job_state": "PENDING", "state_reason": "JobHeldAdmin", "priority": 0, "user_id": 1000,
  "admin_comment": "rmreplay-io=held;", "comment": "jobtype=ior;mine", "dependency": "", "resv_name": null, "licenses": "lustre:5", "node_count": 2, "time_limit": 60, "submit_time": 100, "eligible_time": 100, "end_time": 0},
 {"job_id": 9, "array_job_id": 9, "array_task_id": null, "array_task_string": "1-3%2", "partition": "batch", "job_state": "PENDING", "state_reason": "JobHeldAdmin", "priority": 0, "user_id": 1000,
  "admin_comment": "rmreplay-io=held;", "comment": "", "dependency": "", "resv_name": "", "licenses": "", "node_count": 1, "time_limit": 4294967295, "submit_time": 90, "eligible_time": 90, "end_time": 0},
 {"job_id": 10, "array_job_id": 9, "array_task_id": 0, "array_task_string": "", "partition": "batch", "job_state": "RUNNING", "state_reason": "None", "priority": 5, "user_id": 1000,
  "admin_comment": "rmreplay-io=released;", "comment": "", "dependency": "", "resv_name": "", "licenses": "", "node_count": 1, "time_limit": 10, "submit_time": 90, "eligible_time": 90, "end_time": 700}]}`,
	"24.11": `{"jobs": [
 {"job_id": 7, "array_job_id": {"set":true,"infinite":false,"number":0}, "array_task_id": {"set":false,"infinite":false,"number":0}, "array_task_string": "", "partition": "batch", "job_state": ["PENDING"], "state_reason": "JobHeldAdmin", "priority": {"set":true,"infinite":false,"number":0}, "user_id": 1000,
  "admin_comment": "rmreplay-io=held;", "comment": "jobtype=ior;mine", "dependency": "", "resv_name": "", "licenses": "lustre:5", "node_count": {"set":true,"infinite":false,"number":2}, "time_limit": {"set":true,"infinite":false,"number":60}, "submit_time": {"set":true,"infinite":false,"number":100}, "eligible_time": {"set":true,"infinite":false,"number":100}, "end_time": {"set":true,"infinite":false,"number":0}},
 {"job_id": 9, "array_job_id": {"set":true,"infinite":false,"number":9}, "array_task_id": {"set":false,"infinite":false,"number":0}, "array_task_string": "1-3%2", "partition": "batch", "job_state": ["PENDING"], "state_reason": "JobHeldAdmin", "priority": {"set":true,"infinite":false,"number":0}, "user_id": 1000,
  "admin_comment": "rmreplay-io=held;", "comment": "", "dependency": "", "resv_name": "", "licenses": "", "node_count": {"set":true,"infinite":false,"number":1}, "time_limit": {"set":false,"infinite":true,"number":0}, "submit_time": {"set":true,"infinite":false,"number":90}, "eligible_time": {"set":true,"infinite":false,"number":90}, "end_time": {"set":true,"infinite":false,"number":0}},
 {"job_id": 10, "array_job_id": {"set":true,"infinite":false,"number":9}, "array_task_id": {"set":true,"infinite":false,"number":0}, "array_task_string": "", "partition": "batch", "job_state": ["RUNNING"], "state_reason": "None", "priority": {"set":true,"infinite":false,"number":5}, "user_id": 1000,
  "admin_comment": "rmreplay-io=released;", "comment": "", "dependency": "", "resv_name": "", "licenses": "", "node_count": {"set":true,"infinite":false,"number":1}, "time_limit": {"set":true,"infinite":false,"number":10}, "submit_time": {"set":true,"infinite":false,"number":90}, "eligible_time": {"set":true,"infinite":false,"number":90}, "end_time": {"set":true,"infinite":false,"number":700}}], "errors": []}`,
}

// slurm answers Slurm's commands with given texts, and notes the commands that change something.
type slurm struct {
	jobs, sinfo, licenses, sdiag string
	reservations                 string // empty: Slurm prints that there are none
	changes                      []string
	refuses                      string
}

func (s *slurm) run(_ context.Context, name string, args ...string) ([]byte, error) {
	line := name + " " + strings.Join(args, " ")
	switch {
	case s.refuses != "" && strings.Contains(line, s.refuses):
		return nil, errors.New("refused")
	case name == "squeue":
		return []byte(s.jobs), nil
	case name == "sdiag":
		return []byte(s.sdiag), nil
	case name == "sinfo":
		return []byte(s.sinfo), nil
	case strings.Contains(line, "show licenses"):
		return []byte(s.licenses), nil
	case strings.Contains(line, "show reservation"):
		return []byte(cmp.Or(s.reservations, "No reservations in the system\n")), nil
	}
	s.changes = append(s.changes, strings.TrimPrefix(line, "scontrol "))
	return nil, nil
}

func (s *slurm) cluster(change ...func(*Config)) *Cluster {
	c := Config{Partitions: []string{"batch"}, FileSystem: "lustre", Run: s.run, Now: func() hpc.Time { return hpc.Unix(500) }, Say: func(string, ...any) {}}
	for _, f := range change {
		f(&c)
	}
	return New(c)
}

const licenseLine = "LicenseName=lustre Total=10 Used=0 Free=10 Reserved=0 Remote=no\n"

// TestRound plays a round with the output of an older and of a newer release.
func TestRound(t *testing.T) {
	for release, text := range squeues {
		s := &slurm{jobs: text, sinfo: "n1 idle batch\nn1 idle long\nn2 allocated batch\nn3 down* batch\nn4 drained batch\nn5 mixed batch\n", licenses: licenseLine}
		round, err := s.cluster().Round(t.Context(), &driver.Driver{Options: ioaware.Options{Strategy: ioaware.Aware}})
		// Three nodes are in service, and one of these is in use. The array was submitted first,
		// and its tasks have no time limit.
		if err != nil || strings.Join(round.Released, " ") != "9_1 9_2" {
			t.Errorf("%s: released %q, %v", release, round.Released, err)
		}
		want := []string{"release 9_1", "update JobId=9_1 AdminComment=rmreplay-io=released;", "release 9_2", "update JobId=9_2 AdminComment=rmreplay-io=released;"}
		if diff := gocmp.Diff(want, s.changes); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", release, diff)
		}
	}
}

// TestWhose: the driver changes only jobs that it may start. It leaves jobs that others hold, that
// wait for something else, or that are in another partition.
func TestWhose(t *testing.T) {
	for _, c := range []struct{ what, members, want string }{
		{"new", `"priority": 7`, "update JobId=1 Priority=0 AdminComment=rmreplay-io=held;|release 1|update JobId=1 AdminComment=rmreplay-io=released;"},
		{"submitted by the script", `"priority": 0, "state_reason": "JobHeldUser", "admin_comment": "rmreplay-io=submitted;x"`, "update JobId=1 Priority=0 AdminComment=rmreplay-io=held;x|release 1|update JobId=1 AdminComment=rmreplay-io=released;x"},
		{"held by the driver", `"priority": 0, "state_reason": "JobHeldAdmin", "admin_comment": "rmreplay-io=held;"`, "release 1|update JobId=1 AdminComment=rmreplay-io=released;"},
		{"held by its user", `"priority": 0, "state_reason": "JobHeldUser"`, ""},
		{"held by an administrator", `"priority": 0, "state_reason": "JobHeldAdmin", "admin_comment": "why"`, ""},
		{"held by an administrator after its release", `"priority": 0, "state_reason": "JobHeldAdmin", "admin_comment": "rmreplay-io=released;"`, ""},
		{"given to its user", `"priority": 0, "state_reason": "JobHeldUser", "admin_comment": "rmreplay-io=held;"`, ""},
		{"released and not marked", `"priority": 7, "admin_comment": "rmreplay-io=held;"`, "update JobId=1 AdminComment=rmreplay-io=released;"},
		{"dependent", `"priority": 7, "dependency": "afterok:5"`, ""},
		{"for later", `"priority": 7, "eligible_time": 9999`, ""},
		{"in a reservation", `"priority": 7, "resv_name": "maint"`, ""},
		{"of another partition", `"priority": 7, "partition": "other"`, ""},
		{"running", `"priority": 7, "job_state": "RUNNING"`, ""},
		{"ended", `"priority": 7, "job_state": "COMPLETED"`, ""},
	} {
		s := &slurm{sinfo: "n1 idle batch\n", licenses: licenseLine}
		partition := `"partition": "batch",`
		if strings.Contains(c.members, "partition") {
			partition = ""
		}
		state := `"job_state": "PENDING",`
		if strings.Contains(c.members, "job_state") {
			state = ""
		}
		s.jobs = `{"jobs": [{"job_id": 1, ` + partition + state + `"user_id": 1000, "node_count": 1, "time_limit": 10, ` + c.members + `}]}`
		if _, err := s.cluster().Round(t.Context(), &driver.Driver{Options: ioaware.Options{Strategy: ioaware.Aware}, Patience: time.Minute}); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if got := strings.Join(s.changes, "|"); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
		s.changes = nil
		if _, err := s.cluster(func(c *Config) { c.DryRun = true }).Round(t.Context(), &driver.Driver{}); err != nil || len(s.changes) > 0 {
			t.Errorf("%s: a dry run changes %q, %v", c.what, s.changes, err)
		}
	}
}

func TestReadJobsRefuses(t *testing.T) {
	for _, bad := range []string{"", "squeue: error", "{}", `{"jobs": 5}`, `{"jobs": [{"job_id": "x"}]}`, `{"jobs": [{"job_id": [1]}]}`, `{"jobs": [], "errors": [{"error": "no"}]}`, `{"jobs": [{"job_state": 5}]}`} {
		if jobs, err := readJobs([]byte(bad)); err == nil {
			t.Errorf("%q: %+v, no error", bad, jobs)
		}
	}
}

func FuzzReadJobs(f *testing.F) {
	for _, text := range squeues {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		jobs, err := readJobs(text)
		if err != nil {
			return
		}
		for i := range jobs {
			_, _, _ = jobs[i].name(), jobs[i].names(), jobs[i].waitsForOthers(0)
		}
	})
}

func TestMarks(t *testing.T) {
	for comment, want := range map[string]string{"": "", "rmreplay-io=held;": "held", "mine rmreplay-io=released;x": "released", "rmreplay-io=held": "", "rmreplay": ""} {
		if got := markOf(comment); got != want {
			t.Errorf("%q: %q, want %q", comment, got, want)
		}
	}
	if got := marked(marked("mine", markHeld), markReleased); got != "rmreplay-io=released;mine" {
		t.Error(got)
	}
}

// TestCheck: a configuration with which the driver cannot work is refused. The error has the lines
// that slurm.conf needs.
func TestCheck(t *testing.T) {
	good := "SchedulerType           = sched/builtin\nSchedulerParameters     = defer,batch_sched_delay=0,sched_interval=5\nSelectType              = select/cons_tres\n"
	partition := "PartitionName=batch OverSubscribe=EXCLUSIVE Nodes=n[1-3]\nPartitionName=other OverSubscribe=NO Nodes=n4\n"
	for _, c := range []struct{ config, partitions, want string }{
		{good, partition, ""},
		{strings.Replace(good, "builtin", "backfill", 1), partition, ""},
		{strings.Replace(good, "defer,batch_sched_delay=0,sched_interval=5", "(null)", 1), partition, "SchedulerParameters=batch_sched_delay=0,sched_interval=5"},
		{strings.Replace(good, "batch_sched_delay=0", "batch_sched_delay=3,bf_interval=30", 1), partition, "SchedulerParameters=defer,bf_interval=30,sched_interval=5,batch_sched_delay=0"},
		{strings.Replace(good, "sched/builtin", "sched/hold", 1), partition, "and a restart of slurmctld):\n  SchedulerType=sched/builtin"},
		{good, strings.Replace(partition, "EXCLUSIVE", "NO", 1), "want OverSubscribe=EXCLUSIVE"},
		{good, strings.Replace(partition, "OverSubscribe=EXCLUSIVE", "Exclusive=NODE OverSubscribe=NO", 1), ""}, // 26.05
		{good, strings.Replace(partition, "OverSubscribe=EXCLUSIVE", "Exclusive=USER OverSubscribe=NO", 1), "want OverSubscribe=EXCLUSIVE"},
		{good, strings.Replace(partition, "n4", "n[3-4]", 1), "partition batch of the driver shares nodes with other"},
		{good, strings.Replace(partition, "=batch", "=long", 1), "partition batch does not exist (want one of long, other)"},
		{strings.Replace(good, "cons_tres", "linear", 1), strings.Replace(partition, "EXCLUSIVE", "NO", 1), ""},
	} {
		cluster := New(Config{Partitions: []string{"batch"}, Run: func(_ context.Context, _ string, args ...string) ([]byte, error) {
			if slices.Contains(args, "config") {
				return []byte(c.config), nil
			}
			return []byte(c.partitions), nil
		}})
		err := cluster.Check(t.Context())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s%s: %v, want %q", c.config, c.partitions, err, c.want)
		}
	}
}

// TestService asks a service, first with good answers and then with garbage.
func TestService(t *testing.T) {
	answers := map[string]string{
		"usage": `{"req_id":"1","status":"OK","response":{"lustre":"2034"}}`, "job_utilization": `{"req_id":"1","status":"OK","response":{"lustre":"500","time_limit":"6"}}`,
	}
	var lock sync.Mutex // for answers
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // no connection is open then
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			request := make([]byte, 4096)
			n, _ := conn.Read(request)
			lock.Lock()
			for kind, answer := range answers {
				if strings.Contains(string(request[:n]), `"`+kind+`"`) {
					_, _ = fmt.Fprintln(conn, answer)
				}
			}
			lock.Unlock()
			_ = conn.Close()
		}
	}()
	s := Service{Address: l.Addr().String()}
	if used, err := s.Used(t.Context()); used != 2034 || err != nil {
		t.Errorf("used %d, %v", used, err)
	}
	if e, err := s.Estimate(t.Context(), "x"); e.Use != 500 || e.RunTime != 6*time.Minute || err != nil {
		t.Errorf("estimate %+v, %v", e, err)
	}
	for _, bad := range []string{"", "garbage", `{"status":"error","error":"no"}`, `{"status":"OK","response":{"lustre":"-1"}}`, `{"status":"OK","response":{"lustre":"many"}}`} {
		lock.Lock()
		answers["usage"] = bad
		lock.Unlock()
		if used, err := s.Used(t.Context()); err == nil {
			t.Errorf("%q: %d, no error", bad, used)
		}
	}
	// Without answers of the service, a round still releases jobs.
	slurm := &slurm{jobs: squeues["22.05"], sinfo: "n1 idle batch\nn2 idle batch\n", licenses: licenseLine}
	if round, err := slurm.cluster(func(c *Config) { c.Forecaster = s }).Round(t.Context(), &driver.Driver{Options: ioaware.Options{Strategy: ioaware.Aware}}); err != nil || len(round.Released) == 0 {
		t.Errorf("without estimates: %+v, %v", round, err)
	}
	for comment, want := range map[string]string{"variety_id=abc;x": "abc", "variety_id=N/A;x": "", "jobtype=ior;": ioservice.NamedClass("ior"), "variety_id=N/A;jobtype=ior;": ioservice.NamedClass("ior"), "x": ""} {
		if got := classOf(comment); got != want {
			t.Errorf("%q: %q, want %q", comment, got, want)
		}
	}
}

func TestLease(t *testing.T) {
	path := t.TempDir() + "/lease"
	if dead, err := Dead(path, time.Hour); !dead || err != nil {
		t.Errorf("no lease: dead %t, %v", dead, err)
	}
	l, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(path); !errors.Is(err, errTaken) {
		t.Errorf("a second driver: %v", err)
	}
	if dead, err := Dead(path, time.Hour); dead || err != nil {
		t.Errorf("living: dead %t, %v", dead, err)
	}
	if dead, err := Dead(path, 0); !dead || err != nil {
		t.Errorf("silent: dead %t, %v", dead, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := Take(path); err != nil || again.Close() != nil {
		t.Errorf("after the first: %v", err)
	}
}
