package rpc

// V2302 is the version of Slurm 23.02.
const V2302 Version = 39 << 8

func init() { register(protocol2302) }

// protocol2302 has the node's side only: slurmctld 24.05 and 24.11 speak it to a node that has not
// registered. The driver speaks 22.05's version to 23.02.
var protocol2302 = protocol2205.next(V2302, func(p *protocol) {
	p.appendHeader = headerFields{noCredential: true}.append
	p.readHeader = headerFields{noCredential: true}.read
	p.credential = credentialFields{names: true, cpusPerNode: true, memoryPerNode: true, jobRecord: true}.read
	p.batchLaunch = launchFields{user: true, container: true, aliases: true, credentialVersion: true}.read
	p.killJob = killFields{credential: true, workDir: true}.read
	p.own = nil
})
