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

// A codec speaks to each release in the newest version that both know.
func TestCodecOfReleases(t *testing.T) {
	for release, want := range map[slurmspec.Release]Version{
		slurmspec.R2205: V2205, slurmspec.R2302: V2205, slurmspec.R2311: V2311, slurmspec.R2405: V2311,
		slurmspec.R2411: V2411, {Major: 25, Minor: 5, Patch: 3}: V2411, slurmspec.R2511: V2411, slurmspec.R2605: V2411,
	} {
		codec, err := NewCodec(release)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := codec.Encode(&Message{Type: RequestPing})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := Decode(frame[4:]); err != nil || m.Version != want {
			t.Errorf("%v: a message is read as %v, %v, want %v", release, m, err, want)
		}
	}
}

// NewCodec refuses a release that is not supported, and the error names the supported releases.
func TestCodecRefusesRelease(t *testing.T) {
	for _, r := range []slurmspec.Release{{}, {Major: 20, Minor: 11, Patch: 4}, {Major: 27, Minor: 5}, {Major: 21, Minor: 8, Patch: 1}} {
		_, err := NewCodec(r)
		var unsupported *slurmspec.UnsupportedError
		if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "want 22.05, 23.02, 23.11") {
			t.Errorf("%v: %v", r, err)
		}
	}
}
