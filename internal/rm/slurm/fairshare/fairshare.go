// Package fairshare makes the files in which slurmctld finds the fair-share usage that it
// starts with (load_assoc_usage in assoc_mgr.c). It computes; asking slurmdbd for its accounts
// and writing the files is the caller's.
package fairshare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/rpc"
)

// association is an account, or a user in one, as slurmdbd numbers them.
type association struct {
	id            uint32
	account, user string
	parent        string // account above this account
	partition     string // a user's association may be for one alone
	qos           string // the default
	limits        string // those on what has been used, as text
}

// qos is what of a QOS concerns usage.
type qos struct {
	factor float64 // UsageFactor: what its jobs use counts so much
	limits string
}

// Accounts is what slurmdbd has of accounts, in lower case, as far as usage goes.
type Accounts struct {
	list     []association     // an account stands before those below it
	defaults map[string]string // the accounts of users whose jobs name none
	qos      map[string]qos
	of       map[owner][]int // places in the list: a user may have one for each partition
}

// owner is an account, or a user in one.
type owner struct{ account, user string }

// Usage is the fair-share usage with which slurmctld is to start, and what of slurm.conf
// decides how it counts.
type Usage struct {
	// Given is the usage that the workload gives, but for what preset jobs will add, which is
	// Accrued.
	Given   []hpc.Usage
	Accrued []hpc.Accrual
	// At is the instant at which the usage is what the workload gives.
	At hpc.Time
	// DefaultPartition is the partition of jobs that name none.
	DefaultPartition string
	// LimitsEnforced says that limits act at all.
	LimitsEnforced bool
	// BillsProcessors says that jobs are billed by their processors and nothing else.
	BillsProcessors bool
}

// Of reads from a cluster's slurm.conf what decides how usage counts.
func (u Usage) Of(cluster *conf.Cluster) Usage {
	u.DefaultPartition = cluster.DefaultPartition()
	u.LimitsEnforced, u.BillsProcessors = limitsEnforced(cluster), true
	for _, p := range cluster.Partitions {
		if weights, _ := p.Get("TRESBillingWeights"); weights != "" {
			u.BillsProcessors = false
		}
	}
	return u
}

// limitsEnforced reports whether limits act at all (_validate_accounting_storage_enforce in
// read_config.c).
func limitsEnforced(cluster *conf.Cluster) bool {
	what, _ := cluster.Get("AccountingStorageEnforce")
	return slices.ContainsFunc(strings.Split(strings.ToLower(what), ","), func(word string) bool {
		return slices.Contains([]string{"2", "limits", "safe", "all"}, word)
	})
}

// Warn takes a warning; affects says that it makes the result doubtful.
type Warn func(code, text string, affects bool)

// CheckLimits warns of limits on usage that find no usage when the replay begins.
func (u Usage) CheckLimits(known *Accounts, warn Warn) {
	if !u.LimitsEnforced {
		return
	}
	given := map[string]bool{}
	if len(u.Given) > 0 {
		given["billing"], given["cpu"] = true, u.BillsProcessors
	}
	var from0 []string
	for _, a := range known.list {
		if l := limitsWithout(a.limits, given); l != "" {
			from0 = append(from0, nameOf(a.account, a.user)+" "+l)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known.qos)) {
		if l := known.qos[name].limits; l != "" { // a workload gives no usage of a QOS
			from0 = append(from0, "QOS "+name+" "+l)
		}
	}
	if n := len(from0); n > 0 {
		warn("limits-from-zero", fmt.Sprintf("%d limits are on what has been used, of which they find nothing when the replay begins: %s", n, strings.Join(from0, "; ")), true)
	}
}

