package periodic

import (
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
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
					lead, every := p.Align(at.Add(-before), at)
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
	if lead, every := (Phase{}).Align(began, began); lead != 0 || every != 0 {
		t.Errorf("an unknown phase: %v, %v", lead, every)
	}
	if lead, every := (Phase{Began: began}).Align(began, began); lead == 0 || every != 0 {
		t.Errorf("an unknown backfill cycle: %v, %v", lead, every)
	}
}

// values are the keys of a slurm.conf.
type values map[string]string

func (v values) Get(key string) (string, bool) { text, ok := v[key]; return text, ok }

func TestPeriods(t *testing.T) {
	p := Phase{}
	if err := p.Use(values{"PriorityCalcPeriod": "0-00:02:00", "SchedulerParameters": "bf_continue, bf_interval=60,bf_window=10"}); err != nil || p.Priority != 2*time.Minute || p.Backfill != time.Minute {
		t.Errorf("%+v, %v", p, err)
	}
	if err := p.Use(values{"PriorityCalcPeriod": "often"}); err == nil || !strings.Contains(err.Error(), "PriorityCalcPeriod=often") {
		t.Error(err)
	}
}
