package workload

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"rmreplay/internal/hpc"
)

// TraceVersion is the version of the trace format that is written, and the only one
// that is read.
const TraceVersion = 1

// traceHeader is the first line of a trace.
type traceHeader struct {
	Version int `json:"rmreplay_trace"`
	// Epoch is a pointer, because 1970 is an epoch, too.
	Epoch  *instant       `json:"epoch,omitempty"`
	Start  instant        `json:"start,omitzero"`
	Source string         `json:"source,omitempty"`
	Rules  map[string]int `json:"rules,omitempty"`

	Transforms []string `json:"transforms,omitempty"`

	MachineNodes      int      `json:"machine_nodes,omitempty"`
	MachineProcessors int      `json:"machine_processors,omitempty"`
	Comments          []string `json:"comments,omitempty"`
}

// The types of the records that follow the header.
const (
	recordJob         = "job"
	recordUser        = "user"
	recordNode        = "node"
	recordReservation = "reservation"
	recordUnusable    = "unusable"
	recordAction      = "action"
	recordUsage       = "usage"
)

// jobRecord is a job as a line of a trace.
type jobRecord struct {
	Type   string  `json:"type"`
	ID     string  `json:"id"`
	Submit instant `json:"submit,omitzero"`

	requestFields
	requestDurations

	// RunTime is a pointer to tell a job that ends at once from one whose run time
	// somebody forgot to write.
	RunTime       *seconds        `json:"run_time_s"`
	ExitCode      int             `json:"exit_code,omitempty"`
	CancelAfter   seconds         `json:"cancel_after_s,omitzero"`
	EndAt         instant         `json:"end_at,omitzero"`
	TaskRunTimes  map[int]seconds `json:"task_run_times_s,omitempty"`
	TaskExitCodes map[int]int     `json:"task_exit_codes,omitempty"`

	Recorded *recordedFields `json:"recorded,omitempty"`
	SWF      *swfFieldsKept  `json:"swf,omitempty"`
}

