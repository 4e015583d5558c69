package rpc

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// SubmitResponse is slurmctld's answer to a submission.
type SubmitResponse struct {
	JobID  uint32
	StepID uint32
	// Code is 0, or why an accepted job does not start now; see [slurmspec.Errno.Queued].
	Code slurmspec.Errno
	// Message is what job_submit plugins have to say to the user.
	Message string
}

// DecodeSubmitResponse reads the reply to a [RequestSubmitBatchJob]: a
// [ResponseSubmitBatchJob], whatever its code, means that the job was accepted; a
// [ResponseRC] refuses it, and the error wraps its [slurmspec.Errno]. It follows
// _unpack_submit_response_msg (slurm_protocol_pack.c) and slurm_submit_batch_job
// (api/submit.c).
func DecodeSubmitResponse(m *Message) (*SubmitResponse, error) {
	if m.Type != ResponseSubmitBatchJob {
		return nil, refusal("a submission", m)
	}
	d, own, err := ownDecoder(m.Version, "a submission's response", m.Body)
	if err != nil {
		return nil, err
	}
	r := own.submitResponse(d)
	if err := d.finish(); err != nil {
		return nil, err
	}
	return r, nil
}

func (d *decoder) submitResponse() *SubmitResponse {
	return &SubmitResponse{
		JobID:   d.u32("job id"),
		StepID:  d.u32("step id"),
		Code:    slurmspec.Errno(d.u32("error code")),
		Message: d.str("message"),
	}
}

// refusal is the error that a reply of another type than the wanted one stands for.
func refusal(what string, m *Message) error {
	if err := ReplyError(m); err != nil {
		return fmt.Errorf("%s was refused: %w", what, err)
	}
	return fmt.Errorf("%s was answered with %v, which is no answer to it", what, m.Type)
}

// ReplyError gives the error that a reply to any request stands for: nil for
// [ResponseRC] 0 and every type that is no error, an [slurmspec.Errno] for another code, with
// the text that comes with a [ResponseRCMessage], the failures of single tasks for a
// [ResponseJobArrayErrors], or why the reply cannot be read.
func ReplyError(m *Message) error {
	switch m.Type {
	case ResponseRC:
		code, err := DecodeRC(m.Body)
		if err != nil {
			return err
		}
		if code != 0 {
			return code
		}
	case ResponseRCMessage:
		return messageError(m.Body)
	case ResponseJobArrayErrors:
		return arrayErrors(m.Body)
	}
	return nil
}

// DecodeRC reads the body of a [ResponseRC].
func DecodeRC(body []byte) (slurmspec.Errno, error) {
	d := newDecoder("a return code", body)
	code := slurmspec.Errno(d.u32("code"))
	return code, d.finish()
}

func messageError(body []byte) error {
	d := newDecoder("a return code with a message", body)
	code, text := slurmspec.Errno(d.u32("code")), d.str("message")
	if err := d.finish(); err != nil {
		return err
	}
	switch {
	case code == 0:
		return nil
	case text == "":
		return code
	}
	return fmt.Errorf("%s: %w", strings.TrimSpace(text), code)
}

