package rpc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/rm/slurm/rpc/wire"
	"rmreplay/internal/slurmspec"
)

// Version is a version of the protocol in the form in which messages carry it: the number shifted
// left by 8 (slurm_protocol_common.h). The file of each version (protocol_22_05.go) declares it.
type Version uint16

// String returns the release that introduced the version, such as "22.05".
func (v Version) String() string {
	if r, known := slurmspec.ReleaseOfProtocol(uint16(v)); known {
		return r.String()
	}
	return fmt.Sprintf("protocol %d", uint16(v))
}

// protocol is the table of layouts of one version: everything that differs between the versions
// from 20.11 to 26.05. A layout that is the same in all versions is an ordinary method of its
// message.
//
// slurmctld uses the oldest version that it accepts for a node that has not registered, so the tables include the
// node's side of older versions.
type protocol struct {
	version Version

	// appendHeader appends the part of a message between the version and the credential, including
	// both. readHeader reads this part after the version, and returns the body's length in bytes.
	appendHeader func(*encoder, *Message)
	readHeader   func(*decoder, *Message) (bodyLength uint32)

	appendStepID func(*encoder, StepID)
	readStepID   func(*decoder) StepID

	// Messages from slurmctld to compute nodes.
	credential   func(*decoder) Credential
	batchLaunch  func(*decoder) *BatchLaunch
	prologLaunch func(*decoder) *PrologLaunch
	killJob      func(*decoder) *KillJob
	suspend      func(*decoder) *Suspend
	reboot       func(*decoder) *Reboot
	skipGRES     gresLayouts

	// Answers of compute nodes. skipPing drops a body that ping appended.
	ping     func(*encoder, Ping)
	skipPing func(*decoder)
	energy   func(*encoder)

	// own are the layouts of messages from the driver to daemons and of their answers; nil for a
	// version that slurmctld uses only with nodes.
	own *ownLayouts
}

// gresLayouts skip the generic resources in slurmctld's messages to nodes.
type gresLayouts struct {
	allocation func(*decoder) // of a job, in the form for prolog and epilog
	job, step  func(*decoder) // in a credential
}

// ownLayouts are the layouts of messages that nodes and clients send on their own initiative, and
// of slurmctld's answers.
type ownLayouts struct {
	nodeRegistration func(*encoder, *NodeRegistration)
	epilogComplete   func(*encoder, *EpilogComplete)
	batchComplete    func(*encoder, *BatchComplete)
	prologComplete   func(*encoder, *PrologComplete)
	stepComplete     func(*encoder, *StepComplete)

	jobDesc        func(*encoder, *JobDesc)
	killRequest    func(*encoder, *KillRequest)
	suspendRequest func(*encoder, *SuspendRequest)
	requeueRequest func(*encoder, *RequeueRequest)
	jobInfoRequest func(*encoder, *JobInfoRequest)
	nodeUpdate     func(*encoder, *NodeUpdate)
	reservation    func(*encoder, *ReservationDesc)

	submitResponse func(*decoder) *SubmitResponse
	arrayErrors    func(*decoder) error
	jobInfo        func(*decoder) JobInfo
	// minJobInfo is the smallest possible size of a record of jobInfo, in bytes.
	minJobInfo int
	stats      func(*decoder) *Stats
}

// next returns the table of a later version: a copy of p in which change has replaced the layouts
// that differ. p does not change.
func (p *protocol) next(v Version, change func(*protocol)) *protocol {
	n := *p
	n.version = v
	if p.own != nil {
		own := *p.own
		n.own = &own
	}
	change(&n)
	return &n
}

// protocols are the supported versions, oldest first.
var protocols []*protocol

// register adds a version to the supported versions. The file of each version calls it once.
func register(p *protocol) {
	protocols = append(protocols, p)
	slices.SortFunc(protocols, func(a, b *protocol) int { return cmp.Compare(a.version, b.version) })
}

// protocolOf returns the table of a version; nil if the version is not supported.
func protocolOf(v Version) *protocol {
	for _, p := range protocols {
		if p.version == v {
			return p
		}
	}
	return nil
}

// versions names the supported versions: "20.11, 21.08 or 22.05".
func versions() string {
	var names []string
	for _, p := range protocols {
		names = append(names, p.version.String())
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// encoder appends fields in the layouts of one version.
type encoder struct {
	wire.Encoder
	protocol *protocol
}

// newEncoder returns an encoder that appends to dst in p's version.
func newEncoder(dst []byte, p *protocol) *encoder {
	return &encoder{wire.Encoder{Bytes: dst}, p}
}

func (e *encoder) stepID(s StepID) { e.protocol.appendStepID(e, s) }

// decoder reads fields in the layouts of one version.
type decoder struct {
	wire.Decoder
	// protocol is nil while the version is unknown, and for messages with the same layout in all
	// versions.
	protocol *protocol
}

// newDecoder returns a decoder for a message with the same layout in all versions.
func newDecoder(what string, b []byte) *decoder {
	return &decoder{Decoder: wire.NewDecoder(what, b)}
}

// decodeIn decodes a message from slurmctld to a node. read decodes the body with the layout in
// the version's table. The error says that the version is unknown, or which field is wrong.
func decodeIn[T any](v Version, what string, b []byte, read func(*decoder) *T) (*T, error) {
	d := newDecoder(what, b)
	if d.protocol = protocolOf(v); d.protocol == nil {
		d.Fail("%v is not supported (want %s)", v, versions())
		return nil, d.Err()
	}
	m := read(d)
	if err := d.Finish(); err != nil {
		return nil, err
	}
	return m, nil
}

// ownDecoder returns a decoder of an answer to the driver, and the layouts of its version. It
// returns an error if the driver does not use the version.
func ownDecoder(v Version, what string, b []byte) (*decoder, *ownLayouts, error) {
	d := newDecoder(what, b)
	if d.protocol = protocolOf(v); d.protocol == nil || d.protocol.own == nil {
		return nil, nil, fmt.Errorf("decoding %s: %v is not supported (want %s)", what, v, slurmspec.SupportedList())
	}
	return d, d.protocol.own, nil
}

func (d *decoder) stepID() StepID { return d.protocol.readStepID(d) }
