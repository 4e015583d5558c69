package rpc

import "rmreplay/internal/slurmspec"

// JobDesc is a job's description (job_desc_msg_t in slurm.h): the body of a [RequestSubmitBatchJob]
// and of a [RequestUpdateJob]. slurmctld answers an update with a [ResponseRC] or a
// [ResponseJobArrayErrors]. The fields have Slurm's units and markers, and are in the order of the
// message. [NewJobDesc] sets every field to "not set".
type JobDesc struct {
	SiteFactor      uint32
	BatchFeatures   string
	ClusterFeatures string
	Clusters        string
	Contiguous      uint16
	Container       string
	CoreSpec        uint16 // cores; threads if CoreSpecThread is set
	TaskDist        uint32
	KillOnNodeFail  uint16
	Features        string
	SiblingsActive  uint64
	SiblingsViable  uint64
	JobID           uint32
	JobIDStr        string
	Name            string
	AllocNode       string
	AllocSID        uint32
	ArrayIndices    string
	BurstBuffer     string
	MinCPUsPerNode  uint16
	MinMemory       uint64 // MiB per node; MiB per CPU if slurmspec.MemPerCPU is set
	OOMKillStep     uint16 // 1: running out of memory ends the step; 0: it ends one task; since 24.11
	MinTmpDisk      uint32 // MiB per node
	PowerFlags      uint8
	Prefer          string
	CPUFreqMin      uint32
	CPUFreqMax      uint32
	CPUFreqGovernor uint32
	Partition       string
	Priority        uint32
	Dependency      string
	Account         string
	AdminComment    string
	Comment         string
	Nice            uint32 // NiceOffset plus the nice value
	Profile         uint32
	QOS             string
	MCSLabel        string
	OriginCluster   string
	OpenMode        uint8
	Overcommit      uint8
	AcctgFreq       string
	Tasks           uint32
	Context         string
	ReqNodes        string
	ExcNodes        string
	Environment     []string
	SpankJobEnv     []string
	Script          string
	Args            []string
	StdErr          string
	StdIn           string
	StdOut          string
	SubmitLine      string
	WorkDir         string
	Immediate       uint16
	Reboot          uint16
	Requeue         uint16
	Shared          uint16
	CPUsPerTask     uint16
	TasksPerNode    uint16
	TasksPerBoard   uint16
	TasksPerSocket  uint16
	TasksPerCore    uint16
	TasksPerTRES    uint16
	PlaneSize       uint16
	CPUBindType     uint16
	MemBindType     uint16
	CPUBind         string
	MemBind         string
	TimeLimit       uint32 // minutes
	TimeMin         uint32 // minutes
	MinCPUs         uint32
	MaxCPUs         uint32
	MinNodes        uint32
	MaxNodes        uint32
	BoardsPerNode   uint16
	SocketsPerBoard uint16
	SocketsPerNode  uint16
	CoresPerSocket  uint16
	ThreadsPerCore  uint16
	UserID          uint32
	GroupID         uint32
	AllocRespPort   uint16
	RespHost        string
	OtherPort       uint16
	ReservedPorts   uint16 // number of ports that the job reserves; since 24.05
	Network         string
	BeginTime       int64 // seconds since the Unix epoch, as in the next two fields
	EndTime         int64
	Deadline        int64
	Licenses        string
	MailType        uint16
	MailUser        string
	Reservation     string
	RestartCount    uint16
	WarnFlags       uint16
	WarnSignal      uint16
	WarnTime        uint16 // seconds before the time limit
	WCKey           string
	ReqSwitch       uint32
	Wait4Switch     uint32 // seconds
	SelectPlugin    uint32 // as SelectPluginID gives it
	WaitAllNodes    uint16
	Flags           uint64
	DelayBoot       uint32 // seconds
	Extra           string
	X11             uint16
	X11MagicCookie  string
	X11Target       string
	X11TargetPort   uint16
	CPUsPerTRES     string
	MemPerTRES      string
	TRESBind        string
	TRESFreq        string
	TRESPerJob      string
	TRESPerNode     string
	TRESPerSocket   string
	TRESPerTask     string
}

