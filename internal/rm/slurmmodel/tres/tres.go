// Package tres numbers the trackable resources (TRES) of a cluster like slurmctld, and computes the
// billing of jobs.
package tres

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/slurmspec"
)

// The indexes of the resources that every cluster has (TRES_ARRAY_ in slurmdb_defs.h).
const (
	CPU = iota
	Memory
	Energy
	Node
	Billing
	Disk
	VirtualMemory
	Pages
	Fixed // the number of these resources
)

// NoLimit in a [Vector] of limits is the value of a limit that is not set (INFINITE64 in slurm.h).
const NoLimit = math.MaxUint64

// Vector has an amount for each resource of a [Table]. Memory is in MiB.
type Vector []uint64

// Table has the resources of a cluster, in the order in which slurmctld checks limits. If a job
// exceeds several limits, the first becomes its reason.
type Table struct {
	names   []string
	index   map[string]int
	devices []devices // that [Table.Devices] has found
}

// devices are the indexes of a kind and a type of generic resources.
type devices struct {
	kind, typ string
	of, typed int
}

// New returns the table of a cluster with a value of AccountingStorageTRES, such as
// "gres/gpu,gres/gpu:a100,license/matlab". After the fixed resources, the others are in the order
// of this value, because slurmdbd numbers them in this order when slurmctld first names them.
func New(accountingStorageTRES string) *Table {
	t := &Table{index: map[string]int{}}
	for _, name := range []string{"cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages"} {
		t.add(name)
	}
	for name := range slurmspec.TRES(strings.ToLower(accountingStorageTRES)) {
		t.add(name)
	}
	return t
}

func (t *Table) add(name string) {
	if _, known := t.index[name]; !known {
		t.index[name] = len(t.names)
		t.names = append(t.names, name)
	}
}

// Len returns the number of resources.
func (t *Table) Len() int { return len(t.names) }

// Name returns a resource's name: "cpu", "gres/gpu:a100".
func (t *Table) Name(i int) string { return t.names[i] }

// Index returns the index of a resource, and whether the cluster tracks it.
func (t *Table) Index(name string) (int, bool) {
	i, ok := t.index[strings.ToLower(name)]
	return i, ok
}

// Devices returns the index of the generic resources of a kind, and the index of the resources of one type of this
// kind. An index is negative if the cluster does not track these resources. The type may be empty.
func (t *Table) Devices(kind, typ string) (of, typed int) {
	for i := range t.devices {
		if d := &t.devices[i]; d.kind == kind && d.typ == typ {
			return d.of, d.typed
		}
	}
	find := func(name string) int {
		if i, tracked := t.Index(name); tracked {
			return i
		}
		return -1
	}
	d := devices{kind: kind, typ: typ, of: find("gres/" + kind), typed: -1}
	if typ != "" {
		d.typed = find("gres/" + kind + ":" + typ)
	}
	t.devices = append(t.devices, d)
	return d.of, d.typed
}

// Vector returns a vector of zeros.
func (t *Table) Vector() Vector { return make(Vector, len(t.names)) }

// Limits returns a vector with the given limits by name, and [NoLimit] for all other resources. It
// returns nil if there are no limits. It leaves out resources that the cluster does not track,
// because sacctmgr refuses them.
func (t *Table) Limits(limits map[string]int64) Vector {
	var v Vector
	for name, n := range limits {
		if i, ok := t.index[name]; ok {
			if v == nil {
				v = t.Unlimited()
			}
			v[i] = uint64(max(0, n))
		}
	}
	return v
}

// Unlimited returns a vector of [NoLimit].
func (t *Table) Unlimited() Vector { return slices.Repeat(Vector{NoLimit}, len(t.names)) }

// Weights reads TRESBillingWeights or PriorityWeightTRES, such as "cpu=1.0,mem=0.25G,gres/gpu=2"
// (slurm_get_tres_weight_array in slurm_protocol_api.c). A unit after a weight says for which
// amount the weight is: 0.25G is 0.25 for each GiB. Weights returns nil for an empty text.
func (t *Table) Weights(text string) ([]float64, error) {
	if text == "" {
		return nil, nil
	}
	weights := make([]float64, len(t.names))
	for name, weight := range slurmspec.TRES(text) {
		i, ok := t.Index(name)
		if !ok {
			return nil, fmt.Errorf("TRES weights %q: %q is not tracked (want cpu, mem, node or one of AccountingStorageTRES)",
				text, name)
		}
		digits := strings.TrimRight(weight, "kKmMgGtTpP")
		f, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			return nil, fmt.Errorf("TRES weights %q: %s=%s: not a number (want %s=1.5)", text, name, weight, name)
		}
		weights[i] = f / float64(unit(name, weight[len(digits):]))
	}
	return weights, nil
}

// unit returns the amount of a resource that a unit such as G means. The amounts of memory and burst buffers
// are in MiB.
func unit(name, letter string) int64 {
	if letter == "" {
		return 1
	}
	power := strings.IndexByte("kmgtp", letter[0]|0x20) + 1
	if kind, _, _ := strings.Cut(strings.ToLower(name), "/"); kind == "mem" || kind == "bb" {
		power -= 2
	}
	return 1 << (10 * max(0, power))
}

// Bill returns the billing of resources: the sum of the weighted amounts (assoc_mgr_tres_weighted
// in assoc_mgr.c). If the parameter most is true (PriorityFlags=MAX_TRES), only the largest
// weighted amount of the resources on nodes counts, plus the weighted amounts of the other
// resources. Without weights, billing is the number of CPUs.
func (t *Table) Bill(weights []float64, amounts Vector, most bool) float64 {
	if weights == nil {
		return float64(amounts[CPU])
	}
	var onNode, others float64
	for i, amount := range amounts {
		if i == Billing {
			continue
		}
		value := float64(amount) * weights[i]
		if most && (i == CPU || i == Memory || i == Node || strings.HasPrefix(t.names[i], "gres/")) {
			onNode = max(onNode, value)
		} else {
			others += value
		}
	}
	return onNode + others
}
