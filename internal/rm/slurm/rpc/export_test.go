package rpc

// RegistrationIn returns a registration in a version since 22.05, also in one that the driver does
// not speak: slurmctld speaks the version in which a node has registered, so tests get slurmctld's
// messages in every version.
func RegistrationIn(v Version, m *NodeRegistration) []byte {
	e := newEncoder(nil, protocolOf(v))
	registrationFields{instance: v >= V2311}.append(e, m)
	return e.Bytes
}
