package rpc

import (
	"errors"
	"strings"
	"testing"

	"rmreplay/internal/slurmspec"
)

// A codec writes the version of its release, and an answer keeps the version of its request.
func TestCodec(t *testing.T) {
	codec, err := NewCodec(slurmspec.Release{Major: 22, Minor: 5, Patch: 8})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ sent, want Version }{{0, V2205}, {V2011, V2011}, {V2108, V2108}} {
		frame, err := codec.Encode(&Message{Version: tt.sent, Type: ResponseRC, Body: AppendRC(nil, 0)})
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(frame[4:])
		if err != nil || m.Version != tt.want {
			t.Errorf("a message of %v is read as %v, %v, want %v", tt.sent, m, err, tt.want)
		}
	}
}

// NewCodec refuses a release that is not supported, and the error names the supported ones.
func TestCodecRefusesRelease(t *testing.T) {
	for _, r := range []slurmspec.Release{{}, {Major: 24, Minor: 11, Patch: 5}, {Major: 21, Minor: 8, Patch: 1}} {
		_, err := NewCodec(r)
		var unsupported *slurmspec.UnsupportedError
		if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "want 22.05") {
			t.Errorf("%v: %v", r, err)
		}
	}
}