// Offsets and marks in fields of a [JobDesc] (slurm.h).
const (
	// NiceOffset is added to the nice value in Nice.
	NiceOffset = uint32(0x80000000)
	// CoreSpecThread marks a CoreSpec that counts threads.
	CoreSpecThread = uint16(0x8000)
	// DistUnknown is the TaskDist of a job without a distribution.
	DistUnknown = uint32(0x2000)
)

// Flags of a [JobDesc] (slurm.h).
const (
	FlagKillInvalidDep   = uint64(1) << 0  // end the job if its dependency cannot be satisfied
	FlagNoKillInvalidDep = uint64(1) << 1  // leave such a job in the queue
	FlagGRESEnforceBind  = uint64(1) << 4  // bind generic resources to their cores
	FlagSpreadJob        = uint64(1) << 8  // spread the job over as many nodes as possible
	FlagUseMinNodes      = uint64(1) << 9  // prefer the smallest number of nodes
	FlagTasksSet         = uint64(1) << 14 // Tasks is given
	FlagCPUsSet          = uint64(1) << 15 // CPUsPerTask is given
	FlagGRESDisableBind  = uint64(1) << 19 // do not bind generic resources to their cores

	flagDefaultAccount   = uint64(1) << 25
	flagDefaultPartition = uint64(1) << 26
	flagDefaultQOS       = uint64(1) << 27
	flagDefaultWCKey     = uint64(1) << 28
)

// SelectPluginID returns the number of a select plugin ("select/cons_tres" or "cons_tres"), or 0
// if Slurm 22.05 has no plugin of this name (enum select_plugin_type in slurm.h). A job
// description names the plugin of the sender's slurm.conf, and slurmctld refuses any plugin other
// than its own.
func SelectPluginID(name string) uint32 {
	switch name {
	case "select/cons_res", "cons_res":
		return 101
	case "select/linear", "linear":
		return 102
	case "select/serial", "serial":
		return 106
	case "select/cons_tres", "cons_tres":
		return 109
	}
	return 0
}

// NewJobDesc returns a description in which every field has the value that Slurm reads as "not
// set" (slurm_init_job_desc_msg in api/init_msg.c). The select plugin is cons_tres.
func NewJobDesc() *JobDesc {
	return &JobDesc{
		SiteFactor: slurmspec.NoVal, Contiguous: slurmspec.NoVal16, CoreSpec: slurmspec.NoVal16, TaskDist: slurmspec.NoVal,
		KillOnNodeFail: slurmspec.NoVal16, JobID: slurmspec.NoVal, AllocSID: slurmspec.NoVal,
		MinCPUsPerNode: slurmspec.NoVal16,
		MinMemory:      slurmspec.NoVal64, MinTmpDisk: slurmspec.NoVal, CPUFreqMin: slurmspec.NoVal,
		CPUFreqMax:      slurmspec.NoVal,
		CPUFreqGovernor: slurmspec.NoVal, Priority: slurmspec.NoVal, Nice: slurmspec.NoVal, Overcommit: slurmspec.NoVal8,
		Tasks: slurmspec.NoVal, Reboot: slurmspec.NoVal16, Requeue: slurmspec.NoVal16, Shared: slurmspec.NoVal16,
		CPUsPerTask: slurmspec.NoVal16, TasksPerNode: slurmspec.NoVal16, TasksPerSocket: slurmspec.NoVal16,
		TasksPerCore: slurmspec.NoVal16, TasksPerTRES: slurmspec.NoVal16, PlaneSize: slurmspec.NoVal16,
		CPUBindType: slurmspec.NoVal16, MemBindType: slurmspec.NoVal16, TimeLimit: slurmspec.NoVal, TimeMin: slurmspec.NoVal,
		MinCPUs: slurmspec.NoVal, MaxCPUs: slurmspec.NoVal, MinNodes: slurmspec.NoVal, MaxNodes: slurmspec.NoVal,
		SocketsPerNode: slurmspec.NoVal16, CoresPerSocket: slurmspec.NoVal16, ThreadsPerCore: slurmspec.NoVal16,
		UserID: slurmspec.NoVal, GroupID: slurmspec.NoVal, MailType: slurmspec.NoVal16, ReqSwitch: slurmspec.NoVal,
		Wait4Switch: slurmspec.NoVal, WaitAllNodes: slurmspec.NoVal16, DelayBoot: slurmspec.NoVal,
		SelectPlugin: SelectPluginID("select/cons_tres"),
	}
}

