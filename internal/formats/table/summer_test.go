package table

import (
	"strings"
	"testing"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/workload"
)

// TestSummerTime reads times in the hour that occurs twice, and in the hour that the clocks skip. The last column of a
// row is the run time, or "". In Zurich summer time ended at 01:00 UTC on 27 October 2024 and began at 01:00 UTC on 31
// March.
func TestSummerTime(t *testing.T) {
	const zone, plain = "zone: Europe/Zurich\n", "columns: [s, b, e, r]\nfields: {submit: s, start: b, end: e, run_time: r, cpus: {value: \"4\"}}"
	const autumn, spring = "2024-10-27 ", "2024-03-31 "
	for _, tt := range []struct {
		head, row, want string
		twice, skipped  int
	}{
		{zone, autumn + "02:50:00," + autumn + "02:10:00," + autumn + "02:20:00,", "00:50 01:10 01:20", 1, 0},
		{zone, autumn + "02:10:00," + autumn + "02:20:00," + autumn + "02:30:00,", "00:10 00:20 00:30", 1, 0},
		{zone, autumn + "01:50:00," + autumn + "02:50:00," + autumn + "02:10:00,", "23:50 00:50 01:10", 1, 0},
		{zone, autumn + "01:50:00," + autumn + "02:10:00," + autumn + "03:10:00,3600", "23:50 01:10 02:10", 1, 0},
		{zone, autumn + "01:50:00," + autumn + "02:10:00," + autumn + "03:10:00,7200", "23:50 00:10 02:10", 1, 0},
		{zone, autumn + "02:50:00," + autumn + "03:10:00," + autumn + "03:20:00,", "00:50 02:10 02:20", 1, 0},
		{zone, autumn + "03:10:00," + autumn + "03:10:00," + autumn + "03:20:00,", "02:10 02:10 02:20", 0, 0},
		{zone, autumn + "02:50:00+01:00," + autumn + "02:10:00Z," + autumn + "02:20:00 UTC,", "01:50 02:10 02:20", 0, 0},
		{"zone: Europe/London\n", autumn + "01:50:00," + autumn + "01:10:00," + autumn + "01:20:00,", "00:50 01:10 01:20", 1, 0},
		{"", autumn + "02:10:00," + autumn + "02:20:00," + autumn + "02:30:00,", "02:10 02:20 02:30", 0, 0},
		{"zone: America/New_York\n", "2024-11-03 01:50:00,2024-11-03 01:10:00,2024-11-03 01:20:00,", "05:50 06:10 06:20", 1, 0},
		{zone + "time: '%d.%m.%Y %H:%M'\n", "27.10.2024 02:50,27.10.2024 02:10,27.10.2024 02:20,", "00:50 01:10 01:20", 1, 0},
		{zone + "time: '%d.%m.%Y %H:%M %Z'\n", "27.10.2024 02:50 CEST,27.10.2024 02:10 CET,27.10.2024 02:20 CET,", "00:50 01:10 01:20", 0, 0},
		{zone + "time: unix\n", "1729990200,1729991400,1729992000,", "00:50 01:10 01:20", 0, 0},
		{zone, spring + "01:50:00," + spring + "02:30:00," + spring + "03:40:00,", "00:50 01:30 01:40", 0, 1},
		{zone, spring + "01:50:00," + spring + "03:30:00," + spring + "03:40:00,", "00:50 01:30 01:40", 0, 0},
	} {
		w := read(t, tt.head+plain, tt.row+"\n")
		job := w.Jobs.At(0)
		var got []string
		for _, at := range []int64{job.Submit.UnixSeconds(), job.Recorded.Start.UnixSeconds(), job.Recorded.End.UnixSeconds()} {
			got = append(got, time.Unix(at, 0).UTC().Format("15:04"))
		}
		if s := strings.Join(got, " "); s != tt.want || w.Rules[NoteHourTwice] != tt.twice || w.Rules[RuleHourSkipped] != tt.skipped || w.Rules[finished.RuleTimesReversed] != 0 {
			t.Errorf("%s%s: %s, rules %v, want %s", tt.head, tt.row, s, w.Rules, tt.want)
		}
	}
	m, err := ParseMap([]byte(zone+plain), "m")
	if err != nil {
		t.Fatal(err)
	}
	const want = `job 1: column b (start) "2024-03-31 02:30:00": not a time in Europe/Zurich, where the clocks skip it when summer time begins (want`
	_, _, err = readWith(m, spring+"01:50:00,"+spring+"02:30:00,"+spring+"03:40:00,\n", workload.ReadOptions{Strict: true})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestEligibleTwice takes the later of two eligible times if the earlier one is before the submission.
func TestEligibleTwice(t *testing.T) {
	w := read(t, "zone: Europe/Zurich\ncolumns: [s, l, b, e]\nfields: {submit: s, eligible: l, start: b, end: e, cpus: {value: \"4\"}}",
		"2024-10-27T02:50:00+02:00,2024-10-27 02:10:00,2024-10-27 03:10:00,2024-10-27 03:20:00\n")
	if job := w.Jobs.At(0); job.Begin != 20*time.Minute || w.Rules[NoteHourTwice] != 1 {
		t.Errorf("begin %s, rules %v", job.Begin, w.Rules)
	}
}
