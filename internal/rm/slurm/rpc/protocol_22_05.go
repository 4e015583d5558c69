package rpc

// protocol2205 is version 38, of Slurm 22.05.
var protocol2205 = &protocol{
	version:      V2205,
	credential:   credentialFields{names: true, cpusPerNode: true, memoryPerNode: true}.read,
	batchLaunch:  launchFields{container: true, credentialVersion: true}.read,
	prologLaunch: prologFields{}.read,
	killJob:      killFields{credential: true, workDir: true}.read,

	own: &ownLayouts{
		jobDesc:          func(dst []byte, m *JobDesc) []byte { return m.Append(dst) },
		killRequest:      func(dst []byte, m *KillRequest) []byte { return m.Append(dst) },
		nodeUpdate:       func(dst []byte, m *NodeUpdate) []byte { return m.Append(dst) },
		reservation:      func(dst []byte, m *ReservationDesc) []byte { return m.Append(dst) },
		nodeRegistration: func(dst []byte, m *NodeRegistration) []byte { return m.Append(dst) },
		epilogComplete:   func(dst []byte, m *EpilogComplete) []byte { return m.Append(dst) },
		batchComplete:    func(dst []byte, m *BatchComplete) []byte { return m.Append(dst) },
		prologComplete:   func(dst []byte, m *PrologComplete) []byte { return m.Append(dst) },
		stepComplete:     func(dst []byte, m *StepComplete) []byte { return m.Append(dst) },

		submitResponse: (*decoder).submitResponse,
		jobInfo:        (*decoder).jobInfo,
		stats:          (*decoder).statistics,
	},
}
