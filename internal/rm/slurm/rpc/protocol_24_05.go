package rpc

// V2405 is the version of Slurm 24.05.
const V2405 Version = 41 << 8

func init() { register(protocol2405) }

// protocol2405 has only the node's side: slurmctld 25.11 uses it for a node that has not
// registered. With 24.05, the driver uses the version of 23.11.
var protocol2405 = protocol2311.next(V2405, func(p *protocol) {
	p.prologLaunch = prologFields{stepManager: true}.read
	p.skipGRES.step = gresState{shares: true, stepType: true}.skipStep
	p.own = nil
})
