package slurm

import (
	"fmt"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
)

// CompareSacct compares a run's rows with what `sacct -P` printed of its database, in
// the form of [Engine.Sacct]: submit, start and end to the second, state, nodes,
// account and QOS of every job that slurmctld accepted. It returns the differences in
// words, none if there are none.
func CompareSacct(sacct string, rows []run.Row) (differences []string, err error) {
	records, err := parseSacct(sacct)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		row := &rows[i]
		if row.RMJob == 0 || row.State == hpc.Rejected || !row.State.Ended() {
			continue
		}
		name := row.Job
		if row.Task >= 0 {
			name += "_" + strconv.Itoa(row.Task)
		}
		rec, ok := records[row.RMJob]
		if !ok && row.Start.IsZero() {
			continue // sacct does not show jobs that never became eligible (as_mysql_jobacct_process.c)
		}
		if !ok {
			differences = append(differences, fmt.Sprintf("job %s: slurmdbd has no job %d", name, row.RMJob))
			continue
		}
		submit := row.Submit
		if !row.Resubmit.IsZero() {
			submit = row.Resubmit
		}
		for _, c := range []struct{ what, ours, theirs string }{
			{"submit", sacctTime(submit), rec["Submit"]}, {"start", sacctTime(row.Start), known(rec["Start"])}, {"end", sacctTime(row.End), known(rec["End"])},
			{"state", string(row.State), firstWord(rec["State"])}, {"nodes", row.Nodes, known(rec["NodeList"])},
			{"account", row.Account, rec["Account"]}, {"QOS", row.QOS, qosOf(rec["QOS"], row.QOS)},
		} {
			if c.ours != c.theirs {
				differences = append(differences, fmt.Sprintf("job %s: %s %s, slurmdbd has %s", name, c.what, orNone(c.ours), orNone(c.theirs)))
			}
		}
	}
	return differences, nil
}

// AmendFromSacct returns what completes a row with what only the database knows: the
// priority with which the job started, and its TRES. sacct is as for [CompareSacct].
func AmendFromSacct(sacct string) (func(*run.Row), error) {
	records, err := parseSacct(sacct)
	if err != nil {
		return nil, err
	}
	return func(row *run.Row) {
		rec := records[row.RMJob]
		if n, err := strconv.ParseUint(rec["Priority"], 10, 32); err == nil {
			row.Priority = uint32(n)
		}
		if row.TRES == "" {
			row.TRES = rec["AllocTRES"]
		}
	}, nil
}

// parseSacct reads the output into records by job number; of a job that ran several
// times the last counts.
func parseSacct(text string) (map[uint32]map[string]string, error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	header := strings.Split(lines[0], "|")
	nameAt := -1
	for i, h := range header {
		if h == "JobName" {
			nameAt = i
		}
	}
	out := map[uint32]map[string]string{}
	for _, line := range lines[1:] {
		fields := strings.Split(line, "|")
		if extra := len(fields) - len(header); extra > 0 && nameAt >= 0 { // a name with the separator in it
			name := strings.Join(fields[nameAt:nameAt+extra+1], "|")
			fields = append(append(fields[:nameAt:nameAt], name), fields[nameAt+extra+1:]...)
		}
		if len(fields) != len(header) {
			return nil, fmt.Errorf("reading sacct's output: %.100q has %d fields, the header %d", line, len(fields), len(header))
		}
		rec := map[string]string{}
		for i, h := range header {
			rec[h] = fields[i]
		}
		id, err := strconv.ParseUint(rec["JobIDRaw"], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("reading sacct's output: JobIDRaw %q: not a number", rec["JobIDRaw"])
		}
		out[uint32(id)] = rec
	}
	return out, nil
}

func sacctTime(t hpc.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Std().Format("2006-01-02T15:04:05")
}

// known is empty for the words with which sacct says that there is nothing.
func known(s string) string {
	switch s {
	case "Unknown", "None", "None assigned":
		return ""
	}
	return s
}

// qosOf is sacct's word for a QOS. It says Unknown of one that the database does not
// have, where slurmctld goes on by the name that was asked for.
func qosOf(theirs, ours string) string {
	if theirs == "Unknown" {
		return ours
	}
	return theirs
}

func firstWord(s string) string { // "CANCELLED by 1001"
	w, _, _ := strings.Cut(s, " ")
	return w
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
