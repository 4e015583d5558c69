package rpc

// V2405 is the version of Slurm 24.05.
const V2405 Version = 41 << 8

func init() { register(protocol2405) }

// protocol2405 has the node's side only: slurmctld 25.11 speaks it to a node that has not
// registered. The driver speaks 23.11's version to 24.05.
var protocol2405 = protocol2311.next(V2405, func(p *protocol) {
	p.prologLaunch = prologFields{stepManager: true}.read
	p.skipGRES.step = gresState{shares: true, stepType: true}.skipStep
	p.own = nil
})
