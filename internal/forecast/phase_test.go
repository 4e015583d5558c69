package forecast

import (
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm"
	"rmreplay/internal/run"
)

// TestAlign checks that slurmctld starts in its phase, and that backfill cycles come at their due
// times.
func TestAlign(t *testing.T) {
	began := hpc.Unix(1709510400).Add(914 * time.Millisecond)
	for _, at := range []hpc.Time{began.Add(7 * time.Hour), began.Add(400 * time.Hour).Add(123 * time.Second)} {
		for _, before := range []time.Duration{0, time.Minute, 2*time.Hour + 59*time.Minute, 3 * time.Hour, 9*time.Hour + 7*time.Second, 26 * time.Hour, 100 * time.Hour} {
			for _, period := range []time.Duration{0, time.Minute, 7 * time.Minute, 10 * time.Minute} {
				for _, ago := range []time.Duration{0, 3 * time.Second, 29 * time.Second, time.Hour} {
					at := hpc.Unix(at.UnixSeconds())
					p := Phase{Began: began, Priority: period, Backfilled: at.Add(-ago)}
					lead, every := p.align(at.Add(-before), at)
					start := at.Add(-before - lead)
					if period == 0 {
						period = 5 * time.Minute
					}
					switch off := start.Sub(began) % period; {
					case lead < time.Minute || lead > time.Minute+100*period:
						t.Errorf("%v before, %v: lead %v", before, p, lead)
					case off != 0:
						t.Errorf("%v before, %v: slurmctld starts %v out of phase", before, p, off)
					case every <= 0 || every > 3*time.Hour || every%time.Second != 0:
						t.Errorf("%v before, %v: an interval of %v", before, p, every)
					}
					due := at.Add(max(30*time.Second-ago, 0))
					cycles := (due.Sub(start) + every - 1) / every
					if got := start.Add(cycles * every); hpc.Unix(got.UnixSeconds()) != due {
						t.Errorf("%v before, %v: a backfill cycle at %s, want %s", before, p, got, due)
					}
				}
			}
		}
	}
	if lead, every := (Phase{}).align(began, began); lead != 0 || every != 0 {
		t.Errorf("an unknown phase: %v, %v", lead, every)
	}
	if lead, every := (Phase{Began: began}).align(began, began); lead == 0 || every != 0 {
		t.Errorf("an unknown backfill cycle: %v, %v", lead, every)
	}
}

// values are the keys of a slurm.conf.
type values map[string]string

func (v values) Get(key string) (string, bool) { text, ok := v[key]; return text, ok }

func TestPeriods(t *testing.T) {
	p := Phase{}
	if err := p.use(values{"PriorityCalcPeriod": "0-00:02:00", "SchedulerParameters": "bf_continue, bf_interval=60,bf_window=10"}); err != nil || p.Priority != 2*time.Minute || p.Backfill != time.Minute {
		t.Errorf("%+v, %v", p, err)
	}
	if err := p.use(values{"PriorityCalcPeriod": "often"}); err == nil || !strings.Contains(err.Error(), "PriorityCalcPeriod=often") {
		t.Error(err)
	}
}

func TestLastBackfill(t *testing.T) {
	for line, want := range map[string]hpc.Time{
		"\tLast cycle when: Mon Jan  1 03:59:33 2024 (1704081573)": hpc.Unix(1704081573),
		"\tLast cycle when: N/A":                                   0, "\tLast cycle:   12": 0, "Last cycle when: now (-5)": 0, "Last cycle when: (99999999999999999999)": 0, "": 0,
	} {
		if got, ok := LastBackfill(line); got != want || ok != (want != 0) {
			t.Errorf("%q: %s, %t", line, got, ok)
		}
	}
}

// TestAllocated checks that a job's start is the time of its allocation, in each of its runs.
func TestAllocated(t *testing.T) {
	second := hpc.Time(time.Second)
	events := []run.Event{
		{At: 10*second + 914, Kind: rm.Started, Job: "a", Task: -1, Start: 10*second + 914},
		{At: 11 * second, Kind: rm.Started, Job: "a", Task: 3, Start: 11 * second},
		{At: 12 * second, Kind: rm.Requeue, Job: "a", Task: -1, Start: 10 * second},
		{At: 20*second + 914, Kind: rm.Started, Job: "a", Task: -1, Start: 20*second + 914},
		{At: 30 * second, Kind: rm.Ended, Job: "a", Task: -1, Start: 18 * second},
		{At: 31 * second, Kind: rm.Ended, Job: "a", Task: 3},
	}
	allocated(events)
	for i, want := range map[int]hpc.Time{0: 10 * second, 1: 11 * second, 3: 18 * second} {
		if events[i].Start != want {
			t.Errorf("event %d: start %s, want %s", i, events[i].Start, want)
		}
	}
}
