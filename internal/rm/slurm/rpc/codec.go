package rpc

import (
	"rmreplay/internal/slurmspec"
)

// Codec writes the messages for the daemons of one release. The zero Codec is of no use;
// [NewCodec] makes one.
type Codec struct {
	release slurmspec.Release
	version Version
}

// NewCodec returns the codec of a release. It refuses a release that is not supported with an
// [slurmspec.UnsupportedError], which names those that are.
func NewCodec(release slurmspec.Release) (Codec, error) {
	if err := slurmspec.CheckSupported(release); err != nil {
		return Codec{}, err
	}
	return Codec{release: release, version: Version(release.Protocol())}, nil
}

// Release is the release that the codec was made for.
func (c Codec) Release() slurmspec.Release { return c.release }

// Encode gives the bytes of a message, with its length in front. A message without a version
// is written in the release's own; an answer keeps the version of its request.
func (c Codec) Encode(m *Message) ([]byte, error) {
	if m.Version == 0 {
		m.Version = c.version
	}
	return m.Append(nil)
}

// UsageHeader is the beginning of slurmctld's file assoc_usage, in which it keeps the
// fair-share usage of associations between two runs. saved is in seconds since the Unix epoch
// (dump_assoc_mgr_state in assoc_mgr.c). [AppendUsage] appends what follows.
func (c Codec) UsageHeader(saved int64) []byte {
	var e encoder
	e.u16(uint16(c.version))
	e.time(saved)
	return e.b
}
