package fairshare

import (
	"slices"

	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/extended"
	"rmreplay/internal/slurmspec"
)

// noLevel is the Level FS of an account with Fairshare=parent (NO_VAL). Fair Tree does not use it.
var noLevel = extended.FromUint(uint64(slurmspec.NoVal))

// rank computes the factors of all users by Fair Tree (fair_tree.c). It sorts the associations of
// each level by Level FS, and visits them depth first. The first user's rank is the number of
// users, and ranks fall by one from user to user. A factor is the rank divided by the number of
// users.
func (f *FairShare) rank() {
	t := tree{FairShare: f, rank: f.accounts.Users, untied: f.accounts.Users}
	t.level(f.accounts.Root.Children, false)
}

type tree struct {
	*FairShare
	// rank is the last user's rank. untied is the next user's rank, unless the two users tie.
	rank, untied int
}

// level ranks the users of a level and of the levels below. The parameter tied says that the account above ties with
// the association before that account. If it ties, the level's first association ties, too.
func (t *tree) level(siblings []*accounts.Association, tied bool) {
	for _, a := range siblings {
		t.setLevel(a)
	}
	siblings = slices.Clone(siblings)
	slices.SortStableFunc(siblings, compareLevels)
	last := noLevel
	for i, a := range siblings {
		tied = i == 0 && tied || a.FairShare.Level == last
		if !a.IsUser() {
			// slurmctld has code that merges tied accounts. The code has no effect, because
			// _count_tied_accounts looks for users among the accounts.
			t.level(a.Children, tied)
		} else {
			if !tied {
				t.rank = t.untied
			}
			a.FairShare.Factor = float64(t.rank) / float64(t.accounts.Users)
			t.untied--
		}
		last = a.FairShare.Level
	}
}

// compareLevels sorts by Level FS, the largest first. If two are equal, users come before accounts.
func compareLevels(a, b *accounts.Association) int {
	if c := b.FairShare.Level.Compare(a.FairShare.Level); c != 0 {
		return c
	}
	switch {
	case a.IsUser() == b.IsUser():
		return 0
	case a.IsUser():
		return -1
	}
	return 1
}

// setLevel computes Level FS: the association's share of its level, divided by its part of the
// level's usage (_calc_assoc_fs).
func (t *tree) setLevel(a *accounts.Association) {
	var used extended.Float
	if above := a.ShareParent.Usage.Raw; !above.IsZero() {
		used = a.Usage.Raw.Quo(above)
	}
	s := &a.FairShare
	s.Effective = used.Float64()
	switch share := extended.FromFloat(a.Share); {
	case a.Shares == associations.SharesOfParent && a.IsUser():
		s.Level = extended.Inf()
	case a.Shares == associations.SharesOfParent:
		s.Level = noLevel
	case share.IsZero():
		s.Level = extended.Float{}
	default:
		s.Level = share.Quo(used)
	}
}
