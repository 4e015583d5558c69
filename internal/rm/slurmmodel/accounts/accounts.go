// Package accounts has a cluster's associations and QOS as slurmctld stores them in memory
// (assoc_mgr.c): the tree with its shares, limits and usage, and the counts of jobs and resources.
// Package fairshare computes shares and usage. Package limits compares jobs with the limits and
// keeps the counts.
package accounts

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurmmodel/extended"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// Association is an account, or a user in an account. A user's association may be for one partition
// only.
type Association struct {
	// Account, User and Partition are in lower case. User is empty in the association of an
	// account. Partition is empty in an association for all partitions.
	Account, User, Partition string
	// Parent is the account above; nil for the root. Usage counts for all parents, and limits of
	// all parents apply.
	Parent *Association
	// ShareParent is the nearest account above that does not have Fairshare=parent. Children are the associations that
	// have this association as ShareParent, in slurmctld's order. These children compete with each other: they are one
	// level of the tree.
	ShareParent *Association
	Children    []*Association
	// Shares is Fairshare, or [associations.SharesOfParent] for Fairshare=parent. LevelShares is
	// the sum of the shares on the association's level. Share is a part from 0 to 1: of the level
	// with Fair Tree, and otherwise of the cluster.
	Shares, LevelShares uint32
	Share               float64
	// Limits has the association's own group limits. The other limits are inherited if they are not
	// set.
	Limits Limits
	// Unlimited says that neither the association nor an association above it has a limit that can keep a job from
	// starting. NoTRES says that none of these associations has a limit on resources.
	Unlimited, NoTRES bool
	// Priority is the association's own or inherited priority. PriorityNorm is Priority divided by
	// the largest priority of an association.
	Priority     uint32
	PriorityNorm float64

	Usage  Usage
	Counts Counts
	// FairShare has the results of the last computation of fair-share. Package fairshare sets them.
	// With Fair Tree only users have a factor.
	FairShare FairShare

	config *associations.Association
	// Associations that slurmdbd adds together have the same batch: successive associations of one command that have the
	// same parent (as_mysql_add_assocs in as_mysql_assoc.c).
	batch int
}

// FairShare has the fair-share factor and the numbers that it is computed from, as sshare shows
// them.
type FairShare struct {
	// Factor is the fair-share factor, from 0 to 1.
	Factor float64
	// Level is Fair Tree's Level FS: the association's share of its level divided by its part of
	// the level's usage.
	Level extended.Float
	// Norm is the association's part of the cluster's usage; not computed with Fair Tree. Effective is
	// classic fair-share's effective usage; with Fair Tree, the association's part of its level's usage.
	Norm, Effective float64
	// Unknown says that Effective is not computed yet. Classic fair-share computes the usage of a
	// user when a job needs the factor.
	Unknown bool
}

// IsUser reports whether the association is that of a user.
func (a *Association) IsUser() bool { return a.User != "" }

// Up yields the association and the associations above it.
func (a *Association) Up(yield func(*Association) bool) {
	for ; a != nil; a = a.Parent {
		if !yield(a) {
			return
		}
	}
}

// QOS is a quality of service.
type QOS struct {
	Name   string
	Limits Limits
	// Unlimited says that the QOS has no limit in Limits that can keep a job from starting. NoTRES says that
	// Limits has no limit on resources.
	Unlimited, NoTRES bool
	// Priority is the QOS's priority. PriorityNorm is Priority divided by the largest priority of a
	// QOS.
	Priority     uint32
	PriorityNorm float64
	// UsageFactor multiplies the usage of the QOS's jobs.
	UsageFactor float64
	// LimitFactor multiplies the TRES limits of associations; 0 if it is not set.
	LimitFactor float64

	DenyOnLimit, NoDecay, OverPartQOS, UsageFactorSafe, NoReserve     bool
	PartitionMinNodes, PartitionMaxNodes, PartitionTimeLimit, ReqResv bool
	EnforceUsageThreshold                                             bool
	// UsageThreshold is the lowest fair-share factor with which jobs may start; negative if not
	// set.
	UsageThreshold float64

	// Preempts are the QOS whose jobs the jobs of this QOS may preempt. PreemptMode is in lower
	// case; empty for the cluster's mode. GraceTime and PreemptExempt are in seconds; PreemptExempt
	// is negative if not set.
	Preempts      []*QOS
	PreemptMode   string
	GraceTime     int64
	PreemptExempt int64

	Usage  Usage
	Counts Counts
	// ByUser and ByAccount have the counts of the jobs of each user and each account.
	ByUser, ByAccount map[string]*Counts
}

