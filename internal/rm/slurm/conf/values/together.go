package values

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/slurmspec"
)

// Refusal is a value that keeps slurmctld from starting because of the value of another key.
type Refusal struct {
	// Key is the key whose statement is reported, in the spelling of the manual page.
	Key string
	Err error
}

// Settings returns the value of a key and whether the configuration sets it.
type Settings func(key string) (value string, set bool)

func (get Settings) lower(key string) string {
	value, _ := get(key)
	return strings.ToLower(value)
}

// Together returns the values that slurmctld of the release refuses because they contradict each
// other. Each value must have passed [Check].
func Together(get Settings, release slurmspec.Release) []Refusal {
	var found []Refusal
	for _, rule := range []struct {
		key string
		of  func(Settings) error
	}{
		{"FirstJobId", jobIDs}, {"GresTypes", sharedResources}, {"MaxNodeCount", nodeCount}, {"MCSParameters", mcsParameters},
		{"MCSPlugin", mcsPlugin}, {"PreemptMode", preemption}, {"PriorityDecayHalfLife", decay},
		{"PriorityWeightTRES", priorityWeights}, {"SelectTypeParameters", selection},
	} {
		err := rule.of(get)
		if value, _ := get(rule.key); err != nil && value != "" {
			found = append(found, Refusal{rule.key, err})
		} else if err != nil { // preemption reports only a PreemptType without PreemptMode
			found = append(found, Refusal{"PreemptType", err})
		}
	}
	if release.Since(slurmspec.R2405) && get.lower("SelectType") == "select/linear" &&
		get.lower("TopologyPlugin") == "topology/tree" {
		found = append(found, Refusal{"TopologyPlugin", errors.New("slurmctld refuses topology/tree with " +
			"SelectType=select/linear since 24.05 (want SelectType=select/cons_tres, or no TopologyPlugin)")})
	}
	return found
}

func (get Settings) number(key string, otherwise uint64) uint64 {
	if value, set := get(key); set {
		if n, err := syntax.ParseUint(value, 1<<32-1); err == nil {
			return n
		}
	}
	return otherwise
}

// largestJobID is MAX_JOB_ID and the default of MaxJobId (slurm.h, read_config.h).
const largestJobID = 0x03FF0000

func jobIDs(get Settings) error {
	first, last := get.number("FirstJobId", 1), min(get.number("MaxJobId", largestJobID), largestJobID)
	if first > last {
		return fmt.Errorf("above MaxJobId=%d (want a number below it)", last)
	}
	return nil
}

// sharedResources checks the generic resources that share GPUs (gres_init in src/interfaces/gres.c).
func sharedResources(get Settings) error {
	types := words(get.lower("GresTypes"))
	for _, shared := range []string{"mps", "shard"} {
		switch {
		case !slices.Contains(types, shared):
		case !slices.Contains(types, "gpu"):
			return fmt.Errorf("slurmctld refuses %s, which shares GPUs, without gpu (want gpu,%s)", shared, shared)
		case get.lower("SelectType") != "select/cons_tres":
			return fmt.Errorf("slurmctld refuses %s without SelectType=select/cons_tres", shared)
		}
	}
	return nil
}

func nodeCount(get Settings) error {
	if _, set := get("MaxNodeCount"); set && get.number("MaxNodeCount", 0) > 0 &&
		get.lower("SelectType") != "select/cons_tres" {
		return errors.New("slurmctld refuses this value without SelectType=select/cons_tres")
	}
	return nil
}

func mcsParameters(get Settings) error {
	_, parameters := get("MCSParameters")
	if _, plugin := get("MCSPlugin"); parameters && !plugin {
		return errors.New("slurmctld refuses this value without MCSPlugin " +
			"(want MCSPlugin=mcs/group, mcs/user or mcs/account)")
	}
	return nil
}

func mcsPlugin(get Settings) error {
	if _, parameters := get("MCSParameters"); !parameters && get.lower("MCSPlugin") == "mcs/group" {
		return errors.New("slurmctld refuses this value without MCSParameters")
	}
	return nil
}

// decay refuses a configuration in which usage neither decays nor is reset: usage would overflow.
func decay(get Settings) error {
	value, set := get("PriorityDecayHalfLife")
	if _, reset := get("PriorityUsageResetPeriod"); set && !reset && strings.Trim(value, "0:-") == "" {
		return errors.New("without decay of usage, slurmctld requires PriorityUsageResetPeriod")
	}
	return nil
}

// priorityWeights checks the weights that the priority plugin reads. priority/basic reads no weights.
func priorityWeights(get Settings) error {
	value, _ := get("PriorityWeightTRES")
	if get.lower("PriorityType") == "priority/basic" {
		return nil
	}
	return Weights(value)
}
