package rpc

import "rmreplay/internal/slurmspec"

const gresMagic = 0x438a34d4 // GRES_MAGIC in gres.c

// Credential is what slurmctld grants to a job on its nodes. With CredType=cred/none
// its signature is a constant, and nobody checks it.
type Credential struct {
	StepID                          StepID
	UID, GID                        uint32
	UserName                        string
	Account, Partition, Reservation string // only in 22.05
	Comment, Constraints            string // Comment only in 22.05
	RestartCount                    uint16 // only in 22.05
	Created                         int64  // seconds since the Unix epoch
	Nodes                           string // the job's nodes
	NodeCount, Tasks                uint32 // Tasks only in 22.05
	CPUsPerNode                     []Run  // only in 22.05
	MemoryPerNode                   []Run  // MiB; not in 20.11
}

// credential reads a credential in the version of the message. It follows slurm_cred_unpack
// (slurm_cred.c).
func (d *decoder) credential() Credential { return d.protocol.credential(d) }

// credentialOf reads a credential in a version of its own.
func (d *decoder) credentialOf(v Version) Credential {
	p := protocolOf(v)
	if d.err == nil && p == nil {
		d.fail("the credential's version is %v (want %s)", v, versions())
	}
	if d.err != nil {
		return Credential{}
	}
	return p.credential(d)
}

// credentialFields are the fields of a credential that not every version has.
type credentialFields struct {
	names         bool // account, partition, paths and so on
	memoryLimits  bool // one for the job and one for the step, instead of memoryPerNode
	cpusPerNode   bool // and the number of tasks
	memoryPerNode bool
}

func (f credentialFields) read(d *decoder) Credential {
	c := Credential{StepID: d.stepID(), UID: d.u32("credential uid"), GID: d.u32("credential gid")}
	c.UserName = d.str("credential user name")
	d.str("gecos")
	d.str("home")
	d.str("shell")
	d.u32s("gids")
	d.strs("group names")
	d.gresJobState()
	d.gresStepState()
	d.u16("core spec")
	switch {
	case f.names:
		c.Account = d.str("account")
		d.str("alias list")
		c.Comment = d.str("comment")
		c.Constraints = d.str("constraints")
		c.Partition = d.str("partition")
		c.Reservation = d.str("reservation")
		c.RestartCount = d.u16("restart count")
		d.str("stderr")
		d.str("stdin")
		d.str("stdout")
	case f.memoryLimits:
		d.u64("job memory")
		d.u64("step memory")
		c.Constraints = d.str("constraints")
	default:
		c.Constraints = d.str("constraints")
	}
	d.str("step nodes")
	d.u16("x11")
	c.Created = d.time("creation time")
	d.u32("core count")
	d.bitmap("job cores")
	d.bitmap("step cores")
	if n := d.u16("core array size"); n != 0 {
		d.u16s("cores per socket")
		d.u16s("sockets per node")
		d.u32s("socket repetitions")
	}
	if f.cpusPerNode {
		if n := d.u32("cpu array size"); n != 0 {
			c.CPUsPerNode = d.runs16("cpus per node")
		}
	}
	c.NodeCount = d.u32("node count")
	if f.cpusPerNode {
		c.Tasks = d.u32("tasks")
	}
	c.Nodes = d.str("nodes")
	if f.memoryPerNode {
		if n := d.u32("job memory size"); n != 0 {
			c.MemoryPerNode = d.runs64("job memory")
		}
		if n := d.u32("step memory size"); n != 0 {
			d.runs64("step memory")
		}
		d.str("selinux context")
	}
	d.mem("signature")
	return c
}

// bitmap skips a bitmap in hexadecimal (pack_bit_str_hex in pack.h).
func (d *decoder) bitmap(field string) {
	if d.u32(field) != slurmspec.NoVal {
		d.mem(field)
	}
}

// gresRecords reads the count of a list of generic resources and calls read for each
// record, after its magic number and plugin.
func (d *decoder) gresRecords(field string, read func()) {
	n := int(d.u16(field + " count"))
	for i := 0; i < n && d.err == nil; i++ {
		if magic := d.u32(field + " magic"); d.err == nil && magic != gresMagic {
			d.fail("%s record %d starts with %#x (want %#x)", field, i, magic, gresMagic)
		}
		d.u32(field + " plugin")
		read()
	}
}

// gresNodes skips a part of a record that is there only after a flag, with one
// element for each node.
func (d *decoder) gresNodes(nodes uint32, field string, element func()) {
	if d.u8(field+" flag") == 0 {
		return
	}
	for i := uint32(0); i < nodes && d.err == nil; i++ {
		element()
	}
}

// gresAlloc skips the generic resources of a job as prolog and epilog get them
// (gres_job_alloc_unpack in gres.c).
func (d *decoder) gresAlloc() {
	const f = "gres allocation"
	d.gresRecords(f, func() {
		nodes := d.u32(f + " nodes")
		if d.u8(f+" count flag") != 0 {
			d.u64s(f + " counts")
		}
		d.gresNodes(nodes, f+" bitmap", func() { d.bitmap(f) })
	})
}

// gresJobState skips the generic resources of a job (gres_job_state_pack in gres.c).
func (d *decoder) gresJobState() {
	const f = "job gres"
	d.gresRecords(f, func() {
		d.u16(f + " cpus")
		d.u16(f + " flags")
		d.take(5*8, f+" counts")
		d.u16(f + " tasks")
		d.u64(f + " total")
		d.str(f + " type")
		nodes := d.u32(f + " nodes")
		if d.u8(f+" count flag") != 0 {
			d.u64s(f + " node counts")
		}
		d.gresNodes(nodes, f+" bitmap", func() { d.bitmap(f) })
		d.gresNodes(nodes, f+" step bitmap", func() { d.bitmap(f) })
		d.gresNodes(nodes, f+" step counts", func() { d.u64(f) })
	})
}

// gresStepState skips the generic resources of a step (gres_step_state_pack in gres.c).
func (d *decoder) gresStepState() {
	const f = "step gres"
	d.gresRecords(f, func() {
		d.u16(f + " cpus")
		d.u16(f + " flags")
		d.take(6*8, f+" counts")
		nodes := d.u32(f + " nodes")
		d.bitmap(f + " nodes in use")
		if d.u8(f+" count flag") != 0 {
			d.u64s(f + " node counts")
		}
		d.gresNodes(nodes, f+" bitmap", func() { d.bitmap(f) })
	})
}
