package hpc

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseFileSystem(t *testing.T) {
	for text, want := range map[string]FileSystem{
		"lustre=200MiB/s":                          {Name: "lustre", Bandwidth: 200 << 20},
		"scratch=1.5GB/s,limit=1GB/s,licenses=100": {"scratch", 1_500_000_000, 1_000_000_000, 100},
		"l=1024B/s":                                {Name: "l", Bandwidth: 1024},
	} {
		if got, err := ParseFileSystem(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "lustre", "=5B/s", "a b=5B/s", "l=", "l=0B/s", "l=-5MiB/s", "l=1e300", "l=5B/s,limit=x", "l=5B/s,licenses=0", "l=5B/s,size=3", "l=.", "l=NaN"} {
		if got, err := ParseFileSystem(text); err == nil {
			t.Errorf("%q: %+v, want an error", text, got)
		}
	}
}

func TestLicensesOf(t *testing.T) {
	f := FileSystem{Name: "l", Bandwidth: 400, Limit: 200}
	for rate, want := range map[float64]int64{0: 0, 1: 50, 100: 5000, 100.001: 5001, 400: 20000, math.Inf(1): math.MaxInt32} {
		if got := f.LicensesOf(rate); got != want {
			t.Errorf("%v: %d licenses, want %d", rate, got, want)
		}
	}
}

func TestSpreadPhases(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		what   string
		phases []Phase
		run    time.Duration
		want   []Phase
	}{
		{"a volume over the whole run", []Phase{{FileSystem: "l", Bytes: 100}}, 10 * s, []Phase{{10 * s, "l", 0, 10}}},
		{"rounded up", []Phase{{FileSystem: "l", Bytes: 101}}, 10 * s, []Phase{{10 * s, "l", 0, 11}}},
		{"the rest computes", []Phase{{2 * s, "l", 0, 7}}, 10 * s, []Phase{{2 * s, "l", 0, 7}, {Duration: 8 * s}}},
		{"the open phase has the rest", []Phase{{2 * s, "l", 0, 7}, {}, {1 * s, "l", 5, 0}}, 10 * s, []Phase{{2 * s, "l", 0, 7}, {Duration: 7 * s}, {1 * s, "l", 0, 5}}},
		{"a shorter run keeps volumes", []Phase{{8 * s, "l", 80, 0}, {8 * s, "", 0, 0}}, 8 * s, []Phase{{4 * s, "l", 0, 20}, {Duration: 4 * s}}},
		{"without end", []Phase{{FileSystem: "l", Rate: 5}}, Unlimited, []Phase{{Unlimited, "l", 0, 5}}},
	} {
		got := SpreadPhases(c.phases, c.run)
		if len(got) != len(c.want) {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
			}
		}
	}
}

func TestBadPhases(t *testing.T) {
	for _, list := range [][]Phase{
		{{Duration: -1}}, {{FileSystem: "l", Bytes: -1}}, {{FileSystem: "l", Bytes: 1, Rate: 1}}, {{Duration: 1, Rate: 1}}, {{}, {}},
	} {
		if err := CheckPhases(list); err == nil {
			t.Errorf("%+v: no error", list)
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]int64{
		"200MiB/s": 200 << 20, "80 GB/s": 80e9, "1.5kB/s": 1500, "7B/s": 7, "4G/s": 4 << 30, "200MB/s": 200e6,
	} {
		if n, err := ParseRate(text); err != nil || n != want {
			t.Errorf("%s: %d, %v", text, n, err)
		}
	}
	for text, want := range map[string]string{
		"200Mb/s": "want 200MB/s, or 25MB/s for these bits", "10 Gbit/s": "want 10GB/s, or 1.25GB/s", "8Mibps": "want 8MiB/s, or 1MiB/s",
		"200mb/s": "want 200MB/s, or 25MB/s", "40Gb": "want 40GB/s, or 5GB/s", "800b/s": "want 800B/s, or 100B/s",
		"200MB": "an amount, not a rate (want 200MB/s)", "4G": "want 4G/s", "fast": "not a rate", "": "not a rate", "0/s": "not a rate",
		"-5MB/s": "not a rate", "5XB/s": "not a rate",
		"200": "200: a bandwidth without a unit (want, for example, 200MiB/s)", "200/s": "a bandwidth without a unit",
	} {
		if n, err := ParseRate(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d, %v (want %s)", text, n, err, want)
		}
	}
	for _, text := range []string{"lustre=200Mb/s", "lustre=200MB", "lustre=200MB/s,limit=100Mb/s", "lustre=200MB/s,limit=100MB",
		"lustre=200", "lustre=200MB/s,limit=100"} {
		if f, err := ParseFileSystem(text); err == nil {
			t.Errorf("%s: %+v", text, f)
		}
	}
}
