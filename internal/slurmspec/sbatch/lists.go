package sbatch

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
)

// CheckArray returns an error if a value of --array is wrong. [hpc.ParseArray] reads it.
func CheckArray(s string) error {
	_, err := hpc.ParseArray(s)
	return err
}

// Dependency is one condition of a --dependency value.
type Dependency struct {
	// Type is "after", "afterany", "afterok", "afternotok", "aftercorr",
	// "afterburstbuffer", "expand" or "singleton".
	Type string
	// Job is the other job's ID. "_TASK" may follow it, as [Dependency.Task] says. Job is empty for a singleton.
	Job string
	// DelayMinutes is the number after the "+" of "after:JOB+MINUTES".
	DelayMinutes int
}

// Dependencies is a parsed --dependency value.
type Dependencies struct {
	List []Dependency
	// Any says that one of the conditions is enough: "?" separates them, not ",".
	Any bool
}

// dependencyTypes are the conditions that slurmctld 22.05 knows
// (update_job_dependency in src/slurmctld/job_scheduler.c).
var dependencyTypes = []string{"after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer", "expand"}

// ParseDependency reads a job's dependencies: "afterok:ID:ID,afterany:ID+5", "singleton", or
// plain IDs, which mean afterany. An ID is any text without one of ":,?+".
func ParseDependency(s string) (Dependencies, error) {
	var d Dependencies
	d.Any = strings.ContainsRune(s, '?')
	parts := splitOutsideBrackets(s, d.Any)
	if d.Any && len(splitOutsideBrackets(s, false)) > 1 {
		return Dependencies{}, errors.New(`not a dependency ("," and "?" cannot be mixed)`)
	}
	for _, part := range parts {
		list, err := parseCondition(part)
		if err != nil {
			return Dependencies{}, err
		}
		d.List = append(d.List, list...)
	}
	if len(d.List) == 0 {
		return Dependencies{}, errDependency
	}
	return d, nil
}

// splitOutsideBrackets splits at "?" or ",", but not inside "17_[1,3]".
func splitOutsideBrackets(s string, atQuestionMark bool) []string {
	separator, depth := ',', 0
	if atQuestionMark {
		separator = '?'
	}
	return strings.FieldsFunc(s, func(r rune) bool {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		}
		return depth == 0 && r == separator
	})
}

// CheckDependency returns an error if a value of --dependency is wrong.
func CheckDependency(s string) error {
	_, err := ParseDependency(s)
	return err
}

var errDependency = errors.New(
	"not a dependency (want afterok:ID[:ID...], afterany:..., afternotok:..., after:ID[+MINUTES] or singleton)")

func parseCondition(s string) ([]Dependency, error) {
	kind, jobs, hasJobs := strings.Cut(s, ":")
	if strings.EqualFold(kind, "singleton") && !hasJobs {
		return []Dependency{{Type: "singleton"}}, nil
	}
	if !hasJobs {
		if slices.Contains(dependencyTypes, strings.ToLower(kind)) {
			return nil, errDependency
		}
		kind, jobs = "afterany", s // the old form, just a job ID
	}
	kind = strings.ToLower(kind)
	if !slices.Contains(dependencyTypes, kind) {
		return nil, errDependency
	}
	var list []Dependency
	for job := range strings.SplitSeq(jobs, ":") {
		d := Dependency{Type: kind}
		var minutes string
		var hasDelay bool
		if d.Job, minutes, hasDelay = strings.Cut(job, "+"); hasDelay {
			n, err := parseCount(minutes, 0)
			if err != nil || kind != "after" {
				return nil, errDependency
			}
			d.DelayMinutes = n
		}
		if d.Job == "" {
			return nil, errDependency
		}
		list = append(list, d)
	}
	return list, nil
}

// Task splits the job into an ID and the index of a task of its array: "17_3" is task 3 of 17.
// "17_*" and "17_[1-4]" name several tasks; then ok is true and the task is -1.
func (d Dependency) Task() (id string, task int, ok bool) {
	i := strings.LastIndexByte(d.Job, '_')
	if i <= 0 {
		return d.Job, -1, false
	}
	id, index := d.Job[:i], d.Job[i+1:]
	if index == "*" || strings.HasPrefix(index, "[") {
		return id, -1, true
	}
	n, err := strconv.Atoi(index)
	if err != nil || n < 0 {
		return d.Job, -1, false
	}
	return id, n, true
}

// String returns the dependencies as --dependency takes them.
func (d Dependencies) String() string {
	separator := ","
	if d.Any {
		separator = "?"
	}
	parts := make([]string, len(d.List))
	for i, c := range d.List {
		parts[i] = c.Type
		if c.Job != "" {
			parts[i] += ":" + c.Job
		}
		if c.DelayMinutes > 0 {
			parts[i] += "+" + strconv.Itoa(c.DelayMinutes)
		}
	}
	return strings.Join(parts, separator)
}
