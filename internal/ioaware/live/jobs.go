package live

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// job is a job as "squeue --json" shows it. All releases since 22.05 have these members.
type job struct {
	ID           number `json:"job_id"`
	ArrayID      number `json:"array_job_id"`
	Task         number `json:"array_task_id"`
	Tasks        string `json:"array_task_string"`
	Partition    string `json:"partition"`
	State        words  `json:"job_state"`
	Reason       string `json:"state_reason"`
	Priority     number `json:"priority"`
	User         number `json:"user_id"`
	AdminComment string `json:"admin_comment"`
	Comment      string `json:"comment"`
	Dependency   string `json:"dependency"`
	Reservation  string `json:"resv_name"`
	Licenses     string `json:"licenses"`
	Nodes        number `json:"node_count"`
	NodeList     string `json:"nodes"`
	TimeLimit    number `json:"time_limit"` // minutes
	Submit       number `json:"submit_time"`
	Eligible     number `json:"eligible_time"`
	End          number `json:"end_time"`
}

// readJobs reads what "squeue --json" prints.
func readJobs(text []byte) ([]job, error) {
	var answer struct {
		Jobs   *[]job `json:"jobs"`
		Errors []struct {
			Error string `json:"error"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("reading squeue's JSON: %w", err)
	}
	switch {
	case len(answer.Errors) > 0:
		return nil, fmt.Errorf("squeue: %s", answer.Errors[0].Error)
	case answer.Jobs == nil:
		return nil, fmt.Errorf("reading squeue's JSON: it has no jobs (want Slurm 22.05 or newer)")
	}
	return *answer.Jobs, nil
}

// number is a number in Slurm's JSON. Newer releases write it as an object. A number that is not
// set becomes -1, and an infinite number becomes infinite.
type number int64

const (
	unset    number = -1
	infinite number = 1<<63 - 1
)

// marks are special numbers of older releases: INFINITE and NO_VAL of 32 and 64 bits (slurm.h).
var marks = map[json.Number]number{
	"4294967295": infinite, "4294967294": unset, "18446744073709551615": infinite, "18446744073709551614": unset,
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *number) UnmarshalJSON(text []byte) error {
	var object struct {
		Set, Infinite bool
		Number        json.Number
	}
	switch first := text[0]; {
	case bytes.Equal(text, []byte("null")):
		*n = unset
		return nil
	case first == '{':
		if err := json.Unmarshal(text, &object); err != nil {
			return err
		}
		if object.Infinite {
			*n = infinite
			return nil
		}
		if !object.Set {
			*n = unset
			return nil
		}
	default:
		object.Number = json.Number(strings.Trim(string(text), `"`)) // 22.05 writes some numbers as strings
	}
	if mark, is := marks[object.Number]; is {
		*n = mark
		return nil
	}
	if object.Number == "" {
		*n = unset
		return nil
	}
	value, err := strconv.ParseInt(string(object.Number), 10, 64)
	if err != nil {
		return fmt.Errorf("%s: not a number", text)
	}
	*n = number(value)
	return nil
}

// words is a word, or the list of words that newer releases write.
type words []string

// UnmarshalJSON implements [json.Unmarshaler].
func (w *words) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(w))
	}
	var one string
	if err := json.Unmarshal(text, &one); err != nil {
		return err
	}
	*w = words{one}
	return nil
}

func (w words) has(one ...string) bool {
	return slices.ContainsFunc(w, func(word string) bool { return slices.Contains(one, word) })
}

// pending reports whether the job waits to start.
func (j *job) pending() bool { return j.State.has("PENDING") && !j.State.has("COMPLETING") }

// onNodes reports whether the job has nodes.
func (j *job) onNodes() bool {
	return j.State.has("RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "STOPPED", "SIGNALING", "STAGE_OUT",
		"RESIZING")
}

// completes reports whether the job has ended within the last minute and still has nodes. The nodes
// are free within seconds, unless one fails.
func (j *job) completes(now hpc.Time) bool {
	return j.State.has("COMPLETING") && j.End > number(now.Add(-time.Minute).UnixSeconds())
}

// held reports whether somebody holds the job.
func (j *job) held() bool { return j.Priority == 0 }

// heldByDriver reports whether the driver, or the site's job_submit.lua, holds the job. slurmctld
// treats a hold by job_submit.lua as the user's hold, and the driver turns it into an operator's
// hold. If the reason is JobHeldUser after that, an operator has made it the user's hold again
// (scontrol uhold). For root's jobs slurmctld keeps the reason.
func (j *job) heldByDriver() bool {
	mark := markOf(j.AdminComment)
	return j.held() && (mark == markSubmitted || mark == markHeld && (j.Reason != "JobHeldUser" || j.User == 0))
}

// waitsForOthers reports whether the job waits for something other than nodes: a dependency, its
// begin time or a reservation.
func (j *job) waitsForOthers(now hpc.Time) bool {
	return j.Dependency != "" && j.Dependency != "(null)" || j.Reservation != "" ||
		j.Eligible > number(now.UnixSeconds()) ||
		slices.Contains([]string{"Dependency", "DependencyNeverSatisfied", "BeginTime", "Reservation"}, j.Reason)
}

// name is how Slurm's commands name the job: 12, or 12_3 for a task of an array.
func (j *job) name() string {
	switch {
	case j.ArrayID > 0 && j.Tasks == "" && j.Task >= 0:
		return fmt.Sprintf("%d_%d", j.ArrayID, j.Task)
	case j.ArrayID > 0 && j.Tasks != "":
		tasks, _, _ := strings.Cut(j.Tasks, "%")
		return fmt.Sprintf("%d_[%s]", j.ArrayID, tasks)
	}
	return strconv.FormatInt(int64(j.ID), 10)
}

// names are the names of the tasks in the record.
func (j *job) names() []string {
	if j.Tasks == "" {
		return []string{j.name()}
	}
	array, err := hpc.ParseArray(j.Tasks)
	if err != nil { // squeue shortens long lists: the other tasks follow when these have become jobs
		end := strings.LastIndexByte(j.Tasks, ',')
		if end < 0 {
			return nil
		}
		if array, err = hpc.ParseArray(j.Tasks[:end]); err != nil {
			return nil
		}
	}
	list := make([]string, len(array.Tasks))
	for i, task := range array.Tasks {
		list[i] = fmt.Sprintf("%d_%d", j.ArrayID, task)
	}
	return list
}

// sortJobs sorts jobs by the times of their submission.
func sortJobs(list []job) {
	slices.SortStableFunc(list, func(a, b job) int {
		return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID))
	})
}

// The marks in the admin comment of a job. They say that the site's job_submit.lua has submitted
// the job held, that the driver holds it, or that the driver has released it.
const (
	markSubmitted = "submitted"
	markHeld      = "held"
	markReleased  = "released"
	markPrefix    = "rmreplay-io="
)

// markOf returns the mark in an admin comment; empty if there is none.
func markOf(comment string) string {
	_, rest, found := strings.Cut(comment, markPrefix)
	mark, _, ended := strings.Cut(rest, ";")
	if !found || !ended {
		return ""
	}
	return mark
}

// marked returns an admin comment with its mark replaced. The rest of the comment stays.
func marked(comment, mark string) string {
	if old := markOf(comment); old != "" {
		comment = strings.Replace(comment, markPrefix+old+";", "", 1)
	}
	return markPrefix + mark + ";" + comment
}