// requestFields has the fields of hpc.Request, which a conversion makes the compiler
// check: whoever adds one there must name it here. The durations are written by
// [requestDurations].
type requestFields struct {
	Name      string `json:"name,omitempty"`
	User      string `json:"user,omitempty"`
	Group     string `json:"group,omitempty"`
	Account   string `json:"account,omitempty"`
	Partition string `json:"partition,omitempty"`
	QOS       string `json:"qos,omitempty"`
	WCKey     string `json:"wckey,omitempty"`

	Reservation string        `json:"reservation,omitempty"`
	Dependency  string        `json:"dependency,omitempty"`
	Array       string        `json:"array,omitempty"`
	Begin       time.Duration `json:"-"`
	Deadline    time.Duration `json:"-"`
	Hold        bool          `json:"hold,omitempty"`
	Priority    *uint32       `json:"priority,omitempty"`
	AsOperator  bool          `json:"as_operator,omitempty"`
	Nice        int           `json:"nice,omitempty"`
	Requeue     *bool         `json:"requeue,omitempty"`

	TimeLimit time.Duration `json:"-"`
	TimeMin   time.Duration `json:"-"`

	MinNodes       int `json:"min_nodes,omitempty"`
	MaxNodes       int `json:"max_nodes,omitempty"`
	Tasks          int `json:"tasks,omitempty"`
	TasksPerNode   int `json:"tasks_per_node,omitempty"`
	TasksPerSocket int `json:"tasks_per_socket,omitempty"`
	TasksPerCore   int `json:"tasks_per_core,omitempty"`
	TasksPerGPU    int `json:"tasks_per_gpu,omitempty"`
	CPUsPerTask    int `json:"cpus_per_task,omitempty"`
	MinCPUsPerNode int `json:"min_cpus_per_node,omitempty"`
	SocketsPerNode int `json:"sockets_per_node,omitempty"`
	CoresPerSocket int `json:"cores_per_socket,omitempty"`
	ThreadsPerCore int `json:"threads_per_core,omitempty"`
	CoreSpec       int `json:"core_spec,omitempty"`
	ThreadSpec     int `json:"thread_spec,omitempty"`

	MemPerNode int64 `json:"mem_per_node_mib,omitempty"`
	MemPerCPU  int64 `json:"mem_per_cpu_mib,omitempty"`
	MemPerGPU  int64 `json:"mem_per_gpu_mib,omitempty"`
	TmpDisk    int64 `json:"tmp_disk_mib,omitempty"`

	GRES          string `json:"gres,omitempty"`
	GPUs          string `json:"gpus,omitempty"`
	GPUsPerNode   string `json:"gpus_per_node,omitempty"`
	GPUsPerSocket string `json:"gpus_per_socket,omitempty"`
	GPUsPerTask   string `json:"gpus_per_task,omitempty"`
	CPUsPerGPU    int    `json:"cpus_per_gpu,omitempty"`
	GRESFlags     string `json:"gres_flags,omitempty"`

	Constraint        string        `json:"constraint,omitempty"`
	Prefer            string        `json:"prefer,omitempty"`
	ClusterConstraint string        `json:"cluster_constraint,omitempty"`
	NodeList          string        `json:"node_list,omitempty"`
	Exclude           string        `json:"exclude,omitempty"`
	Exclusive         string        `json:"exclusive,omitempty"`
	Oversubscribe     bool          `json:"oversubscribe,omitempty"`
	Overcommit        bool          `json:"overcommit,omitempty"`
	Contiguous        bool          `json:"contiguous,omitempty"`
	SpreadJob         bool          `json:"spread_job,omitempty"`
	UseMinNodes       bool          `json:"use_min_nodes,omitempty"`
	Distribution      string        `json:"distribution,omitempty"`
	Hint              string        `json:"hint,omitempty"`
	Licenses          string        `json:"licenses,omitempty"`
	Switches          int           `json:"switches,omitempty"`
	SwitchWait        time.Duration `json:"-"`
	BurstBuffer       string        `json:"burst_buffer,omitempty"`
	MCSLabel          string        `json:"mcs_label,omitempty"`
	DelayBoot         time.Duration `json:"-"`
	Reboot            bool          `json:"reboot,omitempty"`
	KillOnInvalidDep  *bool         `json:"kill_on_invalid_dep,omitempty"`
	NoKill            bool          `json:"no_kill,omitempty"`
	Signal            string        `json:"signal,omitempty"`
	Comment           string        `json:"comment,omitempty"`
}

// requestDurations are the durations of hpc.Request.
type requestDurations struct {
	Begin      seconds `json:"begin_after_s,omitzero"`
	Deadline   seconds `json:"deadline_after_s,omitzero"`
	TimeLimit  seconds `json:"time_limit_s,omitzero"`
	TimeMin    seconds `json:"time_min_s,omitzero"`
	SwitchWait seconds `json:"switch_wait_s,omitzero"`
	DelayBoot  seconds `json:"delay_boot_s,omitzero"`
}

// recordedFields is what happened to a job when its workload was recorded.
type recordedFields struct {
	Eligible   instant   `json:"eligible,omitzero"`
	Start      instant   `json:"start,omitzero"`
	End        instant   `json:"end,omitzero"`
	State      hpc.State `json:"state,omitempty"`
	Nodes      string    `json:"nodes,omitempty"`
	Processors int       `json:"processors,omitempty"`
	Priority   uint32    `json:"priority,omitempty"`

	TaskStarts map[int]instant `json:"task_starts,omitempty"`
	TaskEnds   map[int]instant `json:"task_ends,omitempty"`
	TaskNodes  map[int]string  `json:"task_nodes,omitempty"`
}

type userRecord struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	UID   uint32 `json:"uid"`
	Group string `json:"group"`
	GID   uint32 `json:"gid"`
}

type nodeRecord struct {
	Type   string  `json:"type"`
	At     instant `json:"at,omitzero"`
	Nodes  string  `json:"nodes"`
	State  string  `json:"state"`
	Reason string  `json:"reason,omitempty"`
}

