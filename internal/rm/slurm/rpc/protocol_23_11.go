package rpc

// V2311 is the version of Slurm 23.11.
const V2311 Version = 40 << 8

func init() { register(protocol2311) }

// protocol2311 is the version that the driver uses with 23.11 and 24.05.
var protocol2311 = protocol2302.next(V2311, func(p *protocol) {
	p.appendHeader = headerFields{noCredential: true, addresses: true}.append
	p.readHeader = headerFields{noCredential: true, addresses: true}.read
	p.credential = credentialFields{
		names: true, cpusPerNode: true, memoryPerNode: true, jobRecord: true, addresses: true,
	}.read
	p.batchLaunch = launchFields{container: true, aliases: true, credentialVersion: true}.read
	p.prologLaunch = prologFields{}.read
	p.suspend = readSuspend2311
	p.skipGRES.job = gresState{shares: true}.skipJob
	p.skipGRES.step = gresState{shares: true}.skipStep

	own := *protocol2205.own
	own.nodeRegistration = registrationFields{instance: true}.append
	own.jobDesc = jobDescFields{containerID: true, powerFlags: true, jobSize: true, nobody: true}.append
	own.nodeUpdate = nodeUpdateFields{instance: true}.append
	own.reservation = appendReservation2311
	own.arrayErrors = arrayErrorFields{text: true}.read
	own.jobInfo = jobInfoFields{since2311: true}.read
	own.stats = statsFields{exits: true}.read
	p.own = &own
})
