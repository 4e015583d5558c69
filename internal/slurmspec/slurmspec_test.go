package slurmspec

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
)

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]Release{
		"22.05":                    R2205,
		"22.05.8":                  {22, 5, 8},
		"slurm 22.05.8":            {22, 5, 8},
		"slurm-wlm 22.05.8":        {22, 5, 8},
		"slurm-wlm 22.05.8-4+b1\n": {22, 5, 8},
		"24.11.0-0rc1":             {24, 11, 0},
		"26.05.5":                  {26, 5, 5},
	} {
		if got, err := ParseRelease(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "22", "22.5", "2205", "22.05.", "slurm", "x22.05", "22.05.8.1", "122.05"} {
		if got, err := ParseRelease(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// A printed release is read as the same release, and Compare and Since order releases consistently.
func TestReleaseProperties(t *testing.T) {
	release := rapid.Custom(func(t *rapid.T) Release {
		return Release{rapid.IntRange(1, 99).Draw(t, "major"), rapid.IntRange(0, 99).Draw(t, "minor"), rapid.IntRange(-1, 9999).Draw(t, "patch")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := release.Draw(t, "a"), release.Draw(t, "b")
		if got, err := ParseRelease(a.String()); err != nil || got != a {
			t.Fatalf("%v is read as %v, %v", a, got, err)
		}
		if a.Compare(b) != -b.Compare(a) || (a.Compare(b) == 0) != (a == b) {
			t.Fatalf("%v and %v compare as %d and %d", a, b, a.Compare(b), b.Compare(a))
		}
		if !a.Since(a.Series()) || !a.Since(b) && !b.Since(a) {
			t.Fatalf("%v and %v: neither is since the other", a, b)
		}
	})
}

// The releases are in the order of age, and each series has the next number of the protocol. The
// numbers of 22.05 and 25.05 come from Slurm's source.
func TestReleases(t *testing.T) {
	for i, k := range Releases {
		if i > 0 && (k.Release.Compare(Releases[i-1].Release) <= 0 || k.Number != Releases[i-1].Number+1) {
			t.Errorf("%v with protocol %d stands behind %v with %d", k.Release, k.Number, Releases[i-1].Release, Releases[i-1].Number)
		}
		if back, ok := ReleaseOfProtocol(k.Release.Protocol()); !ok || back != k.Release {
			t.Errorf("protocol %d is that of %v, want %v", k.Number, back, k.Release)
		}
		if k.Driver != 0 && (k.Oldest == 0 || k.Driver < k.Oldest || k.Driver > k.Number) {
			t.Errorf("%v accepts protocols from %d to %d and is spoken to in %d", k.Release, k.Oldest, k.Number, k.Driver)
		}
	}
	r := Release{22, 5, 8}
	if r.Protocol() != 38<<8 || r.OldestProtocol() != 36<<8 || !r.Supported() {
		t.Errorf("22.05.8: protocol %#x, oldest %#x, supported %v", r.Protocol(), r.OldestProtocol(), r.Supported())
	}
	if r := (Release{25, 5, 1}); r.Protocol() != 43<<8 || r.DriverProtocol() != 42<<8 {
		t.Errorf("25.05.1: protocol %#x, the driver's %#x", r.Protocol(), r.DriverProtocol())
	}
	err := CheckSupported(Release{20, 11, 4})
	var unsupported *UnsupportedError
	const want = "want 22.05, 23.02, 23.11, 24.05, 24.11, 25.05, 25.11 or 26.05"
	if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "20.11.4") || !strings.Contains(err.Error(), want) {
		t.Errorf("20.11.4: %v", err)
	}
	if err := CheckSupported(r); err != nil {
		t.Error(err)
	}
}

func TestJobStates(t *testing.T) {
	for n, want := range map[uint32]hpc.State{0: hpc.Pending, 1: hpc.Running, 3: hpc.Completed, 7: hpc.NodeFail, 11: hpc.OutOfMemory, 3 | JobCompleting: hpc.Completed} {
		state, ok := BaseJobState(n)
		if !ok || state != want {
			t.Errorf("%#x: %v, %v, want %v", n, state, ok, want)
		}
		if back, ok := JobStateNumber(want); !ok || back != n&JobStateBase {
			t.Errorf("%v: %d, %v, want %d", want, back, ok, n&JobStateBase)
		}
	}
	if state, ok := BaseJobState(12); ok {
		t.Errorf("12 is the state %v", state)
	}
	for n, want := range map[int64]hpc.State{3: hpc.Completed, int64(JobRequeue) | 5: hpc.Requeued, int64(JobResizing): Resizing, 77: "STATE_77"} {
		if got := RecordedJobState(n); got != want {
			t.Errorf("on record %d: %v, want %v", n, got, want)
		}
	}
	for text, want := range map[string]hpc.State{"COMPLETED": hpc.Completed, "CANCELLED by 1001": hpc.Cancelled, "CANCELLED+": hpc.Cancelled,
		"CD": hpc.Completed, "F": hpc.Failed, "CA": hpc.Cancelled, "TO": hpc.TimedOut, "NF": hpc.NodeFail,
		"OOM": hpc.OutOfMemory, "PR": hpc.Preempted, "BF": hpc.BootFail, "DL": hpc.Deadlined, "PD": hpc.Pending,
		"R": hpc.Running, "S": hpc.Suspended, "RQ": hpc.Requeued, "RS": Resizing} {
		if got := ParseJobState(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestOutages(t *testing.T) {
	for text, want := range map[string]string{
		"IDLE": "", "ALLOCATED+CLOUD": "", "DOWN*": "down", "DOWN*+NOT_RESPONDING": "down", "IDLE+DRAIN": "drain", "MIXED+DRAIN+REBOOT": "drain", "FAIL": "drain",
	} {
		if got := OutageOfState(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for n, want := range map[int64]string{1: "down", 2 | int64(NodeDrain): "drain", 1 | int64(NodeDrain): "drain", 1 | int64(NodeFailing): "drain"} {
		if got := OutageOfNumber(n); got != want {
			t.Errorf("%#x: %q, want %q", n, got, want)
		}
	}
}

// Each flag has its own bit. slurmdbd's record of a flag is read back as the name that sets the
// flag.
func TestReservationFlagBits(t *testing.T) {
	taken := map[uint64]string{}
	for _, f := range ReservationFlags {
		for _, bit := range []uint64{f.On, f.Off} {
			if other := taken[bit]; bit != 0 && other != "" {
				t.Errorf("%s and %s have the bit %#x", f.Name, other, bit)
			}
			taken[bit] = f.Name
		}
		flag, err := ParseReservationFlag(strings.ToLower(f.Name))
		if err != nil || flag.Bit() != f.On {
			t.Errorf("%s: bit %#x, %v, want %#x", f.Name, flag.Bit(), err, f.On)
		}
		recorded := slices.Contains(RecordedFlags(f.On), f.Name)
		if want := f.Name != FlagTimeFloat && f.Name != FlagPurgeComp; recorded != want {
			t.Errorf("%s is on record: %v, want %v", f.Name, recorded, want)
		}
	}
	if off, err := ParseReservationFlag("-FLEX"); err != nil || off.Bit() != 1<<26 {
		t.Errorf("-FLEX: bit %#x, %v", off.Bit(), err)
	}
}

func TestExitCode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := ExitCode{rapid.IntRange(0, 255).Draw(t, "status"), rapid.IntRange(0, 127).Draw(t, "signal")}
		if got := ExitCodeOfWait(c.Wait()); got != c {
			t.Fatalf("%v comes back from wait(2) as %v", c, got)
		}
		if got, err := ParseExitCode(c.String()); err != nil || got != c {
			t.Fatalf("%v is read as %v, %v", c, got, err)
		}
	})
	for _, c := range []struct {
		code ExitCode
		want uint32
	}{{ExitCode{}, 0}, {ExitCode{1, 0}, 256}, {ExitCode{255, 0}, 65280}, {ExitCode{0, 9}, 9}, {ExitCode{0, 15}, 15}} {
		if got := c.code.Wait(); got != c.want {
			t.Errorf("%v: got %d, want %d", c.code, got, c.want)
		}
	}
	for _, text := range []string{"", "x", "1:x", "256:0", "0:128", "-1:0", "1:2:3"} {
		if got, err := ParseExitCode(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestJobID(t *testing.T) {
	for text, want := range map[string]JobID{
		"17": {17, -1, "", -1}, "17_3": {17, 3, "", -1}, "17_0": {17, 0, "", -1}, "17_[4-9%2]": {17, -1, "4-9%2", -1}, "17+1": {17, -1, "", 1},
	} {
		got, err := ParseJobID(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
		if back := got.String(); back != text {
			t.Errorf("%s is written as %s", text, back)
		}
	}
	if got, err := ParseJobID("17+"); err != nil || got.Component != 0 {
		t.Errorf("17+: got %+v, %v, want component 0", got, err)
	}
	for text, want := range map[string]string{"x": "not a job's number", "": "not a job's number", "17_x": `"17_x": "x" is not a task's number`, "17.batch": "not a job's number"} {
		if got, err := ParseJobID(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v, want %q", text, got, err, want)
		}
	}
}

func TestTRES(t *testing.T) {
	got := map[string]string{}
	for name, amount := range TRES("cpu=4,mem=8G,,gres/gpu:a100=2") {
		got[name] = amount
	}
	if len(got) != 3 || got["cpu"] != "4" || got["mem"] != "8G" || got["gres/gpu:a100"] != "2" {
		t.Errorf("got %v", got)
	}
	if err := CheckTRES("cpu=4,mem"); err == nil {
		t.Error("cpu=4,mem is a list of TRES")
	}
	var l TRESList
	l.Add("cpu", 4, "")
	l.Add("mem", 8192, "M")
	if l.String() != "cpu=4,mem=8192M" {
		t.Errorf("wrote %s", l.String())
	}
	for text, want := range map[string]int64{"500": 500, "500M": 500, "2.5G": 2560, "1K": 1, "0": 0, "1T": 1 << 20} {
		if got, err := ParseMemory(text); err != nil || got != want {
			t.Errorf("%s: %d MiB, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1e9", "x", "9999999999999P"} {
		if got, err := ParseMemory(text); err == nil {
			t.Errorf("%q is read as %d MiB", text, got)
		}
	}
}

// A written span is read as the same number of seconds, and Minutes rounds it up.
func TestSpans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(1, MaxSeconds-1).Draw(t, "seconds")) * time.Second
		if got, err := ParseTimeSpec(FormatSpan(d)); err != nil || got != d {
			t.Fatalf("%v is written as %s and read as %v, %v", d, FormatSpan(d), got, err)
		}
		m, err := Minutes(d)
		if span := time.Duration(m) * time.Minute; err != nil || span < d || span-d >= time.Minute {
			t.Fatalf("%v are %d minutes, %v", d, m, err)
		}
	})
	if got, err := ParseTimeLimit(FormatSpan(hpc.Unlimited)); err != nil || got != hpc.Unlimited {
		t.Errorf("no limit is read as %v, %v", got, err)
	}
	if m, _ := Minutes(0); m != NoVal {
		t.Errorf("no limit given is %d minutes", m)
	}
	if m, _ := Minutes(hpc.Unlimited); m != Infinite {
		t.Errorf("no limit is %d minutes", m)
	}
	if _, err := Minutes(-time.Second); err == nil {
		t.Error("-1 s is a number of minutes")
	}
	if got := SecondsUp(hpc.Unix(5) + 1); got != 6 {
		t.Errorf("a nanosecond after 5 s is %d", got)
	}
	for text, want := range map[string]string{"Unknown": "", "None assigned": "", "n1": "n1", "": ""} {
		if got := Given(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
