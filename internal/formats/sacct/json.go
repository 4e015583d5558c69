package sacct

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/slurmspec"
)

// jsonReader reads the output of `sacct --json`, of any version of Slurm's data parser from 0.0.37
// on. A number may be plain or {"set","infinite","number"}. A state may be a word or a list of
// words. jsonReader reads one job after another. Its errors have the form "job N: what is wrong".
// The first job of a list is job 1.
type jsonReader struct {
	b    *finished.Builder
	name string // the source
	jobs int
}

// read finds the list "jobs" of the outermost object and reads its elements.
func (s *jsonReader) read(d *json.Decoder) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("not an object (want what sacct --json prints)")
	}
	found := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return jsonError(err)
		}
		if key != "jobs" {
			var other json.RawMessage
			if err := d.Decode(&other); err != nil {
				return jsonError(err)
			}
			continue
		}
		found = true
		if t, err := d.Token(); err != nil || t != json.Delim('[') {
			return errors.New("jobs: not a list")
		}
		for d.More() {
			if err := s.job(d); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil {
			return fmt.Errorf("after %d jobs: %w", s.jobs, jsonError(err))
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("after %d jobs: %w", s.jobs, jsonError(err))
	}
	if !found {
		return errors.New("it has no list of jobs (want what sacct --json prints)")
	}
	return nil
}

func (s *jsonReader) job(d *json.Decoder) error {
	s.jobs++
	s.b.At(s.name, "job", s.jobs)
	s.b.Row()
	var text json.RawMessage
	if err := d.Decode(&text); err != nil {
		return fmt.Errorf("job %d: %w", s.jobs, jsonError(err))
	}
	var j jsonJob
	// The decoder would put a replacement character for every byte that is not UTF-8.
	err := json.Unmarshal([]byte(lines.UTF8(text)), &j)
	if err != nil {
		err = s.b.Unusable(finished.RuleNoRecord, string(text), "%v", jsonError(err))
	} else {
		err = s.add(&j, string(text))
	}
	if err != nil {
		return fmt.Errorf("job %d: %w", s.jobs, err)
	}
	return nil
}

func (s *jsonReader) add(j *jsonJob, text string) error {
	if s.b.OtherCluster(string(j.Cluster)) {
		return nil
	}
	r, err := j.record()
	if err != nil {
		return s.b.Unusable(finished.RuleNoRecord, text, "%v", err)
	}
	if err := s.b.CheckSlurm(r, true); err != nil {
		return err
	}
	if err := s.b.Add(r, text); err != nil {
		return err
	}
	for _, step := range j.Steps {
		if t, err := step.Time.Start.time(); err == nil {
			s.b.Step(r.ID, t)
		}
		in, out := step.TRES.Requested.Total, step.TRES.Consumed.Total
		s.b.Used(r.ID, in.count("mem", ""), in.count("fs", "disk")+out.count("fs", "disk"))
	}
	return nil
}

// flexNumber is a number, {"set":true,"infinite":false,"number":N}, or a text of digits. Any other
// value counts as missing.
type flexNumber struct {
	set, infinite bool
	value         float64
}

func (n *flexNumber) UnmarshalJSON(text []byte) error {
	*n = flexNumber{}
	switch {
	case string(text) == "null" || string(text) == `""`:
		return nil
	case text[0] == '{':
		var o struct {
			Set      *bool       `json:"set"`
			Infinite bool        `json:"infinite"`
			Number   json.Number `json:"number"`
		}
		if err := json.Unmarshal(text, &o); err != nil {
			return err
		}
		v, err := o.Number.Float64()
		n.infinite = o.Infinite
		n.set, n.value = (o.Set == nil || *o.Set) && err == nil && !o.Infinite, v
		return nil
	}
	v, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	n.set, n.value = err == nil, v
	return nil // a word such as "none" is not a number
}

// count returns the number as a count, or 0 without a number.
func (n flexNumber) count() int {
	if !n.set || n.value < 0 || n.value > math.MaxInt32 {
		return 0
	}
	return int(n.value)
}

func (n flexNumber) time() (hpc.Time, error) {
	if !n.set || n.value == 0 {
		return 0, nil
	}
	if n.value < 0 || n.value > slurmspec.LastInstant {
		return 0, errors.New("not a time (want 2024-03-01T08:00:00, or seconds since 1970)")
	}
	return hpc.Unix(int64(n.value)), nil
}

// flexWord is a text, the first text of a list, or "" for any other value.
type flexWord string

func (w *flexWord) UnmarshalJSON(text []byte) error {
	*w = ""
	switch text[0] {
	case '"':
		var s string
		err := json.Unmarshal(text, &s)
		*w = flexWord(s)
		return err
	case '[':
		var list []flexWord
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		if len(list) > 0 {
			*w = list[0]
		}
	case '{', 'n', 't', 'f':
	default:
		*w = flexWord(text)
	}
	return nil
}

// flexWords is a list of texts. Any other value is an empty list.
type flexWords []string

