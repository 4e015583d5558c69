package rpc

// V2411 is the version of Slurm 24.11.
const V2411 Version = 42 << 8

func init() { register(protocol2411) }

// protocol2411 is the version that the driver uses with 24.11 and all later releases.
var protocol2411 = protocol2405.next(V2411, func(p *protocol) {
	p.appendHeader = headerFields{noCredential: true, addresses: true, treeDepth: true}.append
	p.readHeader = headerFields{noCredential: true, addresses: true, treeDepth: true}.read
	p.appendStepID = func(e *encoder, s StepID) {
		e.U64(0) // the job's number among all clusters; slurmctld finds jobs by the other fields
		appendStepID(e, s)
	}
	p.readStepID = func(d *decoder) StepID {
		d.U64("sluid")
		return readStepID(d)
	}
	p.credential = credentialFields{
		names: true, cpusPerNode: true, memoryPerNode: true, jobRecord: true, addresses: true, switches: true,
	}.read
	p.batchLaunch = launchFields{container: true, credentialVersion: true, cpuFrequency: true}.read
	p.energy = func(e *encoder) {
		appendEnergy(e)
		e.Time(0) // the start of slurmd
	}

	own := *protocol2311.own
	own.stepComplete = stepCompleteFields{stepManager: true}.append
	own.jobDesc = jobDescFields{
		containerID: true, oomKillStep: true, jobSize: true, reservedPorts: true, segmentSize: true,
		nobody: true,
	}.append
	own.nodeUpdate = nodeUpdateFields{certificate: true, instance: true}.append
	own.jobInfo = readJobInfo2411
	own.minJobInfo = 450
	own.stats = statsFields{exits: true, rpcQueue: true}.read
	p.own = &own
})
