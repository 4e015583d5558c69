package workload

import (
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/quantity"
)

// Field is a field of jobs that a record may lack and that package complete can make.
type Field string

// The fields in the order in which they are made: a limit may depend on the partition, and a QOS on
// the limit.
const (
	FieldPartition Field = "partition"
	FieldUser      Field = "user"
	FieldAccount   Field = "account"
	FieldMemory    Field = "memory"
	FieldExclusive Field = "exclusive"
	FieldTimeLimit Field = "time_limit"
	FieldQOS       Field = "qos"
	FieldNodes     Field = "nodes" // the nodes of jobs that were running when the window began
	FieldUsage     Field = "usage" // usage of users before the workload begins; it is not a field of a job
)

// Fields are all fields.
var Fields = []Field{
	FieldPartition, FieldUser, FieldAccount, FieldMemory, FieldExclusive, FieldTimeLimit, FieldQOS, FieldNodes,
	FieldUsage,
}

// Words returns the field's name in words.
func (f Field) Words() string {
	switch f {
	case FieldQOS:
		return "QOS"
	case FieldExclusive:
		return "whole nodes"
	case FieldUsage:
		return "earlier usage"
	case FieldNodes:
		return "nodes"
	}
	return strings.ReplaceAll(string(f), "_", " ")
}

// Completion says how missing fields of a workload's record were made. It has all data that the rules need, so any
// program can make the fields again with other draws.
type Completion struct {
	Fields []MadeField `json:"fields"`
	Site   SiteFacts   `json:"site"`
	// Like has what the rule "like" learned from another log, by field; absent without that rule.
	Like *Likeness `json:"like,omitempty"`
}

// MadeField is a field that a rule made.
type MadeField struct {
	Field Field `json:"field"`
	// Rule is the rule with its parameters, such as "published" or "4d".
	Rule string `json:"rule"`
	// Draw is the seed of the rule's random numbers.
	Draw uint64 `json:"draw"`
	// Jobs is the number of jobs in which the rule filled in the field. For [FieldUsage] it is the number of usages that
	// the rule made.
	Jobs int `json:"jobs"`
}

// Made returns the fields of the workload that rules made.
func (w *Workload) Made() []MadeField {
	if w.Completion == nil {
		return nil
	}
	return w.Completion.Fields
}

// SiteFacts are the facts about a site that limit what rules may make. Zero values mean "not
// known".
type SiteFacts struct {
	Processors int             `json:"processors,omitempty"`
	Partitions []SitePartition `json:"partitions,omitempty"`
	QOS        []SiteQOS       `json:"qos,omitempty"`
	// HalfLife is the half-life of usage in the site's fair-share.
	HalfLife jobjson.Seconds `json:"usage_half_life_s,omitzero"`
	// CountsMemory is true if the scheduler allocates memory.
	CountsMemory bool `json:"counts_memory,omitempty"`
}

// SitePartition has the facts about a partition. MaxNodes and MaxTime are 0 without a limit.
type SitePartition struct {
	Name       string          `json:"name"`
	Default    bool            `json:"default,omitempty"`
	Nodes      int             `json:"nodes"`
	NodeList   string          `json:"node_list,omitempty"` // a host list
	MaxNodes   int             `json:"max_nodes,omitempty"` // most nodes of a job
	NodeCPUs   int             `json:"cpus_per_node"`       // CPUs of the largest node
	NodeMemory int64           `json:"memory_per_node"`     // memory of that node, in MiB
	MaxTime    jobjson.Seconds `json:"max_time_s,omitzero"`
	QOS        []string        `json:"qos,omitempty"` // the QOS that it allows; empty for all
	// DefaultMemory is true if jobs without a request for memory get a default of the partition.
	DefaultMemory bool `json:"default_memory,omitempty"`
	// Kinds are the partition's kinds of nodes; empty if only the size of the partition is known.
	Kinds []NodeKind `json:"node_kinds,omitempty"`
}

// NodeKind is a number of nodes with equal hardware.
type NodeKind struct {
	Nodes    int      `json:"nodes"`
	CPUs     int      `json:"cpus"`
	Memory   int64    `json:"memory"` // MiB that jobs may have
	Features []string `json:"features,omitempty"`
	GRES     []string `json:"gres,omitempty"` // in slurm.conf's form: gpu:a100:2
}

// AddNode counts a node of the partition.
func (p *SitePartition) AddNode(n *hpc.Node) {
	p.NodeCPUs, p.NodeMemory = max(p.NodeCPUs, n.CPUs), max(p.NodeMemory, n.RealMemory)
	kind := NodeKind{Nodes: 1, CPUs: n.CPUs, Memory: n.RealMemory - n.MemSpecLimit, Features: n.Features}
	for _, g := range n.GRES {
		name := g.Name
		if g.Type != "" {
			name += ":" + g.Type
		}
		kind.GRES = append(kind.GRES, fmt.Sprintf("%s:%d", name, g.Count))
	}
	for i := range p.Kinds {
		k := &p.Kinds[i]
		if k.CPUs == kind.CPUs && k.Memory == kind.Memory && slices.Equal(k.Features, kind.Features) && slices.Equal(k.GRES, kind.GRES) {
			k.Nodes++
			return
		}
	}
	p.Kinds = append(p.Kinds, kind)
}

