package rpc

// protocol2108 is version 37, of Slurm 21.08.
var protocol2108 = &protocol{
	version:      V2108,
	messageIndex: true,
	credential:   credentialFields{memoryPerNode: true}.read,
	batchLaunch:  launchFields{container: true}.read,
	prologLaunch: prologFields{partition: true}.read,
	killJob:      killFields{workDir: true}.read,
}