// Files are the files, by name, that slurmctld is to find in its StateSaveLocation when it
// starts at the instant now; none without usage. It warns of usage that cannot be given.
func (u Usage) Files(known *Accounts, codec rpc.Codec, now hpc.Time, warn Warn) map[string][]byte {
	if len(u.Given) == 0 {
		return nil
	}
	used := &ledger{Accounts: known, accrued: make([]float64, len(known.list)), own: make([]float64, len(known.list))}
	for _, a := range u.Accrued {
		used.accrue(a, u.DefaultPartition)
	}
	used.balance(u.Given)
	if n := len(used.unknown); n > 0 {
		warn("usage-unknown", fmt.Sprintf("fair-share usage of %d accounts or users that the cluster does not have: %s", n, strings.Join(used.unknown, ", ")), true)
	}
	if n := len(used.exceeded); n > 0 {
		warn("usage-exceeded", fmt.Sprintf("the fair-share usage of %d accounts or users is more than the workload gives, because of what preset jobs add before the window or of what is given below, by %.2g %% of all that has been used: %s",
			n, 100*used.excess, strings.Join(used.exceeded, ", ")), used.excess > precision)
	}
	file := codec.UsageHeader(now.UnixSeconds())
	for i, a := range known.list {
		if used.own[i] > 0 {
			file = rpc.AppendUsage(file, a.id, used.own[i], u.BillsProcessors)
		}
	}
	// The usage that the workload gives is what has been used since the last reset
	// (PriorityUsageResetPeriod), so the last reset is at that instant.
	return map[string][]byte{"assoc_usage": file, "priority_last_decay_ran": rpc.AppendUsageReset(nil, u.At.UnixSeconds())}
}

// limitsWithout are the limits ("GrpTRESMins=cpu=100,gres/gpu=5 GrpWall=01:00:00") but for
// those on TRES of which the usage is given.
func limitsWithout(limits string, given map[string]bool) string {
	var left []string
	for _, limit := range strings.Fields(limits) {
		if list, ok := strings.CutPrefix(limit, "GrpTRESMins="); ok {
			tres := slices.DeleteFunc(strings.Split(list, ","), func(l string) bool {
				name, _, _ := strings.Cut(l, "=")
				return given[name]
			})
			if len(tres) == 0 {
				continue
			}
			limit = "GrpTRESMins=" + strings.Join(tres, ",")
		}
		left = append(left, limit)
	}
	return strings.Join(left, " ")
}

// ledger computes the usage of each association with which slurmctld has to start.
type ledger struct {
	*Accounts
	accrued []float64 // by association, what preset jobs will add
	// own is the usage of each association without what is below it. slurmctld adds it up
	// to the root itself; what an account has beyond its users' and its subaccounts' usage
	// (users who have left, say) is its own.
	own      []float64
	unknown  []string // accounts and users that the workload gives usage of and that are not there
	exceeded []string // those that will have used more than it gives
	excess   float64  // by how much, as a share of all usage, to which fair-share relates that of each
}

// accrue adds what a job will add, to the association that slurmctld finds for it
// (assoc_mgr_fill_in_assoc in assoc_mgr.c): one for the partition goes before one for all.
func (l *ledger) accrue(a hpc.Accrual, defaultPartition string) {
	user := strings.ToLower(a.User)
	partition, _, _ := strings.Cut(strings.ToLower(cmp.Or(a.Partition, defaultPartition)), ",")
	i := l.find(strings.ToLower(a.Account), user, partition)
	if i < 0 { // without enforcement a job goes to the default account
		i = l.find(l.defaults[user], user, partition)
	}
	if i < 0 {
		return
	}
	factor := 1.0
	if q, ok := l.qos[strings.ToLower(cmp.Or(a.QOS, l.list[i].qos, "normal"))]; ok {
		factor = q.factor
	}
	l.accrued[i] += a.Raw * factor
}

// find finds the association of a user in an account for a partition, or else for all of
// them; -1 if there is none.
func (l *ledger) find(account, user, partition string) int {
	all := -1
	for _, i := range l.of[owner{account, user}] {
		switch l.list[i].partition {
		case partition:
			return i
		case "":
			all = i
		}
	}
	return all
}

