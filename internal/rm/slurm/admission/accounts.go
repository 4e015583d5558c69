package admission

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/slurmspec"
)

// Declared returns the accounting that a cluster has after the given commands for sacctmgr.
func Declared(c *conf.Cluster, commands []byte) *associations.Set {
	tracked, _ := c.Get("AccountingStorageTRES")
	return associations.Read(commands, cmp.Or(c.AccountsFile, "accounts"), c.Name, tracked)
}

func (s *Site) accountsFile() string {
	return filepath.Base(cmp.Or(s.cluster.AccountsFile, "accounts.sacctmgr"))
}

// of returns the association of a user with an account in a partition, and stores it for later
// calls.
func (s *Site) of(user, account, partition string) *associations.Association {
	key := userKey{user, account, partition}
	a, known := s.perUser[key]
	if !known {
		a = s.accounts.Find(user, account, partition)
		s.perUser[key] = a
	}
	return a
}

// standing is an association with its own and its inherited values. line has the association and
// all associations above it.
type standing struct {
	line       []*associations.Association
	limits     associations.Limits
	allowed    []string
	defaultQOS string
}

func (s *Site) standingOf(a *associations.Association) *standing {
	at, known := s.standing[a]
	if !known {
		at = &standing{line: s.accounts.Line(a), limits: s.accounts.Inherited(a), allowed: s.accounts.Allowed(a),
			defaultQOS: s.accounts.DefaultQOS(a)}
		s.standing[a] = at
	}
	return at
}

// findAssociation finds the association of the user, the account and the first partition. Without
// enforcement slurmctld falls back on the user's default account.
func (c *creation) findAssociation() *Finding {
	if c.accounts == nil {
		return nil
	}
	user, account := strings.ToLower(c.job.User), strings.ToLower(c.job.Account)
	a := c.of(user, account, strings.ToLower(c.partitions[0].Name))
	if a == nil && !c.associations {
		a = c.of(user, "", strings.ToLower(c.partitions[0].Name))
	}
	switch {
	case a != nil:
		c.v.association, c.v.account = a, a.Account
	case !c.associations:
		return nil
	case account != "" && !c.accounts.Accounts[account]:
		return reject(errAccount, RuleAccount, "there is no account "+account, "add it and its users to "+c.accountsFile())
	case account != "":
		return reject(errAccount, RuleAccount, "the users have no association with account "+account,
			"add the users to the account in "+c.accountsFile())
	default:
		return reject(errAccount, RuleAccount, "the users have no association", "add the users to "+c.accountsFile())
	}
	if len(c.partitions) > 1 && a.Partition != "" {
		return reject(errPartitionAssoc, RuleAccount, "the association is with one partition, and the jobs name several",
			"add an association without partition to "+c.accountsFile())
	}
	return nil
}

// findQOS finds the job's QOS (_determine_and_validate_qos).
func (c *creation) findQOS() *Finding {
	c.v.qos = strings.ToLower(c.job.QOS)
	if c.accounts == nil {
		return nil
	}
	a := c.v.association
	if c.v.qos == "" {
		if a != nil {
			c.v.qos = c.standingOf(a).defaultQOS
		} else {
			c.v.qos = c.accounts.DefaultQOS(nil)
		}
	}
	c.v.policy = c.accounts.Policies[c.v.qos]
	switch {
	case c.v.policy == nil && c.qos:
		return reject(errQOS, RuleQOS, "there is no QOS "+c.v.qos, "add it to "+c.accountsFile())
	case c.qos && a != nil && !slices.Contains(c.standingOf(a).allowed, c.v.qos):
		return reject(errQOS, RuleQOS, fmt.Sprintf("the association with account %s may not use QOS %s", a.Account, c.v.qos),
			"add qos+="+c.v.qos+" to the account or the users in "+c.accountsFile())
	case c.v.policy.Has("requiresreservation") && c.job.Reservation == "":
		return reject(errQOS, RuleQOS, fmt.Sprintf("QOS %s has Flags=RequiresReservation; the jobs name no reservation",
			c.v.qos), "take the flag from the QOS, or record the reservations")
	}
	return nil
}

