package conf

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/spelling"
)

// The kinds of values, in short.
const (
	str     = syntax.String
	u16     = syntax.Uint16
	u32     = syntax.Uint32
	u64     = syntax.Uint64
	boolean = syntax.Boolean
)

// grammar has the keys that a file, or the rest of a line, may have.
type grammar map[string]spec // by lower-case key

// spec is one key of a grammar.
type spec struct {
	name string // in the spelling of the manual page
	kind syntax.Kind
	// attributes are the keys that may follow on the line; nil for a key that stands alone.
	attributes grammar
}

func (k spec) check(value string) error { return k.kind.Check(value) }

func (g grammar) lookup(key string) (spec, bool) {
	k, ok := g[strings.ToLower(key)]
	return k, ok
}

// canonical returns the key in the spelling of the manual page.
func (g grammar) canonical(key string) string {
	if k, ok := g.lookup(key); ok {
		return k.name
	}
	return key
}

// suggest returns "; did you mean X?" with the known key most similar to a wrong key, or "" if
// none is similar.
func (g grammar) suggest(key string) string {
	near := spelling.Nearest(strings.ToLower(key), len(key)/3, slices.Collect(maps.Keys(g)))
	if near == "" {
		return ""
	}
	return "; did you mean " + g[near].name + "?"
}

// add adds keys of one kind and returns the grammar.
func (g grammar) add(k syntax.Kind, names ...string) grammar {
	for _, name := range names {
		g[strings.ToLower(name)] = spec{name: name, kind: k}
	}
	return g
}

// The attributes of slurm.conf's lines, from the option tables of src/common/read_config.c. They
// are those of all releases; history.Attributes says which releases have one.
var (
	nodeAttributes = grammar{}.
			add(str, "BcastAddr", "CPUSpecList", "CpuBind", "Feature", "Features", "Gres", "GresConf",
			"NodeAddr", "NodeHostname", "Parameters", "Port", "Reason", "State", "SuspendTime", "Topology",
			"TRESWeights").
		add(u16, "Boards", "CoreSpecCount", "CoresPerSocket", "CPUs", "Procs",
			"RestrictedCoresPerGPU", "Sockets", "SocketsPerBoard", "ThreadsPerCore").
		add(u32, "TmpDisk", "Weight").
		add(u64, "MemSpecLimit", "RealMemory")

	partitionAttributes = grammar{}.
				add(str, "AllocNodes", "AllowAccounts", "AllowGroups", "AllowQos", "Alternate", "CpuBind", "DefaultTime",
			"DenyAccounts", "DenyQos", "Exclusive", "MaxTime", "Nodes", "OverSubscribe", "OverTimeLimit", "PreemptMode", "QOS",
			"SelectTypeParameters", "Shared", "State", "SuspendTime", "Topology",
			"TRESBillingWeights").
		add(boolean, "Default", "DisableRootJobs", "ExclusiveTopo", "ExclusiveUser", "Hidden", "LLN", "PowerDownOnIdle", "RootOnly",
			"ReqResv").
		add(u16, "Priority", "PriorityJobFactor", "PriorityTier", "ResumeTimeout", "SuspendTimeout").
		add(u32, "GraceTime", "MaxCPUsPerNode", "MaxCPUsPerSocket", "MaxNodes", "MinNodes").
		add(u64, "DefCPUPerGPU", "DefMemPerCPU", "DefMemPerGPU", "DefMemPerNode", "MaxMemPerCPU", "MaxMemPerNode")

	frontendAttributes = grammar{}.
				add(str, "AllowGroups", "AllowUsers", "DenyGroups", "DenyUsers", "FrontendAddr", "Reason", "State").
				add(u16, "Port")

	downNodesAttributes = grammar{}.add(str, "Reason", "State")
	nodeSetAttributes   = grammar{}.add(str, "Feature", "Nodes")

	powerActionAttributes = grammar{}.add(str, "Location", "Program")
)

// gresGrammar is the grammar of gres.conf, from src/common/gres.c.
var gresGrammar = func() grammar {
	attributes := grammar{}.add(str, "AutoDetect", "Count", "CPUs", "Cores", "File", "Files", "Flags", "Link",
		"Links", "MultipleFiles", "Name", "Type")
	return grammar{
		"autodetect": {name: "AutoDetect"},
		"name":       {name: "Name", attributes: attributes},
		"nodename":   {name: "NodeName", attributes: attributes},
	}
}()

// topologyGrammar is the grammar of topology.conf for topology/tree, hypercube, block and ring.
var topologyGrammar = grammar{
	"blockname":  {name: "BlockName", attributes: grammar{}.add(str, "Nodes")},
	"blocksizes": {name: "BlockSizes"},
	"ringname":   {name: "RingName", attributes: grammar{}.add(str, "Nodes")},
	"switchname": {name: "SwitchName", attributes: grammar{}.add(str, "Nodes", "Switches").add(u32, "LinkSpeed")},
}

// slurmGrammar is the grammar of slurm.conf. It has the keys of all releases, since the adaptation
// drops the keys of other releases with a reason.
var slurmGrammar = func() grammar {
	g := grammar{}
	for _, r := range rules {
		g[strings.ToLower(r.key)] = spec{name: r.key, kind: r.kind, attributes: r.attributes}
	}
	return g
}()

// CheckKey returns an error if slurm.conf has no such key, or if Slurm refuses its value.
func CheckKey(key, value string) error { return slurmGrammar.checkPair(key, value) }

// CheckAttribute is [CheckKey] for the attributes in the lines of a key, such as PartitionName.
func CheckAttribute(of, key, value string) error {
	k, _ := slurmGrammar.lookup(of)
	return k.attributes.checkPair(key, value)
}

func (g grammar) checkPair(key, value string) error {
	k, known := g.lookup(key)
	if !known {
		return fmt.Errorf("%s: unrecognized key%s", key, g.suggest(key))
	}
	if err := k.check(value); err != nil {
		return fmt.Errorf("%s=%s: %w", key, value, err)
	}
	return nil
}