type reservationRecord struct {
	Type      string   `json:"type"`
	At        instant  `json:"at,omitzero"`
	Action    string   `json:"action"`
	Name      string   `json:"name"`
	Start     instant  `json:"start,omitzero"`
	Duration  seconds  `json:"duration_s,omitzero"`
	Nodes     string   `json:"nodes,omitempty"`
	NodeCount int      `json:"node_count,omitempty"`
	Partition string   `json:"partition,omitempty"`
	Users     []string `json:"users,omitempty"`
	Accounts  []string `json:"accounts,omitempty"`
	Flags     []string `json:"flags,omitempty"`
	Licenses  string   `json:"licenses,omitempty"`
	Features  string   `json:"features,omitempty"`
}

// actionRecord has exactly one of the three last fields.
type actionRecord struct {
	Type      string   `json:"type"`
	At        instant  `json:"at,omitzero"`
	Run       []string `json:"run,omitempty"`
	Shell     string   `json:"shell,omitempty"`
	SlurmConf string   `json:"slurm_conf,omitempty"`
}

type usageRecord struct {
	Type    string  `json:"type"`
	Account string  `json:"account"`
	User    string  `json:"user,omitempty"`
	Raw     float64 `json:"raw_s"`
}

// seconds is a duration written as a decimal number of seconds, exact to the
// nanosecond, or as "unlimited".
type seconds time.Duration

func (d seconds) MarshalJSON() ([]byte, error) {
	if time.Duration(d) == hpc.Unlimited {
		return []byte(`"unlimited"`), nil
	}
	return appendNanos(nil, int64(d)), nil
}

func (d *seconds) UnmarshalJSON(text []byte) error {
	if string(text) == `"unlimited"` {
		*d = seconds(hpc.Unlimited)
		return nil
	}
	n, err := parseNanos(string(text))
	if err != nil {
		return notAValue(text, d)
	}
	*d = seconds(n)
	return nil
}

// instant is an hpc.Time written in RFC 3339. A number is read as seconds from the
// trace's epoch; the flag keeps that in mind until the epoch is added.
type instant struct {
	time     hpc.Time
	relative bool
}

// IsZero makes "omitzero" leave out an instant that is not set.
func (t instant) IsZero() bool { return t.time == 0 && !t.relative }

func (t instant) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, t.time.Std().Format(time.RFC3339Nano)), nil
}

func (t *instant) UnmarshalJSON(text []byte) error {
	if len(text) > 1 && text[0] == '"' {
		s := strings.Trim(string(text), `"`)
		at, err := hpc.ParseDateTime(s)
		if err != nil {
			return notAValue(text, t)
		}
		*t = instant{time: at}
		return nil
	}
	n, err := parseNanos(string(text))
	if err != nil {
		return notAValue(text, t)
	}
	*t = instant{time: hpc.Time(n), relative: true}
	return nil
}

// at returns the instant, given the epoch that a relative one counts from.
func (t instant) at(epoch *traceEpoch) hpc.Time {
	if !t.relative {
		return t.time
	}
	epoch.used = true
	return epoch.time.Add(time.Duration(t.time))
}

// traceEpoch is what the relative instants of a trace count from.
type traceEpoch struct {
	time  hpc.Time
	given bool // by the header
	used  bool // whether there was a relative instant
}

// notAValue is the error of a text that cannot be read into v. encoding/json adds the
// field to errors of this type, and [jsonError] says what is wanted there.
func notAValue(text []byte, v any) error {
	return &json.UnmarshalTypeError{Value: string(text), Type: reflect.TypeOf(v).Elem()}
}

// appendNanos writes nanoseconds as decimal seconds without trailing zeros.
func appendNanos(buf []byte, n int64) []byte {
	if n < 0 {
		buf = append(buf, '-')
	}
	whole, fraction := n/int64(time.Second), n%int64(time.Second)
	buf = strconv.AppendUint(buf, magnitude(whole), 10)
	if fraction == 0 {
		return buf
	}
	digits := strconv.FormatUint(magnitude(fraction)+uint64(time.Second), 10)[1:]
	return append(append(buf, '.'), strings.TrimRight(digits, "0")...)
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return uint64(-n)
	}
	return uint64(n)
}

var errNotSeconds = errors.New("not seconds")

