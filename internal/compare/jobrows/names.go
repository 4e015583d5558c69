package jobrows

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// Match says which values identify the same job on both sides.
type Match string

// The matches. The usual match is by ID.
const (
	ByID         Match = ""
	ByNumber     Match = "rm_job"     // the resource manager's number on one side is the ID on the other side
	ByName       Match = "name"       // the same name, or the name on one side is the ID on the other side
	BySubmission Match = "submission" // the same user and name, and submitted in the same second
)

// Text returns a text that follows "3 jobs on both sides"; "" for [ByID].
func (m Match) Text() string {
	return map[Match]string{
		ByNumber:     " by the resource manager's job numbers, which are the IDs of one side",
		ByName:       " by their names, as no ID is the same",
		BySubmission: " by user, name and submission, as no ID is the same",
	}[m]
}

// identity returns a text that may identify a job; "" if the job lacks the text.
type identity func(row *run.Row) string

func byID(row *run.Row) string   { return row.Job }
func byName(row *run.Row) string { return row.Name }

func byNumber(row *run.Row) string {
	if row.RMJob == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(row.RMJob), 10)
}

func bySubmission(row *run.Row) string {
	if row.Submit == 0 || row.User == "" || row.Name == "" {
		return ""
	}
	return strings.Join([]string{row.User, row.Name, strconv.FormatInt(row.Submit.UnixSeconds(), 10)}, "\x00")
}

// Partners matches the jobs of two sides whose IDs do not name the same jobs: the sides have no ID in common, or most
// jobs with the same ID have different users or names. It returns the baseline's ID of each job of the set, and by
// which values the jobs match. The map is nil if the jobs match by ID, or if fewer than half of the jobs of either
// side have a partner.
func Partners(baseline, set []run.Row) (ids map[string]string, by Match) {
	own, others := firstRows(baseline), firstRows(set)
	common, unlike := 0, 0
	for id, row := range others {
		if same := own[id]; same != nil {
			common++
			if contradict(same, row) {
				unlike++
			}
		}
	}
	if common > 2*unlike {
		return nil, ByID
	}
	for _, try := range []struct {
		by   Match
		a, b identity
	}{
		{ByNumber, byNumber, byID}, {ByNumber, byID, byNumber}, {ByName, byName, byName}, {ByName, byID, byName},
		{ByName, byName, byID}, {BySubmission, bySubmission, bySubmission},
	} {
		found := match(baseline, set, try.a, try.b, try.by)
		if try.by == ByNumber && !agree(found, own, others) || common > 0 && try.by != ByNumber {
			continue
		}
		if len(found) > len(ids) && 2*len(found) >= max(len(own), len(others)) {
			ids, by = found, try.by
		}
		if by == ByNumber {
			break
		}
	}
	for id := range others {
		if ids != nil && ids[id] == "" && own[id] != nil { // another job of the baseline has this ID
			ids[id] = id + "@set"
		}
	}
	return ids, by
}

// firstRows returns the first row of each job.
func firstRows(rows []run.Row) map[string]*run.Row {
	first := make(map[string]*run.Row, len(rows))
	for i := range rows {
		if first[rows[i].Job] == nil {
			first[rows[i].Job] = &rows[i]
		}
	}
	return first
}

// contradict reports whether two rows cannot belong to one job, because they have different users or
// names.
func contradict(a, b *run.Row) bool {
	other := func(x, y string) bool { return x != "" && y != "" && x != y }
	return other(a.User, b.User) || other(a.Name, b.Name)
}

// agree reports whether no pair of jobs contradicts, and the jobs of each pair have the same user, the same name or
// the same second of submission. Equal numbers alone prove little, because every resource manager counts from 1.
func agree(found map[string]string, own, others map[string]*run.Row) bool {
	partners := map[string]bool{}
	for job, partner := range found {
		a, b := own[partner], others[job]
		known := a.User != "" && b.User != "" || a.Name != "" && b.Name != "" ||
			a.Submit.UnixSeconds() == b.Submit.UnixSeconds()
		if !known || contradict(a, b) || partners[partner] {
			return false
		}
		partners[partner] = true
	}
	return true
}

