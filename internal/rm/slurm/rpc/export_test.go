package rpc

// RegistrationIn returns a registration in any version since 22.05, including versions that the
// driver does not use. slurmctld uses the version of a node's registration, so tests get
// slurmctld's messages in every version.
func RegistrationIn(v Version, m *NodeRegistration) []byte {
	e := newEncoder(nil, protocolOf(v))
	registrationFields{instance: v >= V2311}.append(e, m)
	return e.Bytes
}