// parseNanos reads decimal seconds into nanoseconds without passing through a
// float, so that what was written is what is read. Digits beyond the nanosecond are
// an error, as is what does not fit.
func parseNanos(s string) (int64, error) {
	unsigned, negative := strings.CutPrefix(s, "-")
	whole, fraction, hasFraction := strings.Cut(unsigned, ".")
	if whole == "" || len(fraction) > 9 || hasFraction && fraction == "" {
		return 0, errNotSeconds
	}
	sec, err := strconv.ParseUint(whole, 10, 63)
	if err != nil || sec > uint64(hpc.Unlimited/time.Second)-1 {
		return 0, errNotSeconds
	}
	var nanos uint64
	if hasFraction {
		if nanos, err = strconv.ParseUint(fraction+"000000000"[len(fraction):], 10, 63); err != nil {
			return 0, errNotSeconds
		}
	}
	n := int64(sec)*int64(time.Second) + int64(nanos)
	if negative {
		n = -n
	}
	return n, nil
}

// ReadTrace reads our own trace format, plain JSON Lines: a header and a record for
// every job, user, node event, reservation event, action and usage, in any order. name stands for
// the source in errors, which have the form "reading trace: NAME:LINE: what is
// wrong". An unknown field is an error, and so is a trace without a job. Where the header
// has no epoch, relative times count from [DefaultEpoch]; if there are none, the epoch is
// the first instant at which something happens.
func ReadTrace(r io.Reader, name string) (*Workload, error) {
	w, err := ReadSetting(r, name)
	if err == nil && w.Jobs.Len() == 0 {
		return nil, fmt.Errorf("reading trace: %s: no job in it", name)
	}
	return w, err
}

// ReadSetting is [ReadTrace] for a trace that may have no jobs: what else happens to
// a cluster.
func ReadSetting(r io.Reader, name string) (*Workload, error) {
	t := traceReader{w: &Workload{}}
	if err := eachLine(r, name, t.line); err != nil {
		return nil, fmt.Errorf("reading trace: %w", err)
	}
	if !t.hasHeader {
		return nil, fmt.Errorf("reading trace: %s: empty (want a header and jobs)", name)
	}
	if t.w.Source == "" {
		t.w.Source = name
	}
	if err := deriveSWF(t.w); err != nil {
		return nil, fmt.Errorf("reading trace: %s: %w", name, err)
	}
	t.w.sort()
	if !t.epoch.given && !t.epoch.used {
		t.w.Epoch = firstInstant(t.w)
	}
	return t.w, nil
}

// firstInstant is when the first thing happens that the workload has, to the second, and 0
// where nothing does.
func firstInstant(w *Workload) hpc.Time {
	first := hpc.Never
	if w.Jobs.Len() > 0 {
		first = w.Jobs.Submit(0)
	}
	if len(w.NodeEvents) > 0 {
		first = min(first, w.NodeEvents[0].At)
	}
	if len(w.Reservations) > 0 {
		first = min(first, w.Reservations[0].At)
	}
	if len(w.Actions) > 0 {
		first = min(first, w.Actions[0].At)
	}
	if first == hpc.Never {
		return 0
	}
	return hpc.Unix(first.UnixSeconds())
}

type traceReader struct {
	w         *Workload
	epoch     traceEpoch
	latest    hpc.Time // of the submissions so far
	hasHeader bool
}

func (t *traceReader) line(_ int, line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	if !t.hasHeader {
		return t.header(line)
	}
	if !utf8.Valid(line) {
		return errors.New("not UTF-8 (want a trace as rmreplay writes it)")
	}
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return jsonError(err)
	}
	switch kind.Type {
	case recordJob:
		return t.job(line)
	case recordUser:
		return t.user(line)
	case recordNode:
		return t.node(line)
	case recordReservation:
		return t.reservation(line)
	case recordUnusable:
		return t.unusable(line)
	case recordAction:
		return t.action(line)
	case recordUsage:
		return t.usage(line)
	case "":
		return errors.New("a record without a type (want job, user, node, reservation, action, usage or unusable)")
	}
	return fmt.Errorf("type %s: not known (want job, user, node, reservation, action, usage or unusable)", kind.Type)
}