// limit is a limit that the job would exceed on its own.
type limit struct {
	owner  string // "QOS high" or "account physics"
	name   string // as sacctmgr names it: "MaxTRESPerJob=cpu=4"
	reason string // the reason for which the job pends, if it is not rejected
	// always is set if slurmctld rejects the job even without DenyOnLimit.
	always bool
	// safe is set if the limit blocks the job only when AccountingStorageEnforce has "safe".
	safe bool
	// wall is set for a limit on the run time. slurmctld checks such limits before it looks for nodes.
	wall bool
	// isMinimum is set for a lower limit: the job asks for too little.
	isMinimum bool
}

func (l *limit) asks() string {
	if l.isMinimum {
		return "the jobs ask for less"
	}
	return "the jobs ask for more"
}

// checkLimits checks the limits of the QOS and the associations (acct_policy_validate). With DenyOnLimit, or without a
// QOS, a job that exceeds a limit is rejected; otherwise the job pends.
func (c *creation) checkLimits() *Finding {
	if !c.limits || c.accounts == nil || c.v.association == nil {
		return nil
	}
	var waits *limit
	open := false
	for _, p := range c.partitions {
		first, second := c.order(p)
		strict := first.policy == nil || first.policy.Has("denyonlimit") || second.policy.Has("denyonlimit")
		l := c.exceeded(c.ask(p), first, second, strict)
		if l == nil {
			// At its start, a job that gets whole nodes is charged for everything on them
			// (acct_policy_job_runnable_post_select).
			if l = c.exceeded(c.askWhole(p), first, second, strict); l != nil {
				waits = l
				continue
			}
		}
		switch {
		case l == nil:
			open = true
		case l.always || strict:
			return reject(errPolicy, RuleLimit, l.owner+" has "+l.name+"; "+l.asks(), "raise the limit in "+c.accountsFile()+
				", or take DenyOnLimit from the QOS")
		default:
			waits = l
		}
	}
	if waits != nil && !open {
		c.waits = pend(waits.reason, RuleLimit, waits.owner+" has "+waits.name+"; "+waits.asks(), "raise the limit in "+
			c.accountsFile())
		c.waitsAtOnce = waits.wall
	}
	return nil
}

type namedPolicy struct {
	name   string
	policy *associations.Policy
}

// order returns the QOS of the job and the QOS of a partition. The first result is the QOS whose
// limits have precedence (acct_policy_set_qos_order).
func (c *creation) order(p *partition) (first, second namedPolicy) {
	own := namedPolicy{c.v.qos, c.v.policy}
	name := strings.ToLower(p.QOS)
	of := namedPolicy{name, c.accounts.Policies[name]}
	switch {
	case of.policy == nil || of.policy == own.policy:
		return own, namedPolicy{}
	case own.policy == nil:
		return of, namedPolicy{}
	case own.policy.Has("overpartqos"):
		return own, of
	}
	return of, own
}

// ask is a job's request, in the units of the limits.
type ask struct {
	tres    associations.TRES
	nodes   int64
	minutes int64 // of the time limit; -1 without a limit
	jobs    int64
}

func (c *creation) ask(p *partition) ask {
	j := c.j
	a := ask{tres: associations.TRES{"node": int64(j.MinNodes), "cpu": int64(j.MinCPUs)}, nodes: int64(j.MinNodes),
		minutes: -1, jobs: 1}
	memory := j.MinMemory
	if memory == slurmspec.NoVal64 {
		memory = p.defMem
	}
	if memory&slurmspec.MemPerCPU != 0 {
		a.tres["mem"] = int64(memory&^slurmspec.MemPerCPU) * int64(j.MinCPUs)
	} else if memory != 0 {
		a.tres["mem"] = int64(memory) * int64(j.MinNodes)
	}
	for _, g := range gresOf(j) {
		a.tres["gres/"+g.name] += g.total
		if g.typ != "" {
			a.tres["gres/"+g.name+":"+g.typ] += g.total
		}
	}
	if wanted, err := parseLicenses(j.Licenses); err == nil {
		for name, n := range wanted {
			a.tres["license/"+name] = n
		}
	}
	if j.TimeLimit == slurmspec.Infinite {
		a.minutes = math.MaxInt32
	} else if j.TimeLimit != slurmspec.NoVal {
		a.minutes = int64(j.TimeLimit)
	}
	if c.job.Array != "" {
		if array, err := hpc.ParseArray(c.job.Array); err == nil {
			a.jobs = int64(len(array.Tasks))
		}
	}
	return a
}

