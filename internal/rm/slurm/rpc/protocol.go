package rpc

import (
	"fmt"
	"strings"

	"rmreplay/internal/slurmspec"
)

// Version is a version of the protocol: a number shifted left by 8
// (slurm_protocol_common.h).
type Version uint16

// The versions that slurmctld 22.05 speaks.
const (
	V2011 Version = 36 << 8
	V2108 Version = 37 << 8
	V2205 Version = 38 << 8
)

// String gives the release that introduced the version.
func (v Version) String() string {
	if r, known := slurmspec.ReleaseOfProtocol(uint16(v)); known {
		return r.String()
	}
	return fmt.Sprintf("protocol %d", uint16(v))
}

// protocol is how one version lays out its messages. The table of a version is in a file of
// its own (protocol_22_05.go); what does not differ between versions is not in it. A new
// version begins with a copy of an older table and replaces what differs.
//
// slurmctld speaks the oldest version that it accepts to a node that has not registered, so
// the nodes' side of older versions is needed, too.
type protocol struct {
	version Version
	// messageIndex says that the header has a message index behind the flags.
	messageIndex bool

	// What slurmctld sends to compute nodes.
	credential   func(*decoder) Credential
	batchLaunch  func(*decoder) *BatchLaunch
	prologLaunch func(*decoder) *PrologLaunch
	killJob      func(*decoder) *KillJob

	// own is what the driver says and hears in the version of the release that runs; nil for
	// the versions in which only nodes are spoken to.
	own *ownLayouts
}

// ownLayouts are the layouts of what nodes and clients send to slurmctld, and of its answers.
type ownLayouts struct {
	jobDesc          func([]byte, *JobDesc) []byte
	killRequest      func([]byte, *KillRequest) []byte
	nodeUpdate       func([]byte, *NodeUpdate) []byte
	reservation      func([]byte, *ReservationDesc) []byte
	nodeRegistration func([]byte, *NodeRegistration) []byte
	epilogComplete   func([]byte, *EpilogComplete) []byte
	batchComplete    func([]byte, *BatchComplete) []byte
	prologComplete   func([]byte, *PrologComplete) []byte
	stepComplete     func([]byte, *StepComplete) []byte

	submitResponse func(*decoder) *SubmitResponse
	jobInfo        func(*decoder) JobInfo
	stats          func(*decoder) *Stats
}

// protocols are the versions that can be read and written, oldest first.
var protocols []*protocol

func init() { protocols = []*protocol{protocol2011, protocol2108, protocol2205} }

// protocolOf is the protocol of a version; nil if it cannot be read and written.
func protocolOf(v Version) *protocol {
	for _, p := range protocols {
		if p.version == v {
			return p
		}
	}
	return nil
}

// supported reports whether messages of this version can be read and written.
func (v Version) supported() bool { return protocolOf(v) != nil }

// versions names the versions that can be read and written.
func versions() string {
	var names []string
	for _, p := range protocols {
		names = append(names, p.version.String())
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
