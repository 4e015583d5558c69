package rpc

// V2108 is the version of Slurm 21.08.
const V2108 Version = 37 << 8

func init() { register(protocol2108) }

var protocol2108 = protocol2011.next(V2108, func(p *protocol) {
	p.credential = credentialFields{memoryPerNode: true}.read
	p.batchLaunch = launchFields{user: true, container: true, aliases: true, selectPlugin: true}.read
	p.killJob = killFields{selectPlugin: true, workDir: true}.read
})
