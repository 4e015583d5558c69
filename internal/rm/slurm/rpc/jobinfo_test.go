package rpc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/rpc/wire"
	"rmreplay/internal/slurmspec"
)

// jobRecord returns the body of an answer with one record, as pack_job writes it, without details.
// Almost all strings are empty.
func jobRecord(change func(*record)) []byte {
	r := record{records: 1, state: 3, resources: slurmspec.NoVal, plugin: 109, bitmap: slurmspec.NoVal}
	if change != nil {
		change(&r)
	}
	e := wire.Encoder{}
	e.U32(r.records)
	e.Time(1)
	e.Time(0)
	strs := func(n int) {
		for range n {
			e.Str("")
		}
	}
	u32s := func(n int) {
		for range n {
			e.U32(0)
		}
	}
	u32s(2)
	strs(1)
	u32s(2)
	strs(1)
	u32s(1)
	e.U32(7)
	u32s(3)
	strs(1)
	u32s(2)
	e.U32(r.state)
	e.U16(1)
	e.U16(r.reason)
	e.U16(0)
	e.U16(2)
	e.U16(r.show)
	e.Time(0)
	e.U32(0)
	e.U32(r.limit)
	u32s(2)
	for i := range 10 {
		e.Time(int64(i))
	}
	e.U32(5)
	e.U64(0)
	strs(6)
	u32s(1)
	strs(9)
	e.Time(0)
	strs(4)
	e.U32(256)
	e.U32(0)
	strs(1)
	e.U32(r.resources)
	u32s(1)
	strs(3)
	u32s(2)
	strs(1)
	e.U32(r.bitmap)
	if r.bitmap != slurmspec.NoVal {
		e.Str("0x3")
	}
	e.U32(r.plugin)
	strs(6)
	e.U32(4)
	u32s(1)
	e.U32(2)
	u32s(1)
	e.Bytes = append(e.Bytes, make([]byte, 6)...)
	u32s(1)
	e.U16(0)
	u32s(3)
	strs(1)
	e.Bytes = append(e.Bytes, make([]byte, 8+8+4)...)
	strs(1)
	e.U32(slurmspec.NoVal)
	strs(1)
	e.U32(slurmspec.NoVal)
	strs(3)
	e.U8(r.topology)
	if r.topology == 0xff {
		e.Bytes = append(e.Bytes, make([]byte, 18)...)
	}
	e.U64(0)
	e.Str("cpu=4")
	strs(1)
	e.U16(0)
	strs(1)
	e.U64(0)
	strs(1)
	e.U64(0)
	strs(1)
	strs(8)
	e.U16(0)
	strs(2)
	return e.Bytes
}

type record struct {
	records, state, limit, resources, plugin, bitmap uint32
	reason, show                                     uint16
	topology                                         uint8
}

