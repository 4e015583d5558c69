package rpc

// protocol2011 is version 36, of Slurm 20.11: what slurmctld 22.05 speaks to a node that has
// not registered.
var protocol2011 = &protocol{
	version:      V2011,
	messageIndex: true,
	credential:   credentialFields{memoryLimits: true}.read,
	batchLaunch:  launchFields{checkpointDirs: true}.read,
	prologLaunch: prologFields{partition: true}.read,
	killJob:      killFields{}.read,
}