// balance finds the usage that every association has of its own at the start, so that the
// given usage is reached when the preset jobs have added theirs.
func (l *ledger) balance(usage []hpc.Usage) {
	given := map[owner]float64{}
	for _, u := range usage {
		given[owner{strings.ToLower(u.Account), strings.ToLower(u.User)}] += u.Raw
	}
	holder := map[owner]int{} // the association that gets what is given: the one for all partitions
	adds := map[owner]float64{}
	for i, a := range l.list {
		k := owner{a.account, a.user}
		if first, known := holder[k]; !known || a.partition == "" && l.list[first].partition != "" {
			holder[k] = i
		}
		adds[k] += l.accrued[i]
	}
	for k := range given {
		if _, known := holder[k]; !known {
			l.unknown = append(l.unknown, nameOf(k.account, k.user))
		}
	}
	all := 0.0
	below := map[string]float64{} // of accounts, what will have been used below them
	// sacctmgr lists an account before its users and those below it, so the way up is backwards.
	for i, a := range slices.Backward(l.list) {
		k := owner{a.account, a.user}
		if holder[k] != i {
			continue
		}
		others := adds[k]
		if a.user == "" {
			others += below[a.account]
		}
		total, ok := given[k]
		if ok {
			l.own[i] = max(0, total-others)
			if others > total*(1+precision) {
				l.exceeded = append(l.exceeded, nameOf(k.account, k.user))
				l.excess += others - total
			}
		}
		all += l.own[i] + adds[k]
		if a.user != "" {
			below[a.account] += max(total, others)
		} else if a.parent != "" {
			below[a.parent] += max(total, others)
		}
	}
	if all > 0 {
		l.excess /= all
	}
	slices.Sort(l.unknown)
	slices.Sort(l.exceeded)
}

// precision is how exact the usage at the window's start is: slurmctld adds what jobs
// use, and lets it decay, in steps of PriorityCalcPeriod.
const precision = 0.01

// nameOf names an account, or a user in one.
func nameOf(account, user string) string { return strings.Trim(account+"/"+user, "/") }

// ReadAccounts asks slurmdbd for the accounts of a cluster. list runs sacctmgr -nP list with
// the given arguments and returns what it has printed.
func ReadAccounts(cluster string, list func(args ...string) (string, error)) (*Accounts, error) {
	known := &Accounts{of: map[owner][]int{}, defaults: map[string]string{}, qos: map[string]qos{}}
	for _, part := range []struct {
		what []string
		take func(fields []string) error
	}{
		{[]string{"assoc", "cluster=" + cluster, "format=ID,Account,User,ParentName,Partition,DefaultQOS,GrpTRESMins,GrpWall"}, known.takeAssociation},
		{[]string{"user", "format=User,DefaultAccount"}, known.takeUser},
		{[]string{"qos", "format=Name,UsageFactor,GrpTRESMins,GrpWall"}, known.takeQOS},
	} {
		out, err := list(part.what...)
		if err != nil {
			return nil, err
		}
		format := part.what[len(part.what)-1]
		for line := range strings.Lines(out) {
			line = strings.TrimSuffix(line, "\n")
			fields := strings.Split(line, "|")
			if len(fields) != strings.Count(format, ",")+1 {
				return nil, fmt.Errorf("sacctmgr said %q (want %s)", line, format)
			}
			if err := part.take(fields); err != nil {
				return nil, fmt.Errorf("sacctmgr said %q (%s): %w", line, format, err)
			}
		}
	}
	return known, nil
}

func (k *Accounts) takeAssociation(f []string) error {
	id, err := strconv.ParseUint(f[0], 10, 32)
	if err != nil {
		return fmt.Errorf("the ID %s is not a number", f[0])
	}
	lower := func(i int) string { return strings.ToLower(f[i]) }
	who := owner{lower(1), lower(2)}
	k.of[who] = append(k.of[who], len(k.list))
	k.list = append(k.list, association{
		id: uint32(id), account: who.account, user: who.user, parent: lower(3), partition: lower(4), qos: lower(5), limits: limitsText(f[6], f[7]),
	})
	return nil
}

func (k *Accounts) takeUser(f []string) error {
	k.defaults[strings.ToLower(f[0])] = strings.ToLower(f[1])
	return nil
}

func (k *Accounts) takeQOS(f []string) error {
	factor, err := strconv.ParseFloat(f[1], 64)
	if err != nil {
		return fmt.Errorf("the usage factor %s is not a number", f[1])
	}
	k.qos[strings.ToLower(f[0])] = qos{factor: factor, limits: limitsText(f[2], f[3])}
	return nil
}

// limitsText describes limits on what has been used; empty without.
func limitsText(tresMinutes, wall string) string {
	var limits []string
	if tresMinutes != "" {
		limits = append(limits, "GrpTRESMins="+tresMinutes)
	}
	if wall != "" {
		limits = append(limits, "GrpWall="+wall)
	}
	return strings.Join(limits, " ")
}
