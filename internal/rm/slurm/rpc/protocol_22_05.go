package rpc

// V2205 is the version of Slurm 22.05.
const V2205 Version = 38 << 8

func init() { register(protocol2205) }

// protocol2205 is the first version that the driver speaks to the daemons of its own release.
var protocol2205 = protocol2108.next(V2205, func(p *protocol) {
	p.appendHeader = headerFields{}.append
	p.readHeader = headerFields{}.read
	p.credential = credentialFields{names: true, cpusPerNode: true, memoryPerNode: true}.read
	p.batchLaunch = launchFields{container: true, credentialVersion: true}.read
	p.prologLaunch = prologFields{}.read
	p.killJob = killFields{credential: true, workDir: true}.read
	p.own = &ownLayouts{
		nodeRegistration: appendNodeRegistration,
		epilogComplete:   appendEpilogComplete,
		batchComplete:    appendBatchComplete,
		prologComplete:   appendPrologComplete,
		stepComplete:     appendStepComplete,

		jobDesc:        appendJobDesc,
		killRequest:    appendKillRequest,
		suspendRequest: appendSuspendRequest,
		requeueRequest: appendRequeueRequest,
		jobInfoRequest: appendJobInfoRequest,
		nodeUpdate:     appendNodeUpdate,
		reservation:    appendReservation,

		submitResponse: readSubmitResponse,
		jobInfo:        readJobInfo,
		leastJobInfo:   leastJobInfo,
		stats:          readStats,
	}
})
