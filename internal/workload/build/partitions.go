package build

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/workload"
)

// openCluster reads the slurm.conf that a cluster directory already has. It returns nil if the
// directory has no slurm.conf, or if it cannot be read. Missing then says what a replay still
// needs.
func (r *Result) openCluster(dir string) *conf.Cluster {
	if _, err := os.Stat(filepath.Join(dir, "slurm.conf")); errors.Is(err, fs.ErrNotExist) {
		r.Missing = append(r.Missing, fmt.Sprintf("%s has no slurm.conf: a replay needs the site's, and the files that it "+
			"includes (want cp /etc/slurm/*.conf %s)", dir, dir))
		return nil
	}
	cluster, err := conf.Open(dir)
	if err != nil {
		r.Missing = append(r.Missing, fmt.Sprintf("%s cannot be replayed yet, and its partitions are not checked: %v", dir,
			err))
		return nil
	}
	return cluster
}

// addPartitions adds the QOS that partitions have. slurmctld finds a partition's QOS only if the
// database has it.
func (n *names) addPartitions(cluster *conf.Cluster) {
	for i := range cluster.Partitions {
		p := &cluster.Partitions[i]
		for _, name := range append(slices.Clone(p.AllowQOS), p.QOS) {
			name = strings.ToLower(name)
			if _, known := n.qos[name]; !known && name != "" {
				n.qos[name] = false
			}
		}
	}
}

// refusal is a reason why a partition refuses jobs.
type refusal struct {
	partition string
	key       string // key of slurm.conf
	allowed   string
	remedy    string
}

// refused names the jobs that the partitions' lists of groups and accounts refuse, by reason, with the remedy. A replay
// has only the groups that the workload gives to its users. The refused jobs ran in production, so their users must
// also be in other groups, or the configuration has changed.
func refused(w *workload.Workload, cluster *conf.Cluster) []string {
	groups, partitions := make(map[string][]string), make(map[string]*conf.Partition)
	for _, u := range w.Users {
		groups[u.Name] = append([]string{u.Group}, u.Groups...)
	}
	for i := range cluster.Partitions {
		partitions[cluster.Partitions[i].Name] = &cluster.Partitions[i]
	}
	jobs, users := make(map[refusal]int), make(map[refusal]map[string]bool)
	for _, job := range w.Jobs.All() {
		for _, why := range refusals(job, groups[job.User], partitions) {
			if users[why] == nil {
				users[why] = make(map[string]bool)
			}
			jobs[why]++
			users[why][job.User] = true
		}
	}
	var said []string
	for why, n := range jobs {
		said = append(said, fmt.Sprintf("partition %s has %s=%s, which refuses %d %s of %s: %s",
			why.partition, why.key, why.allowed, n,
			quantity.Plural(n, "job", "jobs"), few(slices.Sorted(maps.Keys(users[why]))), why.remedy))
	}
	slices.Sort(said)
	return said
}

// refusals returns the reasons why a job's partitions refuse the job. Slurm refuses a job of
// several partitions only if all of these partitions refuse the job. The result has the refusals of
// each partition.
func refusals(job *hpc.Job, groups []string, partitions map[string]*conf.Partition) (list []refusal) {
	for name := range strings.SplitSeq(job.Partition, ",") {
		p := partitions[name]
		if p == nil {
			continue
		}
		account := strings.ToLower(job.Account)
		if p.AllowGroups != nil && !slices.ContainsFunc(groups, func(g string) bool {
			return slices.Contains(p.AllowGroups,
				g)
		}) && job.User != "root" {
			list = append(list, refusal{name, "AllowGroups", strings.Join(p.AllowGroups, ","),
				"in the file users give them one of these groups (name:uid:group:gid:GROUP), or take AllowGroups out of " +
					"slurm.conf"})
		}
		if p.AllowAccounts != nil && account != "" && !slices.Contains(p.AllowAccounts, account) {
			list = append(list, refusal{name, "AllowAccounts", strings.Join(p.AllowAccounts, ","),
				"add account " + account + " to AllowAccounts in slurm.conf"})
		}
		if slices.Contains(p.DenyAccounts, account) {
			list = append(list, refusal{name, "DenyAccounts", strings.Join(p.DenyAccounts, ","),
				"take account " + account + " out of DenyAccounts in slurm.conf"})
		}
	}
	return list
}

// few lists at most five names.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
