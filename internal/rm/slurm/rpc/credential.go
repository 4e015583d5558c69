package rpc

// Credential is slurmctld's grant of resources on a job's nodes. With CredType=cred/none its
// signature is a constant, which the nodes do not check.
type Credential struct {
	StepID                          StepID
	UID, GID                        uint32
	UserName                        string
	Account, Partition, Reservation string // since 22.05
	Comment, Constraints            string // Comment since 22.05
	RestartCount                    uint16 // since 22.05
	Created                         int64  // seconds since the Unix epoch
	Nodes                           string // the job's nodes
	NodeCount, Tasks                uint32 // Tasks since 22.05
	CPUsPerNode                     []Run  // since 22.05
	MemoryPerNode                   []Run  // MiB; not in 20.11
}

// credential reads a credential in the version of the message. It follows slurm_cred_unpack
// (slurm_cred.c; since 23.02 cred_unpack in plugins/cred/common/cred_common.c).
func (d *decoder) credential() Credential { return d.protocol.credential(d) }

// credentialOf reads a credential in its own version, which the message gives.
func (d *decoder) credentialOf(v Version) Credential {
	p := protocolOf(v)
	if d.Err() == nil && p == nil {
		d.Fail("the credential's version is %v (want %s)", v, versions())
	}
	if d.Err() != nil {
		return Credential{}
	}
	message := d.protocol
	d.protocol = p
	defer func() { d.protocol = message }()
	return p.credential(d)
}

// credentialFields are the fields of a credential that only some versions have.
type credentialFields struct {
	names         bool // account, partition, paths and others
	memoryLimits  bool // one limit for the job and one for the step, in place of memoryPerNode
	cpusPerNode   bool // the CPUs of each node, and the number of tasks
	memoryPerNode bool
	// jobRecord is set if the credential includes fields of the job's record that the node needs:
	// start, end, extra, how the job shares its nodes, and licenses.
	jobRecord bool
	addresses bool // addresses of nodes that slurm.conf lacks
	switches  bool // the switch plugin's data are in a separate block
}

func (f credentialFields) read(d *decoder) Credential {
	c := Credential{StepID: d.stepID(), UID: d.U32("credential uid"), GID: d.U32("credential gid")}
	c.UserName = d.Str("credential user name")
	d.Str("gecos")
	d.Str("home")
	d.Str("shell")
	d.U32s("gids")
	d.Strs("group names")
	d.protocol.skipGRES.job(d)
	d.protocol.skipGRES.step(d)
	d.U16("core spec")
	switch {
	case f.names:
		c.Account = d.Str("account")
		if f.addresses {
			for range d.Count(2, "addresses") {
				d.skipAddress()
			}
		}
		d.Str("alias list")
		c.Comment = d.Str("comment")
		c.Constraints = d.Str("constraints")
		if f.jobRecord {
			d.Time("job end time")
			d.Str("extra")
			d.U16("oversubscribe")
		}
		// Before 24.11, the partition's field may contain the switch plugin's data after the NUL.
		c.Partition = d.Str("partition")
		c.Reservation = d.Str("reservation")
		c.RestartCount = d.U16("restart count")
		if f.jobRecord {
			d.Time("job start time")
		}
		d.Str("stderr")
		d.Str("stdin")
		d.Str("stdout")
	case f.memoryLimits:
		d.U64("job memory")
		d.U64("step memory")
		c.Constraints = d.Str("constraints")
	default:
		c.Constraints = d.Str("constraints")
	}
	d.Str("step nodes")
	d.U16("x11")
	c.Created = d.Time("creation time")
	d.U32("core count")
	d.SkipBitmap("job cores")
	d.SkipBitmap("step cores")
	if n := d.U16("core array size"); n != 0 {
		d.U16s("cores per socket")
		d.U16s("sockets per node")
		d.U32s("socket repetitions")
	}
	if f.cpusPerNode {
		if n := d.U32("cpu array size"); n != 0 {
			c.CPUsPerNode = d.runs16("cpus per node")
		}
	}
	c.NodeCount = d.U32("node count")
	if f.cpusPerNode {
		c.Tasks = d.U32("tasks")
	}
	c.Nodes = d.Str("nodes")
	if f.jobRecord {
		d.Str("licenses")
	}
	if f.memoryPerNode {
		if n := d.U32("job memory size"); n != 0 {
			c.MemoryPerNode = d.runs64("job memory")
		}
		if n := d.U32("step memory size"); n != 0 {
			d.runs64("step memory")
		}
		d.Str("selinux context")
	}
	if f.switches {
		d.Mem("switch plugin's data")
	}
	d.Mem("signature")
	return c
}
