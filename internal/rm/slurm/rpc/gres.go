package rpc

import "rmreplay/internal/slurmspec"

const gresMagic = 0x438a34d4 // GRES_MAGIC in gres.c

// Flags of a generic resource in a node's registration (gres.h).
const (
	GRESHasFile   = uint32(1 << 1) // GRES_CONF_HAS_FILE: backed by device files
	GRESHasType   = uint32(1 << 2) // GRES_CONF_HAS_TYPE
	GRESCountOnly = uint32(1 << 3) // GRES_CONF_COUNT_ONLY: no plugin to load
	GRESLoaded    = uint32(1 << 4) // GRES_CONF_LOADED
	GRESEnvNVML   = uint32(1 << 5) // GRES_CONF_ENV_NVML; set for gpus without AutoDetect
	GRESEnvRSMI   = uint32(1 << 6)
	GRESEnvOpenCL = uint32(1 << 7)
	GRESEnvDef    = uint32(1 << 8)
)

// GRES is one line of a node's gres.conf. A resource with files has one record for each File= line, because Cores and
// Links may differ.
type GRES struct {
	Name  string // "gpu"
	Type  string // "a100", or empty
	Count uint64
	// CPUs is the number of cores on the node.
	CPUs uint32
	// Cores lists the cores near the resource ("0-15"); empty for all.
	Cores string
	// Links lists the number of links to each other resource ("-1,16"); empty for none.
	Links string
	Flags uint32 // GRES constants
}

// GRESPluginID returns Slurm's number of a generic resource: the sum of the bytes of its name,
// each shifted left: by 0, 8, 16 and 24 bits, and again from 0 on (gres_build_id in gres.c).
func GRESPluginID(name string) uint32 {
	var id uint32
	for i := range len(name) {
		id += uint32(name[i]) << (8 * (i % 4))
	}
	return id
}

// gresBlock appends a node's generic resources in a block that states the sender's version
// (gres_node_config_pack in gres.c).
func (e *encoder) gresBlock(records []GRES) {
	block := newEncoder(nil, e.protocol)
	block.U16(uint16(e.protocol.version))
	block.U16(uint16(len(records)))
	for _, g := range records {
		block.U32(gresMagic)
		block.U64(g.Count)
		block.U32(g.CPUs)
		block.U32(g.Flags)
		block.U32(GRESPluginID(g.Name))
		block.Str(g.Cores)
		block.Str(g.Links)
		block.Str(g.Name)
		block.Str(g.Type)
		block.Str("") // unique id
	}
	e.U32(uint32(len(block.Bytes)))
	e.Mem(block.Bytes)
}

// gresRecords reads a list of n generic resources. For each record it reads the magic number and
// the plugin, and then calls read for the rest.
func (d *decoder) gresRecords(field string, n int, read func()) {
	for i := 0; i < n && d.Err() == nil; i++ {
		if magic := d.U32(field + " magic"); d.Err() == nil && magic != gresMagic {
			d.Fail("%s record %d starts with %#x (want %#x)", field, i, magic, gresMagic)
		}
		d.U32(field + " plugin")
		read()
	}
}

// gresNodes skips a list with one element for each node. A flag before the list says whether the
// list is there.
func (d *decoder) gresNodes(nodes uint32, field string, element func()) {
	if d.U8(field+" flag") == 0 {
		return
	}
	for i := uint32(0); i < nodes && d.Err() == nil; i++ {
		element()
	}
}

// skipGRESAllocation skips the generic resources of a job in the layout for prolog and epilog
// (gres_job_alloc_unpack in gres.c).
func skipGRESAllocation(d *decoder) {
	d.skipGRESAllocations(int(d.U16("gres allocation count")))
}

// skipGRESAllocationList skips a job's generic resources in the layout since 25.05. The count has
// 32 bits, and the value [slurmspec.NoVal] means that there is no list (slurm_pack_list in
// slurm_protocol_pack.c).
func skipGRESAllocationList(d *decoder) {
	if n := d.U32("gres allocation count"); n != slurmspec.NoVal {
		d.skipGRESAllocations(int(n))
	}
}

func (d *decoder) skipGRESAllocations(n int) {
	const f = "gres allocation"
	d.gresRecords(f, n, func() {
		nodes := d.U32(f + " nodes")
		if d.U8(f+" count flag") != 0 {
			d.U64s(f + " counts")
		}
		d.gresNodes(nodes, f+" bitmap", func() { d.SkipBitmap(f) })
	})
}

// gresState says which fields a version has for the generic resources of a job or a step.
type gresState struct {
	shares   bool // how much of each shared resource is used
	stepType bool // the type, in a step's record
}

// perNode skips the used amount of each shared resource: one list for each node.
func (s gresState) perNode(d *decoder, nodes uint32, field string) {
	if !s.shares {
		return
	}
	for i := uint32(0); i < nodes && d.Err() == nil; i++ {
		if d.U8(field+" share flag") != 0 {
			d.U64s(field + " shares")
		}
	}
}

// skipJob skips the generic resources of a job (gres_job_state_pack in gres.c).
func (s gresState) skipJob(d *decoder) {
	const f = "job gres"
	d.gresRecords(f, int(d.U16(f+" count")), func() {
		d.U16(f + " cpus")
		d.U16(f + " flags")
		d.Take(5*8, f+" counts")
		d.U16(f + " tasks")
		d.U64(f + " total")
		d.Str(f + " type")
		nodes := d.U32(f + " nodes")
		if d.U8(f+" count flag") != 0 {
			d.U64s(f + " node counts")
		}
		d.gresNodes(nodes, f+" bitmap", func() { d.SkipBitmap(f) })
		s.perNode(d, nodes, f)
		d.gresNodes(nodes, f+" step bitmap", func() { d.SkipBitmap(f) })
		d.gresNodes(nodes, f+" step counts", func() { d.U64(f) })
		s.perNode(d, nodes, f+" steps")
	})
}

// skipStep skips the generic resources of a step (gres_step_state_pack in gres.c).
func (s gresState) skipStep(d *decoder) {
	const f = "step gres"
	d.gresRecords(f, int(d.U16(f+" count")), func() {
		d.U16(f + " cpus")
		d.U16(f + " flags")
		d.Take(6*8, f+" counts")
		if s.stepType {
			d.Str(f + " type")
		}
		nodes := d.U32(f + " nodes")
		d.SkipBitmap(f + " nodes in use")
		if d.U8(f+" count flag") != 0 {
			d.U64s(f + " node counts")
		}
		d.gresNodes(nodes, f+" bitmap", func() { d.SkipBitmap(f) })
		s.perNode(d, nodes, f)
	})
}
