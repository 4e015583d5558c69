package partitions

import (
	"fmt"
	"strings"
	"testing"

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
		p := Read("p", true, attributes(test.line))
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
		p := Read(line[:1], line[0] == 'a', attributes(line))
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
