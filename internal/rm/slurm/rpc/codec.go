package rpc

import (
	"fmt"

	"rmreplay/internal/slurmspec"
)

// Codec writes the messages for the daemons of one release. [NewCodec] makes a codec; the zero
// Codec must not be used.
type Codec struct {
	release  slurmspec.Release
	protocol *protocol
}

// Body is the body of a message that a node or a client sends to slurmctld.
type Body interface {
	append(e *encoder)
}

// AnswerBody is the body of a node's answer to slurmctld.
type AnswerBody interface {
	appendAnswer(e *encoder)
}

// NewCodec returns the codec of a release. For an unsupported release, the error is an
// [slurmspec.UnsupportedError], which names the supported releases.
func NewCodec(release slurmspec.Release) (Codec, error) {
	if err := slurmspec.CheckSupported(release); err != nil {
		return Codec{}, err
	}
	p := protocolOf(Version(release.DriverProtocol()))
	if p == nil || p.own == nil {
		return Codec{}, fmt.Errorf("the messages of Slurm %v are not known (want %s)", release, slurmspec.SupportedList())
	}
	return Codec{release, p}, nil
}

// Release returns the release that the codec was made for.
func (c Codec) Release() slurmspec.Release { return c.release }

// Encode returns the bytes of a message, with its length in front. A message without a version gets the version that
// the driver uses with the release. An answer keeps the version of its request. Encode returns the errors of
// [Message.Append].
func (c Codec) Encode(m *Message) ([]byte, error) {
	if m.Version == 0 {
		m.Version = c.protocol.version
	}
	return m.Append(nil)
}

// Body returns the bytes of a body in the version that the driver uses with the release.
func (c Codec) Body(b Body) []byte {
	e := newEncoder(nil, c.protocol)
	b.append(e)
	return e.Bytes
}

// Answer returns the bytes of an answer's body in the version of its request, which must come from
// [Decode].
func (c Codec) Answer(request *Message, b AnswerBody) []byte {
	p := protocolOf(request.Version)
	if p == nil {
		p = c.protocol
	}
	e := newEncoder(nil, p)
	b.appendAnswer(e)
	return e.Bytes
}
