// Package kinds divides the nodes of a cluster into kinds of interchangeable nodes, and scales the number of nodes of
// each kind.
package kinds

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
)

// Kinds are the names of the nodes of each kind. The kinds are in the order of their first nodes.
type Kinds [][]string

// Of divides nodes into kinds. Nodes are of one kind if they differ only in their names and are in the same
// partitions. The partitions of each node are given by its name.
func Of(nodes []hpc.Node, partitions map[string][]string) (list Kinds) {
	index := map[string]int{}
	for _, n := range nodes {
		name := n.Name
		n.Name = ""
		kind := fmt.Sprintf("%+v in %s", n, strings.Join(partitions[name], ","))
		i, known := index[kind]
		if !known {
			i = len(list)
			index[kind], list = i, append(list, nil)
		}
		list[i] = append(list[i], name)
	}
	return list
}

// Scale returns the names that replace each node's name: none, the name itself, or the name itself and the names of its
// copies. The new total is the number of all nodes times the factor, rounded. Scale divides it among the kinds in
// proportion, by the largest-remainder method, and every kind keeps at least one node. The text mismatch says that this
// one node makes the total larger; otherwise it is "". Scale fails if a factor other than 1 changes nothing.
func (list Kinds) Scale(factor float64) (becomes map[string][]string, mismatch string, err error) {
	before, after := 0, 0
	for _, names := range list {
		before += len(names)
	}
	total := int(math.Round(float64(before) * factor))
	becomes = make(map[string][]string, before)
	for k, want := range list.shares(total, factor) {
		names := list[k]
		after += want
		for i := range want {
			original := names[i%len(names)]
			name := original
			if i >= len(names) {
				name = fmt.Sprintf("x%d-%s", i/len(names)+1, original)
			}
			becomes[original] = append(becomes[original], name)
		}
	}
	if after != total {
		mismatch = fmt.Sprintf("%d -> %s, x%g asks for %d: each kind of nodes keeps at least one", before,
			quantity.Regular(after, "node"), factor, total)
	}
	if after == before && factor != 1 {
		return nil, "", fmt.Errorf("%s (want a factor that changes the number of nodes)",
			cmp.Or(mismatch, fmt.Sprintf("the number of nodes would stay %d", before)))
	}
	return becomes, mismatch, nil
}

// shares returns the number of nodes of each kind after scaling. A kind gets its number of nodes times the factor,
// rounded down, and at least 1. The kinds with the largest fractions get one more, until the total is reached. Among
// equal fractions, larger kinds come first, and then earlier kinds.
func (list Kinds) shares(total int, factor float64) []int {
	counts, fractions := make([]int, len(list)), make([]float64, len(list))
	var order []int
	for k, names := range list {
		exact := math.Round(float64(len(names))*factor*1e6) / 1e6 // 0.29 x 100 is 28.999999999999996
		counts[k] = max(int(exact), 1)
		fractions[k] = math.Round((exact-math.Floor(exact))*1e6) / 1e6
		total -= counts[k]
		if exact > 1 {
			order = append(order, k)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(fractions[b], fractions[a]), cmp.Compare(len(list[b]), len(list[a])))
	})
	for _, k := range order[:min(max(total, 0), len(order))] {
		counts[k]++
	}
	return counts
}
