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

// job is a job in the output of "squeue --json". All releases since 22.05 have these members.
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

// readJobs parses the output of "squeue --json".
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
		return nil, fmt.Errorf("reading squeue's JSON: the member jobs is missing (want Slurm 22.05 or newer)")
	}
	return *answer.Jobs, nil
}

// number is a number in Slurm's JSON. Newer releases write an object instead. A number that is not
// set becomes the constant unset, and an infinite number becomes the constant infinite.
type number int64

const (
	unset    number = -1
	infinite number = 1<<63 - 1
)

// marks are the special numbers of older releases: INFINITE and NO_VAL with 32 and 64 bits
// (slurm.h).
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

// words is a word, or a list of words in newer releases.
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

// completes reports whether the job ended within the last minute and still has nodes. These become
// free within seconds, unless a node fails.
func (j *job) completes(now hpc.Time) bool {
	return j.State.has("COMPLETING") && j.End > number(now.Add(-time.Minute).UnixSeconds())
}

// held reports whether the job is held, by the driver or by someone else.
func (j *job) held() bool { return j.Priority == 0 }

// heldByDriver reports whether the driver, or the site's job_submit.lua, holds the job. slurmctld
// treats a hold by job_submit.lua as a hold by the user, and the driver turns it into a hold by
// an operator. If the reason is JobHeldUser after that, an operator has made it a user's hold
// again (scontrol uhold). For root's jobs, slurmctld does not change the reason.
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

// name returns the job's name in Slurm's commands: 12, or 12_3 for a task of an array.
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

// names returns the names of all tasks in the record.
func (j *job) names() []string {
	if j.Tasks == "" {
		return []string{j.name()}
	}
	array, err := hpc.ParseArray(j.Tasks)
	if err != nil { // squeue shortens long lists; the other tasks follow in later rounds
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

// sortJobs sorts jobs by submit time.
func sortJobs(list []job) {
	slices.SortStableFunc(list, func(a, b job) int {
		return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.ID, b.ID))
	})
}

// The marks in a job's admin comment. A mark says one of three things: the site's job_submit.lua
// held the job at its submission, the driver holds the job, or the driver released the job.
const (
	markSubmitted = "submitted"
	markHeld      = "held"
	markReleased  = "released"
	markPrefix    = "rmreplay-io="
)

// markOf returns the mark in an admin comment, and "" if there is no mark.
func markOf(comment string) string {
	_, rest, found := strings.Cut(comment, markPrefix)
	mark, _, ended := strings.Cut(rest, ";")
	if !found || !ended {
		return ""
	}
	return mark
}

// marked returns an admin comment with a new mark. The rest of the comment does not change.
func marked(comment, mark string) string {
	if old := markOf(comment); old != "" {
		comment = strings.Replace(comment, markPrefix+old+";", "", 1)
	}
	return markPrefix + mark + ";" + comment
}
