package partitions

import (
	"fmt"
	"strings"
	"testing"

	"rmreplay/internal/rm/slurmmodel/selection"
	"rmreplay/internal/slurmspec"
)

// attributes returns the attributes of a partition's line, such as "State=DOWN MaxNodes=2".
func attributes(text string) func(string) (string, bool) {
	return func(key string) (string, bool) {
		for word := range strings.FieldsSeq(text) {
			if name, value, _ := strings.Cut(word, "="); name == key {
				return value, true
			}
		}
		return "", false
	}
}

// TestRefuse has partitions of two nodes with four CPUs, and jobs that they refuse for different reasons.
func TestRefuse(t *testing.T) {
	for _, test := range []struct {
		line string
		ask  Ask
		want string
	}{
		{"", Ask{CPUs: 4, MinNodes: 2}, "None"},
		{"State=UP", Ask{CPUs: 5, MinNodes: 2}, "PartitionConfig"},
		{"State=DOWN", Ask{CPUs: 1, MinNodes: 1}, "PartitionDown"},
		{"State=Down", Ask{CPUs: 5, MinNodes: 3, Minutes: 100}, "PartitionDown"},
		{"State=DRAIN", Ask{CPUs: 1, MinNodes: 1}, "None"},
		{"State=INACTIVE", Ask{CPUs: 1, MinNodes: 1}, "PartitionInactive"},
		{"MaxNodes=1", Ask{CPUs: 1, MinNodes: 1, MaxNodes: 2}, "PartitionNodeLimit"},
		{"", Ask{CPUs: 1, MinNodes: 1, Minutes: 61}, "PartitionTimeLimit"},
		{"", Ask{CPUs: 1, MinNodes: 1, Minutes: 61, AnyTime: true}, "None"},
	} {
		p := read("p", true, attributes(test.line))
		p.Count, p.CPUs, p.MaxMinutes = 2, 4, 60
		why := p.Refuse(&test.ask)
		if why.String() != test.want {
			t.Errorf("%q refuses %+v: %s, want %s", test.line, test.ask, why, test.want)
		}
		keeps := strings.HasPrefix(test.want, "Partition") && test.want != "PartitionConfig"
		if unfit := p.Unfit(&test.ask); KeepsReason(why) != keeps || p.Stopped != slurmspec.NoReason && !unfit {
			t.Errorf("%q: reason %s is kept: %v, unfit: %v", test.line, why, KeepsReason(why), unfit)
		}
	}
}

// TestOpen has partitions that accept no jobs, with alternates, and one that forms a circle with itself.
func TestOpen(t *testing.T) {
	var all []*Partition
	for line := range strings.SplitSeq("a State=UP PriorityTier=1;b State=DOWN PriorityTier=2;c State=DRAIN Alternate=d;"+
		"d State=INACTIVE Alternate=b;e State=DRAIN;f State=DRAIN Alternate=f;g State=DRAIN Alternate=none", ";") {
		p := read(line[:1], line[0] == 'a', attributes(line))
		all = append(all, &p)
	}
	for names, want := range map[string]string{
		"": "a", "a": "a", "a,b": "b a", "c": "b", "a,c": "b a", "e,a": "a", "a,e,f,g": "a",
		"e": "partition e accepts no jobs", "f,g": "partition f accepts no jobs", "h": "invalid partition name specified: h",
	} {
		list, err := Named(all, names)
		if err == nil {
			list, err = Open(all, list)
		}
		var got []string
		for _, p := range list {
			got = append(got, p.Name)
		}
		if text := strings.Join(got, " "); text != want && fmt.Sprint(err) != want {
			t.Errorf("a job that names %q: partitions %q, %v, want %s", names, text, err, want)
		}
	}
	if _, err := Named(all[1:], ""); err == nil {
		t.Error("there is no default partition, and no error")
	}
}

// TestFitMemory has jobs with 2 tasks of 2 CPUs each, and limits of their memory. The nodes have 8 CPUs and 8,000 MiB.
func TestFitMemory(t *testing.T) {
	for _, test := range []struct {
		line, want string
		change     func(*selection.Request)
	}{
		{"", "fits 1000 2 4 2", func(*selection.Request) {}},
		{"MaxMemPerCPU=1000", "fits 1000 2 4 2", func(*selection.Request) {}},
		{"MaxMemPerCPU=999", "fits 500 4 8 4", func(*selection.Request) {}},
		{"MaxMemPerCPU=400", "fits 334 6 12 6", func(*selection.Request) {}},
		{"MaxMemPerNode=2000", "fits 1000 2 4 2", func(*selection.Request) {}},
		{"MaxMemPerNode=1999", "MaxMemPerLimit", func(*selection.Request) {}},
		{"MaxMemPerNode=3999", "MaxMemPerLimit", func(r *selection.Request) { r.TasksPerNode = 2 }},
		{"MaxMemPerNode=4000", "fits 4000 2 4 2", func(r *selection.Request) { r.Memory, r.MemoryPerCPU = 4000, false }},
		{"MaxMemPerNode=7999", "MaxMemPerLimit", func(r *selection.Request) { r.Memory, r.MemoryPerCPU = 0, false }},
		{"MaxMemPerCPU=1500", "fits 4000 2 4 3", func(r *selection.Request) { r.Memory, r.MemoryPerCPU = 4000, false }},
		{"MaxMemPerCPU=1000", "fits 8000 2 4 8", func(r *selection.Request) {
			r.Memory, r.MemoryPerCPU, r.Exclusive = 8000, false, true
		}},
	} {
		m := &selection.Machine{Nodes: []selection.Node{{CPUs: 8, Memory: 8000}}}
		nodes := selection.NewBits(1)
		nodes.Set(0)
		p := read("p", true, attributes(test.line))
		p.MaxMemory = ReadLimit(m, nodes, attributes(test.line))
		asked := selection.Request{Tasks: 2, CPUsPerTask: 2, MinCPUs: 4, MinCPUsPerNode: 2, Memory: 1000, MemoryPerCPU: true}
		test.change(&asked)
		r, why := p.FitMemory(&asked, true, asked.Exclusive, 1, 0)
		got := why.String()
		if why == slurmspec.NoReason {
			got = fmt.Sprint("fits ", r.Memory, " ", r.CPUsPerTask, " ", r.MinCPUs, " ", r.MinCPUsPerNode)
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.line, got, test.want)
		}
	}
}

// TestSpread has a job with memory for each node above MaxMemPerCPU: it needs five CPUs on each of its two nodes.
func TestSpread(t *testing.T) {
	for _, test := range []struct {
		since2411 bool
		asked     selection.Request
		want      string // CPUs of a task, of a node, of the job
	}{
		{false, selection.Request{Tasks: 4}, "1 5 4"},
		{true, selection.Request{Tasks: 4}, "3 6 6"},
		{true, selection.Request{}, "5 5 4"},
		{true, selection.Request{Tasks: 4, TasksPerNode: 2}, "3 6 5"},
		{false, selection.Request{Tasks: 4, TasksPerNode: 2}, "3 5 4"},
	} {
		r := test.asked
		r.CPUsPerTask, r.MinCPUs, r.MinCPUsPerNode, r.Memory = 1, 4, 1, 5000
		l := Limit{Most: 1000, PerCPU: true, since2411: test.since2411}
		fits := l.Fit(&r, 2, 2)
		if got := fmt.Sprint(r.CPUsPerTask, r.MinCPUsPerNode, r.MinCPUs); !fits || got != test.want {
			t.Errorf("since 24.11 %v, %+v: %s, want %s", test.since2411, test.asked, got, test.want)
		}
	}
}