func (j *JobDesc) append(e *encoder) { e.protocol.own.jobDesc(e, j) }

// jobDescFields are the fields of a job's description that only some versions have.
type jobDescFields struct {
	containerID   bool
	powerFlags    bool
	oomKillStep   bool // whether running out of memory ends a whole step
	jobSize       bool // the list of numbers of nodes to choose from
	reservedPorts bool
	selectPlugin  bool
	segmentSize   bool
	nobody        bool // a missing user or group is sent as nobody, not as slurmspec.NoVal
}

// append follows _pack_job_desc_msg (slurm_protocol_pack.c), which also marks a missing account,
// partition, QOS and wckey.
func (f jobDescFields) append(e *encoder, j *JobDesc) {
	e.U32(j.SiteFactor)
	e.Str(j.BatchFeatures)
	e.Str(j.ClusterFeatures)
	e.Str(j.Clusters)
	e.U16(j.Contiguous)
	e.Str(j.Container)
	if f.containerID {
		e.Str("")
	}
	e.U16(j.CoreSpec)
	e.U32(j.TaskDist)
	e.U16(j.KillOnNodeFail)
	e.Str(j.Features)
	e.U64(j.SiblingsActive)
	e.U64(j.SiblingsViable)
	e.U32(j.JobID)
	e.Str(j.JobIDStr)
	e.Str(j.Name)
	e.Str(j.AllocNode)
	e.U32(j.AllocSID)
	e.Str(j.ArrayIndices)
	e.Str(j.BurstBuffer)
	e.U16(j.MinCPUsPerNode)
	e.U64(j.MinMemory)
	if f.oomKillStep {
		e.U16(j.OOMKillStep)
	}
	e.U32(j.MinTmpDisk)
	if f.powerFlags {
		e.U8(j.PowerFlags)
	}
	e.Str(j.Prefer)
	e.U32(j.CPUFreqMin)
	e.U32(j.CPUFreqMax)
	e.U32(j.CPUFreqGovernor)
	e.Str(j.Partition)
	e.U32(j.Priority)
	e.Str(j.Dependency)
	e.Str(j.Account)
	e.Str(j.AdminComment)
	e.Str(j.Comment)
	e.U32(j.Nice)
	e.U32(j.Profile)
	e.Str(j.QOS)
	e.Str(j.MCSLabel)
	e.Str(j.OriginCluster)
	e.U8(j.OpenMode)
	e.U8(j.Overcommit)
	e.Str(j.AcctgFreq)
	e.U32(j.Tasks)
	e.Str(j.Context)
	e.Str(j.ReqNodes)
	e.Str(j.ExcNodes)
	e.Strs(j.Environment)
	e.Strs(j.SpankJobEnv)
	e.Str(j.Script)
	e.Strs(j.Args)
	e.Str(j.StdErr)
	e.Str(j.StdIn)
	e.Str(j.StdOut)
	e.Str(j.SubmitLine)
	e.Str(j.WorkDir)
	f.appendShape(e, j)
	f.appendRest(e, j)
}

