package rpc

// V2205 is the version of Slurm 22.05.
const V2205 Version = 38 << 8

func init() { register(protocol2205) }

// protocol2205 is the version that the driver uses with 22.05 and 23.02. The driver uses no older
// version.
var protocol2205 = protocol2108.next(V2205, func(p *protocol) {
	p.appendHeader = headerFields{}.append
	p.readHeader = headerFields{}.read
	p.credential = credentialFields{names: true, cpusPerNode: true, memoryPerNode: true}.read
	p.batchLaunch = launchFields{user: true, container: true, aliases: true, credentialVersion: true,
		selectPlugin: true}.read
	p.prologLaunch = prologFields{output: true, userName: true}.read
	p.killJob = killFields{credential: true, selectPlugin: true, workDir: true}.read
	p.own = &ownLayouts{
		nodeRegistration: registrationFields{}.append,
		epilogComplete:   appendEpilogComplete,
		batchComplete:    appendBatchComplete,
		prologComplete:   appendPrologComplete,
		stepComplete:     stepCompleteFields{}.append,

		jobDesc:        jobDescFields{powerFlags: true, selectPlugin: true}.append,
		killRequest:    appendKillRequest,
		suspendRequest: appendSuspendRequest,
		requeueRequest: appendRequeueRequest,
		jobInfoRequest: appendJobInfoRequest,
		nodeUpdate:     nodeUpdateFields{reasonUID: true}.append,
		reservation:    appendReservation,

		submitResponse: readSubmitResponse,
		arrayErrors:    arrayErrorFields{}.read,
		jobInfo:        jobInfoFields{}.read,
		minJobInfo:     500,
		stats:          statsFields{}.read,
	}
})
