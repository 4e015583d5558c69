package conf

import (
	"net/netip"

	"rmreplay/internal/slurmspec"
)

// Preview adapts a cluster as a replay would, with examples in place of the directories and
// ports that each replay chooses for itself. Preview looks for the plugins that slurm.conf names
// in pluginDir, and for none if that is empty. It fails as [Adapt] does.
func Preview(cluster *Cluster, release slurmspec.Release, pluginDir string) (*Adapted, error) {
	return Adapt(cluster, release, Environment{
		StateDir: "/dev/shm/rmreplay-RUN", LogDir: "RUN/logs", DaemonUser: "rmreplay",
		Hostname: "localhost", ControlAddress: netip.AddrFrom4([4]byte{127, 0, 0, 1}),
		ControlPort: 6817, DBPort: 6819, NodePort: 6818, NodeAddress: LoopbackAddresses(1),
		PluginDir: pluginDir,
	})
}
