package table

import (
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
)

// NoteHourTwice counts jobs with a time in the hour that occurs twice when summer time ends, if the table does not say
// which of the two it is.
const NoteHourTwice = "summer_time_hour_twice"

// RuleHourSkipped counts jobs with a time in the hour that the clocks skip when summer time begins. The time is read as
// if the clocks had not been changed yet.
const RuleHourSkipped = "summer_time_hour_skipped"

// reading is what the text of an instant means.
type reading struct {
	at      hpc.Time
	later   hpc.Time // the second instant with this text, if the hour occurs twice; otherwise 0
	skipped bool     // the clocks skip this time
}

// options returns the instants that the text can mean. The earlier instant is first.
func (r reading) options() []hpc.Time {
	if r.later != 0 {
		return []hpc.Time{r.at, r.later}
	}
	return []hpc.Time{r.at}
}

// someZone is a zone with an offset that no other zone has.
var someZone = time.FixedZone("", 45240)

// read reads an instant like parse, and also finds out whether summer time begins or ends at this time.
func (c *clockReader) read(text string) (reading, error) {
	at, err := c.parse(text)
	if err != nil || c.unit != 0 || strings.Contains(c.layout, directives['Z']) {
		return reading{at: at}, err
	}
	const day = 24 * time.Hour
	offset := func(at hpc.Time) time.Duration {
		_, seconds := time.Unix(0, int64(at)).In(c.zone).Zone()
		return time.Duration(seconds) * time.Second
	}
	before, after := offset(at.Add(-day)), offset(at.Add(day))
	if before == after {
		return reading{at: at}, nil
	}
	elsewhere := *c
	elsewhere.zone = someZone
	other, err := elsewhere.parse(text)
	if err != nil || other == at {
		return reading{at: at}, err // the text has a zone
	}
	utc := other.Add(45240 * time.Second)
	first, second := utc.Add(-before), utc.Add(-after)
	isFirst, isSecond := offset(first) == before, offset(second) == after
	switch {
	case isFirst && isSecond:
		return reading{at: first, later: second}, nil
	case isSecond:
		return reading{at: second}, nil
	}
	return reading{at: first, skipped: !isFirst}, nil
}

// instants are the instants of a row. wait and run are its durations; a negative value means that a duration is not
// known.
type instants struct {
	submit, start, end, eligible reading
	wait, run                    time.Duration
}

// choose sets a job's instants. Of instants that occur twice, it takes those that contradict the order of the instants
// and the durations least, and otherwise the earlier ones.
func (v *values) choose(r *finished.Job, in *instants) {
	least := -1
	for _, s := range in.submit.options() {
		for _, b := range in.start.options() {
			for _, e := range in.end.options() {
				faults := reversed(s, b) + reversed(b, e) + reversed(s, e) + differs(s, b, in.wait) + differs(b, e, in.run)
				if least < 0 || faults < least {
					least, r.Submit, r.Start, r.End = faults, s, b, e
				}
			}
		}
	}
	if r.Eligible = in.eligible.at; r.Eligible < r.Submit && in.eligible.later != 0 {
		r.Eligible = in.eligible.later
	}
	for _, f := range []struct {
		name string
		reading
	}{{"submit", in.submit}, {"start", in.start}, {"end", in.end}, {"eligible", in.eligible}} {
		v.twice = v.twice || f.later != 0
		if f.skipped && v.skipped == nil {
			v.skipped = v.c.wrong(f.name, fmt.Errorf("not a time in %s, where the clocks skip it when summer time "+
				"begins (want the table's zone, as zone in the map or with --timezone)", v.s.times[v.s.m.Fields[f.name]].zone))
		}
	}
}

// reversed returns 4 if both instants are known and the second is before the first, and otherwise 0.
func reversed(first, second hpc.Time) int {
	if first != 0 && second != 0 && second < first {
		return 4
	}
	return 0
}

// differs returns 1 if the time between two instants is more than a minute longer or shorter than it should be. It
// returns 0 if one of them is not known.
func differs(first, second hpc.Time, want time.Duration) int {
	if first == 0 || second == 0 || want < 0 || (second.Sub(first)-want).Abs() <= time.Minute {
		return 0
	}
	return 1
}
