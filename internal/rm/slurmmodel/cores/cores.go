// Package cores distributes a job's CPUs on a node over the cores of the node's sockets.
package cores

import "rmreplay/internal/rm/slurmmodel/hardware"

// Job is how a job uses cores.
type Job struct {
	CPUsPerCore int // CPUs of each core that the job may use
	// Block says that the job takes cores of as few sockets as possible. Otherwise it takes cores of all
	// sockets in turn.
	Block bool
	// Packs is the number of CPUs of a task, if the job first takes whole tasks from one socket after
	// the other; otherwise it is 0.
	Packs int
	// Alone is the number of CPUs of a task, if no two tasks have the same core and a task needs several cores; otherwise
	// it is 0. It counts for Block and for Packs: the rest of a task's last core is lost there.
	Alone int
}

// Of returns how a job uses cores of a node. The parameter block says that slurm.conf decides for Block.
func Of(r *hardware.Request, n *hardware.Node, block bool) Job {
	j := Job{CPUsPerCore: r.CPUsPerCore(n), Block: block || r.BlockCores}
	if r.CPUsPerTask > 1 && r.TasksPerSocket == 0 {
		j.Packs = r.CPUsPerTask
	}
	if r.TasksPerCore == 1 && r.CPUsPerTask > j.CPUsPerCore {
		j.Alone = r.CPUsPerTask
	}
	return j
}

// Take takes cores for CPUs: it adds to the numbers of taken cores by socket, up to the numbers of usable
// cores (_block_sync_core_bitmap, _cyclic_sync_core_bitmap in dist_tasks.c). It returns the number of
// CPUs that get no core.
func (j Job) Take(taken, usable []int16, cpus int) int {
	rest := j.Alone // CPUs that the last task lacks
	// take takes a core of a socket, and returns how many of its CPUs tasks use.
	take := func(s int) int {
		used := j.CPUsPerCore
		if j.Alone > 0 {
			used = min(rest, used)
			if rest -= used; rest == 0 {
				rest = j.Alone
			}
		}
		taken[s]++
		cpus = j.without(cpus, used)
		return used
	}
	switch {
	case j.Block:
		need := int16((cpus + j.CPUsPerCore - 1) / j.CPUsPerCore)
		if j.Alone > 0 {
			need = int16(cpus / j.Alone * ((j.Alone + j.CPUsPerCore - 1) / j.CPUsPerCore))
		}
		for s := fitting(taken, usable, need); s >= 0 && cpus > 0; s = fitting(taken, usable, need) {
			for cpus > 0 && taken[s] < usable[s] {
				take(s)
			}
		}
	case j.Packs > 0:
		for s := range taken {
			pack := int(usable[s]) * j.CPUsPerCore
			for pack -= pack % j.Packs; pack > 0 && cpus > 0 && taken[s] < usable[s]; {
				pack = j.without(pack, take(s))
			}
		}
	}
	for before := cpus + 1; cpus > 0 && cpus < before; {
		before = cpus
		for s := range taken {
			if cpus > 0 && taken[s] < usable[s] {
				taken[s]++
				cpus = j.without(cpus, j.CPUsPerCore)
			}
		}
	}
	return cpus
}

// Count returns the number of cores that Take takes, and the number of CPUs that get no core.
func (j Job) Count(usable []int16, cpus int) (count, left int) {
	if j.Alone > 0 {
		taken := make([]int16, len(usable))
		left = j.Take(taken, usable, cpus)
		return sum(taken), left
	}
	have := sum(usable)
	return min(have, (cpus+j.CPUsPerCore-1)/j.CPUsPerCore), max(0, cpus-have*j.CPUsPerCore)
}

func sum(list []int16) (n int) {
	for _, v := range list {
		n += int(v)
	}
	return n
}

// without subtracts the used CPUs of a core from a number of CPUs. If this number does not fill a core, nothing is
// left.
func (j Job) without(cpus, used int) int {
	if cpus < j.CPUsPerCore {
		return 0
	}
	return cpus - used
}

// fitting returns the socket with the fewest free cores among those with at least the number need or, if no
// socket has so many, the socket with the most. It returns -1 if no socket has free cores.
func fitting(taken, usable []int16, need int16) (best int) {
	best = -1
	var most int16
	for s := range taken {
		left := usable[s] - taken[s]
		if left > 0 && (best < 0 || left >= need && (most < need || left < most) || left < need && left > most) {
			best, most = s, left
		}
	}
	return best
}
