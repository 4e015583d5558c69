package rpc

// V2302 is the version of Slurm 23.02.
const V2302 Version = 39 << 8

func init() { register(protocol2302) }

// protocol2302 has only the node's side: slurmctld 24.05 and 24.11 use it for a node that has not
// registered. With 23.02, the driver uses the version of 22.05.
var protocol2302 = protocol2205.next(V2302, func(p *protocol) {
	p.appendHeader = headerFields{noCredential: true}.append
	p.readHeader = headerFields{noCredential: true}.read
	p.credential = credentialFields{names: true, cpusPerNode: true, memoryPerNode: true, jobRecord: true}.read
	p.batchLaunch = launchFields{user: true, container: true, aliases: true, credentialVersion: true}.read
	p.killJob = killFields{credential: true, workDir: true}.read
	p.own = nil
})
