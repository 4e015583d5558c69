package partitions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Holder is a type that embeds a [Partition].
type Holder interface {
	comparable
	settings() *Partition
}

func (p *Partition) settings() *Partition { return p }

// Named returns the partitions of all that a list names, separated by commas, highest tier first. "" names
// the default partition.
func Named[P Holder](all []P, names string) (list []P, err error) {
	if names == "" {
		if i := slices.IndexFunc(all, func(p P) bool { return p.settings().Default }); i >= 0 {
			return all[i : i+1 : i+1], nil
		}
		return nil, errors.New("no partition specified or system default partition")
	}
	for name := range strings.SplitSeq(names, ",") {
		p, known := find(all, name)
		if !known {
			return nil, fmt.Errorf("invalid partition name specified: %s", name)
		}
		list = append(list, p)
	}
	sortByTier(list)
	return list, nil
}

func find[P Holder](all []P, name string) (p P, known bool) {
	i := slices.IndexFunc(all, func(p P) bool { return p.settings().Name == name })
	if i < 0 {
		return p, false
	}
	return all[i], true
}

func sortByTier[P Holder](list []P) {
	slices.SortStableFunc(list, func(a, b P) int { return cmp.Compare(b.settings().Tier, a.settings().Tier) })
}

// Open returns the partitions of a list that accept jobs, highest tier first. A closed partition is replaced
// by its first open alternate (_alt_part_test in job_mgr.c). If all partitions of the list accept jobs, Open
// returns the list itself.
func Open[P Holder](all, list []P) (open []P, err error) {
	closed := func(p P) bool { return p.settings().Closed }
	if !slices.ContainsFunc(list, closed) {
		return list, nil
	}
	for _, p := range list {
		known := true
		for hops := 0; hops < len(all) && known && closed(p); hops++ { // alternates may have alternates
			p, known = find(all, p.settings().Alternate)
		}
		if known && !closed(p) {
			open = append(open, p)
		}
	}
	if len(open) == 0 {
		return nil, fmt.Errorf("partition %s accepts no jobs", list[0].settings().Name)
	}
	sortByTier(open)
	return open, nil
}
