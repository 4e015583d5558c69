// Package accounts has a cluster's associations and QOS as slurmctld keeps them in memory: the tree, shares,
// limits, usage, and the counts of jobs and resources (assoc_mgr.c). Package fairshare computes shares and
// usage, and package limits compares jobs with limits and counts them.
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

// Association is an account, or a user in an account, perhaps for one partition.
type Association struct {
	// Account, User and Partition are in lower case. User is empty for an account, Partition for all
	// partitions.
	Account, User, Partition string
	// Parent is the account above; nil for the root. Limits and usage go up this line.
	Parent *Association
	// ShareParent is the account whose level the association shares: the nearest one above that has shares
	// of its own. Children are the associations with this ShareParent, in slurmctld's order.
	ShareParent *Association
	Children    []*Association
	// Shares are Fairshare: [associations.SharesOfParent] for parent. LevelShares is the sum of the shares
	// on the association's level. Share is its share of the cluster, or with Fair Tree of its level.
	Shares, LevelShares uint32
	Share               float64
	// Limits are the association's own group limits, and the other limits as slurmdbd hands them down.
	Limits Limits
	// Priority is the association's priority, its own or inherited; PriorityNorm is its part of the
	// largest one.
	Priority     uint32
	PriorityNorm float64

	Usage  Usage
	Counts Counts
	// FairShare is the fair-share factor of the last computation, from 0 to 1. With Fair Tree only users
	// have one. Package fairshare sets it.
	FairShare FairShare

	config *associations.Association
	// batch numbers the groups of associations that slurmdbd adds together: successive ones of one command
	// that are below the same account (as_mysql_add_assocs in as_mysql_assoc.c).
	batch int
}

// FairShare are the numbers between usage and the fair-share factor, as sshare shows them.
type FairShare struct {
	// Factor is the fair-share factor, from 0 to 1.
	Factor float64
	// Level is Fair Tree's Level FS: the share of the level divided by its part of the usage.
	Level extended.Float
	// Norm is the part of the cluster's usage. Effective is classic fair-share's effective usage, or Fair
	// Tree's part of the usage of the level.
	Norm, Effective float64
	// Unknown says that the effective usage of a user is computed when a job needs it (classic).
	Unknown bool
}

// IsUser reports whether the association is of a user.
func (a *Association) IsUser() bool { return a.User != "" }

// Up yields the association and those above it.
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
	// Unlimited says that no limit in Limits can keep a job from starting.
	Unlimited bool
	// Priority is the QOS's priority; PriorityNorm is its part of the largest one.
	Priority     uint32
	PriorityNorm float64
	// UsageFactor multiplies the usage of the jobs.
	UsageFactor float64
	// LimitFactor multiplies the TRES limits of associations; 0 if it is not set.
	LimitFactor float64

	DenyOnLimit, NoDecay, OverPartQOS, UsageFactorSafe, NoReserve     bool
	PartitionMinNodes, PartitionMaxNodes, PartitionTimeLimit, ReqResv bool
	EnforceUsageThreshold                                             bool
	// UsageThreshold is the lowest fair-share factor with which jobs may start; negative if it is not set.
	UsageThreshold float64

	// Preempts are the QOS whose jobs this one may preempt. PreemptMode is in lower case; empty for the
	// cluster's mode. GraceTime is in seconds. PreemptExempt is in seconds; negative if it is not set.
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
	// List has all associations in slurmctld's order, QOS all QOS by name.
	List []*Association
	QOS  map[string]*QOS
	// Users is the number of associations of users, by which Fair Tree divides ranks.
	Users int

	set   *associations.Set
	index map[*associations.Association]*Association
}

// New makes the associations and QOS that commands for sacctmgr declare, without usage and jobs. fairTree
// says how shares are normalized.
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
	for _, one := range a.List {
		if one == a.Root {
			continue
		}
		one.ShareParent = one.Parent
		for one.ShareParent.Shares == associations.SharesOfParent && one.ShareParent != a.Root {
			one.ShareParent = one.ShareParent.Parent
		}
		one.ShareParent.Children = append(one.ShareParent.Children, one)
	}
}

// walk lists an association and those below it, depth first.
func (a *Accounts) walk(top *Association, below map[*Association][]*Association, order func([]*Association)) {
	a.List = append(a.List, top)
	order(below[top])
	for _, one := range below[top] {
		a.walk(one, below, order)
	}
}

// order returns a function that sorts the associations below an account, which are in the order of
// their commands. Since 23.11 slurmdbd lists them by name. Before, it listed the associations of the
// latest command first (nested sets), and those of one command in its order.
func order(release slurmspec.Release) func([]*Association) {
	byName := func(x, y *Association) int { return strings.Compare(lineage(x), lineage(y)) }
	latestFirst := func(x, y *Association) int { return cmp.Compare(y.batch, x.batch) }
	compare := latestFirst
	if release.Since(slurmspec.R2311) {
		compare = byName
	}
	return func(list []*Association) { slices.SortStableFunc(list, compare) }
}

// lineage is the last part of an association's lineage (_set_lineage in as_mysql_assoc.c), as the database
// compares it: without case.
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

// setShares computes the sum of the shares on each level, and each association's share of its level or the cluster
// (_set_children_level_shares and assoc_mgr_normalize_assoc_shares in assoc_mgr.c).
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
	for _, one := range a.List { // from the root down, because an association may have its parent's share
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
		q.Unlimited = q.Limits.letStart()
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

// Find returns the association of a user with an account and a partition, or nil. The account may be empty
// for the user's default; an association with the partition comes before one for all partitions
// (assoc_mgr_fill_in_assoc in assoc_mgr.c).
func (a *Accounts) Find(user, account, partition string) *Association {
	return a.index[a.set.Of(strings.ToLower(user), strings.ToLower(account), strings.ToLower(partition))]
}

// Account returns the association of an account itself, or nil.
func (a *Accounts) Account(name string) *Association { return a.Find("", name, "") }

// DefaultQOS returns the QOS of a job that names none. The association may be nil.
func (a *Accounts) DefaultQOS(one *Association) *QOS {
	if one == nil {
		return a.QOS[a.set.DefaultQOS(nil)]
	}
	return a.QOS[a.set.DefaultQOS(one.config)]
}

// Allowed returns the names of the QOS that an association may use.
func (a *Accounts) Allowed(one *Association) []string { return a.set.Allowed(one.config) }
