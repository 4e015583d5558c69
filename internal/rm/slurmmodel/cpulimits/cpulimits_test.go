package cpulimits

import (
	"fmt"
	"strings"
	"testing"

	"rmreplay/internal/slurmspec"
)

// TestRead reads the limits of partitions.
func TestRead(t *testing.T) {
	for _, test := range []struct {
		line    string
		release slurmspec.Release
		want    Limit
	}{
		{"", slurmspec.R2411, Limit{}},
		{"MaxCPUsPerNode=UNLIMITED", slurmspec.R2411, Limit{}},
		{"MaxCPUsPerNode=4 MaxCPUsPerSocket=3", slurmspec.R2411, Limit{Node: 4, Socket: 3}},
		{"MaxCPUsPerNode=4 MaxCPUsPerSocket=3", slurmspec.R2205, Limit{Node: 4}}, // unknown before 23.02
	} {
		get := func(key string) (string, bool) {
			for word := range strings.FieldsSeq(test.line) {
				if name, value, _ := strings.Cut(word, "="); name == key {
					return value, true
				}
			}
			return "", false
		}
		if l := Read(get, test.release); l != test.want || l.IsSet() != (test.want != Limit{}) {
			t.Errorf("%q of %v: %+v, want %+v", test.line, test.release, l, test.want)
		}
	}
}

// TestTotal has ten nodes with 80 CPUs.
func TestTotal(t *testing.T) {
	for want, l := range map[int]Limit{80: {Socket: 2}, 30: {Node: 3}} {
		if got := l.Total(10, 80); got != want {
			t.Errorf("%+v: %d CPUs, want %d", l, got, want)
		}
	}
	if got := (Limit{Node: 20}).Total(10, 80); got != 80 {
		t.Errorf("a limit above the CPUs of a node: %d CPUs, want 80", got)
	}
}

// TestAllow has a node with two sockets of four cores. The job of the partition may use free of them.
func TestAllow(t *testing.T) {
	for _, test := range []struct {
		limit      Limit
		job        Job
		used, free []int16
		threads    int
		want       string // the CPUs, and the free cores that are left
	}{
		{Limit{Node: 8}, Job{}, []int16{0, 0}, []int16{4, 4}, 1, "all [4 4]"},
		{Limit{Node: 5}, Job{}, []int16{0, 0}, []int16{4, 4}, 1, "5 [4 4]"},
		{Limit{Node: 5}, Job{}, []int16{2, 0}, []int16{1, 2}, 1, "all [1 2]"},
		{Limit{Node: 5}, Job{}, []int16{2, 0}, []int16{2, 2}, 1, "3 [2 2]"},
		{Limit{Node: 5}, Job{}, []int16{2, 0}, []int16{2, 2}, 2, "1 [2 2]"},
		{Limit{Node: 4}, Job{}, []int16{2, 2}, []int16{2, 2}, 1, "0 [2 2]"},
		{Limit{Node: 5}, Job{Whole: true}, []int16{0, 0}, []int16{4, 4}, 1, "0 [4 4]"},
		{Limit{Node: 8}, Job{Whole: true}, []int16{0, 0}, []int16{4, 4}, 1, "all [4 4]"},
		// One CPU is left. A job that needs more CPUs of a node or a core cannot use it.
		{Limit{Node: 5}, Job{CPUsPerTask: 1}, []int16{2, 2}, []int16{2, 2}, 1, "1 [2 2]"},
		{Limit{Node: 5}, Job{CPUsPerTask: 2}, []int16{2, 2}, []int16{2, 2}, 1, "0 [2 2]"},
		{Limit{Node: 5}, Job{TasksPerSocket: 2}, []int16{2, 2}, []int16{2, 2}, 1, "0 [2 2]"},
		{Limit{Node: 5}, Job{ThreadsPerCore: 2}, []int16{1, 1}, []int16{2, 2}, 2, "0 [2 2]"},
		{Limit{Node: 5}, Job{CPUsPerTask: 1, TasksPerCore: 1}, []int16{1, 1}, []int16{2, 2}, 2, "1 [2 2]"},
		{Limit{Node: 5}, Job{CPUsPerTask: 1, TasksPerCore: 2}, []int16{1, 1}, []int16{2, 2}, 2, "0 [2 2]"},
		{Limit{Node: 5}, Job{CPUsPerTask: 1, TasksPerCore: 1, ThreadsPerCore: 1}, []int16{1, 1}, []int16{2, 2}, 2, "1 [2 2]"},
		// A socket is closed as soon as it has reached the limit. Before that, cores in use do not count.
		{Limit{Socket: 3}, Job{}, []int16{2, 0}, []int16{2, 4}, 1, "all [2 3]"},
		{Limit{Socket: 2}, Job{}, []int16{2, 0}, []int16{2, 4}, 1, "all [0 2]"},
		{Limit{Socket: 3}, Job{}, []int16{0, 0}, []int16{4, 4}, 2, "all [1 1]"},
		{Limit{Node: 5, Socket: 3}, Job{}, []int16{1, 3}, []int16{3, 1}, 1, "1 [3 0]"},
	} {
		free := append([]int16(nil), test.free...)
		cpus := test.limit.Allow(test.job, test.used, free, test.threads)
		got := fmt.Sprint(cpus, " ", free)
		if cpus == Unlimited {
			got = fmt.Sprint("all ", free)
		}
		if got != test.want {
			t.Errorf("%+v for %+v, with %v in use and %v free: %s, want %s", test.limit, test.job, test.used, test.free, got, test.want)
		}
	}
}

// TestUsage has three partitions, of which the second has a limit, on three nodes with two sockets.
func TestUsage(t *testing.T) {
	var none *Usage
	none.Add(1, 0, []int16{1}, 1)
	if none.CopyTo(nil); NewUsage(make([]Limit, 3), 3, 2) != nil || none.Of(1, 0) != nil || none.Begun(1) {
		t.Error("without limits there is usage")
	}
	limits := []Limit{{}, {Node: 2}, {}}
	u, other := NewUsage(limits, 3, 2), NewUsage(limits, 3, 2)
	if u.Begun(1) {
		t.Error("a job has begun on an empty machine")
	}
	u.Add(0, 1, []int16{1, 1}, 1)
	u.Add(1, 1, []int16{1, 3}, 1)
	u.CopyTo(other)
	other.Add(1, 1, []int16{1, 2}, -1)
	for what, got := range map[string]string{
		"the limited partition: [1 3]":      fmt.Sprint("the limited partition: ", u.Of(1, 1)),
		"after a job of the copy: [0 1]":    fmt.Sprint("after a job of the copy: ", other.Of(1, 1)),
		"another node: [0 0]":               fmt.Sprint("another node: ", u.Of(1, 2)),
		"a partition without limits: []":    fmt.Sprint("a partition without limits: ", u.Of(0, 1)),
		"a job has begun in the copy: true": fmt.Sprint("a job has begun in the copy: ", other.Begun(1)),
	} {
		if got != what {
			t.Errorf("%s, want %s", got, what)
		}
	}
}
