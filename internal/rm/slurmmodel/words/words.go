// Package words converts between package selection and Slurm's texts: options of requests,
// allocations, and the reasons why nodes cannot serve a job.
package words

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// About returns text if it belongs to a job's reason, and otherwise "". Only NotAvailable has a
// text.
func About(reason slurmspec.Reason, text string) string {
	if reason == slurmspec.NotAvailable {
		return text
	}
	return ""
}

// Names makes host lists of sets of nodes. It stores the last lists, because in each pass many jobs wait
// for the same nodes.
type Names struct {
	Machine *selection.Machine
	known   [64]struct {
		set  selection.Bits
		text string
	}
}

// HostList returns the names of nodes as a host list.
func (n *Names) HostList(set selection.Bits) string {
	known := &n.known[set.Hash()%uint64(len(n.known))]
	if known.set == nil || !known.set.Equal(set) {
		names := make([]string, 0, set.Count())
		for i := range set.All {
			names = append(names, n.Machine.Nodes[i].Name)
		}
		known.set, known.text = append(known.set[:0], set...), hostlist.Compress(names)
	}
	return known.text
}

// Set returns the nodes of a host list. The parameter place has the index of each node by name.
func (n *Names) Set(list string, place map[string]int) (selection.Bits, error) {
	names, err := hostlist.Expand(list)
	if err != nil {
		return nil, err
	}
	set := selection.NewBits(len(n.Machine.Nodes))
	for _, name := range names {
		i, known := place[name]
		if !known {
			return nil, fmt.Errorf("invalid node name specified: %s", name)
		}
		set.Set(i)
	}
	return set, nil
}

// Unavailable says in slurmctld's words why nodes are not available (select_nodes in
// node_scheduler.c). The parameter nodes has the partition's nodes. The parameter required has the
// nodes that the job names; nil if it names none.
func (n *Names) Unavailable(nodes, available, required selection.Bits) string {
	out := nodes.Clone()
	if out.AndNot(available); required != nil {
		out.And(required)
	}
	if out.Next(0) < 0 {
		return "May be reserved for other job"
	}
	return "UnavailableNodes:" + n.HostList(out)
}

// TRES returns an allocation in Slurm's form, such as
// "cpu=4,mem=4000M,node=1,billing=4,gres/gpu=1".
func TRES(m *selection.Machine, a *selection.Allocation) string {
	var memory int64
	var kinds, types []amount
	for i := range a.Parts {
		p := &a.Parts[i]
		memory += p.Memory
		for k := range m.Nodes[p.Node].Devices {
			d := &m.Nodes[p.Node].Devices[k]
			if n := p.Devices(m, k); n > 0 {
				if kinds = add(kinds, d.Kind, n); d.Type != "" {
					types = add(types, d.Kind+":"+d.Type, n)
				}
			}
		}
	}
	b := strconv.AppendInt(append(make([]byte, 0, 80), "cpu="...), int64(a.CPUs), 10)
	if memory > 0 {
		b = append(strconv.AppendInt(append(b, ",mem="...), memory, 10), 'M')
	}
	b = strconv.AppendInt(append(b, ",node="...), int64(len(a.Parts)), 10)
	b = strconv.AppendInt(append(b, ",billing="...), int64(a.CPUs), 10)
	for _, one := range slices.Concat(kinds, types) {
		b = append(append(append(b, ",gres/"...), one.name...), '=')
		b = strconv.AppendInt(b, int64(one.count), 10)
	}
	return string(b)
}

// amount is a number of generic resources of a kind or a type.
type amount struct {
	name  string
	count int
}

// add adds to the amount with a name.
func add(list []amount, name string, count int) []amount {
	for i := range list {
		if list[i].name == name {
			list[i].count += count
			return list
		}
	}
	return append(list, amount{name, count})
}

// ReadDevices reads --gres and --gpus-per-node in the form in which sbatch sends them.
func ReadDevices(list string) ([]selection.DeviceRequest, error) {
	var out []selection.DeviceRequest
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		if strings.HasPrefix(word, "cpu=") { // CPUs of each task, since 24.05
			continue
		}
		word = strings.TrimPrefix(strings.TrimPrefix(word, "gres:"), "gres/")
		parts := strings.Split(strings.ReplaceAll(word, "=", ":"), ":")
		d := selection.DeviceRequest{Kind: parts[0], Count: 1}
		last := parts[len(parts)-1]
		if n, err := strconv.Atoi(last); err == nil && len(parts) > 1 {
			d.Count, parts = n, parts[:len(parts)-1]
		}
		if len(parts) > 2 {
			return nil, fmt.Errorf("invalid generic resource (gres) specification: %s", word)
		}
		if len(parts) == 2 {
			d.Type = parts[1]
		}
		if d.Count > 0 {
			out = append(out, d)
		}
	}
	return out, nil
}

// HasFeatures evaluates an expression of features with "&" and "|" from left to right.
func HasFeatures(expression string, features []string) bool {
	result, and := true, true
	for expression != "" {
		end := strings.IndexAny(expression, "&|,")
		word, operator := expression, byte('&')
		if end >= 0 {
			word, operator = expression[:end], expression[end]
			expression = expression[end+1:]
		} else {
			expression = ""
		}
		has := slices.Contains(features, strings.TrimSpace(word))
		if and {
			result = result && has
		} else {
			result = result || has
		}
		and = operator != '|'
	}
	return result
}
