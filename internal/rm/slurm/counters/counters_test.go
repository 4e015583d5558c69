package counters

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurm/rpc"
)

// TestCountersAcrossMidnight: Counters adds up the counters that slurmctld resets every day.
func TestCountersAcrossMidnight(t *testing.T) {
	var c Counters
	for _, s := range []rpc.Stats{
		{Since: 100, Started: 3, BackfillCycles: 1, BackfillSum: time.Second, BackfillMax: time.Second, BackfillTableSize: 70, AgentQueue: 4},
		{Since: 100, Started: 9, BackfillCycles: 3, BackfillSum: 9 * time.Second, BackfillMax: 4 * time.Second, BackfillQueueSum: 30, MainCycles: 2, MainSum: time.Second},
		{Since: 200, Started: 1, BackfillCycles: 1, BackfillSum: time.Second, BackfillMax: time.Second, BackfillQueueSum: 50, BackfillTableSize: 7, DBDQueue: 2},
		{Since: 300, Started: 2, ServerThreads: 5},
	} {
		c.take(&s)
	}
	want := rm.Scheduler{
		JobsStarted: 12, MainCycles: 2, MainMean: 0.5, BackfillCycles: 4, BackfillMean: 2.5, BackfillMax: 4, BackfillQueueMean: 20,
		BackfillTableMax: 70, AgentQueueMax: 4, DBDQueueMax: 2, ServerThreadsMax: 5,
	}
	if diff := cmp.Diff(want, c.Total()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestStatistics: Counters keeps one answer of each interval, the last answer before a reset (at
// midnight, by a reconfiguration), and the last answer of the run. The differences between these
// answers are slurmctld's counts.
func TestStatistics(t *testing.T) {
	var kept []rm.Statistics
	c := Counters{every: 10 * time.Minute, keep: func(s rm.Statistics) { kept = append(kept, s) }}
	const midnight = 86400
	for _, s := range []rpc.Stats{
		{Time: midnight - 601, Since: 100, Started: 3, Pending: 2},
		{Time: midnight - 300, Since: 100, Started: 4},
		{Time: midnight - 1, Since: 100, Started: 4},
		{Time: midnight - 1, Since: 100, Started: 5, MainExits: []uint32{7, 0, 0, 0, 0, 1, 4}, BackfillExits: []uint32{0, 2},
			RPCs: []rpc.RPCStat{{Type: rpc.RequestSubmitBatchJob, Count: 9, Total: time.Millisecond}, {Type: rpc.RequestPing, Count: 1}, {Type: 777, Count: 2}}},
		{Time: midnight, Since: 100, Started: 6},
		{Time: midnight, Since: midnight, Started: 0},
		{Time: midnight + 599, Since: midnight, Started: 1, BackfillSum: time.Second, BackfillDepthTrySum: 8},
		{Time: midnight + 630, Since: midnight, Started: 2},
		{Time: midnight + 1199, Since: midnight, Started: 2},
		{Time: midnight + 1199, Since: midnight, Started: 3}, // before a reconfiguration in the same second
		{Time: midnight + 1202, Since: midnight + 1200, Started: 1},
	} {
		c.take(&s)
	}
	if started := c.Total().JobsStarted; started != 10 {
		t.Errorf("%d jobs started, want 10", started)
	}
	at := func(seconds int) hpc.Time { return hpc.Time(seconds) * hpc.Time(time.Second) }
	want := []rm.Statistics{
		{At: at(midnight - 601), Since: at(100), JobsStarted: 3, JobsPending: 2},
		{At: at(midnight - 1), Since: at(100), JobsStarted: 5,
			MainExits:     []rm.Exits{{Name: "end_job_queue", Count: 7}, {Name: "default_queue_depth"}, {Name: "max_job_start"}, {Name: "licenses"}, {Name: "max_rpc_cnt"}, {Name: "max_sched_time", Count: 1}, {Name: "6", Count: 4}},
			BackfillExits: []rm.Exits{{Name: "end_job_queue"}, {Name: "bf_max_job_start", Count: 2}},
			Requests:      []rm.Requests{{Type: "777", Count: 2}, {Type: "REQUEST_PING", Count: 1}, {Type: "REQUEST_SUBMIT_BATCH_JOB", Count: 9, Time: time.Millisecond}}},
		{At: at(midnight), Since: at(100), JobsStarted: 6},
		{At: at(midnight + 599), Since: at(midnight), JobsStarted: 1, BackfillSum: time.Second, BackfillTried: 8},
		{At: at(midnight + 1199), Since: at(midnight), JobsStarted: 3},
		{At: at(midnight + 1202), Since: at(midnight + 1200), JobsStarted: 1},
	}
	if diff := cmp.Diff(want, kept); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestCut: the answer after Cut ends an interval, and no other answer ends an interval early.
func TestCut(t *testing.T) {
	var kept []int64
	c := Counters{every: 10 * time.Minute, keep: func(s rm.Statistics) { kept = append(kept, s.JobsStarted) }}
	for i, s := range []rpc.Stats{{Time: 599, Since: 1}, {Time: 700, Since: 1}, {Time: 800, Since: 1}, {Time: 900, Since: 1}, {Time: 1199, Since: 1}, {Time: 1300, Since: 1}} {
		if s.Started = uint32(i); i == 2 {
			c.Cut()
		}
		c.take(&s)
	}
	if diff := cmp.Diff([]int64{0, 2, 4}, kept); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Counters asks once in each interval, and around midnight until slurmctld has reset its counters.
func TestNextCount(t *testing.T) {
	at := func(text string) hpc.Time {
		instant, err := hpc.ParseTime("2024-03-" + text + "Z")
		if err != nil {
			t.Fatal(err)
		}
		return instant
	}
	for now, want := range map[string]string{
		"05T08:00:00": "05T08:59:59", "05T08:59:58.5": "05T08:59:59", "05T08:59:59": "05T09:59:59", "05T08:59:59.5": "05T09:59:59",
		"05T23:00:00": "05T23:59:59", "05T23:59:59": "05T23:59:59.01", "05T23:59:59.995": "06T00:00:00",
		"06T00:00:00": "06T00:00:00.01", "06T00:00:00.99": "06T00:00:01", "06T00:00:01": "06T00:59:59",
	} {
		if got := nextCount(at(now), time.Hour); got != at(want) {
			t.Errorf("after %s: %s, want %s", now, got, at(want))
		}
	}
	if got := nextCount(at("05T08:09:59"), 10*time.Minute); got != at("05T08:19:59") {
		t.Errorf("every ten minutes: %s", got)
	}
}

func TestBackfillLimits(t *testing.T) {
	for _, tt := range []struct {
		parameters string
		want       limits
	}{
		{"", limits{30 * time.Second, 2 * time.Second, 500 * time.Millisecond, 500}},
		{"bf_interval=60,bf_max_job_test=1000", limits{60 * time.Second, 2 * time.Second, 500 * time.Millisecond, 1000}},
		{"BF_Max_Time=10,bf_interval=60,bf_yield_interval=1000000,bf_yield_sleep=100000,bf_node_space_size=77",
			limits{10 * time.Second, time.Second, 100 * time.Millisecond, 77}},
		{"bf_max_time=,bf_yield_sleep=x,bf_max_job_test=-1", limits{30 * time.Second, 2 * time.Second, 500 * time.Millisecond, 500}},
	} {
		if got := backfillLimits(tt.parameters); got != tt.want {
			t.Errorf("%q: %+v, want %+v", tt.parameters, got, tt.want)
		}
	}
}

// TestCheckBackfill: CheckBackfill warns only if a cycle was cut or the table was full.
func TestCheckBackfill(t *testing.T) {
	l := limits{maxTime: 30 * time.Second, yieldEvery: 2 * time.Second, yieldIs: 500 * time.Millisecond, table: 100}
	for _, tt := range []struct {
		counted rm.Scheduler
		factor  float64
		want    string
	}{
		{rm.Scheduler{}, 1, ""},
		{rm.Scheduler{BackfillMax: 20, BackfillTableMax: 99}, 1, ""},
		{rm.Scheduler{BackfillMax: 23.5}, 1, "backfill-cut false"}, // 29.4 s with its yields
		{rm.Scheduler{BackfillMax: 23.5}, 0, "backfill-cut true"},
		{rm.Scheduler{BackfillMax: 1, BackfillTableMax: 100}, 1, "backfill-table-full false"},
	} {
		got := ""
		checkBackfill(&tt.counted, l, tt.factor == 0, func(code, _ string, affects bool) {
			got += code + map[bool]string{true: " true", false: " false"}[affects]
		})
		if got != tt.want {
			t.Errorf("%+v with factor %v: warned of %q, want %q", tt.counted, tt.factor, got, tt.want)
		}
	}
}

func TestCountLosses(t *testing.T) {
	log := "[1] error: agent waited too long for nodes to respond, abort launch of JobId=7\n" +
		strings.Repeat("x", 10000) + "\n[2] sched: fine\n" +
		"[3] error: slurmdbd: agent queue is full (10000), discarding DBD_JOB_START:1425 request\n" +
		"[4] error: slurmdbd: agent queue is full (10000), discarding DBD_JOB_START:1425 request\n" +
		"[5] error: update cluster: Connection refused to tiny at 127.0.0.1(6817)"
	got, err := countLosses(strings.NewReader(log))
	if diff := cmp.Diff([]int{1, 2, 1}, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got)\n%s", err, diff)
	}
}
