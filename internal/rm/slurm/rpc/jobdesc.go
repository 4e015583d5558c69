package rpc

import "rmreplay/internal/slurmspec"

// JobDesc is a job's description as clients send it (job_desc_msg_t in slurm.h): to
// submit a job, and to update one. The fields are in the order of the wire and keep
// Slurm's units and markers; [NewJobDesc] gives those for "not set".
type JobDesc struct {
	SiteFactor      uint32
	BatchFeatures   string
	ClusterFeatures string
	Clusters        string
	Contiguous      uint16
	Container       string
	CoreSpec        uint16 // with coreSpecThread set a number of threads
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
	MinMemory       uint64 // MiB per node, or with slurmspec.MemPerCPU set per CPU
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
	Nice            uint32 // niceOffset plus the nice value
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
	Network         string
	BeginTime       int64 // seconds since the Unix epoch, like the next two
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

// Bits and offsets in fields of a job's description (slurm.h).
const (
	niceOffset     = uint32(0x80000000)
	coreSpecThread = uint16(0x8000)
	distUnknown    = uint32(0x2000)

	flagKillInvalidDep   = uint64(1) << 0
	flagNoKillInvalidDep = uint64(1) << 1
	flagGRESEnforceBind  = uint64(1) << 4
	flagSpreadJob        = uint64(1) << 8
	flagUseMinNodes      = uint64(1) << 9
	flagTasksSet         = uint64(1) << 14
	flagCPUsSet          = uint64(1) << 15
	flagGRESDisableBind  = uint64(1) << 19
	flagDefaultAccount   = uint64(1) << 25
	flagDefaultPartition = uint64(1) << 26
	flagDefaultQOS       = uint64(1) << 27
	flagDefaultWCKey     = uint64(1) << 28
)

// SelectPluginID gives the number of a select plugin ("select/cons_tres" or
// "cons_tres"), or 0 if Slurm 22.05 has none of this name (enum select_plugin_type in
// slurm.h). A job's description names the plugin of the sender's slurm.conf, and
// slurmctld refuses one that is not its own.
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

// NewJobDesc returns a description that says nothing: every field has the value with
// which Slurm marks it as not set. It follows slurm_init_job_desc_msg
// (api/init_msg.c). The select plugin is cons_tres.
func NewJobDesc() *JobDesc {
	return &JobDesc{
		SiteFactor: slurmspec.NoVal, Contiguous: slurmspec.NoVal16, CoreSpec: slurmspec.NoVal16, TaskDist: slurmspec.NoVal,
		KillOnNodeFail: slurmspec.NoVal16, JobID: slurmspec.NoVal, AllocSID: slurmspec.NoVal, MinCPUsPerNode: slurmspec.NoVal16,
		MinMemory: slurmspec.NoVal64, MinTmpDisk: slurmspec.NoVal, CPUFreqMin: slurmspec.NoVal, CPUFreqMax: slurmspec.NoVal,
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

// Append appends the body of a [RequestSubmitBatchJob] or [RequestUpdateJob] in
// version 22.05 to dst. It follows _pack_job_desc_msg (slurm_protocol_pack.c), which
// also marks the account, partition, QOS and wckey that are not given.
func (j *JobDesc) Append(dst []byte) []byte {
	e := encoder{b: dst}
	e.u32(j.SiteFactor)
	e.str(j.BatchFeatures)
	e.str(j.ClusterFeatures)
	e.str(j.Clusters)
	e.u16(j.Contiguous)
	e.str(j.Container)
	e.u16(j.CoreSpec)
	e.u32(j.TaskDist)
	e.u16(j.KillOnNodeFail)
	e.str(j.Features)
	e.u64(j.SiblingsActive)
	e.u64(j.SiblingsViable)
	e.u32(j.JobID)
	e.str(j.JobIDStr)
	e.str(j.Name)
	e.str(j.AllocNode)
	e.u32(j.AllocSID)
	e.str(j.ArrayIndices)
	e.str(j.BurstBuffer)
	e.u16(j.MinCPUsPerNode)
	e.u64(j.MinMemory)
	e.u32(j.MinTmpDisk)
	e.u8(j.PowerFlags)
	e.str(j.Prefer)
	e.u32(j.CPUFreqMin)
	e.u32(j.CPUFreqMax)
	e.u32(j.CPUFreqGovernor)
	e.str(j.Partition)
	e.u32(j.Priority)
	e.str(j.Dependency)
	e.str(j.Account)
	e.str(j.AdminComment)
	e.str(j.Comment)
	e.u32(j.Nice)
	e.u32(j.Profile)
	e.str(j.QOS)
	e.str(j.MCSLabel)
	e.str(j.OriginCluster)
	e.u8(j.OpenMode)
	e.u8(j.Overcommit)
	e.str(j.AcctgFreq)
	e.u32(j.Tasks)
	e.str(j.Context)
	e.str(j.ReqNodes)
	e.str(j.ExcNodes)
	e.strs(j.Environment)
	e.strs(j.SpankJobEnv)
	e.str(j.Script)
	e.strs(j.Args)
	e.str(j.StdErr)
	e.str(j.StdIn)
	e.str(j.StdOut)
	e.str(j.SubmitLine)
	e.str(j.WorkDir)
	j.appendShape(&e)
	j.appendRest(&e)
	return e.b
}

// appendShape appends the fields about the layout of tasks and nodes.
func (j *JobDesc) appendShape(e *encoder) {
	e.u16(j.Immediate)
	e.u16(j.Reboot)
	e.u16(j.Requeue)
	e.u16(j.Shared)
	e.u16(j.CPUsPerTask)
	e.u16(j.TasksPerNode)
	e.u16(j.TasksPerBoard)
	e.u16(j.TasksPerSocket)
	e.u16(j.TasksPerCore)
	e.u16(j.TasksPerTRES)
	e.u16(j.PlaneSize)
	e.u16(j.CPUBindType)
	e.u16(j.MemBindType)
	e.str(j.CPUBind)
	e.str(j.MemBind)
	e.u32(j.TimeLimit)
	e.u32(j.TimeMin)
	e.u32(j.MinCPUs)
	e.u32(j.MaxCPUs)
	e.u32(j.MinNodes)
	e.u32(j.MaxNodes)
	e.u16(j.BoardsPerNode)
	e.u16(j.SocketsPerBoard)
	e.u16(j.SocketsPerNode)
	e.u16(j.CoresPerSocket)
	e.u16(j.ThreadsPerCore)
	e.u32(j.UserID)
	e.u32(j.GroupID)
}

// appendRest appends what follows the layout.
func (j *JobDesc) appendRest(e *encoder) {
	e.u16(j.AllocRespPort)
	e.str(j.RespHost)
	e.u16(j.OtherPort)
	e.str(j.Network)
	e.time(j.BeginTime)
	e.time(j.EndTime)
	e.time(j.Deadline)
	e.str(j.Licenses)
	e.u16(j.MailType)
	e.str(j.MailUser)
	e.str(j.Reservation)
	e.u16(j.RestartCount)
	e.u16(j.WarnFlags)
	e.u16(j.WarnSignal)
	e.u16(j.WarnTime)
	e.str(j.WCKey)
	e.u32(j.ReqSwitch)
	e.u32(j.Wait4Switch)
	e.u32(j.SelectPlugin)
	e.u16(j.WaitAllNodes)
	e.u64(j.Flags | j.defaultFlags())
	e.u32(j.DelayBoot)
	e.str(j.Extra)
	e.u16(j.X11)
	e.str(j.X11MagicCookie)
	e.str(j.X11Target)
	e.u16(j.X11TargetPort)
	e.str(j.CPUsPerTRES)
	e.str(j.MemPerTRES)
	e.str(j.TRESBind)
	e.str(j.TRESFreq)
	e.str(j.TRESPerJob)
	e.str(j.TRESPerNode)
	e.str(j.TRESPerSocket)
	e.str(j.TRESPerTask)
	e.u8(0) // no crontab entry
}

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
