package rpc

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/slurmspec"
)

// versionNext stands for the version of a later release. Its table below has some of the
// differences of 23.11 to 26.05, and is all that a new version needs.
const versionNext Version = 42 << 8

var protocolNext = protocol2205.next(versionNext, func(p *protocol) {
	p.appendHeader = func(e *encoder, m *Message) {
		e.U16(m.Flags)
		e.U16(uint16(m.Type))
		e.U32(uint32(len(m.Body)))
		e.U16(m.Forward.Count)
		if m.Forward.Count > 0 {
			e.Str(m.Forward.Nodes)
			e.U32(m.Forward.Timeout)
			e.U16(m.Forward.TreeWidth)
			e.U16(1) // tree depth
		}
		e.returns(m.Returns)
		e.U16(0)
		e.sender(m)
	}
	p.readHeader = func(d *decoder, m *Message) (bodyLength uint32) {
		m.Flags = d.U16("flags")
		bodyLength = d.typeAndLength(m)
		if m.Forward.Count = d.U16("forward count"); m.Forward.Count > 0 {
			m.Forward.Nodes = d.Str("forward nodes")
			m.Forward.Timeout = d.U32("forward timeout")
			m.Forward.TreeWidth = d.U16("forward tree width")
			d.U16("tree depth")
		}
		m.Returns = d.returns()
		d.skipAddress()
		const noCredential = 1 << 6
		if m.Flags&noCredential == 0 {
			d.sender(m)
		}
		return bodyLength
	}
	p.appendStepID = func(e *encoder, s StepID) { e.U64(0); appendStepID(e, s) }
	p.readStepID = func(d *decoder) StepID { d.U64("sluid"); return readStepID(d) }
	p.suspend = func(d *decoder) *Suspend { return &Suspend{JobID: d.stepID().Job, Resume: d.resume()} }
	p.ping = func(e *encoder, m Ping) { appendPing(e, m); e.Str(m.Node) }
	p.skipPing = func(d *decoder) { skipPing(d); d.Str("return node's name") }
	p.energy = func(e *encoder) { appendEnergy(e); e.Time(0) }
	p.own.suspendRequest = func(e *encoder, m *SuspendRequest) {
		e.stepID(StepID{Job: slurmspec.NoVal, Step: slurmspec.NoVal, HetComponent: slurmspec.NoVal})
		e.Bool16(m.Resume)
		e.Str(m.Job)
	}
	p.own.submitResponse = func(d *decoder) *SubmitResponse {
		id := d.stepID()
		return &SubmitResponse{JobID: id.Job, StepID: id.Step, Code: slurmspec.Errno(d.U32("error code")), Message: d.Str("message")}
	}
})

// A version whose table differs from 22.05's is written and read by its own layouts, and the
// table of 22.05 stays as it is.
func TestNewVersion(t *testing.T) {
	before := slices.Clone(protocols)
	register(protocolNext)
	defer func() { protocols = before }()
	codec := Codec{slurmspec.Release{Major: 24, Minor: 11}, protocolNext}

	request := &Message{Type: RequestPing, Host: "h", Forward: Forward{Nodes: "n2", Count: 1, Timeout: 3, TreeWidth: 4}}
	got := roundTrip(t, codec, request)
	if diff := cmp.Diff(request, got); diff != "" || got.Version != versionNext {
		t.Errorf("a request is read as another (-sent +read)\n%s", diff)
	}
	ping := codec.Answer(request, Ping{Node: "n1", Load: 1, FreeMemory: 2})
	if got, want := hex.EncodeToString(ping), "00000001"+"0000000000000002"+"000000036e3100"; got != want {
		t.Errorf("ping's answer is %s, want %s", got, want)
	}
	reply := Reply(request, ResponsePing, ping, []string{"n2"})
	if diff := cmp.Diff(reply, roundTrip(t, codec, reply)); diff != "" {
		t.Errorf("a reply with a return list is read as another (-sent +read)\n%s", diff)
	}
	const noCredential = "2a00" + "0040" + "03f0" + "00000000" + "0000" + "0000" + "0000"
	frame, err := hex.DecodeString(noCredential)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := Decode(frame); err != nil || m.Type != RequestPing {
		t.Errorf("a message without credential: %v, %v", m, err)
	}

	suspend := codec.Body(&SuspendRequest{Job: "7"})
	if old := body(&SuspendRequest{Job: "7"}); bytes.Equal(suspend, old) {
		t.Error("the new layout has replaced that of 22.05")
	}
	registration := codec.Body(&NodeRegistration{Steps: []StepID{Batch(7)}})
	old := body(&NodeRegistration{Steps: []StepID{Batch(7)}})
	if len(registration) != len(old)+8+8 || !bytes.Contains(registration, []byte{0, 0, 0, 4, 0x2a, 0, 0, 0}) {
		t.Error("a registration has not the new step ids, energy and version")
	}
	e := newEncoder(nil, protocolNext)
	e.stepID(Batch(7))
	e.U16(1)
	if s, err := DecodeSuspend(versionNext, e.Bytes); err != nil || s.JobID != 7 || !s.Resume {
		t.Errorf("a suspend request is read as %+v, %v", s, err)
	}
	e = newEncoder(nil, protocolNext)
	e.stepID(StepID{Job: 9, Step: StepBatch})
	e.U32(0)
	e.Str("")
	r, err := DecodeSubmitResponse(&Message{Version: versionNext, Type: ResponseSubmitBatchJob, Body: e.Bytes})
	if err != nil || r.JobID != 9 || r.StepID != StepBatch {
		t.Errorf("a submission's response is read as %+v, %v", r, err)
	}
}

// roundTrip encodes a message and reads it again.
func roundTrip(t *testing.T, codec Codec, m *Message) *Message {
	t.Helper()
	b, err := codec.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	frame, need, err := Split(b)
	if err != nil || need != len(b) {
		t.Fatalf("%d of %d bytes: %v", need, len(b), err)
	}
	again, err := Decode(frame)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Body) == 0 {
		again.Body = nil
	}
	return again
}

// Every supported release has a complete table, and the node's side of every version that its
// slurmctld may speak to a node.
func TestProtocolsOfReleases(t *testing.T) {
	for _, k := range slurmspec.Releases {
		if !k.Supported {
			continue
		}
		p := protocolOf(Version(k.Release.Protocol()))
		if p == nil || p.own == nil {
			t.Fatalf("%v: its own protocol is not known", k.Release)
		}
		requireComplete(t, *p.own)
		for n := k.Oldest; n <= k.Number; n++ {
			p := protocolOf(Version(n << 8))
			if p == nil {
				t.Fatalf("%v: protocol %d is not known", k.Release, n)
			}
			requireComplete(t, *p)
			requireComplete(t, p.skipGRES)
		}
	}
}

// requireComplete fails the test if a function of a table is missing.
func requireComplete(t *testing.T, table any) {
	t.Helper()
	v := reflect.ValueOf(table)
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Func && v.Field(i).IsNil() {
			t.Errorf("%v has no %s", v.Type(), v.Type().Field(i).Name)
		}
	}
}
