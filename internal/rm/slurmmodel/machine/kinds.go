package machine

import (
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurmmodel/selection"
)

// Kinds groups nodes with the same hardware, weight and features, as slurmctld does
// (config_record_t). The function at returns the index of a node by name.
func Kinds(nodes []hpc.Node, at func(name string) int) []selection.Bits {
	var kinds []selection.Bits
	var first []*hpc.Node
	for i := range nodes {
		n := &nodes[i]
		k := slices.IndexFunc(first, func(o *hpc.Node) bool { return alike(o, n) })
		if k < 0 {
			k = len(first)
			first, kinds = append(first, n), append(kinds, selection.NewBits(len(nodes)))
		}
		kinds[k].Set(at(n.Name))
	}
	return kinds
}

func alike(a, b *hpc.Node) bool {
	return a.CPUs == b.CPUs && a.Boards == b.Boards && a.Sockets == b.Sockets && a.CoresPerSocket == b.CoresPerSocket &&
		a.ThreadsPerCore == b.ThreadsPerCore && a.RealMemory == b.RealMemory && a.TmpDisk == b.TmpDisk &&
		a.Weight == b.Weight && slices.Equal(a.Features, b.Features) && slices.Equal(a.GRES, b.GRES)
}
