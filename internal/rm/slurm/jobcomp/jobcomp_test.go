package jobcomp

import (
	"bytes"
	"strings"
	"testing"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

const sampleRecord = "JobId=7 UserId=ann(21001) GroupId=staff(21000) Name=a = b JobState=COMPLETED Partition=batch TimeLimit=60 " +
	"StartTime=2024-01-01T00:00:11 EndTime=2024-01-01T00:01:11 NodeList=c[1-2] NodeCnt=2 ProcCnt=8 WorkDir=/ ReservationName= " +
	"Tres=cpu=8 Account=physics QOS=normal WcKey= Cluster=tiny SubmitTime=2024-01-01T00:00:10 EligibleTime=2024-01-01T00:00:10 " +
	"ArrayJobId=5 ArrayTaskId=3 DerivedExitCode=0:0 ExitCode=3:9 \n"

func TestParseCompletion(t *testing.T) {
	c, err := parse([]byte(sampleRecord))
	if err != nil {
		t.Fatal(err)
	}
	o := c.Outcome
	if c.Job != 7 || c.ArrayJob != 5 || c.Task != 3 || c.Truncated || o.State != hpc.Completed || o.Name != "a = b" ||
		slurmspec.FormatTime(o.Submit) != "2024-01-01T00:00:10" || slurmspec.FormatTime(o.Start) != "2024-01-01T00:00:11" || slurmspec.FormatTime(o.End) != "2024-01-01T00:01:11" || o.Nodes != "c[1-2]" || o.Processors != 8 ||
		o.TimeLimit != 3600 || o.ExitCode != 3 || o.Signal != 9 || o.User != "ann" || o.Account != "physics" {
		t.Errorf("got %+v", c)
	}
	cut, err := parse([]byte(sampleRecord[:250]))
	if err != nil || !cut.Truncated || cut.Outcome.State != hpc.Completed {
		t.Errorf("a truncated record: %+v, %v", cut, err)
	}
	for _, bad := range []string{"", "\n", "JobState=x\n", "JobId=x UserId=\n"} {
		if _, err := parse([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// next returns whole records, however the reads split them.
func TestNextCompletion(t *testing.T) {
	long := strings.Repeat("x", bufferSize-1)
	var rest []byte
	var got []string
	for _, b := range []byte(sampleRecord + long + sampleRecord) {
		var record []byte
		if record, rest = next(append(rest, b), bufferSize-1); record != nil {
			got = append(got, string(record))
		}
	}
	if len(got) != 3 || got[0] != sampleRecord || got[1] != long || got[2] != sampleRecord || len(rest) > 0 {
		t.Errorf("got %d records, %d bytes left", len(got), len(rest))
	}
}

func FuzzParseCompletion(f *testing.F) {
	f.Add([]byte(sampleRecord))
	f.Add([]byte(sampleRecord[:300]))
	f.Fuzz(func(t *testing.T, data []byte) {
		for {
			record, rest := next(data, bufferSize-1)
			if record == nil {
				return
			}
			if len(record) == 0 || len(record)+len(rest) != len(data) {
				t.Fatalf("%d bytes became %d and %d", len(data), len(record), len(rest))
			}
			c, err := parse(record)
			if err == nil && c.Truncated == bytes.HasSuffix(record, []byte("\n")) {
				t.Fatalf("%q: truncated %t", record, c.Truncated)
			}
			data = rest
		}
	})
}

// A stream returns each record once, as soon as the record is complete.
func TestStream(t *testing.T) {
	s := NewStream(slurmspec.R2205)
	var jobs []uint32
	for _, b := range []byte(strings.Repeat(sampleRecord, 3)) {
		if err := s.Take([]byte{b}, func(r Record) { jobs = append(jobs, r.Job) }); err != nil {
			t.Fatal(err)
		}
	}
	if len(jobs) != 3 || len(s.rest) > 0 {
		t.Errorf("got the jobs %v, %d bytes are left", jobs, len(s.rest))
	}
	if err := s.Take([]byte("JobState=x\n"), func(Record) { t.Error("a record without a job") }); err == nil {
		t.Error("no error for a record without a job")
	}
}

// The plugins before 24.05 cut a long record off. Later plugins write the whole record.
func TestLongRecord(t *testing.T) {
	long := strings.Replace(sampleRecord, " WorkDir=", " WorkDir=/"+strings.Repeat("d", 2*bufferSize), 1)
	for release, truncated := range map[slurmspec.Release]bool{slurmspec.R2205: true, slurmspec.R2311: true, slurmspec.R2405: false, slurmspec.R2605: false} {
		text := long
		if truncated {
			text = long[:bufferSize-1]
		}
		var got []Record
		if err := NewStream(release).Take([]byte(text+sampleRecord), func(r Record) { got = append(got, r) }); err != nil {
			t.Fatalf("%v: %v", release, err)
		}
		if len(got) != 2 || got[0].Truncated != truncated || got[1].Truncated {
			t.Errorf("%v: records %+v, want two, the first one truncated: %t", release, got, truncated)
		}
	}
}