// match returns, for each job of the set, the ID of the baseline's job with the same text. By name, it returns nil if
// a job of either side has no name, or the same name as another job. By other texts, it leaves out a text that two
// jobs of one side have.
func match(baseline, set []run.Row, one, other identity, by Match) map[string]string {
	a, unique := jobsBy(baseline, one)
	b, alsoUnique := jobsBy(set, other)
	if by == ByName && (!unique || !alsoUnique) {
		return nil
	}
	found := map[string]string{}
	for text, job := range b {
		if partner := a[text]; partner != "" && job != "" {
			found[job] = partner
		}
	}
	return found
}

// jobsBy returns the IDs of jobs by one of their texts; "" for a text that two jobs have. The result unique is false
// if two jobs have the same text, or if a job has no text.
func jobsBy(rows []run.Row, text identity) (jobs map[string]string, unique bool) {
	jobs, unique = map[string]string{}, true
	for i := range rows {
		row, name := &rows[i], text(&rows[i])
		job, taken := jobs[name]
		switch {
		case name == "":
			unique = false
		case taken && job != row.Job:
			jobs[name], unique = "", false
		default:
			jobs[name] = row.Job
		}
	}
	return jobs, unique
}

// Renamed returns the rows with the IDs of the baseline's jobs; the parameter ids is from
// [Partners].
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

// Tasks returns the rows, in which a job with the ID of a task of an array, such as 17_3, is that task. A window of a
// workload has the tasks that ran when it began as jobs of their own, and other windows have them in the array. The
// tasks of a part of an array, such as 17#2 of workload build, become tasks of the array. The parameter arrays has the
// IDs of the arrays. A job stays if the rows also have that task.
func Tasks(rows []run.Row, arrays map[string]bool) []run.Row {
	here, own, requests := tasks(rows, arrays)
	list := rows
	for i, k := range own {
		if here[k] {
			continue
		}
		if &list[0] == &rows[0] {
			list = slices.Clone(rows) // the caller's rows do not change
		}
		row := &list[i]
		row.Request = cmp.Or(row.Request, requests[row.Job])
		row.Job, row.Task = k.job, k.task
	}
	return list
}

type taskKey struct {
	job  string
	task int
}

// tasks finds the tasks of arrays that rows have. The result own has the tasks of [Tasks], by the indices of their
// rows, and here has the other tasks. The parts' first rows have their requests.
func tasks(rows []run.Row, arrays map[string]bool) (here map[taskKey]bool, own map[int]taskKey,
	requests map[string]string) {
	here, own, requests = map[taskKey]bool{}, map[int]taskKey{}, map[string]string{}
	for i := range rows {
		row := &rows[i]
		k, isTask := taskKey{row.Job, row.Task}, row.Task >= 0
		if !isTask {
			k.job, k.task, isTask = hpc.SplitTask(row.Job)
		}
		array, isPart := hpc.SplitPart(k.job)
		if isPart = isPart && arrays[array]; isPart {
			k.job = array
		}
		switch {
		case isTask && (isPart || row.Task < 0 && arrays[k.job]):
			own[i] = k
			requests[row.Job] = cmp.Or(requests[row.Job], row.Request)
		case row.Task >= 0:
			here[k] = true
		}
	}
	return here, own, requests
}

// Twice counts the jobs of rows that stay in [Tasks], because the rows also have that task.
func Twice(rows []run.Row, arrays map[string]bool) (n int) {
	here, own, _ := tasks(rows, arrays)
	for _, k := range own {
		if here[k] {
			n++
		}
	}
	return n
}

// TwiceText returns a clause about the result of [Twice]; "" for 0.
func TwiceText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %s named like a task that %s own side also has in the array, and cannot be matched",
		quantity.Plural(n, "1 job is", fmt.Sprint(n, " jobs are")), quantity.Plural(n, "its", "their"))
}

// OfArray reports whether a row belongs to an array: to a task, or to a whole array that was rejected.
func OfArray(row *run.Row) bool {
	if row.Task >= 0 || row.State != hpc.Rejected || row.Request == "" {
		return row.Task >= 0
	}
	job, err := run.DecodeJob([]byte(row.Request))
	return err == nil && job.Array != ""
}