// askWhole returns what slurmctld charges a job with whole nodes for: at least the CPUs of the
// partition's smallest nodes.
func (c *creation) askWhole(p *partition) ask {
	a := c.ask(p)
	if len(p.classes) == 0 || !p.exclusive && c.j.Shared != 0 {
		return a
	}
	least := p.classes[0].node.CPUs
	for _, k := range p.classes {
		least = min(least, k.node.CPUs)
	}
	a.tres["cpu"] = max(a.tres["cpu"], a.nodes*int64(least))
	return a
}

// exceeded returns the first limit that the job alone exceeds. A limit of the first QOS replaces
// the second QOS's and the associations' limits of the same kind.
func (c *creation) exceeded(a ask, first, second namedPolicy, strict bool) *limit {
	k := &checker{ask: a, strict: strict, safe: c.safe, set: map[string]bool{}}
	for _, q := range []namedPolicy{first, second} {
		if q.policy != nil {
			k.policy(q)
		}
	}
	at := c.standingOf(c.v.association)
	factor := 1.0
	for _, q := range []namedPolicy{second, first} {
		if q.policy != nil && q.policy.LimitFactor > 0 {
			factor = q.policy.LimitFactor
		}
	}
	for i, a := range at.line {
		k.groups(ownerOf(a), "Assoc", a.Limits, factor)
		if i == 0 {
			k.each(ownerOf(a), "Assoc", at.limits, factor)
			if !k.set["MaxSubmitPerAccount"] {
				k.count(ownerOf(a), "MaxSubmitJobs", at.limits.MaxSubmit)
			}
		}
	}
	return k.found
}

func ownerOf(a *associations.Association) string {
	switch {
	case a.User != "":
		return "the users' association with account " + a.Account
	case a.Account == "root":
		return "the cluster"
	}
	return "account " + a.Account
}

// checker compares a job with limits one by one, until the job exceeds a limit.
type checker struct {
	ask
	strict, safe bool
	set          map[string]bool // kinds of limits, with the TRES, that a QOS has set
	found        *limit
}

func (k *checker) policy(q namedPolicy) {
	owner, p := "QOS "+q.name, q.policy
	k.tresLimit(owner, "MaxTRESPerAccount", "Max", "PerAccount", p.MaxTRESPerAccount, 1)
	k.tresLimit(owner, "MaxTRESPerUser", "QOSMax", "PerUser", p.MaxTRESPerUser, 1)
	k.groups(owner, "QOS", p.Limits, 1)
	k.each(owner, "QOS", p.Limits, 1)
	if p.MaxSubmitPerAccount != nil {
		k.set["MaxSubmitPerAccount"] = true
		k.count(owner, "MaxSubmitJobsPerAccount", p.MaxSubmitPerAccount)
	}
	k.count(owner, "MaxSubmitJobs", p.MaxSubmit)
	for _, name := range inOrder(p.MinTRESPerJob) {
		if least := p.MinTRESPerJob[name]; !k.set["Min "+name] && k.tres[name] < least {
			k.find(limit{owner: owner, name: fmt.Sprintf("MinTRESPerJob=%s=%d", name, least),
				reason: limitReason("QOSMin", name, ""), isMinimum: true})
		} else {
			k.set["Min "+name] = true
		}
	}
}

// groups checks the limits of a group of jobs (Grp limits), but only whether a single job can exceed them.
func (k *checker) groups(owner, kind string, l associations.Limits, factor float64) {
	k.tresLimit(owner, "GrpTRES", kind+"Grp", "", l.GrpTRES, factor)
	k.count(owner, "GrpSubmitJobs", l.GrpSubmit)
	k.tresMinutes(owner, "GrpTRESMins", kind+"Grp", "Minutes", l.GrpTRESMins, true)
	k.tresMinutes(owner, "GrpTRESRunMins", kind+"Grp", "RunMinutes", l.GrpTRESRunMins, false)
	k.wall(owner, "GrpWall", kind+"GrpWallLimit", l.GrpWall, true)
}

