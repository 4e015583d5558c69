package slurmspec

import "strings"

// jobFlags are the flags of a job's accounting record: which scheduler started the job, and
// whether its node confirmed the start (SLURMDB_JOB_FLAG_ in slurmdb.h).
var jobFlags = []struct {
	bit  uint32
	name string // as sacct -P prints it (slurmdb_job_flags_str in slurmdb_defs.c)
	json string // as sacct --json prints it (data_parser's parsers.c)
}{
	{1 << 0, "SchedNotSet", "NOT_SET"},
	{1 << 1, "SchedSubmit", "STARTED_ON_SUBMIT"},
	{1 << 2, "SchedMain", "STARTED_ON_SCHEDULE"},
	{1 << 3, "SchedBackfill", "STARTED_ON_BACKFILL"},
	{1 << 4, "StartReceived", "START_RECEIVED"},
}

// JobFlags returns the flags in a number of slurmdbd's job table as sacct -P prints them:
// "SchedBackfill". It returns "" for 0 and leaves out bits that it does not know.
func JobFlags(number uint32) string {
	var names []string
	for _, f := range jobFlags {
		if number&f.bit != 0 {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, ",")
}

// JobFlagsOfJSON returns the flags in a list of sacct --json as sacct -P prints them. It
// leaves out words that it does not know, such as CLEAR_SCHEDULING, which sacct prints
// beside every other flag.
func JobFlagsOfJSON(words []string) string {
	var number uint32
	for _, word := range words {
		for _, f := range jobFlags {
			if word == f.json {
				number |= f.bit
			}
		}
	}
	return JobFlags(number)
}