func (w *flexWords) UnmarshalJSON(text []byte) error {
	*w = nil
	var list []flexWord
	if text[0] != '[' {
		return nil
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for _, word := range list {
		*w = append(*w, string(word))
	}
	return nil
}

// jsonJob has the fields of a job that the reader uses.
type jsonJob struct {
	Account  flexWord `json:"account"`
	Cluster  flexWord `json:"cluster"`
	Features flexWord `json:"constraints"`
	Comment  struct {
		Job flexWord `json:"job"`
	} `json:"comment"`
	Nodes     flexWord   `json:"nodes"`
	NodeCount flexNumber `json:"allocation_nodes"`
	Array     struct {
		JobID  flexNumber `json:"job_id"`
		TaskID flexNumber `json:"task_id"`
		Task   flexWord   `json:"task"`
		Limits struct {
			Max struct {
				Running struct {
					Tasks flexNumber `json:"tasks"`
				} `json:"running"`
			} `json:"max"`
		} `json:"limits"`
	} `json:"array"`
	Het struct {
		JobID  flexNumber `json:"job_id"`
		Offset flexNumber `json:"job_offset"`
	} `json:"het"`
	ExitCode struct {
		ReturnCode flexNumber `json:"return_code"`
		Signal     struct {
			SignalID flexNumber `json:"signal_id"`
			ID       flexNumber `json:"id"` // since data parser 0.0.40
		} `json:"signal"`
	} `json:"exit_code"`
	Flags    flexWords  `json:"flags"`
	Group    flexWord   `json:"group"`
	User     flexWord   `json:"user"`
	JobID    flexNumber `json:"job_id"`
	Name     flexWord   `json:"name"`
	Licenses flexWord   `json:"licenses"`

	Partition flexWord   `json:"partition"`
	Priority  flexNumber `json:"priority"`
	QOS       flexWord   `json:"qos"`
	Required  struct {
		CPUs    flexNumber `json:"CPUs"`
		Memory  flexNumber `json:"memory"`
		PerCPU  flexNumber `json:"memory_per_cpu"`
		PerNode flexNumber `json:"memory_per_node"`
	} `json:"required"`
	Reservation struct {
		Name flexWord `json:"name"`
	} `json:"reservation"`
	State struct {
		Current flexWord `json:"current"`
		Reason  flexWord `json:"reason"`
	} `json:"state"`
	SubmitLine flexWord `json:"submit_line"`

	WorkingDirectory flexWord   `json:"working_directory"`
	RestartCount     flexNumber `json:"restart_cnt"`

	Script flexWord `json:"script"`
	Steps  []struct {
		Time struct {
			Start flexNumber `json:"start"`
		} `json:"time"`
		TRES struct { // in bytes; Slurm calls data that was read "requested", and data that was written "consumed"
			Requested stepTRES `json:"requested"`
			Consumed  stepTRES `json:"consumed"`
		} `json:"tres"`
	} `json:"steps"`
	Time struct {
		Elapsed    flexNumber `json:"elapsed"`
		Eligible   flexNumber `json:"eligible"`
		End        flexNumber `json:"end"`
		Start      flexNumber `json:"start"`
		Submission flexNumber `json:"submission"`
		Suspended  flexNumber `json:"suspended"`
		Limit      flexNumber `json:"limit"` // minutes
	} `json:"time"`
	TRES struct {
		Allocated []jsonTRES `json:"allocated"`
		Requested []jsonTRES `json:"requested"`
	} `json:"tres"`
	WCKey struct {
		Name flexWord `json:"wckey"`
	} `json:"wckey"`
}

// stepTRES has the total usage of a step's tasks. Any other value than a list counts as an empty
// list.
type stepTRES struct {
	Total jsonTRESList `json:"total"`
}

type jsonTRESList []jsonTRES

func (l *jsonTRESList) UnmarshalJSON(text []byte) error {
	*l = nil
	if text[0] != '[' {
		return nil
	}
	return json.Unmarshal(text, (*[]jsonTRES)(l))
}

// count returns the amount of a resource, and 0 if it is not known.
func (l jsonTRESList) count(kind, name string) float64 {
	for _, t := range l {
		if t.Type == kind && t.Name == name && t.Count.set {
			return t.Count.value
		}
	}
	return 0
}

type jsonTRES struct {
	Type  string     `json:"type"`
	Name  string     `json:"name"`
	Count flexNumber `json:"count"`
}

func (j *jsonJob) record() (*finished.Job, error) {
	r := &finished.Job{
		ArrayTask: -1, Elapsed: -1, Cluster: string(j.Cluster),
		Name: string(j.Name), User: string(j.User), Group: string(j.Group), Account: string(j.Account),
		Partition: string(j.Partition), QOS: string(j.QOS), WCKey: string(j.WCKey.Name),
		Reservation: string(j.Reservation.Name),
		Constraint:  string(j.Features), Licenses: string(j.Licenses), Comment: string(j.Comment.Job),
		State: hpc.State(j.State.Current), ExitCode: j.ExitCode.ReturnCode.count(),
		HasExit: j.ExitCode.ReturnCode.set,
		Signal:  max(j.ExitCode.Signal.SignalID.count(), j.ExitCode.Signal.ID.count()),
		Held:    slurmspec.HeldForReason(string(j.State.Reason)),
		ReqCPUs: j.Required.CPUs.count(), AllocNodes: j.NodeCount.count(), NodeList: slurmspec.Given(string(j.Nodes)),
		SubmitLine: string(j.SubmitLine), Script: string(j.Script), WorkDir: string(j.WorkingDirectory),
		Restarts: j.RestartCount.count(), Flags: slurmspec.JobFlagsOfJSON(j.Flags),
	}
	if !j.JobID.set || j.JobID.count() == 0 {
		return nil, errors.New("job_id: missing")
	}
	j.identify(r)
	var errs [4]error
	r.Submit, errs[0] = j.Time.Submission.time()
	r.Eligible, errs[1] = j.Time.Eligible.time()
	r.Start, errs[2] = j.Time.Start.time()
	r.End, errs[3] = j.Time.End.time()
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("time: %w", err)
		}
	}
	r.Suspended = time.Duration(j.Time.Suspended.count()) * time.Second
	if j.Time.Elapsed.set {
		r.Elapsed = time.Duration(j.Time.Elapsed.count()) * time.Second
	}
	switch limit := j.Time.Limit; {
	case limit.infinite || limit.set && limit.value == float64(slurmspec.Infinite):
		r.TimeLimit = hpc.Unlimited
	case limit.set && limit.value < maxSeconds/60:
		r.TimeLimit = time.Duration(limit.count()) * time.Minute
	}
	if p := j.Priority; p.set && p.value >= 0 && p.value <= float64(slurmspec.Infinite) {
		r.Priority = new(uint32(p.value))
	}
	j.sizes(r)
	return r, nil
}

