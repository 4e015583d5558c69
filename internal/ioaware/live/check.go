package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hostlist"
)

// Check returns an error if the cluster's configuration does not suit the driver. The error says
// what slurm.conf needs.
func (c *Cluster) Check(ctx context.Context) error {
	c.ctx = ctx
	text, err := c.Run(ctx, "scontrol", "show", "config")
	if err != nil {
		return err
	}
	config := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, " = "); ok {
			config[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	if text, err = c.Run(ctx, "scontrol", "-o", "show", "partition"); err != nil {
		return err
	}
	return errors.Join(checkScheduling(config), c.checkPartitions(string(text), config["SelectType"]))
}

// checkScheduling checks that slurmctld starts a released job within a second or two.
func checkScheduling(config map[string]string) error {
	options := map[string]string{}
	for option := range strings.SplitSeq(config["SchedulerParameters"], ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(option), "=")
		options[key] = value
	}
	var want []string
	then := "scontrol reconfigure"
	if kind := config["SchedulerType"]; kind != "sched/builtin" && kind != "sched/backfill" {
		want, then = append(want, "SchedulerType=sched/builtin"), "a restart of slurmctld"
	}
	var missing []string
	for _, option := range []struct{ key, value string }{{"batch_sched_delay", "0"}, {"sched_interval", "5"}} {
		if value, set := options[option.key]; !set || value != option.value && option.value == "0" || value == "-1" {
			missing = append(missing, option.key+"="+option.value)
		}
	}
	if len(missing) > 0 {
		kept := slices.DeleteFunc(strings.Split(config["SchedulerParameters"], ","), func(option string) bool {
			key, _, _ := strings.Cut(strings.TrimSpace(option), "=")
			return key == "" || key == "(null)" || slices.ContainsFunc(missing,
				func(m string) bool { return strings.HasPrefix(m, key+"=") })
		})
		want = append(want, "SchedulerParameters="+strings.Join(append(kept, missing...), ","))
	}
	if len(want) == 0 {
		return nil
	}
	return fmt.Errorf("with this slurm.conf, released jobs would wait (want these lines, and %s):\n  %s", then,
		strings.Join(want, "\n  "))
}

// checkPartitions checks that the partitions exist, allocate whole nodes and share no nodes with
// other partitions, because the driver only counts nodes.
func (c *Cluster) checkPartitions(text, selectType string) error {
	owners := map[string][]string{}
	seen := map[string]bool{}
	var errs []error
	for line := range strings.Lines(text) {
		f := fields(line)
		name := f["PartitionName"]
		seen[name] = true
		mine := slices.Contains(c.Partitions, name)
		if share := f["OverSubscribe"]; mine && !wholeNodes(f) && selectType != "select/linear" {
			errs = append(errs, fmt.Errorf("partition %s: OverSubscribe=%s with %s: jobs may share nodes (want "+
				"OverSubscribe=EXCLUSIVE: the driver counts whole nodes)", name, share, selectType))
		}
		names, err := hostlist.Expand(f["Nodes"])
		if err != nil {
			continue // a partition without nodes has (null)
		}
		for _, n := range names {
			owners[n] = append(owners[n], name)
		}
	}
	shared := map[string]bool{}
	for _, list := range owners {
		mine := func(p string) bool { return slices.Contains(c.Partitions, p) }
		other := slices.IndexFunc(list, func(p string) bool { return !mine(p) })
		if i := slices.IndexFunc(list, mine); i >= 0 && other >= 0 && !shared[list[i]+list[other]] {
			shared[list[i]+list[other]] = true
			errs = append(errs, fmt.Errorf("partition %s of the driver shares nodes with %s (want both as partitions of the "+
				"driver, or neither)", list[i], list[other]))
		}
	}
	for _, p := range c.Partitions {
		if !seen[p] {
			errs = append(errs, fmt.Errorf("partition %s does not exist (want one of %s)", p, strings.Join(sorted(seen), ", ")))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// wholeNodes reports whether a partition gives whole nodes to jobs. scontrol of Slurm 26.05 shows
// OverSubscribe=EXCLUSIVE as Exclusive=NODE, the option's new name.
func wholeNodes(partition map[string]string) bool {
	return partition["OverSubscribe"] == "EXCLUSIVE" || partition["Exclusive"] == "NODE" ||
		partition["Exclusive"] == "TOPO"
}

func sorted(set map[string]bool) (list []string) {
	for name := range set {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
