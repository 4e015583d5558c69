package capture

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/sbatch"
)

// job has the capture's data about a job.
type job struct {
	finished.Job
	request   *hpc.Request
	unheld    []string // fields that the request cannot represent
	estimate  hpc.Time // Slurm's estimate of the job's start
	reason    string   // the reason for which the job waits, in Slurm's words
	suspended bool
	component bool // a component of a heterogeneous job
}

var errEnded = errors.New("the job has ended")

// job reads a job. It returns errEnded for a job that neither waits nor runs.
func (s *shown) job(zone *time.Location) (*job, error) {
	v := s.values
	if s.doubt != nil {
		return nil, s.doubt
	}
	if v["JobState"] == "" {
		return nil, errors.New("the job has no JobState")
	}
	number, err := strconv.ParseUint(v["JobId"], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("JobId=%.20s: not a number", v["JobId"])
	}
	base, _, _ := strings.Cut(v["JobState"], ",")
	state := slurmspec.ParseJobState(base)
	j := &job{Job: finished.Job{ID: v["JobId"], Number: uint32(number), ArrayTask: -1, Elapsed: -1, State: state,
		Name: v["JobName"]}}
	switch {
	case state == hpc.Pending, state == hpc.Requeued:
		j.State = hpc.Pending
	// such jobs wait until somebody releases them
	case state == "SPECIAL_EXIT", state == "REQUEUE_HOLD", state == "RESV_DEL_HOLD":
		j.State, j.Held = hpc.Pending, true
	case state == hpc.Suspended:
		j.suspended, j.State = true, hpc.Running
	case state == hpc.Running, v["JobState"] == "CONFIGURING", v["JobState"] == "RESIZING", v["JobState"] == "STOPPED",
		v["JobState"] == "SIGNALING":
		j.State = hpc.Running
	default:
		return nil, errEnded
	}
	if err := s.array(j); err != nil {
		return nil, err
	}
	if err := s.times(j, zone); err != nil {
		return nil, err
	}
	j.User, j.UID, j.HasUID = nameAndNumber(v["UserId"])
	j.Group, j.GID, _ = nameAndNumber(v["GroupId"])
	j.Account, j.QOS, j.Partition, j.Reservation = v["Account"], v["QOS"], v["Partition"], v["Reservation"]
	j.WCKey, j.reason = v["WCKey"], v["Reason"]
	if p, err := strconv.ParseUint(v["Priority"], 10, 32); err == nil {
		priority := uint32(p)
		j.Priority = &priority
		j.Held = j.Held || j.State == hpc.Pending && priority == 0
	}
	j.Held = j.Held || strings.HasPrefix(v["Reason"], "JobHeld") || v["Reason"] == "DependencyNeverSatisfied"
	if v["HetJobId"] != "" {
		j.component = true
	}
	if j.request, err = s.request(j, zone); err != nil {
		return nil, err
	}
	j.unheld = s.unheld()
	return j, nil
}

// record returns the job with its request as a command line. Of the job's partitions, the record has only the
// partitions that start jobs. If none of the job's partitions starts jobs, the result held is true.
func (j *job) record(stopped map[string]bool) (r finished.Job, held bool) {
	r, request := j.Job, *j.request
	if j.State == hpc.Pending && !j.Held {
		open := slices.DeleteFunc(strings.Split(j.Partition, ","), func(name string) bool { return stopped[name] })
		if len(open) > 0 {
			r.Partition = strings.Join(open, ",")
			request.Partition = r.Partition
		} else {
			request.Hold, held = true, true
		}
	}
	r.WholeLine = true
	r.SubmitLine = sbatch.Join(append(append([]string{"sbatch"}, sbatch.Format(&request)...), "job.sh"))
	return r, held
}

// array reads the tasks of an array that the record describes.
func (s *shown) array(j *job) error {
	v := s.values
	if v["ArrayJobId"] == "" {
		return nil
	}
	number, err := strconv.ParseUint(v["ArrayJobId"], 10, 32)
	if err != nil {
		return fmt.Errorf("ArrayJobId=%.20s: not a number", v["ArrayJobId"])
	}
	j.ArrayJob = uint32(number)
	if task, err := strconv.Atoi(v["ArrayTaskId"]); err == nil {
		j.ArrayTask, j.ID = task, fmt.Sprintf("%d_%d", number, task)
		return nil
	}
	if _, err := hpc.ParseArray(v["ArrayTaskId"]); err != nil {
		return fmt.Errorf("ArrayTaskId=%.40s: %w", v["ArrayTaskId"], err)
	}
	j.ArrayRest, j.ID = v["ArrayTaskId"], fmt.Sprintf("%d_[%s]", number, v["ArrayTaskId"])
	return nil
}

func (s *shown) times(j *job, zone *time.Location) error {
	var start, accrue hpc.Time
	for _, t := range []struct {
		key string
		to  *hpc.Time
	}{{"SubmitTime", &j.Submit}, {"EligibleTime", &j.Eligible}, {"AccrueTime", &accrue}, {"StartTime", &start}} {
		if s.values[t.key] == "" {
			continue
		}
		at, err := slurmspec.ParseInstant(s.values[t.key], zone)
		if err != nil {
			return fmt.Errorf("%s=%.40s: %w", t.key, s.values[t.key], err)
		}
		*t.to = at
	}
	if j.State == hpc.Running {
		j.Start = start
		j.NodeList = s.values["NodeList"]
		if start == 0 || j.NodeList == "" {
			return fmt.Errorf("JobState=%s, but the job has no StartTime or no NodeList", s.values["JobState"])
		}
	} else {
		j.estimate = start
		j.Eligible = max(j.Eligible, accrue) // the job's age counts from this instant
	}
	if j.Submit == 0 {
		return errors.New("the job has no SubmitTime")
	}
	limit := s.values["TimeLimit"]
	if limit == "" || limit == "Partition_Limit" {
		return nil
	}
	d, err := slurmspec.ParseTimeLimit(limit)
	if err != nil {
		return fmt.Errorf("TimeLimit=%.40s: %w", limit, err)
	}
	j.TimeLimit = d
	return nil
}

// nameAndNumber reads "ann(1001)".
func nameAndNumber(text string) (name string, number uint32, ok bool) {
	at := strings.LastIndexByte(text, '(')
	if at < 0 {
		return text, 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(text[at+1:], ")"), 10, 32)
	return text[:at], uint32(n), err == nil
}
