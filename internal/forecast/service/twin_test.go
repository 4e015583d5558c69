package service

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rmreplay/internal/rm/slurm/slurmtest"
)

// The environment variables of TestTwin. twinVariable has the duration, such as 90m, or "on" to run
// until an interrupt. killsVariable has the number of processes that are killed meanwhile, and
// tableVariable the file of the table.
const (
	twinVariable  = "RMREPLAY_TWIN"
	killsVariable = "RMREPLAY_TWIN_KILLS"
	tableVariable = "RMREPLAY_TWIN_TABLE"
)

// TestTwin is a live Slurm in real time, fed with generated jobs, beside the service with its
// pages (make twin). With a duration and a number of kills, slurmctld, the service and a command
// of a capture are killed in turn. Then the test measures the time that captures cost slurmctld.
// It fails if a forecast is older than its stated age or if the service's memory grows.
func TestTwin(t *testing.T) {
	how := os.Getenv(twinVariable)
	if how == "" {
		t.Skip("SKIPPED: " + twinVariable + " is not set (want on, or a duration such as 90m)")
	}
	ctx, end := signal.NotifyContext(t.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer end()
	span := time.Duration(math.MaxInt64)
	if how != "on" {
		var err error
		if span, err = time.ParseDuration(how); err != nil {
			t.Fatal(err)
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, span)
		defer cancel()
	}
	kills, _ := strconv.Atoi(os.Getenv(killsVariable)) // 0 if it is not set
	w := &twin{t: t, dir: filepath.Join(t.TempDir(), "data"), Site: slurmtest.Start(t, "", slurmtest.Options{Nodes: 4, Lines: `
SchedulerType=sched/backfill
PartitionName=batch Nodes=n[1-3] Default=YES OverSubscribe=EXCLUSIVE MaxTime=600
PartitionName=short Nodes=n4 OverSubscribe=EXCLUSIVE MaxTime=3
`})}
	w.connect()
	if how == "on" {
		const pages = "127.0.0.1:8766"
		l, err := net.Listen("tcp", pages)
		if err != nil {
			t.Fatalf("the pages need the address %s: %v", pages, err)
		}
		_ = l.Close() // the service listens there
		t.Setenv(listenVariable, pages)
	}
	w.start()
	if how == "on" {
		fmt.Println("The pages are at http://127.0.0.1:8766 once the first forecast is made. Ctrl-C ends everything.")
	}
	fed := make(chan int)
	go func() { fed <- w.feed(ctx) }()
	m := measured{twin: w, last: map[string][2]float64{}, memory: make([][][2]float64, 1)}
	m.run(ctx, span, kills)
	t.Logf("%d jobs were submitted", <-fed)
	w.Until("all jobs have ended", func() bool {
		return w.Say("scancel", "--user=65534") == "" && w.Say("squeue", "-h") == "" && w.Say("scontrol", "ping") != ""
	})
	if how != "on" {
		m.judge()
	}
}

// maxQueued is the number of queued jobs at which a twin submits no more jobs.
const maxQueued = 40

// feed submits jobs until the context ends: one job every eight seconds, with run times of half a
// minute or so and limits of a few minutes. The nodes run fewer jobs, so the queue soon has
// maxQueued jobs. feed returns how many jobs slurmctld accepted.
func (w *twin) feed(ctx context.Context) (n int) {
	rng := rand.New(rand.NewPCG(1, 1))
	for {
		select {
		case <-ctx.Done():
			return n
		case <-time.After(time.Duration(rng.ExpFloat64() * float64(8*time.Second))):
		}
		if len(strings.Fields(w.Say("squeue", "-h", "-t", "PD", "-o", "%i"))) >= maxQueued {
			continue
		}
		seconds := min(math.Exp(3.4+0.8*rng.NormFloat64()), 170)
		partition, limit := "batch", int(seconds/60)+1+rng.IntN(6)
		if limit <= 3 && rng.IntN(3) == 0 {
			partition = "short"
		}
		c := exec.CommandContext(ctx, "sbatch", "--parsable", "--output=/dev/null", "--chdir=/", "--uid=65534", "-p"+partition,
			fmt.Sprintf("-t%d", limit), fmt.Sprintf("-N%d", 1+rng.IntN(2)))
		c.Stdin = strings.NewReader(fmt.Sprintf("#!/bin/sh\nexec sleep %.0f\n", seconds))
		if c.Run() == nil { // slurmctld may have been killed
			n++
		}
	}
}

// measured has the measurements of a twin.
type measured struct {
	*twin
	rows    []string
	worst   float64        // the largest difference of a forecast's age and its stated age, in seconds
	oldest  float64        // age in seconds
	memory  [][][2]float64 // for each process of the service: time in minutes, and memory in MiB
	calls   float64        // number of commands of captures
	seconds float64        // slurmctld's time for these commands
	last    map[string][2]float64
	minutes float64
	killed  int
}

// run samples a twin every five seconds until the context ends, and kills a process now and then.
func (m *measured) run(ctx context.Context, span time.Duration, kills int) {
	began, killed := time.Now(), 0
	for ctx.Err() == nil {
		m.sample(time.Since(began).Minutes())
		if killed < kills && time.Since(began) > span*time.Duration(killed+1)/time.Duration(kills+1) {
			m.kill(killed)
			killed++
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
	m.minutes, m.killed = time.Since(began).Minutes(), killed
}

// kill kills a process, and starts it again.
func (m *measured) kill(n int) {
	switch n % 3 {
	case 0:
		kill(m.t, m.slurmctld())
		time.Sleep(7 * time.Second) // a capture fails meanwhile
		m.Start("slurmctld", "-D", "-f", filepath.Join(m.Dir, "slurm.conf"))
	case 1:
		kill(m.t, m.service.Process.Pid)
		m.memory = append(m.memory, nil)
		m.start()
	default:
		m.Until("a command of a capture is killed", func() bool {
			for _, pid := range m.children() {
				return syscall.Kill(pid, syscall.SIGKILL) == nil
			}
			return false
		})
	}
}

var rpcLine = regexp.MustCompile(`(?m)^\s*(REQUEST_(?:JOB|NODE|PARTITION|RESERVATION|BUILD|STATS)_INFO\w*)\s.*count:(\d+)\s.*total_time:(\d+)`)

// sample adds a row.
func (m *measured) sample(minute float64) {
	for _, found := range rpcLine.FindAllStringSubmatch(m.Say("sdiag"), -1) {
		count, _ := strconv.ParseFloat(found[2], 64)
		took, _ := strconv.ParseFloat(found[3], 64)
		last := m.last[found[1]]
		if count < last[0] { // slurmctld was killed
			last = [2]float64{}
		}
		m.calls, m.seconds = m.calls+count-last[0], m.seconds+(took-last[1])/1e6
		m.last[found[1]] = [2]float64{count, took}
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.service.Process.Pid)) // judged below
	var mib float64
	if _, text, found := strings.Cut(string(status), "VmRSS:"); found {
		kib, _ := strconv.ParseFloat(strings.Fields(text)[0], 64)
		mib = kib / 1024
		last := &m.memory[len(m.memory)-1]
		*last = append(*last, [2]float64{minute, mib})
	} else {
		m.t.Fatal("the service has ended by itself")
	}
	asked := time.Now()
	var a jobAnswer
	if !m.ask("/v1/jobs", &a) || a.Forecast.At == nil {
		m.rows = append(m.rows, fmt.Sprintf("%.2f\t\t\t\t\t%.1f\t%.0f\t%.3f", minute, mib, m.calls, m.seconds))
		return
	}
	age := asked.Sub(*a.Forecast.At).Seconds()
	m.worst, m.oldest = max(m.worst, age-a.Forecast.Age), max(m.oldest, age)
	m.rows = append(m.rows, fmt.Sprintf("%.2f\t%.1f\t%.1f\t%v\t%d\t%.1f\t%.0f\t%.3f", minute, age, a.Forecast.Age,
		a.Forecast.Stale, a.Pending, mib, m.calls, m.seconds))
	if a.Forecast.Stale != (a.Forecast.Age > 15) {
		m.t.Errorf("minute %.2f: the forecast says %+v", minute, a.Forecast)
	}
}

// judge writes the table, and checks its figures.
func (m *measured) judge() {
	head := "minute\tage_s\tstated_age_s\tstale\tpending\tservice_mib\trpcs\trpc_s\n"
	if path := os.Getenv(tableVariable); path != "" {
		if err := os.WriteFile(path, []byte(head+strings.Join(m.rows, "\n")+"\n"), 0o644); err != nil {
			m.t.Error(err)
		}
	}
	slope, deviation, n := slope(m.memory)
	growth := slope + 3*deviation // at most, but for one run in a thousand
	var judged struct{ Accuracy Accuracy }
	m.ask("/v1/accuracy", &judged)
	m.t.Logf("%.1f minutes, %d kills: oldest forecast %.0f s; %.0f calls and %.2f s of slurmctld for what sdiag and captures ask; "+
		"memory %+.3f MiB a minute (standard error %.3f, %d samples), so it grows by less than %.3f; %d forecasts judged", m.minutes,
		m.killed, m.oldest, m.calls, m.seconds, slope, deviation, n, growth, judged.Accuracy.All.Forecasts)
	if m.worst > 2 {
		m.t.Errorf("a forecast was %.1f s older than it said", m.worst)
	}
	if m.seconds > m.minutes*60/10 {
		m.t.Errorf("slurmctld answered for %.1f s of %.1f minutes", m.seconds, m.minutes)
	}
	if n > 120 && slope > 3*deviation { // in the first ten minutes the history fills
		m.t.Errorf("the service's memory grows by %.3f MiB a minute (want 0 within three standard errors of %.3f)", slope,
			deviation)
	}
}

// slope returns the slope of parallel lines through groups of points, one for each group, by least squares; its standard
// error; and the number of points. The first minute of a group, when a process warms up, does not count. Memory that
// was high a sample ago is mostly still high. So the error of independent samples is multiplied by
// sqrt((1+r)/(1-r)), where r is the correlation of successive residuals (Bartlett, "Some aspects of the
// time-correlation problem", Journal of the Royal Statistical Society 98(3), 1935).
func slope(groups [][][2]float64) (slope, deviation float64, n int) {
	var sxx, sxy, free float64
	var centred [][][2]float64
	for _, group := range groups {
		points := group[min(len(group), 12):]
		var mx, my float64
		for _, p := range points {
			mx, my = mx+p[0]/float64(len(points)), my+p[1]/float64(len(points))
		}
		one := make([][2]float64, len(points))
		for i, p := range points {
			one[i] = [2]float64{p[0] - mx, p[1] - my}
			sxx, sxy = sxx+one[i][0]*one[i][0], sxy+one[i][0]*one[i][1]
		}
		centred = append(centred, one)
		n, free = n+len(points), free+float64(max(0, len(points)-1))
	}
	if free < 2 {
		return 0, math.Inf(1), n
	}
	slope = sxy / sxx
	var squares, products float64
	for _, points := range centred {
		for i, p := range points {
			off := p[1] - slope*p[0]
			squares += off * off
			if i > 0 {
				products += (p[1] - slope*p[0]) * (points[i-1][1] - slope*points[i-1][0])
			}
		}
	}
	deviation = math.Sqrt(squares / (free - 1) / sxx)
	if r := min(max(products/squares, 0), 0.99); squares > 0 {
		deviation *= math.Sqrt((1 + r) / (1 - r))
	}
	return slope, deviation, n
}

// TestSlope draws two processes whose memory grows at the same rate from different beginnings.
func TestSlope(t *testing.T) {
	groups := make([][][2]float64, 2)
	for i := range 200 {
		noise := 0.5 * float64(i%2*2-1)
		groups[i/100] = append(groups[i/100], [2]float64{float64(i), float64(40-100*(i/100)) + 0.25*float64(i) + noise})
	}
	slope, deviation, n := slope(groups)
	if math.Abs(slope-0.25) > 0.01 || deviation > 0.003 || n != 176 {
		t.Errorf("slope %v, standard error %v of %d points (want 0.25 of 176)", slope, deviation, n)
	}
}

// TestSlopeError draws 400 processes of ninety minutes whose memory goes up and down without growing. It is rarely found
// to grow. Growth of four MiB an hour is always found.
func TestSlopeError(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	const draws = 400
	found, missed := 0, 0
	for range draws {
		still, grows := make([][2]float64, 1080), make([][2]float64, 1080)
		for i, at := range still {
			minute := float64(i) / 12
			at[1] = rng.NormFloat64() // MiB
			if i > 0 {
				at[1] = 0.9*still[i-1][1] + math.Sqrt(1-0.9*0.9)*at[1]
			}
			still[i] = [2]float64{minute, at[1]}
			grows[i] = [2]float64{minute, 40 + at[1] + minute*4/60}
		}
		if slope, deviation, _ := slope([][][2]float64{still}); slope > 3*deviation {
			found++
		}
		if slope, deviation, _ := slope([][][2]float64{grows}); slope <= 3*deviation {
			missed++
		}
	}
	if found > draws/50 || missed > 0 {
		t.Errorf("of %d processes that do not grow %d are found to grow; of as many that grow %d are missed", draws, found, missed)
	}
}
