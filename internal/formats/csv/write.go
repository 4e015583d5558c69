package csv

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/inert"
	"rmreplay/internal/workload"
)

// Write writes a table of the jobs and counts what the table cannot express. It leaves out columns
// without values, except for the usual columns (see written). Instants are in UTC.
func Write(w io.Writer, wl *workload.Workload) (workload.Losses, error) {
	t := writer{csv: inert.NewWriter(w), losses: workload.Losses{}, users: map[string]hpc.User{}}
	for _, u := range wl.Users {
		t.users[u.Name] = u
	}
	t.choose(wl)
	if err := t.write(wl); err != nil {
		return nil, fmt.Errorf("writing csv: %w", err)
	}
	lost := len(wl.Users)
	for _, u := range wl.Users {
		t.losses.Add("further groups of users", len(u.Groups))
		if t.submitters[u.Name] {
			lost--
		}
	}
	t.losses.Add("users", lost)
	t.losses.Add("unusable records", len(wl.Unusable))
	t.losses.Machine(wl)
	t.losses.Events(wl)
	return t.losses, nil
}

type writer struct {
	csv        *inert.Writer
	columns    []column
	losses     workload.Losses
	users      map[string]hpc.User
	submitters map[string]bool
}

// choose finds the columns that the jobs need, and the users who submit jobs.
func (t *writer) choose(wl *workload.Workload) {
	needed := make([]bool, len(columns))
	t.submitters = map[string]bool{}
	for _, job := range wl.Jobs.All() {
		t.submitters[job.User] = true
		for i := range columns {
			needed[i] = needed[i] || columns[i].always || columns[i].get(job) != ""
		}
	}
	for i, c := range columns {
		if needed[i] {
			t.columns = append(t.columns, c)
		}
	}
}

func (t *writer) write(wl *workload.Workload) error {
	var row []string
	for _, c := range t.columns {
		row = append(row, c.name)
	}
	if len(wl.Users) > 0 {
		row = append(row, userUID, userGroup, userGID)
	}
	if err := t.csv.Write(row); err != nil {
		return err
	}
	for _, job := range wl.Jobs.All() {
		t.count(job)
		row = row[:0]
		for _, c := range t.columns {
			text := c.get(job)
			if strings.Contains(text, "\r\n") { // CSV readers convert it to a line feed
				t.losses.Add(c.name, 1)
			}
			row = append(row, text)
		}
		if u, known := t.users[job.User]; known {
			row = append(row, strconv.FormatUint(uint64(u.UID), 10), u.Group, strconv.FormatUint(uint64(u.GID), 10))
		} else if len(wl.Users) > 0 {
			row = append(row, "", "", "")
		}
		if err := t.csv.Write(row); err != nil {
			return err
		}
	}
	t.csv.Flush()
	return t.csv.Error()
}

// count counts the facts about a job that its row does not express.
func (t *writer) count(job *hpc.Job) {
	t.losses.Fate(job, "task_run_times_s", "task_exit_codes", "io", "made", "lost_runs", "suspensions", "preempted_by")
	if r := job.Recorded; r != nil && len(r.TaskStarts)+len(r.TaskEnds)+len(r.TaskNodes)+len(r.TaskStates) > 0 {
		t.losses.Add("recorded (of single tasks)", 1)
	}
}