// each checks the limits per job.
func (k *checker) each(owner, kind string, l associations.Limits, factor float64) {
	k.tresMinutes(owner, "MaxTRESMinsPerJob", kind+"Max", "MinutesPerJob", l.MaxTRESMinutesPerJob, false)
	wall := kind + "MaxWallDurationPerJobLimit"
	k.wall(owner, "MaxWall", wall, l.MaxWall, false)
	k.tresLimit(owner, "MaxTRESPerJob", kind+"Max", "PerJob", l.MaxTRESPerJob, factor)
	if k.nodes > 0 && len(l.MaxTRESPerNode) > 0 {
		perNode := associations.TRES{}
		for name, n := range l.MaxTRESPerNode {
			perNode[name] = n * k.nodes
			if k.tres[name]/k.nodes <= n { // slurmctld rounds down
				perNode[name] = math.MaxInt64
			}
		}
		k.tresLimit(owner, "MaxTRESPerNode", kind+"Max", "PerNode", perNode, 1)
	}
}

func (k *checker) find(l limit) {
	if k.found == nil && (!l.safe || k.safe || k.strict) {
		k.found = &l
	}
}

// takes reports whether a limit applies. It does not apply if a QOS has already set a limit of the
// same kind. takes stores which limits the QOS set. It does not store the associations' limits,
// because each level of accounts has its own group limits.
func (k *checker) takes(owner, key string) bool {
	if k.set[key] {
		return false
	}
	if strings.HasPrefix(owner, "QOS ") {
		k.set[key] = true
	}
	return true
}

// inOrder returns the names of the TRES with a limit, in the order in which slurmctld checks them.
func inOrder(limits associations.TRES) []string {
	if len(limits) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(limits))
}

func (k *checker) tresLimit(owner, name, before, behind string, limits associations.TRES, factor float64) {
	for _, tres := range inOrder(limits) {
		most := limits[tres]
		if factor != 1 {
			most = int64(float64(most) * factor)
		}
		if k.takes(owner, name+" "+tres) && k.tres[tres] > most {
			k.find(limit{owner: owner, name: fmt.Sprintf("%s=%s=%d", name, tres, limits[tres]), reason: limitReason(before,
				tres, behind)})
		}
	}
}

func (k *checker) tresMinutes(owner, name, before, behind string, limits associations.TRES, safe bool) {
	for _, tres := range inOrder(limits) {
		n := k.tres[tres]
		if k.takes(owner, name+" "+tres) && n > 0 && k.minutes > limits[tres]/n {
			k.find(limit{owner: owner, name: fmt.Sprintf("%s=%s=%d", name, tres, limits[tres]), reason: limitReason(before,
				tres, behind), safe: safe})
		}
	}
}

func (k *checker) wall(owner, name, reason string, bound *int64, safe bool) {
	if bound != nil && k.takes(owner, name) && k.minutes > *bound {
		name = fmt.Sprintf("%s=%d (minutes)", name, *bound)
		k.find(limit{owner: owner, name: name, reason: reason, safe: safe, wall: true})
	}
}

func (k *checker) count(owner, name string, bound *int64) {
	if bound != nil && k.takes(owner, name) && k.jobs > *bound {
		k.find(limit{owner: owner, name: fmt.Sprintf("%s=%d", name, *bound), always: true})
	}
}

// tresNames are the TRES as the reasons of pending jobs spell them.
var tresNames = map[string][]string{
	"bb": {"BB"}, "billing": {"Billing"}, "cpu": {"Cpu", "CPU"}, "energy": {"Energy"}, "gres": {"GRES"},
	"license": {"License"}, "mem": {"Mem", "Memory"}, "node": {"Node"},
}

// limitReason returns the reason for which a job pends because of a limit of a TRES. Slurm's names
// of these reasons (job_reason_string) end differently for different TRES.
func limitReason(before, tres, behind string) string {
	kind, _, _ := strings.Cut(tres, "/")
	names, known := tresNames[kind]
	if !known {
		names = []string{"Unknown"}
	}
	for _, name := range names {
		for _, end := range []string{"", "Limit", "NotSatisfied"} {
			reason := before + name + behind + end
			if _, is := slurmspec.ReasonNamed(reason); is {
				return reason
			}
		}
	}
	return before + names[0] + behind
}
