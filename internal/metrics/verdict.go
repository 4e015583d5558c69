package metrics

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// RenderVerdict writes for people how a replay agrees with the record, in two to five lines. Dates
// are in the given time zone.
func RenderVerdict(b *bytes.Buffer, v *run.Verdict, zone *time.Location) {
	fmt.Fprintf(b, "recorded against replayed: %s of %d %s start within a minute of the record\n",
		percent(ratio(float64(v.SameStart), float64(v.Jobs))), v.Jobs, quantity.Plural(v.Jobs, "job", "jobs"))
	fmt.Fprintf(b, "  mean wait    %s recorded, %s replayed; median %s and %s\n",
		clock(Float(v.RecordedMean)), clock(Float(v.ReplayedMean)), clock(Float(v.RecordedMedian)),
		clock(Float(v.ReplayedMedian)))
	if v.OnlyReplayed+v.OnlyRecorded > 0 {
		fmt.Fprintf(b, "  only in one  %s only in the replay, %s only in the record\n", started(v.OnlyReplayed),
			started(v.OnlyRecorded))
	}
	if v.BetweenReplays > 0 {
		fmt.Fprintf(b, "  distance     %s s to the record, %s s between the replays\n", number(Float(v.Distance)),
			number(Float(v.BetweenReplays)))
	}
	if f := v.First; f != nil {
		fmt.Fprintf(b, "  differs      first job %s: starts %s, recorded %s", f.Job, dateIn(f.Replayed, zone),
			dateIn(f.Recorded, zone))
		var parts []string
		for _, g := range v.Groups[:min(2, len(v.Groups))] {
			parts = append(parts, fmt.Sprintf("%s %s (%s of it)", g.By, ShownName(g.Name), percent(Float(g.Share))))
		}
		if len(parts) > 0 {
			fmt.Fprintf(b, "; most: %s", strings.Join(parts, ", "))
		}
		b.WriteString("\n")
	}
	if len(v.LookAt) > 0 {
		fmt.Fprintf(b, "  look at      %s\n", strings.Join(v.LookAt[:min(2, len(v.LookAt))], "; "))
	}
}

// started returns a text about a number of jobs that started.
func started(n int) string {
	return quantity.Regular(n, "job") + quantity.Plural(n, " starts", " start")
}

// dateIn writes an instant of a verdict in a time zone.
func dateIn(text string, zone *time.Location) string {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return hpc.Time(t.UnixNano()).Text(zone)
}