func (t *traceReader) header(line []byte) error {
	var h traceHeader
	if err := decodeStrict(line, &h); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if h.Version != TraceVersion {
		return fmt.Errorf("header: rmreplay_trace %d: this program reads version %d", h.Version, TraceVersion)
	}
	t.epoch.time = DefaultEpoch
	if h.Epoch != nil {
		if h.Epoch.relative {
			return errors.New(`header: epoch: not a time (want "2024-03-01T08:00:00Z")`)
		}
		t.epoch.time, t.epoch.given = h.Epoch.time, true
	}
	t.hasHeader = true
	t.w.Start = h.Start.at(&t.epoch)
	t.w.Epoch, t.w.Source, t.w.Rules = t.epoch.time, h.Source, h.Rules
	t.w.Transforms = h.Transforms
	t.w.MachineNodes, t.w.MachineProcessors, t.w.Header = h.MachineNodes, h.MachineProcessors, h.Comments
	return nil
}

func (t *traceReader) job(line []byte) error {
	var r jobRecord
	if err := decodeStrict(line, &r); err != nil {
		return err
	}
	switch {
	case r.ID == "":
		return errors.New("id: missing")
	case r.Submit.IsZero():
		return errors.New("submit: missing")
	case r.RunTime == nil:
		return errors.New(`run_time_s: missing (want seconds, or "unlimited" for a job that runs until its time limit)`)
	case *r.RunTime < 0:
		return errors.New("run_time_s: negative")
	}
	job := r.job(&t.epoch)
	if job.Submit < t.latest {
		if t.w.Rules == nil {
			t.w.Rules = make(map[string]int)
		}
		t.w.Rules[RuleOutOfOrder]++
	}
	t.latest = max(t.latest, job.Submit)
	t.w.Jobs.Append(job)
	return nil
}

func (t *traceReader) user(line []byte) error {
	var r userRecord
	if err := decodeStrict(line, &r); err != nil {
		return err
	}
	if r.Name == "" {
		return errors.New("name: missing")
	}
	t.w.Users = append(t.w.Users, hpc.User{Name: r.Name, UID: r.UID, Group: r.Group, GID: r.GID})
	return nil
}

func (t *traceReader) node(line []byte) error {
	var r nodeRecord
	if err := decodeStrict(line, &r); err != nil {
		return err
	}
	switch {
	case r.At.IsZero():
		return errors.New("at: missing")
	case r.Nodes == "":
		return errors.New("nodes: missing")
	}
	switch r.State {
	case "down", "drain", "resume", "fail":
	default:
		return fmt.Errorf("state %q: not known (want down, drain, resume or fail)", r.State)
	}
	t.w.NodeEvents = append(t.w.NodeEvents, hpc.NodeEvent{At: r.At.at(&t.epoch), Nodes: r.Nodes, State: r.State, Reason: r.Reason})
	return nil
}

func (t *traceReader) reservation(line []byte) error {
	var r reservationRecord
	if err := decodeStrict(line, &r); err != nil {
		return err
	}
	switch {
	case r.At.IsZero():
		return errors.New("at: missing")
	case r.Name == "":
		return errors.New("name: missing")
	}
	switch r.Action {
	case "create", "update", "delete":
	default:
		return fmt.Errorf("action %q: not known (want create, update or delete)", r.Action)
	}
	t.w.Reservations = append(t.w.Reservations, hpc.ReservationEvent{
		At: r.At.at(&t.epoch), Action: r.Action,
		Reservation: hpc.Reservation{
			Name: r.Name, Start: r.Start.at(&t.epoch), Duration: time.Duration(r.Duration),
			Nodes: r.Nodes, NodeCount: r.NodeCount, Partition: r.Partition,
			Users: r.Users, Accounts: r.Accounts, Flags: r.Flags,
			Licenses: r.Licenses, Features: r.Features,
		},
	})
	return nil
}

func (t *traceReader) action(line []byte) error {
	var r actionRecord
	if err := decodeStrict(line, &r); err != nil {
		return err
	}
	kinds := 0
	for _, set := range []bool{len(r.Run) > 0, r.Shell != "", r.SlurmConf != ""} {
		if set {
			kinds++
		}
	}
	switch {
	case r.At.IsZero():
		return errors.New("at: missing")
	case kinds != 1:
		return errors.New("what to do: want exactly one of run, shell and slurm_conf")
	}
	t.w.Actions = append(t.w.Actions, hpc.Action{At: r.At.at(&t.epoch), Run: r.Run, Shell: r.Shell, SlurmConf: r.SlurmConf})
	return nil
}

