// Package priority computes the priorities of jobs like slurmctld's plugins priority/multifactor
// and priority/basic (priority_multifactor.c, priority_basic.c).
package priority

import (
	"math"
	"slices"

	"rmreplay/internal/rm"
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// Max is the largest priority.
const Max = math.MaxUint32

// Job has the properties of a job on which its priority depends.
type Job struct {
	// Association and QOS are the job's association and QOS; nil without accounting.
	Association *accounts.Association
	QOS         *accounts.QOS
	// FairShare is the fair-share factor of the association, see package fairshare.
	FairShare float64
	// Accrue is since when the job gains age, in seconds since 1970; 0 if it does not yet.
	Accrue int64
	// Nodes is the smallest number of nodes that the job accepts. CPUs is total_cpus if a test has
	// set it. Otherwise it is the job's largest number of CPUs or, if the job does not give that,
	// the smallest.
	Nodes, CPUs uint32
	// Minutes is the time limit: [slurmspec.NoVal] if not given, [slurmspec.Infinite] if unlimited.
	Minutes uint32
	// Partitions are the job's partitions, the highest PriorityTier first. Own is the index of the
	// partition in which the job is considered; the job's own priority is its priority in this
	// partition.
	Partitions []*Partition
	Own        int
	// TRES are the allocated resources of a running job, or the requested resources of a pending
	// one.
	TRES tres.Vector
	// Nice lowers the priority. Site, which a site's plugin sets, raises it.
	Nice, Site int64
}

// Partition has the properties of a partition on which priorities depend.
type Partition struct {
	// JobFactor is PriorityJobFactor. Norm is JobFactor divided by the largest JobFactor, see
	// [NormalizePartitions].
	JobFactor uint16
	Norm      float64
	// MaxMinutes is MaxTime; [slurmspec.Infinite] if it is unlimited.
	MaxMinutes uint32
	// TRES are all resources of the partition.
	TRES tres.Vector
}

// NormalizePartitions sets Norm of all partitions of the cluster.
func NormalizePartitions(partitions []*Partition) {
	var largest uint16
	for _, p := range partitions {
		largest = max(largest, p.JobFactor)
	}
	for _, p := range partitions {
		if p.Norm = 0; largest > 0 {
			p.Norm = float64(p.JobFactor) / float64(largest)
		}
	}
}

// Cluster has the sizes by which the sizes of jobs are divided.
type Cluster struct {
	// Nodes is the number of nodes of slurm.conf. CPUs is the number of their CPUs, without specialized
	// cores.
	Nodes, CPUs uint32
}

// Parts are the components of a priority in points: weight × factor, as sprio -l shows them.
type Parts struct {
	Age, Association, FairShare, Size, Partition, QOS float64
	// TRES are the points of each resource, in the order of [tres.Table]; nil without
	// PriorityWeightTRES.
	TRES       []float64
	Nice, Site int64
}

// Sum adds the parts and returns the priority: without its fraction, at least 1, at most [Max]. It
// adds in slurmctld's order, which decides the last bits.
func (p *Parts) Sum() uint32 {
	sum := p.Age + p.Association + p.FairShare + p.Size + p.Partition + p.QOS + p.tres()
	return truncate(sum + float64(p.Site) - float64(p.Nice))
}

// List returns the parts that are not zero, named as by sprio -l.
func (p *Parts) List(table *tres.Table) []rm.PriorityPart {
	list := make([]rm.PriorityPart, 0, 8)
	add := func(name string, points float64) {
		if points != 0 {
			list = append(list, rm.PriorityPart{Name: name, Points: points})
		}
	}
	add("age", p.Age)
	add("assoc", p.Association)
	add("fairshare", p.FairShare)
	add("jobsize", p.Size)
	add("partition", p.Partition)
	add("qos", p.QOS)
	add("site", float64(p.Site))
	for i, points := range p.TRES {
		add("tres/"+table.Name(i), points)
	}
	add("nice", -float64(p.Nice))
	return list
}

func (p *Parts) tres() float64 {
	sum := 0.0
	for _, points := range p.TRES {
		sum += points
	}
	return sum
}

func truncate(priority float64) uint32 {
	switch {
	case priority < 1:
		return 1 // 0 is the priority of held jobs
	case priority >= Max:
		return Max
	}
	return uint32(priority)
}

// Parts returns the parts of a job's priority in the partition Own. The parameter now is in
// seconds since 1970.
func (s *Settings) Parts(j *Job, c Cluster, now int64) Parts {
	p := Parts{Nice: j.Nice, Site: j.Site}
	p.Age = s.age(j.Accrue, now) * s.Age
	if s.FairShare > 0 && j.Association != nil {
		p.FairShare = j.FairShare * s.FairShare
	}
	if s.Size > 0 {
		p.Size = s.size(j, c) * s.Size
	}
	if s.Association > 0 && j.Association != nil {
		p.Association = either(s.RawAssociation, float64(j.Association.Priority), j.Association.PriorityNorm) * s.Association
	}
	if s.QOS > 0 && j.QOS != nil {
		p.QOS = either(s.RawQOS, float64(j.QOS.Priority), j.QOS.PriorityNorm) * s.QOS
	}
	if len(j.Partitions) > 0 {
		of := j.Partitions[j.Own]
		p.Partition = s.partition(of)
		p.TRES = s.tres(j.TRES, of)
	}
	return p
}

// InPartitions returns the priority of a job in each of its partitions. slurmctld adds the parts in
// another order than [Parts.Sum], so the last bits may differ.
func (s *Settings) InPartitions(j *Job, p *Parts) []uint32 {
	list := make([]uint32, len(j.Partitions))
	for i, of := range j.Partitions {
		in := Parts{TRES: s.tres(j.TRES, of)}
		rest := p.Age + p.Association + p.FairShare + p.Size + p.QOS + in.tres() + float64(p.Site) - float64(p.Nice)
		list[i] = truncate(s.partition(of) + rest)
	}
	return list
}

// age returns the age factor: the part of PriorityMaxAge for which a job has gained age.
func (s *Settings) age(accrue, now int64) float64 {
	if s.Age == 0 || accrue == 0 {
		return 0
	}
	if waited := max(0, now-accrue); waited < s.MaxAge {
		return float64(waited) / float64(s.MaxAge)
	}
	return 1
}

// size returns the job size factor.
func (s *Settings) size(j *Job, c Cluster) float64 {
	nodes, cpus := float64(c.Nodes), float64(c.CPUs)
	var factor float64
	switch {
	case s.RelativeToTime:
		minutes := j.Minutes
		if minutes == slurmspec.NoVal && len(j.Partitions) > 0 {
			minutes = j.Partitions[j.Own].MaxMinutes
		}
		factor = max(float64(j.Nodes)*cpus/nodes, float64(j.CPUs)) / float64(minutes) / cpus
		if s.FavorSmall {
			factor = 1 - factor
		}
	case s.FavorSmall:
		// slurmctld subtracts unsigned numbers, so a job larger than the cluster counts as a small
		// job.
		factor = float64(c.Nodes-j.Nodes) / nodes
		if j.CPUs > 0 {
			factor = (factor + float64(c.CPUs-j.CPUs)/cpus) / 2
		}
	default:
		factor = float64(j.Nodes) / nodes
		if j.CPUs > 0 {
			factor = (factor + float64(j.CPUs)/cpus) / 2
		}
	}
	return min(1, max(0, factor))
}

func (s *Settings) partition(p *Partition) float64 {
	if s.Partition == 0 {
		return 0
	}
	return either(s.RawPartition, float64(p.JobFactor), p.Norm) * s.Partition
}

// tres returns the points of a job's resources in a partition.
func (s *Settings) tres(amounts tres.Vector, p *Partition) []float64 {
	if s.TRES == nil {
		return nil
	}
	points := slices.Clone(s.TRES)
	for i, weight := range points {
		factor := 0.0
		switch {
		case i >= len(amounts):
		case s.RawTRES:
			factor = float64(amounts[i])
		case i < len(p.TRES) && p.TRES[i] > 0:
			factor = float64(amounts[i]) / float64(p.TRES[i])
		}
		points[i] = factor * weight
	}
	return points
}

func either[T any](raw bool, number, part T) T {
	if raw {
		return number
	}
	return part
}

// Update returns the new priority of a job. With PriorityFlags=INCR_ONLY it is never lower than the
// old one.
func (s *Settings) Update(old, computed uint32) uint32 {
	if s.IncreaseOnly && computed < old {
		return old
	}
	return computed
}

// Basic computes the priorities of priority/basic: each job gets a lower priority than the job
// before it. The zero value is the state when slurmctld starts.
type Basic struct {
	taken uint32 // the difference between topPriority and the lowest priority so far
}

// topPriority is higher than the priority of the first job (TOP_PRIORITY in job_mgr.c).
const topPriority = 0xffff0000

// Next returns the priority of a new job (priority_p_set in priority_basic.c, set_job_prio in
// job_mgr.c). The parameter nice lowers this priority, but not the priorities of later jobs.
func (b *Basic) Next(nice int64) uint32 {
	lowest := topPriority - b.taken
	priority := uint32(1)
	if lowest >= 2 {
		priority = lowest - 1
	}
	if nice <= 0 || int64(priority) > nice+1 {
		priority -= uint32(nice) // wraps around as in slurmctld
	}
	priority = max(1, priority)
	b.taken = topPriority - min(lowest, priority+uint32(nice))
	return priority
}
