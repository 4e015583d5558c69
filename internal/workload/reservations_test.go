package workload

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
)

func TestUntilNext(t *testing.T) {
	for _, tt := range []struct {
		flag  string
		start time.Time
		want  []time.Weekday // the weekdays of the next occurrences
	}{
		{"WEEKDAY", time.Date(2026, 11, 19, 9, 0, 0, 0, time.UTC), []time.Weekday{time.Friday, time.Monday, time.Tuesday}},
		{"WEEKDAY", time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), []time.Weekday{time.Monday}},
		{"WEEKEND", time.Date(2026, 11, 18, 9, 0, 0, 0, time.UTC), []time.Weekday{time.Saturday, time.Sunday, time.Saturday}},
		{"HOURLY", time.Date(2026, 11, 18, 22, 0, 0, 0, time.UTC), []time.Weekday{time.Wednesday, time.Thursday}},
	} {
		r := hpc.Reservation{Start: hpc.Time(tt.start.UnixNano()), Flags: []string{tt.flag}}
		for i, want := range tt.want {
			r.Start = r.Start.Add(UntilNext(&r))
			if got := r.Start.Std().Weekday(); got != want {
				t.Errorf("%s from %s: %d. time is on a %s, want %s", tt.flag, tt.start, i+1, got, want)
			}
		}
	}
}

// TestPresetsInto counts the jobs that run from before the window's begin until after the begin of a
// reservation of their nodes.
func TestPresetsInto(t *testing.T) {
	w := &Workload{Start: hpc.Unix(1000)}
	for nodes, until := range map[string]int64{"n[1-2]": 2001, "n2": 2000, "n3": 9000} {
		w.Jobs.Append(&hpc.Job{ID: nodes, Submit: hpc.Unix(800), Recorded: &hpc.Recorded{Start: hpc.Unix(900), Nodes: nodes},
			Request:   hpc.Request{TimeLimit: time.Hour * 24},
			Behaviour: hpc.Behaviour{RunTime: hpc.Unix(until).Sub(hpc.Unix(900))}})
	}
	w.Jobs.Append(&hpc.Job{ID: "cancelled", Submit: hpc.Unix(800), Recorded: &hpc.Recorded{Start: hpc.Unix(900), Nodes: "n5"},
		Behaviour: hpc.Behaviour{RunTime: time.Hour, CancelAfter: 1200 * time.Second}})
	w.Jobs.Append(&hpc.Job{ID: "later", Submit: hpc.Unix(1000), Behaviour: hpc.Behaviour{RunTime: time.Hour}})
	for _, tt := range []struct {
		nodes string
		start int64
		want  int
	}{{"ALL", 2000, 2}, {"n[2-3]", 2000, 2}, {"n[1-2]", 2000, 1}, {"n2", 2001, 0}, {"ALL", 1000, 0}, {"n4", 2000, 0}, {"n5", 1999, 1}, {"n5", 2000, 0}} {
		if n := w.PresetsInto(&hpc.Reservation{Start: hpc.Unix(tt.start), Nodes: tt.nodes}); n != tt.want {
			t.Errorf("nodes %s from %d: %d, want %d", tt.nodes, tt.start, n, tt.want)
		}
	}
}

// TestReservationsAt checks reservations that reuse each other's names.
func TestReservationsAt(t *testing.T) {
	event := func(at int, action string, start, length int, flags ...string) hpc.ReservationEvent {
		r := hpc.Reservation{Name: "r", Duration: time.Duration(length) * time.Second, Flags: flags}
		if start != 0 {
			r.Start = hpc.Unix(int64(start))
		}
		return hpc.ReservationEvent{At: hpc.Unix(int64(at)), Action: action, Reservation: r}
	}
	first, second := event(100, "create", 200, 100), event(400, "create", 500, 100)
	for name, tt := range map[string]struct {
		events     []hpc.ReservationEvent
		at         int64
		open, rest string
	}{
		"first is under way":                           {[]hpc.ReservationEvent{first, second}, 250, "100 create 200+100", "400 create 500+100"},
		"first has ended, second has not been created": {[]hpc.ReservationEvent{first, second}, 350, "", "400 create 500+100"},
		"second is under way":                          {[]hpc.ReservationEvent{first, second}, 450, "400 create 500+100", ""},
		"both have ended":                              {[]hpc.ReservationEvent{first, second}, 600, "", ""},
		"second is created when the first ends":        {[]hpc.ReservationEvent{first, event(300, "create", 300, 900)}, 450, "300 create 300+900", ""},
		"second is created before the first ends":      {[]hpc.ReservationEvent{first, event(299, "create", 300, 900)}, 299, "100 create 200+100", ""},
		"first was deleted":                            {[]hpc.ReservationEvent{first, event(250, "delete", 0, 0), event(260, "create", 300, 900)}, 450, "260 create 300+900", ""},
		"second is changed later":                      {[]hpc.ReservationEvent{first, second, event(550, "update", 0, 400), event(700, "delete", 0, 0)}, 350, "", "400 create 500+100; 550 update 0+400; 700 delete 0+0"},
		"second was changed before":                    {[]hpc.ReservationEvent{first, second, event(550, "update", 0, 400), event(700, "delete", 0, 0)}, 650, "400 create 500+400", "700 delete 0+0"},
		"first is changed after its end":               {[]hpc.ReservationEvent{first, event(301, "update", 0, 9000), event(370, "delete", 0, 0), second, event(550, "delete", 0, 0)}, 350, "", "400 create 500+100; 550 delete 0+0"},
		"first is changed at its end":                  {[]hpc.ReservationEvent{first, event(300, "update", 0, 9000)}, 350, "100 create 200+9000", ""},
		"first recurs":                                 {[]hpc.ReservationEvent{event(100, "create", 200, 100, "HOURLY"), second}, 450, "100 create 200+100", ""},
		"first is purged when unused":                  {[]hpc.ReservationEvent{event(100, "create", 200, 900, "PURGE_COMP"), second}, 450, "400 create 500+100", ""},
	} {
		text := func(events []hpc.ReservationEvent) string {
			var out []string
			for _, ev := range events {
				out = append(out, fmt.Sprintf("%d %s %d+%g", ev.At.UnixSeconds(), ev.Action, ev.Start.UnixSeconds(), ev.Duration.Seconds()))
			}
			return strings.Join(out, "; ")
		}
		open, rest := ReservationsAt(tt.events, hpc.Unix(tt.at))
		if diff := cmp.Diff([]string{tt.open, tt.rest}, []string{text(open), text(rest)}); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// The time for each event stays the same: an import of a year has hundreds of thousands.
func BenchmarkReservationsAt(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			events := make([]hpc.ReservationEvent, n)
			for i := range events {
				events[i] = hpc.ReservationEvent{At: 1, Action: "create", Reservation: hpc.Reservation{Name: fmt.Sprint(i), Start: 1, Duration: time.Hour}}
			}
			for b.Loop() {
				if open, _ := ReservationsAt(events, 2); len(open) != n {
					b.Fatalf("%d of %d are open", len(open), n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/event")
		})
	}
}