func (t *traceReader) usage(line []byte) error {
	var r usageRecord
	if err := decodeStrict(line, &r); err != nil {
		return err
	}
	switch {
	case r.Account == "":
		return errors.New("account: missing")
	case r.Raw < 0:
		return errors.New("raw_s: negative")
	}
	t.w.Usage = append(t.w.Usage, hpc.Usage{Account: r.Account, User: r.User, Raw: r.Raw})
	return nil
}

func (r *jobRecord) job(epoch *traceEpoch) *hpc.Job {
	job := &hpc.Job{
		ID:      r.ID,
		Submit:  r.Submit.at(epoch),
		Request: hpc.Request(r.requestFields),
		Behaviour: hpc.Behaviour{
			RunTime:       time.Duration(*r.RunTime),
			ExitCode:      r.ExitCode,
			CancelAfter:   time.Duration(r.CancelAfter),
			EndAt:         r.EndAt.at(epoch),
			TaskExitCodes: r.TaskExitCodes,
		},
	}
	d := r.requestDurations
	job.SWF = r.SWF.record()
	job.Begin, job.Deadline = time.Duration(d.Begin), time.Duration(d.Deadline)
	job.TimeLimit, job.TimeMin = time.Duration(d.TimeLimit), time.Duration(d.TimeMin)
	job.SwitchWait, job.DelayBoot = time.Duration(d.SwitchWait), time.Duration(d.DelayBoot)
	job.TaskRunTimes = eachTask(r.TaskRunTimes, func(d seconds) time.Duration { return time.Duration(d) })
	if rec := r.Recorded; rec != nil {
		at := func(t instant) hpc.Time { return t.at(epoch) }
		job.Recorded = &hpc.Recorded{
			Eligible: rec.Eligible.at(epoch), Start: rec.Start.at(epoch), End: rec.End.at(epoch),
			State: rec.State, Nodes: rec.Nodes, Processors: rec.Processors, Priority: rec.Priority,
			TaskStarts: eachTask(rec.TaskStarts, at), TaskEnds: eachTask(rec.TaskEnds, at), TaskNodes: rec.TaskNodes,
		}
	}
	return job
}

// eachTask is what f makes of what is so of single tasks.
func eachTask[A, B any](tasks map[int]A, f func(A) B) map[int]B {
	if tasks == nil {
		return nil
	}
	out := make(map[int]B, len(tasks))
	for task, value := range tasks {
		out[task] = f(value)
	}
	return out
}

func newJobRecord(job *hpc.Job) *jobRecord {
	r := &jobRecord{
		Type: recordJob, ID: job.ID, Submit: instant{time: job.Submit},
		requestFields: requestFields(job.Request),
		requestDurations: requestDurations{
			Begin: seconds(job.Begin), Deadline: seconds(job.Deadline),
			TimeLimit: seconds(job.TimeLimit), TimeMin: seconds(job.TimeMin),
			SwitchWait: seconds(job.SwitchWait), DelayBoot: seconds(job.DelayBoot),
		},
		RunTime:  new(seconds(job.RunTime)),
		ExitCode: job.ExitCode, CancelAfter: seconds(job.CancelAfter), EndAt: instant{time: job.EndAt},
		TaskExitCodes: job.TaskExitCodes,
		SWF:           newSWFFieldsKept(job.SWF),
	}
	r.TaskRunTimes = eachTask(job.TaskRunTimes, func(d time.Duration) seconds { return seconds(d) })
	if rec := job.Recorded; rec != nil {
		at := func(t hpc.Time) instant { return instant{time: t} }
		r.Recorded = &recordedFields{
			Eligible: instant{time: rec.Eligible}, Start: instant{time: rec.Start}, End: instant{time: rec.End},
			State: rec.State, Nodes: rec.Nodes, Processors: rec.Processors, Priority: rec.Priority,
			TaskStarts: eachTask(rec.TaskStarts, at), TaskEnds: eachTask(rec.TaskEnds, at), TaskNodes: rec.TaskNodes,
		}
	}
	return r
}