// SiteQOS is a QOS with its limits for a single job, and for the jobs of a user; 0 means no limit.
type SiteQOS struct {
	Name    string          `json:"name"`
	MaxTime jobjson.Seconds `json:"max_time_s,omitzero"`
	Nodes   int             `json:"max_nodes,omitempty"`
	CPUs    int             `json:"max_cpus,omitempty"`
	// Running is the largest number of running jobs of a user, and Submitted the largest number of
	// pending and running jobs together.
	Running   int `json:"max_running,omitempty"`
	Submitted int `json:"max_submitted,omitempty"`
}

// Likeness has what the rules "like" learned from a log that has the fields.
type Likeness struct {
	Source string `json:"source"`
	// Limits are the time limits of the log's batches of jobs, by classes of the batches' longest run
	// times. Class k has run times of 2^k to 2^(k+1) seconds. A list has at most 200 quantiles.
	Limits [][]jobjson.Seconds `json:"limits_s,omitempty"`
	// Users are the shares of users in the batches, the largest first.
	Users []float64 `json:"users,omitempty"`
}

// Check returns an error for a completion that no rule can have made.
func (c *Completion) Check() error {
	for i, f := range c.Fields {
		if !slices.Contains(Fields, f.Field) {
			return fmt.Errorf("field %q: not known (want %s)", f.Field, FieldList())
		}
		if slices.ContainsFunc(c.Fields[:i], func(o MadeField) bool { return o.Field == f.Field }) {
			return fmt.Errorf("field %s: twice (want it once)", f.Field)
		}
	}
	if c.Like == nil {
		return nil
	}
	for _, share := range c.Like.Users {
		if !(share >= 0 && share <= 1) {
			return fmt.Errorf("like: %g is not a share of users (want 0 to 1)", share)
		}
	}
	return nil
}

// FieldList lists the fields for a sentence.
func FieldList() string {
	var names []string
	for _, f := range Fields {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// MadeFields returns the fields of a job that a rule made, each with its rule.
func MadeFields(job *hpc.Job) map[Field]string {
	if job.Made == "" {
		return nil
	}
	made := map[Field]string{}
	for part := range strings.SplitSeq(job.Made, ",") {
		field, rule, _ := strings.Cut(part, "=")
		made[Field(field)] = rule
	}
	return made
}

// Lack is a field that jobs of a workload do not have.
type Lack struct {
	Field Field
	Jobs  int // the number of jobs that lack it
}

// Text returns the field in words and, if only some of n jobs lack it, how many.
func (l Lack) Text(n int) string {
	if l.Jobs == n || l.Field == FieldUsage {
		return l.Field.Words()
	}
	return fmt.Sprintf("%s (%d of %s)", l.Field.Words(), l.Jobs, quantity.Regular(n, "job"))
}

// Lacks returns the fields that a workload lacks, in the order of [Fields]. Partitions, users,
// accounts, time limits and QOS are lacking if any job lacks them. Memory is lacking if no job has it, or if most jobs lack it and
// no job has an option that only command lines have: many schedulers do not allocate memory unless
// a job requests it, and users seldom request it. If the records have no option of a command line,
// it is not known which jobs requested whole nodes. Jobs that run when the window begins lack nodes
// if the record does not name them. Usage is lacking if the workload is recorded without usage.
func Lacks(w *Workload) (list []Lack) {
	n := w.Jobs.Len()
	var noPartition, noUser, noAccount, noMemory, noLimit, noQOS, noNodes, recorded int
	var option, perNode bool
	for _, job := range w.Jobs.All() {
		for _, c := range []struct {
			count *int
			is    bool
		}{
			{&noPartition, job.Partition == ""}, {&noUser, job.User == ""}, {&noAccount, job.Account == ""},
			{&noMemory, job.MemPerNode == 0 && job.MemPerCPU == 0 && job.MemPerGPU == 0},
			{&noLimit, job.TimeLimit == 0}, {&noQOS, job.QOS == ""}, {&noNodes, w.LacksNodes(job)},
			{&recorded, job.Recorded != nil},
		} {
			if c.is {
				*c.count++
			}
		}
		option = option || job.Exclusive != "" || job.Dependency != "" || job.Switches != 0 || job.NodeList != "" || job.Exclude != "" ||
			job.Oversubscribe || job.Contiguous
		perNode = perNode || job.TasksPerNode != 0 // other systems record TasksPerNode, too
	}
	if noMemory < n && (option || 2*noMemory <= n) {
		noMemory = 0 // a job without memory gets the default
	}
	all := func(have bool) int {
		if have {
			return 0
		}
		return n
	}
	for _, l := range []Lack{
		{FieldPartition, noPartition}, {FieldUser, noUser}, {FieldAccount, noAccount}, {FieldMemory, noMemory},
		{FieldExclusive, all(option || perNode || recorded == 0)}, {FieldTimeLimit, noLimit}, {FieldQOS, noQOS},
		{FieldNodes, noNodes}, {FieldUsage, all(len(w.Usage) > 0 || recorded == 0)},
	} {
		if l.Jobs > 0 {
			list = append(list, l)
		}
	}
	return list
}