// Accounts are a cluster's associations and QOS.
type Accounts struct {
	TRES *tres.Table
	Root *Association
	// List has all associations in slurmctld's order. QOS has all QOS by name.
	List []*Association
	QOS  map[string]*QOS
	// Users is the number of user associations. Fair Tree divides ranks by it to get factors.
	Users int

	set   *associations.Set
	index map[*associations.Association]*Association
}

// New makes the associations and QOS that sacctmgr's commands declare. Usage and counts are 0.
// The parameter fairTree says that shares are parts of a level; otherwise they are parts of the
// cluster.
func New(set *associations.Set, table *tres.Table, fairTree bool, release slurmspec.Release) *Accounts {
	a := &Accounts{TRES: table, set: set, index: map[*associations.Association]*Association{}, QOS: map[string]*QOS{}}
	for _, config := range set.Associations {
		a.add(config)
	}
	a.connect(release)
	a.setShares(fairTree)
	a.normalizePriorities()
	a.addQOS()
	return a
}

func (a *Accounts) add(config *associations.Association) {
	inherited := a.set.Inherited(config)
	own := inherited
	own.GrpTRES, own.GrpTRESMins, own.GrpTRESRunMins = config.GrpTRES, config.GrpTRESMins, config.GrpTRESRunMins
	own.GrpWall, own.GrpJobs, own.GrpSubmit, own.GrpAccrue = config.GrpWall, config.GrpJobs, config.GrpSubmit,
		config.GrpAccrue
	one := &Association{
		Account: config.Account, User: config.User, Partition: config.Partition, Shares: config.Shares,
		Limits: a.limits(&own), config: config,
		Usage: a.usage(), Counts: a.counts(),
	}
	if inherited.Priority != nil {
		one.Priority = uint32(*inherited.Priority)
	}
	if one.IsUser() {
		a.Users++
	}
	a.List = append(a.List, one)
	a.index[config] = one
}

// connect sets the parents and the order of the associations.
func (a *Accounts) connect(release slurmspec.Release) {
	a.Root = a.index[a.set.Associations[0]]
	below := map[*Association][]*Association{}
	last := a.Root
	for _, one := range a.List {
		if one == a.Root {
			continue
		}
		one.Parent = cmp.Or(a.index[a.set.Above(one.config)], a.Root)
		one.batch = last.batch
		if one.config.Line != last.config.Line || one.Parent != last.Parent {
			one.batch++
		}
		last = one
		below[one.Parent] = append(below[one.Parent], one)
	}
	a.List = a.List[:0]
	a.walk(a.Root, below, order(release))
	for _, one := range a.List { // parents come first
		one.Unlimited, one.NoTRES = one.Limits.letStart(), one.Limits.noTRES()
		if one == a.Root {
			continue
		}
		one.Unlimited, one.NoTRES = one.Unlimited && one.Parent.Unlimited, one.NoTRES && one.Parent.NoTRES
		one.ShareParent = one.Parent
		for one.ShareParent.Shares == associations.SharesOfParent && one.ShareParent != a.Root {
			one.ShareParent = one.ShareParent.Parent
		}
		one.ShareParent.Children = append(one.ShareParent.Children, one)
	}
}

// walk appends an association and the associations below it to List, depth first.
func (a *Accounts) walk(top *Association, below map[*Association][]*Association, order func([]*Association)) {
	a.List = append(a.List, top)
	order(below[top])
	for _, one := range below[top] {
		a.walk(one, below, order)
	}
}

// order returns a function that sorts the associations of one parent. The function's argument is in the order of
// sacctmgr's commands. Since 23.11 slurmdbd lists associations by name. Before, slurmdbd listed the associations of the
// latest command first (nested sets), and kept the order within a command.
func order(release slurmspec.Release) func([]*Association) {
	byName := func(x, y *Association) int { return strings.Compare(lineage(x), lineage(y)) }
	latestFirst := func(x, y *Association) int { return cmp.Compare(y.batch, x.batch) }
	compare := latestFirst
	if release.Since(slurmspec.R2311) {
		compare = byName
	}
	return func(list []*Association) { slices.SortStableFunc(list, compare) }
}

// lineage returns the last part of an association's lineage (_set_lineage in as_mysql_assoc.c). The result is in upper
// case, because the database compares without case.
func lineage(a *Association) string {
	name := a.Account + "/"
	if a.IsUser() {
		name = "0-" + a.User + "/"
	}
	if a.Partition != "" {
		name += a.Partition + "/"
	}
	return strings.ToUpper(name)
}

