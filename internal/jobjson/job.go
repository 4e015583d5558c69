package jobjson

import (
	"reflect"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// Job is an hpc.Job as a JSON object. Package trace adds the type of the record.
type Job struct {
	ID     string  `json:"id"`
	Submit Instant `json:"submit"`
	Request
	Durations
	Behaviour
	Recorded *Recorded `json:"recorded"`
	Made     string    `json:"made"`
}

// Request has the fields of hpc.Request. A conversion between the two types makes the compiler
// check that the fields are the same. The durations of a request are in [Durations] instead.
type Request struct {
	Name      string `json:"name"`
	User      string `json:"user"`
	Group     string `json:"group"`
	Account   string `json:"account"`
	Partition string `json:"partition"`
	QOS       string `json:"qos"`
	WCKey     string `json:"wckey"`

	Reservation string        `json:"reservation"`
	Dependency  string        `json:"dependency"`
	Array       string        `json:"array"`
	Begin       time.Duration `json:"-"`
	Deadline    time.Duration `json:"-"`
	Hold        bool          `json:"hold"`
	Priority    *uint32       `json:"priority"`
	AsOperator  bool          `json:"as_operator"`
	Nice        int           `json:"nice"`
	Requeue     *bool         `json:"requeue"`

	TimeLimit time.Duration `json:"-"`
	TimeMin   time.Duration `json:"-"`

	MinNodes       int `json:"min_nodes"`
	MaxNodes       int `json:"max_nodes"`
	Tasks          int `json:"tasks"`
	TasksPerNode   int `json:"tasks_per_node"`
	TasksPerSocket int `json:"tasks_per_socket"`
	TasksPerCore   int `json:"tasks_per_core"`
	TasksPerGPU    int `json:"tasks_per_gpu"`
	CPUsPerTask    int `json:"cpus_per_task"`
	MinCPUsPerNode int `json:"min_cpus_per_node"`
	SocketsPerNode int `json:"sockets_per_node"`
	CoresPerSocket int `json:"cores_per_socket"`
	ThreadsPerCore int `json:"threads_per_core"`
	CoreSpec       int `json:"core_spec"`
	ThreadSpec     int `json:"thread_spec"`

	MemPerNode int64 `json:"mem_per_node_mib"`
	MemPerCPU  int64 `json:"mem_per_cpu_mib"`
	MemPerGPU  int64 `json:"mem_per_gpu_mib"`
	TmpDisk    int64 `json:"tmp_disk_mib"`

	GRES          string `json:"gres"`
	GPUs          string `json:"gpus"`
	GPUsPerNode   string `json:"gpus_per_node"`
	GPUsPerSocket string `json:"gpus_per_socket"`
	GPUsPerTask   string `json:"gpus_per_task"`
	CPUsPerGPU    int    `json:"cpus_per_gpu"`
	GRESFlags     string `json:"gres_flags"`

	Constraint        string        `json:"constraint"`
	Prefer            string        `json:"prefer"`
	ClusterConstraint string        `json:"cluster_constraint"`
	NodeList          string        `json:"node_list"`
	Exclude           string        `json:"exclude"`
	Exclusive         string        `json:"exclusive"`
	Oversubscribe     bool          `json:"oversubscribe"`
	Overcommit        bool          `json:"overcommit"`
	Contiguous        bool          `json:"contiguous"`
	SpreadJob         bool          `json:"spread_job"`
	UseMinNodes       bool          `json:"use_min_nodes"`
	Distribution      string        `json:"distribution"`
	Hint              string        `json:"hint"`
	Licenses          string        `json:"licenses"`
	Switches          int           `json:"switches"`
	SwitchWait        time.Duration `json:"-"`
	BurstBuffer       string        `json:"burst_buffer"`
	MCSLabel          string        `json:"mcs_label"`
	DelayBoot         time.Duration `json:"-"`
	Reboot            bool          `json:"reboot"`
	KillOnInvalidDep  *bool         `json:"kill_on_invalid_dep"`
	NoKill            bool          `json:"no_kill"`
	Signal            string        `json:"signal"`
	Comment           string        `json:"comment"`
}

// Durations are the durations of hpc.Request.
type Durations struct {
	Begin      Seconds `json:"begin_after_s"`
	Deadline   Seconds `json:"deadline_after_s"`
	TimeLimit  Seconds `json:"time_limit_s"`
	TimeMin    Seconds `json:"time_min_s"`
	SwitchWait Seconds `json:"switch_wait_s"`
	DelayBoot  Seconds `json:"delay_boot_s"`
}

// Behaviour has the fields of hpc.Behaviour.
type Behaviour struct {
	// RunTime is a pointer to tell a job that ends at once from a job whose run time is
	// missing.
	RunTime       *Seconds        `json:"run_time_s"`
	ExitCode      int             `json:"exit_code"`
	CancelAfter   Seconds         `json:"cancel_after_s"`
	EndAt         Instant         `json:"end_at"`
	TaskRunTimes  map[int]Seconds `json:"task_run_times_s"`
	TaskExitCodes map[int]int     `json:"task_exit_codes"`
	IO            []Phase         `json:"io"`
}

// Phase has the fields of hpc.Phase.
type Phase struct {
	Duration   Seconds `json:"duration_s"`
	FileSystem string  `json:"file_system"`
	Bytes      int64   `json:"bytes"`
	Rate       int64   `json:"bytes_per_s"`
}

// Recorded has the fields of hpc.Recorded.
type Recorded struct {
	Eligible   Instant   `json:"eligible"`
	Start      Instant   `json:"start"`
	End        Instant   `json:"end"`
	State      hpc.State `json:"state"`
	Nodes      string    `json:"nodes"`
	Processors int       `json:"processors"`
	Priority   uint32    `json:"priority"`
	TimeLimit  Seconds   `json:"time_limit_s"`
	UsedMemory int64     `json:"used_memory_kib"` // for each processor
	MovedBytes int64     `json:"moved_bytes"`
	BeginMade  bool      `json:"begin_made"`

	TaskStarts map[int]Instant `json:"task_starts"`
	TaskEnds   map[int]Instant `json:"task_ends"`
	TaskNodes  map[int]string  `json:"task_nodes"`

	TaskStates map[int]hpc.State `json:"task_states"`

	TaskUsedMemory map[int]int64 `json:"task_used_memory_kib"`
	TaskMovedBytes map[int]int64 `json:"task_moved_bytes"`

	TaskEligible   map[int]Instant `json:"task_eligible"`
	TaskProcessors map[int]int     `json:"task_processors"`
	TaskPriorities map[int]uint32  `json:"task_priorities"`
	Interruptions
	TaskInterruptions map[int]Interruptions `json:"task_interruptions"`
}

// Interruptions has the fields of hpc.Interruptions.
type Interruptions struct {
	LostRuns    []LostRun    `json:"lost_runs"`
	Suspensions []Suspension `json:"suspensions"`
	PreemptedBy string       `json:"preempted_by"`
}

// LostRun has the fields of hpc.LostRun.
type LostRun struct {
	Start         Instant   `json:"start"`
	End           Instant   `json:"end"`
	EligibleAgain Instant   `json:"eligible_again"`
	Nodes         string    `json:"nodes"`
	Processors    int       `json:"processors"`
	Cause         hpc.State `json:"cause"`
	PreemptedBy   string    `json:"preempted_by"`
}

// Suspension has the fields of hpc.Suspension.
type Suspension struct {
	From Instant `json:"from"`
	To   Instant `json:"to"`
}

// Field is a field of hpc.Request.
type Field struct {
	Index int    // index in the struct
	Field string // its name in Go
	Name  string // its name in JSON, with the unit
}

// RequestFields returns the fields of hpc.Request in the order of their declaration.
func RequestFields() []Field { return requestFields }

var requestFields = func() []Field {
	durations := make(map[string]string)
	for f := range reflect.TypeFor[Durations]().Fields() {
		durations[f.Name] = jsonName(f)
	}
	var fields []Field
	for f := range reflect.TypeFor[Request]().Fields() {
		name := jsonName(f)
		if name == "-" {
			name = durations[f.Name]
		}
		fields = append(fields, Field{f.Index[0], f.Name, name})
	}
	return fields
}()

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// Decode returns the job that the object describes. A job without run_time_s ends at once. Relative
// instants count from the epoch, and Decode sets epoch.Used if the job has a relative instant.
func (j *Job) Decode(epoch *Epoch) *hpc.Job {
	job := &hpc.Job{
		ID: j.ID, Submit: j.Submit.At(epoch), Request: hpc.Request(j.Request), Made: j.Made,
		Behaviour: hpc.Behaviour{
			ExitCode: j.ExitCode, CancelAfter: time.Duration(j.CancelAfter), EndAt: j.EndAt.At(epoch),
			TaskExitCodes: j.TaskExitCodes,
		},
	}
	if j.RunTime != nil {
		job.RunTime = time.Duration(*j.RunTime)
	}
	d := &j.Durations
	job.Begin, job.Deadline = time.Duration(d.Begin), time.Duration(d.Deadline)
	job.TimeLimit, job.TimeMin = time.Duration(d.TimeLimit), time.Duration(d.TimeMin)
	job.SwitchWait, job.DelayBoot = time.Duration(d.SwitchWait), time.Duration(d.DelayBoot)
	job.TaskRunTimes = eachTask(j.TaskRunTimes, func(d Seconds) time.Duration { return time.Duration(d) })
	for _, p := range j.IO {
		job.IO = append(job.IO, hpc.Phase{Duration: time.Duration(p.Duration), FileSystem: p.FileSystem, Bytes: p.Bytes,
			Rate: p.Rate})
	}
	if rec := j.Recorded; rec != nil {
		at := func(t Instant) hpc.Time { return t.At(epoch) }
		job.Recorded = &hpc.Recorded{
			Eligible: at(rec.Eligible), Start: at(rec.Start), End: at(rec.End),
			State: rec.State, Nodes: rec.Nodes, Processors: rec.Processors, Priority: rec.Priority,
			TimeLimit: time.Duration(rec.TimeLimit), BeginMade: rec.BeginMade,
			TaskStarts: eachTask(rec.TaskStarts, at), TaskEnds: eachTask(rec.TaskEnds, at), TaskNodes: rec.TaskNodes,
			TaskStates: rec.TaskStates,
			UsedMemory: rec.UsedMemory, MovedBytes: rec.MovedBytes, TaskUsedMemory: rec.TaskUsedMemory,
			TaskMovedBytes: rec.TaskMovedBytes, TaskEligible: eachTask(rec.TaskEligible, at),
			TaskProcessors: rec.TaskProcessors, TaskPriorities: rec.TaskPriorities, Interruptions: rec.decode(at),
			TaskInterruptions: eachTask(rec.TaskInterruptions, func(i Interruptions) hpc.Interruptions { return i.decode(at) }),
		}
	}
	return job
}

func (i *Interruptions) decode(at func(Instant) hpc.Time) hpc.Interruptions {
	out := hpc.Interruptions{PreemptedBy: i.PreemptedBy}
	for _, r := range i.LostRuns {
		out.LostRuns = append(out.LostRuns, hpc.LostRun{
			Start: at(r.Start), End: at(r.End), EligibleAgain: at(r.EligibleAgain),
			Nodes: r.Nodes, Processors: r.Processors, Cause: r.Cause, PreemptedBy: r.PreemptedBy,
		})
	}
	for _, s := range i.Suspensions {
		out.Suspensions = append(out.Suspensions, hpc.Suspension{From: at(s.From), To: at(s.To)})
	}
	return out
}

// eachTask converts the values of a map by task.
func eachTask[A, B any](tasks map[int]A, convert func(A) B) map[int]B {
	if tasks == nil {
		return nil
	}
	out := make(map[int]B, len(tasks))
	for task, value := range tasks {
		out[task] = convert(value)
	}
	return out
}
