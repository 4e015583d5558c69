package conf

import (
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
)

// Short names of the kinds of values.
const (
	str     = syntax.String
	u16     = syntax.Uint16
	u32     = syntax.Uint32
	u64     = syntax.Uint64
	boolean = syntax.Boolean
)

// The attributes of slurm.conf's lines, from the option tables of src/common/read_config.c. The
// tables cover all releases; history.Attributes says which releases have an attribute.
var (
	nodeAttributes = syntax.Grammar{}.
			Add(str, "BcastAddr", "CPUSpecList", "CpuBind", "Feature", "Features", "Gres", "GresConf",
			"NodeAddr", "NodeHostname", "Parameters", "Port", "Reason", "State", "SuspendTime", "Topology",
			"TRESWeights").
		Add(u16, "Boards", "CoreSpecCount", "CoresPerSocket", "CPUs", "Procs",
			"RestrictedCoresPerGPU", "Sockets", "SocketsPerBoard", "ThreadsPerCore").
		Add(u32, "TmpDisk", "Weight").
		Add(u64, "MemSpecLimit", "RealMemory")

	partitionAttributes = syntax.Grammar{}.
				Add(str, "AllocNodes", "AllowAccounts", "AllowGroups", "AllowQos", "Alternate", "CpuBind", "DefaultTime",
			"DenyAccounts", "DenyQos", "Exclusive", "MaxTime", "Nodes", "OverSubscribe", "OverTimeLimit", "PreemptMode", "QOS",
			"SelectTypeParameters", "Shared", "State", "SuspendTime", "Topology",
			"TRESBillingWeights").
		Add(boolean, "Default", "DisableRootJobs", "ExclusiveTopo", "ExclusiveUser", "Hidden", "LLN", "PowerDownOnIdle", "RootOnly",
			"ReqResv").
		Add(u16, "Priority", "PriorityJobFactor", "PriorityTier", "ResumeTimeout", "SuspendTimeout").
		Add(u32, "GraceTime", "MaxCPUsPerNode", "MaxCPUsPerSocket", "MaxNodes", "MinNodes").
		Add(u64, "DefCPUPerGPU", "DefMemPerCPU", "DefMemPerGPU", "DefMemPerNode", "MaxMemPerCPU", "MaxMemPerNode")

	frontendAttributes = syntax.Grammar{}.
				Add(str, "AllowGroups", "AllowUsers", "DenyGroups", "DenyUsers", "FrontendAddr", "Reason", "State").
				Add(u16, "Port")

	downNodesAttributes = syntax.Grammar{}.Add(str, "Reason", "State")
	nodeSetAttributes   = syntax.Grammar{}.Add(str, "Feature", "Nodes")

	powerActionAttributes = syntax.Grammar{}.Add(str, "Location", "Program")
)

// gresGrammar is the grammar of gres.conf, from src/common/gres.c.
var gresGrammar = func() syntax.Grammar {
	attributes := syntax.Grammar{}.Add(str, "AutoDetect", "Count", "CPUs", "Cores", "File", "Files", "Flags", "Link",
		"Links", "MultipleFiles", "Name", "Type")
	return syntax.Grammar{
		"autodetect": {Name: "AutoDetect"},
		"name":       {Name: "Name", Attributes: attributes},
		"nodename":   {Name: "NodeName", Attributes: attributes},
	}
}()

// topologyGrammar is the grammar of topology.conf for topology/tree, hypercube, block and ring.
var topologyGrammar = syntax.Grammar{
	"blockname":  {Name: "BlockName", Attributes: syntax.Grammar{}.Add(str, "Nodes")},
	"blocksizes": {Name: "BlockSizes"},
	"ringname":   {Name: "RingName", Attributes: syntax.Grammar{}.Add(str, "Nodes")},
	"switchname": {Name: "SwitchName", Attributes: syntax.Grammar{}.Add(str, "Nodes", "Switches").Add(u32, "LinkSpeed")},
}

// slurmGrammar is the grammar of slurm.conf. It has the keys of all releases, because the
// adaptation drops a key of another release and gives the reason.
var slurmGrammar = func() syntax.Grammar {
	g := syntax.Grammar{}
	for _, r := range rules {
		g[strings.ToLower(r.key)] = syntax.Key{Name: r.key, Kind: r.kind, Attributes: r.attributes}
	}
	return g
}()

// CheckKey returns an error if slurm.conf has no such key, or if Slurm refuses its value.
func CheckKey(key, value string) error { return slurmGrammar.Check(key, value) }

// CheckAttribute does for an attribute in the line of a key, such as PartitionName, what
// [CheckKey] does for a key.
func CheckAttribute(of, key, value string) error {
	k, _ := slurmGrammar.Lookup(of)
	return k.Attributes.Check(key, value)
}