// appendShape appends the fields about the layout of tasks and nodes.
func (f jobDescFields) appendShape(e *encoder, j *JobDesc) {
	e.U16(j.Immediate)
	e.U16(j.Reboot)
	e.U16(j.Requeue)
	e.U16(j.Shared)
	e.U16(j.CPUsPerTask)
	e.U16(j.TasksPerNode)
	e.U16(j.TasksPerBoard)
	e.U16(j.TasksPerSocket)
	e.U16(j.TasksPerCore)
	e.U16(j.TasksPerTRES)
	e.U16(j.PlaneSize)
	e.U16(j.CPUBindType)
	e.U16(j.MemBindType)
	e.Str(j.CPUBind)
	e.Str(j.MemBind)
	e.U32(j.TimeLimit)
	e.U32(j.TimeMin)
	e.U32(j.MinCPUs)
	e.U32(j.MaxCPUs)
	e.U32(j.MinNodes)
	e.U32(j.MaxNodes)
	if f.jobSize {
		e.Str("")
	}
	e.U16(j.BoardsPerNode)
	e.U16(j.SocketsPerBoard)
	e.U16(j.SocketsPerNode)
	e.U16(j.CoresPerSocket)
	e.U16(j.ThreadsPerCore)
	e.U32(f.id(j.UserID))
	e.U32(f.id(j.GroupID))
}

// id returns the number of a user or a group. In 23.02 the number for "not given" changed; later
// releases would take the older number for a user.
func (f jobDescFields) id(id uint32) uint32 {
	if f.nobody && id == slurmspec.NoVal {
		return 99 // SLURM_AUTH_NOBODY in slurm_protocol_defs.h
	}
	return id
}

// appendRest appends the fields after the fields of appendShape.
func (f jobDescFields) appendRest(e *encoder, j *JobDesc) {
	e.U16(j.AllocRespPort)
	e.Str(j.RespHost)
	e.U16(j.OtherPort)
	if f.reservedPorts {
		e.U16(j.ReservedPorts)
	}
	e.Str(j.Network)
	e.Time(j.BeginTime)
	e.Time(j.EndTime)
	e.Time(j.Deadline)
	e.Str(j.Licenses)
	e.U16(j.MailType)
	e.Str(j.MailUser)
	e.Str(j.Reservation)
	e.U16(j.RestartCount)
	e.U16(j.WarnFlags)
	e.U16(j.WarnSignal)
	e.U16(j.WarnTime)
	e.Str(j.WCKey)
	e.U32(j.ReqSwitch)
	e.U32(j.Wait4Switch)
	if f.selectPlugin {
		e.U32(j.SelectPlugin)
	}
	e.U16(j.WaitAllNodes)
	e.U64(j.Flags | j.defaultFlags())
	e.U32(j.DelayBoot)
	e.Str(j.Extra)
	e.U16(j.X11)
	e.Str(j.X11MagicCookie)
	e.Str(j.X11Target)
	e.U16(j.X11TargetPort)
	e.Str(j.CPUsPerTRES)
	e.Str(j.MemPerTRES)
	e.Str(j.TRESBind)
	e.Str(j.TRESFreq)
	e.Str(j.TRESPerJob)
	e.Str(j.TRESPerNode)
	e.Str(j.TRESPerSocket)
	e.Str(j.TRESPerTask)
	e.U8(0) // no crontab entry
	if f.segmentSize {
		e.U16(0)
	}
}

// defaultFlags returns a flag for each missing name: slurmctld then chooses a default.
func (j *JobDesc) defaultFlags() uint64 {
	var f uint64
	if j.Account == "" {
		f |= flagDefaultAccount
	}
	if j.Partition == "" {
		f |= flagDefaultPartition
	}
	if j.QOS == "" {
		f |= flagDefaultQOS
	}
	if j.WCKey == "" {
		f |= flagDefaultWCKey
	}
	return f
}
