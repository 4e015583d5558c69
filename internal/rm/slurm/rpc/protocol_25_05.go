package rpc

// The versions of Slurm 25.05, 25.11 and 26.05.
const (
	V2505 Version = 43 << 8
	V2511 Version = 44 << 8
	V2605 Version = 45 << 8
)

func init() {
	for _, v := range []Version{V2505, V2511, V2605} {
		register(protocol2411.next(v, repeated))
	}
}

// repeated makes the table of a version that slurmctld uses only to repeat messages. With releases since 25.05, the
// driver uses the version of 24.11. When a node has not answered, slurmctld repeats the message in its own version
// instead of the node's (_queue_agent_retry in slurmctld/agent.c). slurmctld repeats signals to jobs, and aborts of a
// running job that a user has shrunk. All other messages to nodes have retry = 0.
//
// A credential in a repeated message keeps the layout of the node's version (slurm_cred_pack in
// interfaces/cred.c).
func repeated(p *protocol) {
	p.skipGRES.allocation = skipGRESAllocationList
	p.batchLaunch = notRepeated[BatchLaunch]
	p.prologLaunch = notRepeated[PrologLaunch]
	p.suspend = notRepeated[Suspend]
	p.reboot = notRepeated[Reboot]
	p.own = nil
}

// notRepeated refuses a message that slurmctld does not repeat. In the newer version, the layout of the message differs
// from 24.11's.
func notRepeated[T any](d *decoder) *T {
	d.Fail("the message has the layout of %v, but slurmctld sends it only to nodes of its own release", d.protocol.version)
	return nil
}