// arrayErrors reads the answer to a request about an array, a code for each group of
// tasks (_unpack_job_array_resp_msg in slurm_protocol_pack.c).
func arrayErrors(body []byte) error {
	d := newDecoder("a job array's response", body)
	var errs []error
	for range d.count(8, "task groups") {
		code, tasks := slurmspec.Errno(d.u32("code")), d.str("tasks")
		if code != 0 {
			errs = append(errs, fmt.Errorf("job %s: %w", tasks, code))
		}
	}
	if err := d.finish(); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// KillRequest is what scancel sends.
type KillRequest struct {
	// Job is the job as users write it: "12", "12_3" (a task of an array),
	// "12_[1-5]", "12_*", "12+1" (a component of a heterogeneous job).
	Job    string
	Signal uint16 // SIGKILL (9) ends the job, pending or running
	Flags  uint16 // Kill constants
}

// Append appends the body of a [RequestKillJob] to dst; the answer is a
// [ResponseRC]. It follows _pack_job_step_kill_msg (slurm_protocol_pack.c) and
// slurm_kill_job2 (api/cancel.c).
func (m *KillRequest) Append(dst []byte) []byte {
	e := encoder{b: dst}
	e.stepID(StepID{Job: slurmspec.NoVal, Step: slurmspec.NoVal, HetComponent: slurmspec.NoVal})
	e.str(m.Job)
	e.str("") // sibling cluster
	e.u16(m.Signal)
	e.u16(m.Flags)
	return e.b
}

// NodeUpdate changes the state of nodes, as "scontrol update node" does.
type NodeUpdate struct {
	Nodes  string // host list
	State  uint32 // Node constants; [slurmspec.NoVal] to leave it
	Reason string // required for down, drain and failing
}

// NewNodeUpdate makes the update for a node event of a workload. Slurm knows no
// difference between a node that is taken down and one that fails: both end the jobs
// on it. The reason is on one line, as sacctmgr's list of outages has to be.
func NewNodeUpdate(event hpc.NodeEvent) (*NodeUpdate, error) {
	m := &NodeUpdate{Nodes: event.Nodes, Reason: strings.TrimSpace(slurmspec.OneLine(event.Reason))}
	switch event.State {
	case "down", "fail":
		m.State = slurmspec.NodeDown
	case "drain":
		m.State = slurmspec.NodeDrain
	case "resume":
		m.State = slurmspec.NodeResume
	default:
		return nil, fmt.Errorf("node event: state %q is not known (want down, drain, resume or fail)", event.State)
	}
	if m.Reason == "" && m.State != slurmspec.NodeResume {
		m.Reason = "workload: " + event.State
	}
	return m, nil
}

// Append appends the body of a [RequestUpdateNode] in version 22.05 to dst; the
// answer is a [ResponseRC]. It follows _pack_update_node_msg
// (slurm_protocol_pack.c).
func (m *NodeUpdate) Append(dst []byte) []byte {
	e := encoder{b: dst}
	e.str("") // comment
	e.u32(0)  // cpu bind
	for range 6 {
		e.str("") // extra, features, active features, gres, address, host name
	}
	e.str(m.Nodes)
	e.u32(m.State)
	e.str(m.Reason)
	e.u32(0) // reason uid: the sender's is taken
	e.u32(slurmspec.NoVal)
	return e.b
}

// ReservationDesc describes a reservation to be created or updated
// (resv_desc_msg_t in slurm.h). Its fields are in the order of the wire.
type ReservationDesc struct {
	Name          string
	Start, End    int64  // seconds since the Unix epoch; slurmspec.NoVal for not set
	Duration      uint32 // minutes, slurmspec.NoVal or slurmspec.Infinite
	Flags         uint64
	NodeCounts    []uint32 // with a closing 0
	CoreCounts    []uint32 // with a closing 0
	Nodes         string
	Features      string
	Licenses      string
	MaxStartDelay uint32 // seconds
	Partition     string
	PurgeComp     uint32 // seconds
	Watts         uint32
	Users         string
	Accounts      string
	BurstBuffer   string
	Groups        string
}

// NewReservationDesc makes the description for a workload's reservation as
// scontrol does (scontrol/create_res.c). For an update, what r leaves empty stays as
// it is; a new one needs a start, a duration, nodes or a node count or licenses or a
// partition, and users or accounts, and the error says which of them is missing.
// Slurm counts a duration in minutes; one of other than whole minutes gives the end, and
// where that cannot be told is rounded up.
func NewReservationDesc(r hpc.Reservation, update bool) (*ReservationDesc, error) {
	d := &ReservationDesc{
		Name: r.Name, Start: int64(slurmspec.NoVal), End: int64(slurmspec.NoVal), Duration: slurmspec.NoVal, Flags: slurmspec.NoVal64,
		Nodes: r.Nodes, Features: r.Features, Licenses: r.Licenses,
		MaxStartDelay: slurmspec.NoVal, Partition: r.Partition, PurgeComp: slurmspec.NoVal, Watts: slurmspec.NoVal,
		Users: strings.Join(r.Users, ","), Accounts: strings.Join(r.Accounts, ","),
	}
	fail := func(format string, args ...any) (*ReservationDesc, error) {
		return nil, fmt.Errorf("reservation %q: %s", r.Name, fmt.Sprintf(format, args...))
	}
	if !r.Start.IsZero() {
		d.Start = slurmspec.SecondsUp(r.Start)
	}
	var err error
	if d.Duration, err = slurmspec.Minutes(r.Duration); err != nil {
		return fail("duration %v", err)
	}
	if d.Start != int64(slurmspec.NoVal) && ExactEnd(r) {
		d.End, d.Duration = slurmspec.SecondsUp(r.Start.Add(r.Duration)), slurmspec.NoVal
	}
	if r.NodeCount > 0 {
		d.NodeCounts = []uint32{uint32(r.NodeCount), 0}
	}
	for _, text := range r.Flags {
		flag, err := slurmspec.ParseReservationFlag(text)
		if err != nil {
			return fail("%v", err)
		}
		d.addFlag(flag.Bit())
		if flag.Time > 0 {
			d.PurgeComp = uint32(flag.Time / time.Second)
		}
	}
	if update {
		return d, nil
	}
	partNodes := slurmspec.ReservationFlag{Name: slurmspec.FlagPartNodes}
	if strings.EqualFold(d.Nodes, "all") && d.Partition != "" {
		d.addFlag(partNodes.Bit())
	}
	if d.Nodes == "" && r.NodeCount == 0 && d.Licenses == "" {
		if d.Partition == "" {
			return fail("it has no nodes, node count, licenses or partition")
		}
		d.addFlag(partNodes.Bit())
		d.Nodes = "ALL"
	}
	switch {
	case r.Start.IsZero():
		return fail("it has no start")
	case r.Duration == 0:
		return fail("it has no duration")
	case d.Users == "" && d.Accounts == "":
		return fail("it has no users and no accounts")
	}
	return d, nil
}

// ExactEnd reports whether Slurm is told when the reservation ends and not how long it is.
func ExactEnd(r hpc.Reservation) bool {
	return r.Duration != hpc.Unlimited && r.Duration%time.Minute != 0 && !r.HasFlag(slurmspec.FlagTimeFloat)
}

func (m *ReservationDesc) addFlag(bit uint64) {
	if m.Flags == slurmspec.NoVal64 {
		m.Flags = 0
	}
	m.Flags |= bit
}

// Append appends the body of a [RequestCreateReservation], which is answered with a
// [ResponseCreateReservation] (the name) or a [ResponseRC] (why not), or of a
// [RequestUpdateReservation], answered with a [ResponseRC], to dst. It follows
// _pack_update_resv_msg (slurm_protocol_pack.c).
func (m *ReservationDesc) Append(dst []byte) []byte {
	e := encoder{b: dst}
	e.str(m.Name)
	e.time(m.Start)
	e.time(m.End)
	e.u32(m.Duration)
	e.u64(m.Flags)
	e.u32s(m.NodeCounts)
	e.u32s(m.CoreCounts)
	e.str(m.Nodes)
	e.str(m.Features)
	e.str(m.Licenses)
	e.u32(m.MaxStartDelay)
	e.str(m.Partition)
	e.u32(m.PurgeComp)
	e.u32(m.Watts)
	e.str(m.Users)
	e.str(m.Accounts)
	e.str(m.BurstBuffer)
	e.str(m.Groups)
	return e.b
}

// AppendReservationName appends the body of a [RequestDeleteReservation] to dst; the
// answer is a [ResponseRC]. It follows _pack_resv_name_msg (slurm_protocol_pack.c).
func AppendReservationName(dst []byte, name string) []byte {
	e := encoder{b: dst}
	e.str(name)
	return e.b
}

// DecodeCreateReservation reads the reply to a [RequestCreateReservation]: the name
// of the new reservation, or an error that wraps an [slurmspec.Errno].
func DecodeCreateReservation(m *Message) (name string, err error) {
	if m.Type != ResponseCreateReservation {
		return "", refusal("a reservation", m)
	}
	d := newDecoder("a reservation's response", m.Body)
	name = d.str("name")
	return name, d.finish()
}

// NewJobUpdate makes a description that changes nothing of a job, for
// [RequestUpdateJob]; the caller sets what is to change. job is as in [KillRequest].
// The answer is a [ResponseRC] or [ResponseJobArrayErrors].
func NewJobUpdate(job string) *JobDesc {
	j := NewJobDesc()
	j.JobIDStr = job
	return j
}

// ReleasePriority is the priority with which an update releases a held job, and 0
// is that with which it holds one (scontrol_hold in scontrol/update_job.c).
const ReleasePriority = slurmspec.Infinite

// AppendSuspend appends the body of a [RequestSuspend] to dst, with which an
// administrator suspends or resumes a job; the answer is a [ResponseRC]. It follows
// _pack_suspend_msg (slurm_protocol_pack.c).
func AppendSuspend(dst []byte, job string, resume bool) []byte {
	e := encoder{b: dst}
	e.u16(uint16(btoi(resume)))
	e.u32(slurmspec.NoVal)
	e.str(job)
	return e.b
}

// AppendRequeue appends the body of a [RequestJobRequeue] to dst; the answer is a
// [ResponseRC]. It follows _pack_job_requeue_msg (slurm_protocol_pack.c).
func AppendRequeue(dst []byte, job string) []byte {
	e := encoder{b: dst}
	e.u32(slurmspec.NoVal)
	e.str(job)
	e.u32(0)
	return e.b
}

// Shutdown says what ends with a [RequestShutdown] (slurmctld_shutdown_type_t in
// slurm_protocol_defs.h).
type Shutdown uint16

// What a shutdown ends.
const (
	ShutdownAll        Shutdown = 0 // the controller and the daemons of all nodes
	ShutdownController Shutdown = 2 // the controller alone
)

// Append appends the body of a [RequestShutdown] to dst. The controller saves its
// state and answers with [ResponseRC] 0, then ends. It follows _pack_shutdown_msg
// (slurm_protocol_pack.c). A [RequestPing], [RequestReconfigure] has no body at all.
func (s Shutdown) Append(dst []byte) []byte {
	e := encoder{b: dst}
	e.u16(uint16(s))
	return e.b
}

// AppendStatsRequest appends the body of a [RequestStats] to dst; with reset the
// controller's counters start anew. The answer is a [ResponseStats]. It follows
// _pack_stats_request_msg (slurm_protocol_pack.c).
func AppendStatsRequest(dst []byte, reset bool) []byte {
	e := encoder{b: dst}
	e.u16(uint16(btoi(!reset)))
	return e.b
}

// Stats are the controller's own counters since its start or the last reset, as
// sdiag shows them. Completed counts every job whose script ended by itself, with
// whatever exit code. "Main" is the main scheduler, whose times are those of its
// cycles; BackfilledJobs counts since the last reset, BackfilledSinceStart since the
// daemon's start.
type Stats struct {
	// Time is when they were read and Since when counting began, in seconds since the
	// Unix epoch.
	Time, Since                             int64
	ServerThreads                           uint32
	AgentQueue, Agents, AgentThreads        uint32
	DBDQueue                                uint32 // messages that wait for slurmdbd
	Submitted, Started, Completed           uint32
	Cancelled, Failed, Pending, Running     uint32
	MainCycles, MainDepthSum, MainQueue     uint32
	MainMax, MainLast, MainSum              time.Duration
	BackfilledJobs, BackfilledSinceStart    uint32
	BackfillCycles                          uint32
	BackfillLast, BackfillMax, BackfillSum  time.Duration
	BackfillLastDepth, BackfillLastDepthTry uint32
	BackfillQueue                           uint32
	BackfillLastTime                        int64 // seconds since the Unix epoch
	BackfillDepthSum, BackfillDepthTrySum   uint32
	BackfillQueueSum, BackfillTableSize     uint32
	BackfillTableSizeSum                    uint32
	BackfillActive                          bool
	// RPCs are the requests handled, by type.
	RPCs []RPCStat
}

// RPCStat counts the requests of one type and the time that they took.
type RPCStat struct {
	Type  Type
	Count uint32
	Total time.Duration
}

// DecodeStats reads a [ResponseStats]. It follows _unpack_stats_response_msg
// (slurm_protocol_pack.c); the counters by user and of waiting messages are skipped.
func DecodeStats(m *Message) (*Stats, error) {
	d, own, err := ownDecoder(m.Version, "the statistics", m.Body)
	if err != nil {
		return nil, err
	}
	s := own.stats(d)
	if err := d.finish(); err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) statistics() *Stats {
	s := &Stats{}
	if d.u32("parts") != 0 {
		d.stats(s)
	}
	d.u32("rpc types")
	types, counts, times := d.u16s("rpc type"), d.u32s("rpc counts"), d.u64s("rpc times")
	if len(types) != len(counts) || len(types) != len(times) {
		d.fail("there are %d rpc types, %d counts and %d times", len(types), len(counts), len(times))
	}
	d.u32("rpc users")
	d.u32s("rpc user")
	d.u32s("rpc user counts")
	d.u64s("rpc user times")
	d.u32s("rpc queue types")
	d.u32s("rpc queue counts")
	d.u32s("rpc dump types")
	d.strs("rpc dump hosts")
	for i := range types {
		if d.err == nil {
			s.RPCs = append(s.RPCs, RPCStat{Type(types[i]), counts[i], micros(times[i])})
		}
	}
	return s
}

// stats reads the counters.
func (d *decoder) stats(s *Stats) {
	s.Time, s.Since = d.time("time"), d.time("since")
	micro := func(field string) time.Duration { return micros(uint64(d.u32(field))) }
	for _, p := range []*uint32{
		&s.ServerThreads, &s.AgentQueue, &s.Agents, &s.AgentThreads, &s.DBDQueue,
	} {
		*p = d.u32("agent counters")
	}
	d.u32("gettimeofday latency")
	for _, p := range []*uint32{
		&s.Submitted, &s.Started, &s.Completed, &s.Cancelled, &s.Failed, &s.Pending, &s.Running,
	} {
		*p = d.u32("job counters")
	}
	d.time("job states time")
	s.MainMax, s.MainLast, s.MainSum = micro("cycle max"), micro("cycle last"), micro("cycle sum")
	s.MainCycles, s.MainDepthSum, s.MainQueue = d.u32("cycles"), d.u32("cycle depth"), d.u32("cycle queue")
	s.BackfilledSinceStart, s.BackfilledJobs = d.u32("backfilled jobs"), d.u32("last backfilled jobs")
	s.BackfillCycles = d.u32("backfill cycles")
	s.BackfillSum = micros(d.u64("backfill sum"))
	s.BackfillLast = micro("backfill last")
	s.BackfillLastDepth, s.BackfillLastDepthTry = d.u32("backfill depth"), d.u32("backfill depth try")
	s.BackfillQueue = d.u32("backfill queue")
	s.BackfillMax = micro("backfill max")
	s.BackfillLastTime = d.time("backfill time")
	for _, p := range []*uint32{
		&s.BackfillDepthSum, &s.BackfillDepthTrySum, &s.BackfillQueueSum,
		&s.BackfillTableSize, &s.BackfillTableSizeSum,
	} {
		*p = d.u32("backfill counters")
	}
	s.BackfillActive = d.u32("backfill active") != 0
	d.u32("backfilled heterogeneous jobs")
}

func micros(us uint64) time.Duration {
	return time.Duration(min(us, uint64(1<<63-1)/1000)) * time.Microsecond
}