func TestDecodeJobInfo(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*record)
		want   JobInfo
	}{
		"completed":        {nil, JobInfo{State: hpc.Completed}},
		"completing":       {func(r *record) { r.state |= slurmspec.JobCompleting }, JobInfo{State: hpc.Completed, Flags: slurmspec.JobCompleting}},
		"without a limit":  {func(r *record) { r.limit = slurmspec.Infinite }, JobInfo{State: hpc.Completed, TimeLimit: -1}},
		"limit not set":    {func(r *record) { r.limit = slurmspec.NoVal }, JobInfo{State: hpc.Completed, TimeLimit: -1}},
		"a limit":          {func(r *record) { r.limit = 90 }, JobInfo{State: hpc.Completed, TimeLimit: 90}},
		"with nodes":       {func(r *record) { r.bitmap = 2 }, JobInfo{State: hpc.Completed}},
		"with topology":    {func(r *record) { r.topology = 0xff }, JobInfo{State: hpc.Completed}},
		"out of memory":    {func(r *record) { r.state = 11 }, JobInfo{State: hpc.OutOfMemory}},
		"pending":          {func(r *record) { r.state, r.reason = 0, 1 }, JobInfo{State: hpc.Pending, Reason: 1}},
		"the last reason":  {func(r *record) { r.state, r.reason = 0, 198 }, JobInfo{State: hpc.Pending, Reason: 198}},
		"a state and flag": {func(r *record) { r.state = 7 | slurmspec.JobRequeue }, JobInfo{State: hpc.NodeFail, Flags: slurmspec.JobRequeue}},
	} {
		t.Run(name, func(t *testing.T) {
			want := tt.want
			want.JobID, want.Restarts, want.Priority, want.ExitCode, want.TRESAlloc = 7, 2, 5, 256, "cpu=4"
			want.Submit, want.Eligible, want.Start, want.End, want.Suspended, want.RunBeforeSuspend = 0, 1, 3, 4, 5, 6
			want.CPUs, want.NodeCount = 4, 2
			body := jobRecord(tt.change)
			got, err := DecodeJobInfo(&Message{Type: ResponseJobInfo, Version: V2205, Body: body})
			if diff := cmp.Diff([]JobInfo{want}, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
	if n := len(jobRecord(nil)) - len("cpu=4\x00") - 20; n < protocol2205.own.minJobInfo {
		t.Errorf("an empty record is %d bytes long, less than the least of %d", n, protocol2205.own.minJobInfo)
	}
}

func TestDecodeJobInfoRefuses(t *testing.T) {
	answer := func(change func(*record)) *Message {
		return &Message{Type: ResponseJobInfo, Version: V2205, Body: jobRecord(change)}
	}
	for want, m := range map[string]*Message{
		"ESLURM_INVALID_JOB_ID":                  {Type: ResponseRC, Body: AppendRC(nil, slurmspec.ErrInvalidJob)},
		"which is not an answer to this request": {Type: ResponsePing},
		"21.08 is not supported": {
			Type: ResponseJobInfo, Version: V2108, Body: jobRecord(nil),
		},
		"records has 4294967295 elements":   answer(func(r *record) { r.records = 1<<32 - 1 }),
		"records has 2 elements":            answer(func(r *record) { r.records = 2 }),
		"are left after the last field":     answer(func(r *record) { r.records = 0 }),
		"there is no job state 12":          answer(func(r *record) { r.state = 12 }),
		"details that were not requested":   answer(func(r *record) { r.show = 3 }),
		"resources that were not requested": answer(func(r *record) { r.resources = 1 }),
		"select plugin 107 is not known":    answer(func(r *record) { r.plugin = 107 }),
		"flag of the topology is 1":         answer(func(r *record) { r.topology = 1 }),
	} {
		if jobs, err := DecodeJobInfo(m); err == nil || !strings.Contains(err.Error(), want) || jobs != nil {
			t.Errorf("got %v, %v; want %q", jobs, err, want)
		}
	}
	body := jobRecord(nil)
	for n := range body {
		if jobs, err := DecodeJobInfo(&Message{Type: ResponseJobInfo, Version: V2205, Body: body[:n]}); err == nil {
			t.Fatalf("the first %d of %d bytes are taken for %+v", n, len(body), jobs)
		}
	}
}

func TestRequeued(t *testing.T) {
	for _, tt := range []struct {
		info JobInfo
		want bool
	}{
		{JobInfo{State: hpc.Pending}, false},
		{JobInfo{State: hpc.Pending, Restarts: 1}, true},
		{JobInfo{State: hpc.Pending, Restarts: 1, Flags: slurmspec.JobCompleting}, true},
		{JobInfo{State: hpc.Pending, Restarts: 1, Flags: slurmspec.JobSpecialExit}, true},
		{JobInfo{State: hpc.Failed, Flags: slurmspec.JobRequeue | slurmspec.JobCompleting}, true},
		{JobInfo{State: hpc.Failed, Restarts: 3}, false},
		{JobInfo{State: hpc.Running, Restarts: 1}, false},
		{JobInfo{State: hpc.NodeFail, Flags: slurmspec.JobCompleting}, false},
	} {
		if got := tt.info.Requeued(); got != tt.want {
			t.Errorf("%+v: %v", tt.info, got)
		}
	}
}

// minJobInfo is at most the size of a record without any text. TestDecodeJobInfo checks 22.05,
// whose records have a select plugin.
func TestLeastJobInfo(t *testing.T) {
	for _, p := range protocols {
		if p.own == nil || p.version == V2205 {
			continue
		}
		// In a record of zeros only one mark is missing: the mark of a record without resources. The loop
		// finds its place.
		body := make([]byte, 2000)
		d := &decoder{Decoder: wire.NewDecoder("", body), protocol: p}
		p.own.jobInfo(d)
		for at := range body {
			zeros := make([]byte, 2000)
			copy(zeros[at:], []byte{0xff, 0xff, 0xff, 0xfe})
			d = &decoder{Decoder: wire.NewDecoder("", zeros), protocol: p}
			p.own.jobInfo(d)
			if d.Err() == nil {
				break
			}
		}
		if size := len(body) - d.Left(); d.Err() != nil || size < p.own.minJobInfo {
			t.Errorf("%v: a record without text takes %d bytes (%v), want at least %d", p.version, size, d.Err(), p.own.minJobInfo)
		}
	}
}

// FuzzJobInfo gives random bytes to the decoders of jobs' records.
func FuzzJobInfo(f *testing.F) {
	f.Add(uint16(V2205), jobRecord(nil))
	f.Add(uint16(V2205), jobRecord(func(r *record) { r.bitmap, r.topology = 2, 0xff }))
	files, _ := filepath.Glob("testdata/captured/*/*-2004.msg")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		m, err := Decode(b[4:])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(m.Version), m.Body)
		f.Add(uint16(V2311), m.Body)
	}
	f.Fuzz(func(t *testing.T, version uint16, body []byte) {
		jobs, err := DecodeJobInfo(&Message{Type: ResponseJobInfo, Version: Version(version), Body: body})
		if err != nil && jobs != nil || len(jobs) != 0 && len(jobs)*protocolOf(Version(version)).own.minJobInfo > len(body) {
			t.Errorf("%d jobs from %d bytes with error %v", len(jobs), len(body), err)
		}
	})
}