// decodeStrict decodes one line into v and refuses what v has no field for.
func decodeStrict(line []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return jsonError(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value in the line")
	}
	return checkKeys(line, reflect.TypeOf(v))
}

// jsonError says in a user's words what encoding/json found.
func jsonError(err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("%s: not a field of this record", strings.Trim(name, `"`))
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		// Embedded structs stand before the field's name.
		field := strings.TrimPrefix(strings.TrimPrefix(e.Field, "requestFields."), "requestDurations.")
		if field == "" {
			return fmt.Errorf("not JSON of a record: a %s (want {...})", e.Value)
		}
		switch e.Type {
		case reflect.TypeFor[instant]():
			return fmt.Errorf(`%s: %s: not a time (want "2024-03-01T08:00:00Z", or seconds from the epoch)`, field, e.Value)
		case reflect.TypeFor[seconds]():
			return fmt.Errorf(`%s: %s: not a duration (want seconds or "unlimited")`, field, e.Value)
		}
		return fmt.Errorf("%s: is a %s (want %s)", field, e.Value, e.Type)
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not JSON: %w at byte %d", e, e.Offset)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not JSON: the line ends too early")
	}
	return err
}

// WriteTrace writes the workload in our own trace format, as plain JSON Lines. What
// [ReadTrace] reads from it is the same workload.
func WriteTrace(w io.Writer, wl *Workload) error {
	buffered := bufio.NewWriter(w)
	enc := json.NewEncoder(buffered)
	enc.SetEscapeHTML(false)
	if err := writeRecords(enc, wl); err != nil {
		return fmt.Errorf("writing trace: %w", err)
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("writing trace: %w", err)
	}
	return nil
}

func writeRecords(enc *json.Encoder, wl *Workload) error {
	err := enc.Encode(traceHeader{
		Version: TraceVersion, Epoch: &instant{time: wl.Epoch}, Start: instant{time: wl.Start}, Source: wl.Source, Rules: wl.Rules,
		Transforms: wl.Transforms, MachineNodes: wl.MachineNodes, MachineProcessors: wl.MachineProcessors, Comments: wl.Header,
	})
	if err != nil {
		return err
	}
	for _, u := range wl.Users {
		if err := enc.Encode(userRecord{recordUser, u.Name, u.UID, u.Group, u.GID}); err != nil {
			return err
		}
	}
	for _, e := range wl.NodeEvents {
		if err := enc.Encode(nodeRecord{recordNode, instant{time: e.At}, e.Nodes, e.State, e.Reason}); err != nil {
			return err
		}
	}
	for _, e := range wl.Reservations {
		if err := enc.Encode(newReservationRecord(e)); err != nil {
			return err
		}
	}
	for _, a := range wl.Actions {
		if err := enc.Encode(actionRecord{recordAction, instant{time: a.At}, a.Run, a.Shell, a.SlurmConf}); err != nil {
			return err
		}
	}
	for _, u := range wl.Usage {
		if err := enc.Encode(usageRecord{recordUsage, u.Account, u.User, u.Raw}); err != nil {
			return err
		}
	}
	for _, job := range wl.Jobs.All() {
		if err := enc.Encode(newJobRecord(job)); err != nil {
			return fmt.Errorf("job %s: %w", job.ID, err)
		}
	}
	for _, u := range wl.Unusable {
		if err := enc.Encode(unusableRecord{recordUnusable, u.Record, u.Rule, u.Text}); err != nil {
			return err
		}
	}
	return nil
}

func newReservationRecord(e hpc.ReservationEvent) reservationRecord {
	return reservationRecord{
		Type: recordReservation, At: instant{time: e.At}, Action: e.Action, Name: e.Name,
		Start: instant{time: e.Start}, Duration: seconds(e.Duration),
		Nodes: e.Nodes, NodeCount: e.NodeCount, Partition: e.Partition,
		Users: e.Users, Accounts: e.Accounts, Flags: e.Flags,
		Licenses: e.Licenses, Features: e.Features,
	}
}
