package jobrows

import (
	"slices"
	"strings"

	"rmreplay/internal/run"
)

// identity is one of the texts by which a job may be known: its ID or its name.
type identity func(row *run.Row) string

func byID(row *run.Row) string   { return row.Job }
func byName(row *run.Row) string { return row.Name }

// SameNames matches the jobs of two sides that have no ID in common, and returns the baseline's ID of each job of a
// set. Partners have the same name, or the name of one is the ID of the other, as when a replay's jobs were named
// after a log's. It returns nil if names repeat, or fewer than half of the jobs of either side have a partner.
func SameNames(baseline, set []run.Row) (best map[string]string) {
	ids, known := jobsBy(baseline, byID)
	if !known {
		return nil
	}
	for i := range set {
		if ids[set[i].Job] != "" {
			return nil
		}
	}
	for _, by := range [][2]identity{{byName, byName}, {byID, byName}, {byName, byID}} {
		a, unique := jobsBy(baseline, by[0])
		b, alsoUnique := jobsBy(set, by[1])
		if !unique || !alsoUnique {
			continue
		}
		found := map[string]string{}
		for text, job := range b {
			if partner, both := a[text]; both {
				found[job] = partner
			}
		}
		if len(found) > len(best) && 2*len(found) >= max(len(a), len(b)) {
			best = found
		}
	}
	return best
}

// jobsBy returns the IDs of jobs by one of their texts. It reports false if a job has no such text, or two jobs have
// the same text.
func jobsBy(rows []run.Row, text identity) (jobs map[string]string, unique bool) {
	jobs = map[string]string{}
	for i := range rows {
		row, name := &rows[i], text(&rows[i])
		if job, taken := jobs[name]; name == "" || taken && job != row.Job {
			return nil, false
		}
		jobs[name] = row.Job
	}
	return jobs, true
}

// Renamed returns the rows with the IDs of the baseline's jobs; ids is from [SameNames].
func Renamed(rows []run.Row, ids map[string]string) []run.Row {
	if ids == nil {
		return rows
	}
	list := make([]run.Row, len(rows))
	for i, row := range rows {
		if id := ids[row.Job]; id != "" {
			row.Job = id
		}
		row.Segments = slices.Clone(row.Segments)
		for k := range row.Segments {
			by := &row.Segments[k].PreemptedBy
			if job, _, _ := strings.Cut(*by, "_"); ids[job] != "" {
				*by = ids[job] + strings.TrimPrefix(*by, job)
			}
		}
		list[i] = row
	}
	return list
}