// setShares computes LevelShares and Share of each association (_set_children_level_shares and
// assoc_mgr_normalize_assoc_shares in assoc_mgr.c).
func (a *Accounts) setShares(fairTree bool) {
	for _, top := range a.List {
		var sum uint32
		for _, one := range top.Children {
			if one.Shares != associations.SharesOfParent {
				sum += one.Shares
			}
		}
		for _, one := range top.Children {
			one.LevelShares = sum
		}
	}
	for _, one := range a.List { // parents come first in List; with Fairshare=parent their Share is used
		if fairTree {
			one.Share = one.levelShare()
		} else {
			one.Share = one.clusterShare()
		}
	}
}

func (a *Association) levelShare() float64 {
	of := a
	if a.Shares == associations.SharesOfParent && a.ShareParent != nil {
		of = a.ShareParent
	}
	if of.LevelShares == 0 {
		return 0
	}
	return float64(of.Shares) / float64(of.LevelShares)
}

func (a *Association) clusterShare() float64 {
	if a.Shares == associations.SharesOfParent && a.ShareParent != nil {
		return a.ShareParent.Share
	}
	share := 1.0
	for one := a; one.Parent != nil; one = one.Parent {
		switch {
		case one.Shares == associations.SharesOfParent:
		case one.LevelShares == 0:
			share = 0
		default:
			share *= float64(one.Shares) / float64(one.LevelShares)
		}
	}
	return share
}

func (a *Accounts) normalizePriorities() {
	var largest uint32
	for _, one := range a.List {
		largest = max(largest, one.Priority)
	}
	for _, one := range a.List {
		if largest > 0 {
			one.PriorityNorm = float64(one.Priority) / float64(largest)
		}
	}
}

func (a *Accounts) addQOS() {
	var largest uint32
	for name, p := range a.set.Policies {
		q := &QOS{
			Name: name, Limits: a.policyLimits(p), UsageFactor: 1, LimitFactor: p.LimitFactor, UsageThreshold: -1,
			DenyOnLimit: p.Has("denyonlimit"), NoDecay: p.Has("nodecay"), OverPartQOS: p.Has("overpartqos"),
			UsageFactorSafe: p.Has("usagefactorsafe"),
			NoReserve:       p.Has("noreserve"), PartitionMinNodes: p.Has("partitionminnodes"),
			PartitionMaxNodes:  p.Has("partitionmaxnodes"),
			PartitionTimeLimit: p.Has("partitiontimelimit"), ReqResv: p.Has("requiresreservation"),
			EnforceUsageThreshold: p.Has("enforceusagethreshold"),
			PreemptMode:           p.PreemptMode, GraceTime: p.GraceTime, PreemptExempt: -1,
			Usage: a.usage(), Counts: a.counts(), ByUser: map[string]*Counts{}, ByAccount: map[string]*Counts{},
		}
		q.Unlimited, q.NoTRES = q.Limits.letStart(), q.Limits.noTRES()
		if p.Priority != nil {
			q.Priority = uint32(*p.Priority)
		}
		if p.UsageFactor != nil {
			q.UsageFactor = *p.UsageFactor
		}
		if p.UsageThreshold != nil {
			q.UsageThreshold = *p.UsageThreshold
		}
		if p.PreemptExempt != nil {
			q.PreemptExempt = *p.PreemptExempt
		}
		largest = max(largest, q.Priority)
		a.QOS[name] = q
	}
	for _, name := range slices.Sorted(maps.Keys(a.QOS)) {
		q := a.QOS[name]
		if largest > 0 {
			q.PriorityNorm = float64(q.Priority) / float64(largest)
		}
		for _, other := range a.set.Policies[name].Preempt {
			if preempted := a.QOS[other]; preempted != nil {
				q.Preempts = append(q.Preempts, preempted)
			}
		}
	}
}

// Find returns the association of a user, an account and a partition, or nil
// (assoc_mgr_fill_in_assoc in assoc_mgr.c). An empty account is the user's default account. An
// association for the partition is preferred to one for all partitions.
func (a *Accounts) Find(user, account, partition string) *Association {
	return a.index[a.set.Find(strings.ToLower(user), strings.ToLower(account), strings.ToLower(partition))]
}

// Account returns the association of an account, or nil.
func (a *Accounts) Account(name string) *Association { return a.Find("", name, "") }

// DefaultQOS returns the QOS of a job that was submitted without --qos. The association may be nil.
func (a *Accounts) DefaultQOS(one *Association) *QOS {
	if one == nil {
		return a.QOS[a.set.DefaultQOS(nil)]
	}
	return a.QOS[a.set.DefaultQOS(one.config)]
}

// Allowed returns the names of the QOS that an association may use.
func (a *Accounts) Allowed(one *Association) []string { return a.set.Allowed(one.config) }