// identify gives the record the ID that sacct -P would print.
func (j *jsonJob) identify(r *finished.Job) {
	r.Number = uint32(j.JobID.count())
	r.ID = strconv.Itoa(j.JobID.count())
	switch array := j.Array.JobID.count(); {
	case array > 0 && j.Array.TaskID.set && j.Array.TaskID.value < float64(slurmspec.NoVal):
		r.ArrayJob, r.ArrayTask = uint32(array), j.Array.TaskID.count()
		r.ID = fmt.Sprintf("%d_%d", array, r.ArrayTask)
	case array > 0 && j.Array.Task != "":
		r.ArrayJob, r.ArrayRest = uint32(array), slurmspec.ArrayTasks(string(j.Array.Task))
		if n := j.Array.Limits.Max.Running.Tasks.count(); n > 0 && !strings.Contains(r.ArrayRest, "%") {
			r.ArrayRest += "%" + strconv.Itoa(n)
		}
		r.ID = fmt.Sprintf("%d_[%s]", array, r.ArrayRest)
	case j.Het.JobID.count() > 0:
		r.HetJob, r.HetOffset = uint32(j.Het.JobID.count()), j.Het.Offset.count()
		r.ID = fmt.Sprintf("%d+%d", r.HetJob, r.HetOffset)
	}
}

func (j *jsonJob) sizes(r *finished.Job) {
	r.ReqTRES, r.AllocTRES = tresText(j.TRES.Requested), tresText(j.TRES.Allocated)
	switch m := j.Required; {
	case m.PerCPU.count() > 0:
		r.MemPerCPU = int64(m.PerCPU.count())
	case m.PerNode.count() > 0:
		r.MemPerNode = int64(m.PerNode.count())
	case m.Memory.set && m.Memory.value >= float64(slurmspec.MemPerCPU):
		// The value contains Slurm's mark for memory per CPU, 2^63. A float of this size is not exact, so the amount of
		// memory is lost.
	case m.Memory.count() > 0:
		r.MemPerNode = int64(m.Memory.count())
	}
	_ = finished.TakeTRES(r) // tresText wrote the lists, so there is no error
}

// tresText writes a list of trackable resources as sacct -P prints it. It leaves out a
// resource without an amount.
func tresText(list []jsonTRES) string {
	var text slurmspec.TRESList
	for _, t := range list {
		name := t.Type
		if t.Name != "" {
			name += "/" + t.Name
		}
		if t.Count.set && t.Count.value >= 0 && t.Count.value < 1<<53 {
			text.AddRecorded(name, int64(t.Count.value))
		}
	}
	return text.String()
}

// looksLikeJSON reports whether a text that begins with a brace is sacct's output.
func looksLikeJSON(head []byte) bool {
	if bytes.Contains(head, []byte(`"rmreplay_trace"`)) {
		return false
	}
	return bytes.Contains(head, []byte(`"meta"`)) || bytes.Contains(head, []byte(`"jobs"`))
}

// jsonError translates an error of encoding/json into words that a user understands.
func jsonError(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if e.Field == "" {
			return fmt.Errorf("a record is a %s (want an object, {...})", e.Value)
		}
		return fmt.Errorf("%s: is a %s (want %s)", e.Field, e.Value, e.Type)
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not JSON: %w at byte %d", e, e.Offset)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not JSON: the line ends too early")
	}
	return err
}
