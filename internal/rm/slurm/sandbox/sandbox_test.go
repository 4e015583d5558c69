package sandbox

import (
	"net/netip"
	"testing"

	"rmreplay/internal/rm/slurm/conf"
)

// A node's address leads back to it, and no other address to any.
func TestNodeIndex(t *testing.T) {
	p := Sandbox{octet: 40, nodes: 70_000, NodeAddress: conf.LoopbackAddresses(40)}
	for i := range p.nodes {
		if got, ok := p.NodeIndex(p.NodeAddress(i).As4()); !ok || got != i {
			t.Fatalf("node %d: %v, %t", i, got, ok)
		}
	}
	for _, bad := range []string{"127.40.0.0", "127.40.0.251", "127.39.0.1", "127.41.255.1", "10.40.0.1"} {
		if i, ok := p.NodeIndex(netip.MustParseAddr(bad).As4()); ok {
			t.Errorf("%s is node %d", bad, i)
		}
	}
}
