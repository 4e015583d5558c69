package priority

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// conf returns the values of "Key=value" lines.
func conf(lines string) func(string) (string, bool) {
	return func(key string) (string, bool) {
		for line := range strings.Lines(lines) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); strings.EqualFold(name, key) {
				return value, true
			}
		}
		return "", false
	}
}

func TestSettings(t *testing.T) {
	table := tres.New("")
	for _, c := range []struct {
		lines       string
		accounting  bool
		multifactor bool
		age, maxAge float64
	}{
		{"", true, false, 0, 604800},
		{"PriorityType=priority/basic\nPriorityMaxAge=0-04", true, false, 0, 4 * 3600},
		{"PriorityType=priority/multifactor\nPriorityWeightAge=7\nPriorityMaxAge=UNLIMITED", true, true, 7,
			1<<32 - 60},
		{"PriorityType=priority/multifactor\nPriorityWeightAge=7\nPriorityWeightFairshare=9", false, true, 0, 604800},
	} {
		s, err := ReadSettings(conf(c.lines), table, c.accounting)
		if err != nil || s.Multifactor != c.multifactor || s.Age != c.age || float64(s.MaxAge) != c.maxAge ||
			s.FairShare != 0 {
			t.Errorf("%q: %+v, %v", c.lines, s, err)
		}
	}
	for lines, want := range map[string]string{
		"PriorityWeightQOS=-1":   "reading slurm.conf: PriorityWeightQOS=-1: not a weight (want a whole number)",
		"PriorityMaxAge=x":       "reading slurm.conf: PriorityMaxAge=x: not a time limit (want minutes, HH:MM:SS or D-HH:MM:SS)",
		"PriorityWeightTRES=x=1": `reading slurm.conf: PriorityWeightTRES: TRES weights "x=1": "x" is not tracked (want cpu, mem, node or one of AccountingStorageTRES)`,
	} {
		if _, err := ReadSettings(conf(lines), table, true); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", lines, err, want)
		}
	}
}

// TestSum checks that priorities are whole numbers from 1 to 2^32-1.
func TestSum(t *testing.T) {
	for _, c := range []struct {
		parts Parts
		want  uint32
	}{
		{Parts{}, 1}, {Parts{Nice: 5, Age: 3}, 1}, {Parts{Age: 0.6, QOS: 0.6}, 1}, {Parts{Age: 1.6, QOS: 0.6,
			TRES: []float64{0.5, 0.5}}, 3},
		{Parts{FairShare: 99.999999}, 99}, {Parts{Age: 5e9}, Max}, {Parts{Age: Max}, Max}, {Parts{Nice: -10, Site: 20}, 30},
	} {
		if got := c.parts.Sum(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.parts, got, c.want)
		}
	}
	s := Settings{IncreaseOnly: true}
	if s.Update(7, 5) != 7 || s.Update(5, 7) != 7 || (&Settings{}).Update(7, 5) != 5 {
		t.Error("INCR_ONLY")
	}
}

// TestSize checks the job size factor, also for jobs of the cluster's size and above.
func TestSize(t *testing.T) {
	c := Cluster{Nodes: 10, CPUs: 100}
	for name, tt := range map[string]struct {
		settings Settings
		job      Job
		want     float64
	}{
		"large":        {Settings{}, Job{Nodes: 5, CPUs: 20}, (0.5 + 0.2) / 2},
		"without CPUs": {Settings{}, Job{Nodes: 5}, 0.5},
		"too large":    {Settings{}, Job{Nodes: 50, CPUs: 500}, 1},
		"small":        {Settings{FavorSmall: true}, Job{Nodes: 5, CPUs: 20}, (0.5 + 0.8) / 2},
		// slurmctld subtracts unsigned numbers.
		"small, too large":   {Settings{FavorSmall: true}, Job{Nodes: 11}, 1},
		"relative":           {Settings{RelativeToTime: true}, Job{Nodes: 2, CPUs: 40, Minutes: 5}, 40. / 5 / 100},
		"relative, by nodes": {Settings{RelativeToTime: true}, Job{Nodes: 5, CPUs: 40, Minutes: 5}, 50. / 5 / 100},
		"relative, small": {Settings{RelativeToTime: true, FavorSmall: true}, Job{Nodes: 2, CPUs: 40, Minutes: 5},
			1 - 40./5/100},
		"relative, no limit": {Settings{RelativeToTime: true}, Job{Nodes: 2, CPUs: 40, Minutes: slurmspec.NoVal,
			Partitions: []*Partition{{MaxMinutes: 10}}}, 0.04},
		"relative, unlimited": {Settings{RelativeToTime: true}, Job{Nodes: 2, CPUs: 100, Minutes: slurmspec.Infinite},
			1 / float64(slurmspec.Infinite)},
	} {
		if got := tt.settings.size(&tt.job, c); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// TestBasic checks that the first job with priority/basic has the priority 4294901759, as scontrol
// show job shows it, and that nice values do not lower the priorities of later jobs.
func TestBasic(t *testing.T) {
	var b Basic
	var got []uint32
	for _, nice := range []int64{0, 0, 100, 0, -10, 0} {
		got = append(got, b.Next(nice))
	}
	if want := []uint32{4294901759, 4294901758, 4294901657, 4294901756, 4294901765, 4294901754}; !slices.Equal(got, want) {
		t.Errorf("priorities %v, want %v", got, want)
	}
}

func TestNormalizePartitions(t *testing.T) {
	p := []*Partition{{JobFactor: 10}, {JobFactor: 40}, {}}
	NormalizePartitions(p)
	if p[0].Norm != 0.25 || p[1].Norm != 1 || p[2].Norm != 0 {
		t.Errorf("%+v", p)
	}
	zero := []*Partition{{}}
	if NormalizePartitions(zero); zero[0].Norm != 0 {
		t.Error("a norm without a factor")
	}
}

// TestRank checks the order of a queue: reservation, tier, priority, submission, number and task, place.
func TestRank(t *testing.T) {
	order := []Rank{
		{Urgency: Urgency(true, 1, 1), Submit: 9},
		{Urgency: Urgency(false, 65533, 1)},
		{Urgency: Urgency(false, 2, 1)},
		{Urgency: Urgency(false, 1, math.MaxUint32)},
		{Urgency: Urgency(false, 1, 5), Submit: 1, Number: 7<<32 | 3},
		{Urgency: Urgency(false, 1, 5), Submit: 2, Number: 6<<32 | 2},
		{Urgency: Urgency(false, 1, 5), Submit: 2, Number: 6<<32 | math.MaxUint32, Place: 1},
		{Urgency: Urgency(false, 1, 5), Submit: 2, Number: 6<<32 | math.MaxUint32, Place: 2},
		{Urgency: Urgency(false, 0, 9)},
		{Urgency: Urgency(false, -1, 9)},
	}
	for i, a := range order {
		for k, b := range order {
			if got := a.Compare(b); got != cmp.Compare(i, k) {
				t.Errorf("%d and %d: %d", i, k, got)
			}
		}
	}
}
