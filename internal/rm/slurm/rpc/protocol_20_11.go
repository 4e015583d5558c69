package rpc

// V2011 is the version of Slurm 20.11.
const V2011 Version = 36 << 8

func init() { register(protocol2011) }

// protocol2011 is the oldest version that slurmctld 22.05 accepts. slurmctld 22.05 uses it for a node that has not
// registered. The tables of later versions are derived from protocol2011.
var protocol2011 = &protocol{
	version:      V2011,
	appendHeader: headerFields{messageIndex: true}.append,
	readHeader:   headerFields{messageIndex: true}.read,
	appendStepID: appendStepID,
	readStepID:   readStepID,

	credential:   credentialFields{memoryLimits: true}.read,
	batchLaunch:  launchFields{user: true, checkpointDirs: true, aliases: true, selectPlugin: true}.read,
	prologLaunch: prologFields{partition: true, output: true, userName: true}.read,
	killJob:      killFields{selectPlugin: true}.read,
	suspend:      readSuspend,
	reboot:       readReboot,
	skipGRES:     gresLayouts{allocation: skipGRESAllocation, job: gresState{}.skipJob, step: gresState{}.skipStep},

	ping:     appendPing,
	skipPing: skipPing,
	energy:   appendEnergy,
}
