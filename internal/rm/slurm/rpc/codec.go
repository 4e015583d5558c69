package rpc

import (
	"fmt"

	"rmreplay/internal/slurmspec"
)

// Codec writes the messages for the daemons of one release. The zero Codec is of no use;
// [NewCodec] makes one.
type Codec struct {
	release  slurmspec.Release
	protocol *protocol
}

// Body is the body of a message whose layout can differ by version.
type Body interface {
	append(dst []byte, layouts *ownLayouts) []byte
}

// NewCodec returns the codec of a release. It refuses a release that is not supported with an
// [slurmspec.UnsupportedError], which names those that are.
func NewCodec(release slurmspec.Release) (Codec, error) {
	if err := slurmspec.CheckSupported(release); err != nil {
		return Codec{}, err
	}
	p := protocolOf(Version(release.Protocol()))
	if p == nil || p.own == nil {
		return Codec{}, fmt.Errorf("the messages of Slurm %v are not known (want %s)", release, slurmspec.SupportedList())
	}
	return Codec{release, p}, nil
}

// Release is the release that the codec was made for.
func (c Codec) Release() slurmspec.Release { return c.release }

// Encode gives the bytes of a message, with its length in front. A message without a version
// is written in the release's own; an answer keeps the version of its request.
func (c Codec) Encode(m *Message) ([]byte, error) {
	if m.Version == 0 {
		m.Version = c.protocol.version
	}
	return m.Append(nil)
}

// Body gives the bytes of a body in the release's own version.
func (c Codec) Body(b Body) []byte { return b.append(nil, c.protocol.own) }

// UsageHeader is the beginning of slurmctld's file assoc_usage, in which it keeps the
// fair-share usage of associations between two runs. saved is in seconds since the Unix epoch
// (dump_assoc_mgr_state in assoc_mgr.c). [AppendUsage] appends what follows.
func (c Codec) UsageHeader(saved int64) []byte {
	var e encoder
	e.u16(uint16(c.protocol.version))
	e.time(saved)
	return e.b
}

func (m *JobDesc) append(dst []byte, l *ownLayouts) []byte { return l.jobDesc(dst, m) }

func (m *KillRequest) append(dst []byte, l *ownLayouts) []byte { return l.killRequest(dst, m) }

func (m *NodeUpdate) append(dst []byte, l *ownLayouts) []byte { return l.nodeUpdate(dst, m) }

func (m *ReservationDesc) append(dst []byte, l *ownLayouts) []byte { return l.reservation(dst, m) }

func (m *NodeRegistration) append(dst []byte, l *ownLayouts) []byte {
	return l.nodeRegistration(dst, m)
}

func (m *EpilogComplete) append(dst []byte, l *ownLayouts) []byte { return l.epilogComplete(dst, m) }

func (m *BatchComplete) append(dst []byte, l *ownLayouts) []byte { return l.batchComplete(dst, m) }

func (m *PrologComplete) append(dst []byte, l *ownLayouts) []byte { return l.prologComplete(dst, m) }

func (m *StepComplete) append(dst []byte, l *ownLayouts) []byte { return l.stepComplete(dst, m) }
