package fairshare

import (
	"iter"
	"math"

	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/slurmspec"
)

// startClassic computes the effective usage of all accounts. It uses the usage before this run of
// the decay thread. It marks the effective usage of users as unknown (_set_children_usage_efctv).
func (f *FairShare) startClassic() { f.startBelow(f.accounts.Root) }

func (f *FairShare) startBelow(top *accounts.Association) {
	for _, a := range top.Children {
		if a.IsUser() {
			a.FairShare.Unknown = true
			continue
		}
		f.setEffective(a)
		f.startBelow(a)
	}
}

// classicFactor returns the factor of an association or, with Fairshare=parent, of the account
// whose shares it uses. A user's effective usage is computed when it is first needed after a run of
// the decay thread, and is valid until the next run.
func (f *FairShare) classicFactor(a *accounts.Association) float64 {
	of := a
	if a.Shares == associations.SharesOfParent {
		of = a.ShareParent
	}
	if f.settings.Release.Since(slurmspec.R2605) {
		if a.FairShare.Unknown {
			f.setEffective(a)
			f.store(a)
		}
		return a.FairShare.Factor
	}
	if of.FairShare.Unknown {
		f.setEffective(of)
	}
	return f.exponential(of)
}

// exponential returns 2^-(effective usage / share / FairShareDampeningFactor).
func (f *FairShare) exponential(a *accounts.Association) float64 {
	if a.FairShare.Unknown || a.Share <= 0 {
		return 0
	}
	return math.Exp2(-(a.FairShare.Effective / a.Share / f.settings.Dampening))
}

// storeFactors computes and stores the factors of the associations of all jobs, as slurmctld does
// since 26.05 (_set_non_fair_tree_fs_factor).
func (f *FairShare) storeFactors(jobs iter.Seq[Job]) {
	for job := range jobs {
		if a := job.Association(); a != nil {
			f.store(a)
		}
	}
}

func (f *FairShare) store(a *accounts.Association) {
	of := a
	if a.Shares == associations.SharesOfParent {
		of = a.ShareParent
	}
	a.FairShare.Factor = f.exponential(of)
}

// setEffective computes an association's effective usage (_set_assoc_usage_efctv).
func (f *FairShare) setEffective(a *accounts.Association) {
	s := &a.FairShare
	s.Unknown = false
	s.Norm = f.norm(a)
	switch parent := a.ShareParent; {
	case parent == f.accounts.Root:
		s.Effective = s.Norm
	case a.Shares == associations.SharesOfParent:
		s.Effective = parent.FairShare.Effective
	case f.settings.DepthOblivious:
		s.Effective = f.depthOblivious(a)
	case a.LevelShares == 0:
		s.Effective = parent.FairShare.Effective
	default:
		s.Effective = s.Norm + (parent.FairShare.Effective-s.Norm)*(float64(a.Shares)/float64(a.LevelShares))
	}
}

// depthOblivious returns the effective usage with PriorityFlags=DEPTH_OBLIVIOUS
// (_depth_oblivious_set_usage_efctv).
func (f *FairShare) depthOblivious(a *accounts.Association) float64 {
	parent := a.ShareParent
	if a.Share == 0 || parent.Share == 0 || parent.FairShare.Effective == 0 || a.FairShare.Norm == 0 {
		return a.FairShare.Norm
	}
	ratio := parent.FairShare.Effective / parent.Share
	level := 0.0
	for _, sibling := range parent.Children {
		if sibling.Shares != associations.SharesOfParent {
			level += sibling.FairShare.Norm
		}
	}
	own := a.FairShare.Norm / a.Share / (level / parent.Share)
	k := 1.0
	if ratio != 0 && own != 0 && math.Log(ratio)*math.Log(own) < 0 {
		k = 1 / (1 + math.Pow(5*math.Log(ratio), 2))
	}
	return ratio * math.Pow(own, k) * a.Share
}

// norm returns an association's part of the cluster's usage (set_assoc_usage_norm).
func (f *FairShare) norm(a *accounts.Association) float64 {
	root := f.accounts.Root.Usage.Raw
	if root.IsZero() {
		return 0
	}
	return min(1, a.Usage.Raw.Quo(root).Float64())
}
