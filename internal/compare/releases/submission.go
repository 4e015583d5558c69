package releases

import (
	"cmp"
	"fmt"
	"slices"

	"rmreplay/internal/rm/slurm/jobdesc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmspec"
)

// Submissions compares what the sbatch of two releases submits for the same options.
type Submissions struct {
	// Compared is the number of submissions whose options the record has. Different is the number of submissions
	// for which the two releases send slurmctld different numbers.
	Compared  int `json:"compared"`
	Different int `json:"different"`
	// Fields has the numbers that differ, the most frequent first.
	Fields []Field `json:"fields"`

	byJob map[string]string
}

// Field is a number of a submission that differs between the releases, with the first job for which
// it differs.
type Field struct {
	Name string `json:"name"`
	Jobs int    `json:"jobs"`
	Job  string `json:"first_job"`
	// Baseline and Set are the values of that job. "-" means that sbatch sends no number, so that
	// slurmctld chooses it.
	Baseline string `json:"baseline"`
	Set      string `json:"set"`
}

// Difference describes how a job's submission differs: "minimum of nodes 2 instead of 1". It is
// empty for a job whose submission does not differ.
func (s *Submissions) Difference(job string) string { return s.byJob[job] }

// fields are the numbers that sbatch derives. Generic resources are not compared, because their form
// has changed in 23.11 (gres/gpu:2) without a change of meaning.
var fields = []struct {
	name  string
	value func(*rpc.JobDesc) string
}{
	{"minimum of nodes", func(j *rpc.JobDesc) string { return minNodesText(j.MinNodes) }},
	{"maximum of nodes", func(j *rpc.JobDesc) string { return number(j.MaxNodes) }},
	{"tasks", func(j *rpc.JobDesc) string { return number(j.Tasks) }},
	{"minimum of CPUs", func(j *rpc.JobDesc) string { return number(j.MinCPUs) }},
	{"minimum of CPUs on a node", func(j *rpc.JobDesc) string { return number(uint32(j.MinCPUsPerNode)) }},
	{"tasks on a node", func(j *rpc.JobDesc) string { return number(uint32(j.TasksPerNode)) }},
	{"node list", func(j *rpc.JobDesc) string { return cmp.Or(j.ReqNodes, unset) }},
}

const unset = "-"

// minNodesText returns the minimum number of nodes that slurmctld uses for a job: 1 if sbatch sends
// no number (_validate_job_desc in job_mgr.c).
func minNodesText(n uint32) string {
	if n == slurmspec.NoVal {
		return "1"
	}
	return number(n)
}

func number(n uint32) string {
	if n == slurmspec.NoVal || n == uint32(slurmspec.NoVal16) {
		return unset
	}
	return fmt.Sprint(n)
}

// submissions compares the job descriptions that both releases' sbatch would send.
func submissions(rows []run.Row, from, to slurmspec.Release) Submissions {
	s := Submissions{Fields: []Field{}, byJob: map[string]string{}}
	for i := range rows {
		if rows[i].Request == "" {
			continue
		}
		job, err := run.DecodeJob([]byte(rows[i].Request))
		if err != nil {
			continue // the reader of the record reports this error
		}
		sub := jobdesc.Submission{Request: job.Request, Script: "#!/bin/sh\n", Now: rows[i].Submit,
			Dependency: job.Dependency}
		s.Compared++
		s.add(rows[i].Job, descriptionOf(sub, from), descriptionOf(sub, to))
	}
	slices.SortStableFunc(s.Fields, func(a, b Field) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return s
}

// descriptionOf returns the values of the fields. If sbatch refuses the submission, the error
// replaces the values.
func descriptionOf(s jobdesc.Submission, release slurmspec.Release) []string {
	s.Release = release
	desc, err := s.JobDesc()
	if err != nil {
		return []string{err.Error()}
	}
	values := make([]string, len(fields))
	for i, f := range fields {
		values[i] = f.value(desc)
	}
	return values
}

func (s *Submissions) add(job string, a, b []string) {
	if slices.Equal(a, b) {
		return
	}
	s.Different++
	if len(a) != len(b) {
		s.note("verdict of sbatch", job, verdict(a), verdict(b))
		return
	}
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		name := "refusal of sbatch"
		if len(a) == len(fields) {
			name = fields[i].name
		}
		s.note(name, job, a[i], b[i])
	}
}

func verdict(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return "accepted"
}

func (s *Submissions) note(name, job, a, b string) {
	text := fmt.Sprintf("%s %s instead of %s", name, b, a)
	if s.byJob[job] != "" {
		text = s.byJob[job] + ", " + text
	}
	s.byJob[job] = text
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			s.Fields[i].Jobs++
			return
		}
	}
	s.Fields = append(s.Fields, Field{name, 1, job, a, b})
}
