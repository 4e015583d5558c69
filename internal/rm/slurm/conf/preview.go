package conf

import (
	"fmt"
	"net/netip"
	"slices"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// Preview adapts a cluster as a replay does. It uses example values for the directories and ports
// that each replay chooses. It looks in pluginDir for the plugins in slurm.conf; if pluginDir is
// empty, it does not look for plugins. It fails as [Adapt] does.
func Preview(cluster *Cluster, release slurmspec.Release, pluginDir string) (*Adapted, error) {
	return Adapt(cluster, release, Environment{
		StateDir: "/dev/shm/rmreplay-RUN", LogDir: "RUN/logs", DaemonUser: "rmreplay", Hostname: "localhost",
		ControlAddress: netip.AddrFrom4([4]byte{127, 0, 0, 1}), ControlPort: 6817, DBPort: 6819, NodePort: 6818,
		NodeAddress: LoopbackAddresses(1), PluginDir: pluginDir,
	})
}

// Unplayed returns the warnings of [Adapt] about settings that both a replay and the model of slurmctld ignore.
func (c *Cluster) Unplayed() (list []string) {
	for i := range rules {
		if site, _ := c.Get(rules[i].key); site != "" && rules[i].warning != nil && rules[i].warning(site) != "" {
			list = append(list, fmt.Sprintf("%s=%s: %s", rules[i].key, site, rules[i].warning(site)))
		}
	}
	if slices.ContainsFunc(c.Nodes, func(n hpc.Node) bool { return n.State == "CLOUD" }) {
		list = append(list, "State=CLOUD: the nodes are always on; jobs never wait for them to boot")
	}
	return list
}
