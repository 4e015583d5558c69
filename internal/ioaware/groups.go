package ioaware

import (
	"cmp"
	"slices"

	"rmreplay/internal/hpc"
)

// Groups is the division of the jobs by [TwoGroup], with its target. Uses are in licenses per
// node.
//
// The zero group has the pending jobs with the lowest use per node, up to a fraction of the
// pending area (nodes x time). All other jobs are regular. Of a regular job's use, only the part
// above the zero group's mean counts towards the target. So jobs of the zero group can use the
// nodes that regular jobs leave free.
type Groups struct {
	// RTarget is the mean use of all jobs, weighted by nodes x time.
	RTarget float64
	// RStar is the highest use of a job in the zero group, and RBar the mean.
	RStar, RBar float64
	// StarTarget is the target of the regular jobs' use above RBar, for the whole cluster.
	StarTarget int64

	starUse, starNodes int64 // RStar as a fraction
}

// Regular reports whether a job is regular: whether its use (in licenses) exceeds nodes x RStar,
// rounded down.
func (g *Groups) Regular(nodes int, use int64) bool {
	if g.starNodes == 0 {
		return use > 0
	}
	return use > int64(nodes)*g.starUse/g.starNodes
}

// above returns a job's use above the zero group's mean, in whole licenses.
func (g *Groups) above(nodes int, use int64) int64 { return use - round(float64(nodes)*g.RBar) }

// cap returns the highest use of other regular jobs at which a job may be added. s is the added
// job's use above the zero group's mean. The job may exceed the target by half of s. If s alone
// exceeds the target, the job waits until half of the target is free.
func (g *Groups) cap(s float64) int64 {
	target := float64(g.StarTarget)
	least := max(0, target-s)
	return round(least + 0.5*(target-least))
}

// share is what one job contributes to the sums.
type share struct {
	nodes, use  int64
	area        float64 // nodes x minutes
	licenseTime float64 // licenses x minutes
}

// divide divides the pending jobs into the two groups, and computes the target.
func (p *planner) divide(running []Running) Groups {
	g := Groups{RTarget: float64(p.total) / float64(max(p.cluster.Nodes, 1)), StarTarget: p.total}
	var area, volume, pendingArea float64
	for i := range running {
		use, _ := p.use(&running[i].Job)
		minutes := p.remaining(&running[i])
		area += float64(running[i].Nodes) * minutes
		volume += float64(use) * minutes
	}
	shares := make([]share, len(p.pending))
	for i := range p.pending {
		shares[i] = p.share(&p.pending[i])
		area += shares[i].area
		volume += shares[i].licenseTime
		pendingArea += shares[i].area
	}
	if area > 0 {
		g.RTarget = volume / area
	}
	if len(shares) == 0 {
		return g
	}
	slices.SortFunc(shares, func(a, b share) int { return cmp.Compare(a.use*b.nodes, b.use*a.nodes) })
	fraction := cmp.Or(p.options.Fraction, 0.5)
	last, sum := 0, shares[0].area
	for last < len(shares)-1 && sum < fraction*pendingArea {
		last++
		sum += shares[last].area
	}
	g.starUse, g.starNodes = shares[last].use, shares[last].nodes
	g.RStar = float64(g.starUse) / float64(g.starNodes)
	area, volume = 0, 0
	for _, s := range shares {
		if s.use*g.starNodes > g.starUse*s.nodes {
			break
		}
		area += s.area
		volume += s.licenseTime
	}
	if area > 0 {
		g.RBar = volume / area
	}
	// A negative target would make regular jobs wait for ever.
	g.StarTarget = max(round(float64(p.cluster.Nodes)*(g.RTarget-g.RBar)), 0)
	return g
}

// share returns a pending job's contribution to the sums. The run time is the predicted run time,
// but at most the time limit.
func (p *planner) share(j *Job) share {
	d := j.Limit
	if j.Estimate.RunTime > 0 {
		d = min(d, j.Estimate.RunTime)
	}
	use, _ := p.use(j)
	s := share{nodes: int64(max(j.Nodes, 1)), use: use}
	s.area = float64(s.nodes) * d.Minutes()
	s.licenseTime = float64(use) * d.Minutes()
	return s
}

// remaining returns the expected remaining time of a running job, in minutes.
func (p *planner) remaining(r *Running) float64 {
	if r.End == hpc.Never {
		return 0
	}
	d := r.End.Sub(p.now)
	if e := r.Estimate.RunTime; e > 0 && e < r.Limit {
		d -= r.Limit - e
	}
	return max(d.Minutes(), 0)
}

// addStars makes the tracker of use above the zero group's mean. The initial value includes every
// running job, even one without use, and the job's part is subtracted at its end.
func (p *planner) addStars(running []Running) {
	for i := range running {
		use, _ := p.use(&running[i].Job)
		s := p.groups.above(running[i].Nodes, use)
		p.star.Shift(s)
		p.star.RemoveTillEnd(p.giveBack(&running[i]), s)
	}
}

// belowTarget is the constraint of the target: regular jobs wait until their use is below the
// target. Jobs of the zero group do not wait.
func (p *planner) belowTarget(i int, at hpc.Time) hpc.Time {
	j := &p.pending[i]
	use := p.tested(j)
	if use <= 0 || !p.groups.Regular(j.Nodes, use) {
		return at
	}
	return p.when(p.star, j, at, p.groups.cap(float64(use)-p.groups.RBar*float64(j.Nodes)))
}
