package health_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/accounting/health"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc/rpctest"
	"rmreplay/internal/slurmspec"
)

var update = flag.Bool("update", false, "write what the stock sdiag prints into testdata")

// controller is a stock slurmctld without nodes, in real time.
type controller struct {
	t     *testing.T
	slurm *rpctest.Slurm
	dir   string
	conf  string
	start func() (stop func())
}

func newController(t *testing.T, slurm *rpctest.Slurm) *controller {
	t.Helper()
	c := &controller{t: t, slurm: slurm, dir: t.TempDir()}
	daemon := slurm.Controller(t, c.dir)
	if err := os.Mkdir(filepath.Join(c.dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	address := rpctest.OwnAddress(t)
	l, err := net.Listen("tcp4", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c.conf = slurm.ControllerConf(t, c.dir, address, port, `MessageTimeout=5
SchedulerParameters=bf_interval=1,batch_sched_delay=0,sched_min_interval=0
NodeName=n1 NodeAddr=127.1.8.1 CPUs=4
PartitionName=p1 Nodes=ALL Default=YES MaxTime=60 State=UP`)
	c.start = func() func() {
		cmd := exec.Command(daemon, "-D", "-f", c.conf)
		cmd.Env = append(os.Environ(), "SLURM_CONF="+c.conf)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		stop := func() {
			once.Do(func() {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				_ = cmd.Wait()
			})
		}
		t.Cleanup(stop)
		c.until("slurmctld answers", func() bool {
			out, err := slurm.RunClient(t, c.conf, c.dir, "", "scontrol", "ping")
			return err == nil && strings.Contains(out, "UP")
		})
		return stop
	}
	return c
}

func (c *controller) until(what string, done func() bool) {
	c.t.Helper()
	for start := time.Now(); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > 2*time.Minute {
			c.t.Fatalf("after 2 minutes: not yet: %s", what)
		}
	}
}

func (c *controller) submit(n int) {
	c.t.Helper()
	for range n {
		if out, err := c.slurm.RunClient(c.t, c.conf, c.dir, "#!/bin/sh\n", "sbatch"); err != nil {
			c.t.Fatalf("sbatch: %v: %s", err, out)
		}
	}
}

// TestReleases asks a stock slurmctld of each release in real time. The figures count the test's
// actions, have a gap while slurmctld is down, and then start again at 0.
func TestReleases(t *testing.T) {
	rpctest.Each(t, slurmspec.R2205, []string{"slurmctld-wlm", "sdiag", "sinfo", "sbatch"}, func(t *testing.T, slurm *rpctest.Slurm) {
		c := newController(t, slurm)
		stop := c.start()
		command, err := slurm.Command("sdiag")
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("SLURM_CONF", c.conf)
		var said []string
		var kept []store.Health
		var asked store.Cluster
		var mu sync.Mutex
		p := &health.Poller{
			Cluster: "test", Command: command, Every: 100 * time.Millisecond,
			Add: func(_ context.Context, h store.Health) error {
				mu.Lock()
				defer mu.Unlock()
				kept = append(kept, h)
				return nil
			},
			Report: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				said = append(said, err.Error())
			},
			SetSize: func(_ context.Context, c store.Cluster) error {
				mu.Lock()
				defer mu.Unlock()
				asked = c
				return nil
			},
		}
		sum := func() (total store.Health) {
			mu.Lock()
			defer mu.Unlock()
			for _, h := range kept {
				total.Submitted += h.Submitted
				total.Main.Count += h.Main.Count
				total.Pending = h.Pending
				for _, n := range h.Counts {
					if n.Name == "REQUEST_SUBMIT_BATCH_JOB" && n.Kind == store.Requests {
						total.Running += n.Count
					}
				}
			}
			return total
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); p.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		c.until("there is a first answer", func() bool { mu.Lock(); defer mu.Unlock(); return len(kept) > 0 })
		if asked.Nodes.Value != 1 || asked.CPUs.Value != 4 {
			t.Errorf("the size of the cluster: %+v", asked)
		}
		c.submit(3)
		defer func() {
			if t.Failed() {
				t.Logf("figures: %+v, reports: %q", kept, said)
			}
		}()
		c.until("3 submissions are counted", func() bool { s := sum(); return s.Submitted == 3 && s.Running == 3 && s.Main.Count > 0 })
		capture(t, c)
		stop()
		c.until("its absence is reported", func() bool { mu.Lock(); defer mu.Unlock(); return len(said) == 1 })
		c.start()
		c.until("its return is reported", func() bool { mu.Lock(); defer mu.Unlock(); return len(said) == 2 })
		c.submit(2)
		c.until("5 submissions are counted", func() bool { s := sum(); return s.Submitted == 5 && s.Running == 5 })
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(said[0], "gap") || !strings.Contains(said[1], "answers again") {
			t.Errorf("%q", said)
		}
	})
}

// capture checks that sdiag's text and JSON agree. With -update it writes both into testdata.
func capture(t *testing.T, c *controller) {
	t.Helper()
	text, err := c.slurm.RunClient(t, c.conf, c.dir, "", "sdiag")
	if err != nil {
		t.Fatalf("sdiag: %v: %s", err, text)
	}
	s, err := health.ParseText([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if s.JobsSubmitted != 3 || s.MainCycles == 0 || s.Since > s.At || time.Since(s.At.Std()) > time.Hour || len(s.Requests) == 0 {
		t.Errorf("%+v of %s", s, text)
	}
	outputs := map[string]string{".txt": text}
	exits := c.slurm.Release.Since(slurmspec.R2311)
	if (s.MainExits != nil) != exits || (s.BackfillExits != nil) != exits {
		t.Errorf("exits: %v, %v", s.MainExits, s.BackfillExits)
	}
	if c.slurm.Release.Since(slurmspec.R2405) {
		encoded, err := c.slurm.RunClient(t, c.conf, c.dir, "", "sdiag", "--json")
		if err != nil {
			t.Fatalf("sdiag --json: %v: %s", err, encoded)
		}
		j, err := health.ParseJSON([]byte(encoded))
		if err != nil {
			t.Fatal(err)
		}
		if j.JobsSubmitted != s.JobsSubmitted || len(j.MainExits) != len(s.MainExits) ||
			len(j.BackfillExits) != len(s.BackfillExits) || j.MainCycles < s.MainCycles || j.MainMax < s.MainMax {
			t.Errorf("the text says %+v, the JSON %+v", s, j)
		}
		for _, e := range j.MainExits {
			if !slices.ContainsFunc(s.MainExits, func(o rm.Exits) bool { return o.Name == e.Name }) {
				t.Errorf("the text has no exit %q: %v", e.Name, s.MainExits)
			}
		}
		outputs[".json"] = encoded
	}
	if !*update {
		return
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for ending, out := range outputs {
		out = strings.NewReplacer(host, "localhost", c.dir, "/tmp/slurm").Replace(out)
		out = regexp.MustCompile(`("source": )"[^"]*"`).ReplaceAllString(out, `$1"/dev/pts/0"`)
		out = regexp.MustCompile(`(?s)("command": \[).*?(\])`).ReplaceAllString(out, `$1"sdiag", "--json"$2`)
		if err := os.WriteFile(filepath.Join("testdata", c.slurm.Release.Series().String()+ending), []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// parse parses sdiag's output, text or JSON.
func parse(name string, text []byte) (*rm.Statistics, error) {
	if filepath.Ext(name) == ".json" {
		return health.ParseJSON(text)
	}
	return health.ParseText(text)
}

// TestGolden parses the files in testdata, which are outputs of stock releases.
func TestGolden(t *testing.T) {
	names, err := filepath.Glob("testdata/2*.*")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".golden") {
			continue
		}
		found++
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parse(name, text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := json.MarshalIndent(s, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		if *update {
			if err := os.WriteFile(name+".golden", got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name + ".golden")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if found < 5 {
		t.Errorf("%d outputs of sdiag (want those of 22.05, 24.11 and 26.05)", found)
	}
}

// TestHostile parses outputs that no sdiag prints.
func TestHostile(t *testing.T) {
	good, err := os.ReadFile("testdata/24.11.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/24.11.txt")
	if err != nil {
		t.Fatal(err)
	}
	change := func(text []byte, pattern, to string) string {
		out := regexp.MustCompile(pattern).ReplaceAllString(string(text), to)
		if out == string(text) {
			t.Fatalf("%s changes nothing", pattern)
		}
		return out
	}
	for _, c := range []struct{ name, text, want string }{
		{"x.json", "", "reading the JSON"}, {"x.json", "{}", "statistics"}, {"x.json", `{"statistics":[]}`, "reading the JSON"},
		{"x.json", change(good, `"agent_queue_size": \d+`, `"agent_queue_size": -1`), "not a counter"},
		{"x.json", change(good, `"agent_queue_size": \d+`, `"agent_queue_size": 1e300`), "not a counter"},
		{"x.json", change(good, `"agent_queue_size": \d+`, `"agent_queue_size": "x"`), "not a number"},
		{"x.json", change(good, `"schedule_cycle_sum"`, `"sum"`), "no sums"},
		{"x.txt", "", "lines of its statistics"}, {"x.txt", "No data available. Probably slurmctld is not working\n", "Probably"},
		{"x.txt", change(text, `Jobs failed: +\d+`, "Jobs failed: -3"), "not a counter"},
		{"x.txt", change(text, `sdiag output at .*`, ""), "lines of its statistics"},
		{"x.txt", change(text, `Mean cycle: +\d+`, "Mean cycle: 9007199254740992"), "mean of"},
		{"x.txt", change(text, `count:\d+`, "count:99999999999999999999"), "not a counter"},
		{"x.txt", change(text, `\(\d{10}\)`, "(7)"), "its time is"},
	} {
		if s, err := parse(c.name, []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80q: %+v, %v (want %q)", c.text, s, err, c.want)
		}
	}
}

// FuzzParse checks that no input causes a panic or impossible counters.
func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("testdata/2*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, name := range []string{"x.json", "x.txt"} {
			s, err := parse(name, text)
			if err != nil {
				continue
			}
			h := health.Between("c", s, s)
			if s.MainSum < 0 || s.BackfillDepth < 0 || s.At < 0 || h.Interval != 0 {
				t.Errorf("%+v, %+v", s, h)
			}
		}
	})
}

// TestBetween checks intervals across a midnight, a restart and a clock that was set back.
func TestBetween(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2024, 3, 5, 23, 59, s, 0, time.UTC) }
	instant := func(t time.Time) hpc.Time { return hpc.Unix(t.Unix()) }
	const micro = time.Microsecond
	day := instant(at(0).Truncate(24 * time.Hour))
	before := &rm.Statistics{
		At: instant(at(0)), Since: day, JobsSubmitted: 10,
		MainCycles: 100, MainSum: 5000 * micro, MainMax: 400 * micro, MainLast: 20 * micro, MainDepth: 700,
		MainExits: []rm.Exits{{Name: "end_job_queue", Count: 90}, {Name: "licenses", Count: 10}},
		Requests:  []rm.Requests{{Type: "PING", Count: 7, Time: 70 * micro}, {Type: "SUBMIT", Count: 5, Time: 9 * micro}},
	}
	later := &rm.Statistics{
		At: instant(at(30)), Since: day, JobsSubmitted: 14,
		MainCycles: 110, MainSum: 5600 * micro, MainMax: 400 * micro, MainLast: 30 * micro, MainDepth: 760,
		MainExits: []rm.Exits{{Name: "end_job_queue", Count: 99}, {Name: "licenses", Count: 10}, {Name: "max_rpc_cnt", Count: 1}},
		Requests:  []rm.Requests{{Type: "PING", Count: 9, Time: 90 * micro}, {Type: "SUBMIT", Count: 5, Time: 9 * micro}},
	}
	want := store.Health{
		Cluster: "c", At: at(30), Interval: 30 * time.Second, Submitted: 4, Main: store.Cycles{Count: 10, Sum: 600 * micro, Longest: 30 * micro, Depth: 60, Last: 30 * micro},
		Counts: []store.HealthCount{{Kind: "main", Name: "end_job_queue", Count: 9}, {Kind: "main", Name: "max_rpc_cnt", Count: 1}, {Kind: "rpc", Name: "PING", Count: 2, Micros: 20}},
	}
	if diff := cmp.Diff(want, health.Between("c", before, later)); diff != "" {
		t.Error(diff)
	}
	// Midnight resets all counters except the counters of requests.
	next := *later
	next.At, next.Since, next.JobsSubmitted = instant(at(90)), instant(at(60)), 3
	next.MainCycles, next.MainSum, next.MainMax, next.MainLast, next.MainDepth = 2, 100*micro, 80*micro, 20*micro, 5
	next.MainExits = []rm.Exits{{Name: "end_job_queue", Count: 2}}
	got := health.Between("c", later, &next)
	want = store.Health{
		Cluster: "c", At: at(90), Interval: 30 * time.Second, Submitted: 3, Main: store.Cycles{Count: 2, Sum: 100 * micro, Longest: 80 * micro, Depth: 5, Last: 20 * micro},
		Counts: []store.HealthCount{{Kind: "main", Name: "end_job_queue", Count: 2}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// A restart of slurmctld also resets the counters of requests, including counters that are higher
	// afterwards.
	next.Requests = []rm.Requests{{Type: "PING", Count: 1, Time: 5 * micro}, {Type: "SUBMIT", Count: 8, Time: 20 * micro}}
	want.Counts = append(want.Counts, store.HealthCount{Kind: "rpc", Name: "PING", Count: 1, Micros: 5},
		store.HealthCount{Kind: "rpc", Name: "SUBMIT", Count: 8, Micros: 20})
	if diff := cmp.Diff(want, health.Between("c", later, &next)); diff != "" {
		t.Error(diff)
	}
	// Immediately after its start, slurmctld counts since 1970.
	fresh := *before
	fresh.Since = 0
	if got := health.Between("c", &fresh, later); got.Submitted != 4 || got.Interval != 30*time.Second {
		t.Errorf("%+v", got)
	}
	for _, first := range []*rm.Statistics{nil, later} {
		if got := health.Between("c", first, later); got.Interval != 0 || got.Submitted != 0 || len(got.Counts) != 0 || got.Main.Last != 30*micro {
			t.Errorf("%+v", got)
		}
	}
}

// size lets a poller ask for the cluster's size, and returns the size and the reported errors.
func size(t *testing.T, command []string) (c store.Cluster, said string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &health.Poller{
		Cluster: "vale", Command: command, Every: time.Hour,
		Add:     func(context.Context, store.Health) error { cancel(); return nil },
		Report:  func(err error) { said = err.Error() },
		SetSize: func(_ context.Context, got store.Cluster) error { c = got; return nil },
	}
	p.Run(ctx)
	return c, said
}

// TestSize runs programs instead of sdiag and sinfo.
func TestSize(t *testing.T) {
	output, err := filepath.Abs("testdata/22.05.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sinfo             string
		nodes, cpus, gpus int64
		want              string // in the report
	}{
		{`test "$1 $2 $3" = "-M vale --all" && printf 'CLUSTER: vale\nn1|32|gpu:a100:4(S:0-1),nic:2\nn1|32|gpu:a100:4(S:0-1)\nn2|64|(null)\nn3|16|gpu:2\n'`, 3, 112, 6, ""},
		{`echo "n1|32+|(null)"`, 0, 0, 0, "is not a counter"},
		{`exit 0`, 0, 0, 0, "lists no node"},
		{`echo "slurm_load_partitions: Unable to contact slurm controller" >&2; exit 1`, 0, 0, 0, "Unable to contact"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"sdiag": `test "$3" != --json && cat ` + output, "sinfo": c.sinfo} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		got, said := size(t, []string{filepath.Join(dir, "sdiag"), "-M", "vale"})
		if got.Nodes.Value != c.nodes || got.CPUs.Value != c.cpus || got.GPUs.Value != c.gpus || c.nodes > 0 && (got.Name != "vale" || got.Kind != "site" || !got.CPUs.Known) {
			t.Errorf("%s: %+v", c.sinfo, got)
		}
		if c.want == "" && said != "" || !strings.Contains(said, c.want) {
			t.Errorf("%s: reported %q, want %q", c.sinfo, said, c.want)
		}
	}
	script := filepath.Join(t.TempDir(), "statistics.sh")
	if err := os.WriteFile(script, []byte("#!/bin/sh\ntest $# = 0 && cat "+output+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, said := size(t, []string{script}); got.Nodes.Known || said != "" {
		t.Errorf("a script: %+v, %q", got, said)
	}
}

// TestPoller runs programs instead of sdiag.
func TestPoller(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) []string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return []string{path}
	}
	output, err := filepath.Abs("testdata/22.05.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		command []string
		want    string // in the error; empty if there must not be one
	}{
		{script("old", `test "$1" != --json || { echo "sdiag: unrecognized option '--json'" >&2; exit 1; }; cat `+output), ""},
		{script("means", `test "$1" != --json || { echo '{"statistics":{"req_time":1700000000}}'; exit; }; cat `+output), ""},
		{script("away", `echo "slurm_get_statistics: Unable to contact slurm controller (connect failure)" >&2; exit 1`), "Unable to contact"},
		{script("silent", "exit 0"), "lines of its statistics"},
		{script("endless", "yes"), "printed more than"},
		{[]string{filepath.Join(dir, "absent")}, "no such file"},
	} {
		p := &health.Poller{Cluster: "c", Command: c.command}
		for range 2 {
			s, err := p.Ask(t.Context())
			if c.want == "" && (err != nil || s.JobsSubmitted != 3) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v: %+v, %v (want %q)", c.command, s, err, c.want)
			}
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	started := filepath.Join(dir, "started")
	go func() {
		for {
			if _, err := os.Stat(started); err == nil {
				cancel(errors.New("enough"))
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	p := &health.Poller{Cluster: "c", Command: script("hangs", fmt.Sprintf("touch %s; sleep 600 & wait", started))}
	if _, err := p.Ask(ctx); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("%v", err)
	}
}
