// Package fairshare makes the files from which slurmctld reads its fair-share usage when it starts
// (load_assoc_usage in assoc_mgr.c). The package only computes: the caller gets the accounts from
// slurmdbd and writes the files.
package fairshare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// association is an account, or a user in an account, with slurmdbd's number for it.
type association struct {
	id            uint32
	account, user string
	parent        string // the account above this account
	partition     string // the only partition of a user's association; empty for all
	qos           string // the default QOS
	limits        string // its limits on usage, as text
}

// qos is the part of a QOS that concerns usage.
type qos struct {
	factor float64 // UsageFactor, by which the usage of its jobs is multiplied
	limits string
}

// Accounts are slurmdbd's accounts, users and QOS, reduced to what concerns usage. Names are in
// lower case.
type Accounts struct {
	list     []association     // each account comes before the accounts below it
	defaults map[string]string // default accounts by user
	qos      map[string]qos
	of       map[owner][]int // indices in list; a user may have an association for each partition
}

// owner is an account, or a user in an account.
type owner struct{ account, user string }

// Usage is the fair-share usage with which slurmctld starts. It also has the settings of
// slurm.conf that decide how slurmctld counts usage.
type Usage struct {
	// Given is the workload's usage at the instant At. Accrued is the part of Given that the preset
	// jobs add before At.
	Given   []hpc.Usage
	Accrued []hpc.Accrual
	At      hpc.Time
	// DefaultPartition is the partition of jobs that name no partition.
	DefaultPartition string
	// LimitsEnforced is set if slurmctld enforces limits.
	LimitsEnforced bool
	// BillsProcessors is set if a job's billing is its number of processors.
	BillsProcessors bool
}

// WithCluster sets the fields that a cluster's slurm.conf decides.
func (u Usage) WithCluster(cluster *conf.Cluster) Usage {
	u.DefaultPartition = cluster.DefaultPartition()
	u.LimitsEnforced, u.BillsProcessors = limitsEnforced(cluster), true
	for _, p := range cluster.Partitions {
		if weights, _ := p.Get("TRESBillingWeights"); weights != "" {
			u.BillsProcessors = false
		}
	}
	return u
}

// limitsEnforced reports whether slurmctld enforces limits
// (_validate_accounting_storage_enforce in read_config.c).
func limitsEnforced(cluster *conf.Cluster) bool {
	what, _ := cluster.Get("AccountingStorageEnforce")
	return slices.ContainsFunc(strings.Split(strings.ToLower(what), ","), func(word string) bool {
		return slices.Contains([]string{"2", "limits", "safe", "all"}, word)
	})
}

// Warn records a warning. The parameter affects is set if the result may be invalid.
type Warn func(code, text string, affects bool)

// CheckLimits warns of limits on usage that start from zero in the replay. Initial usage reaches
// only GrpTRESMins limits on billing and, without billing weights, on CPUs.
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
		if l := known.qos[name].limits; l != "" { // workloads give no usage of a QOS
			from0 = append(from0, "QOS "+name+" "+l)
		}
	}
	if n := len(from0); n > 0 {
		warn("limits-from-zero", fmt.Sprintf("%d limits on usage start from zero in the replay: %s", n,
			strings.Join(from0, "; ")), true)
	}
}

// Files returns the files, by name, for the StateSaveLocation of a slurmctld that starts at the
// instant now. It returns nil if the workload gives no usage. It warns about usage that the files
// cannot express.
func (u Usage) Files(known *Accounts, codec rpc.Codec, now hpc.Time, warn Warn) map[string][]byte {
	if len(u.Given) == 0 {
		return nil
	}
	file := codec.UsageHeader(now.UnixSeconds())
	for _, own := range u.Own(known, warn) {
		file = rpc.AppendUsage(file, own.id, own.Raw, u.BillsProcessors)
	}
	// The workload's usage counts from the last reset (PriorityUsageResetPeriod). If u.At is the
	// instant of the last reset, slurmctld makes no other reset before the window begins.
	return map[string][]byte{"assoc_usage": file, "priority_last_decay_ran": rpc.AppendUsageReset(nil, u.At.UnixSeconds())}
}

// Own is the usage with which an association starts, not counting the usage of associations below
// it. Names are in lower case. Raw is in billing × seconds.
type Own struct {
	Account, User, Partition string
	Raw                      float64

	id uint32
}

// Own returns the usage of all associations with usage, in the order of the accounts. It warns
// about usage that it cannot express.
func (u Usage) Own(known *Accounts, warn Warn) []Own {
	used := &ledger{Accounts: known, accrued: make([]float64, len(known.list)), own: make([]float64, len(known.list))}
	for _, a := range u.Accrued {
		used.accrue(a, u.DefaultPartition)
	}
	used.balance(u.Given)
	if n := len(used.unknown); n > 0 {
		warn("usage-unknown", fmt.Sprintf("fair-share usage of %d accounts or users that the cluster does not have: %s", n,
			strings.Join(used.unknown, ", ")), true)
	}
	if n := len(used.exceeded); n > 0 {
		warn("usage-exceeded", fmt.Sprintf("the fair-share usage of %d accounts or users exceeds the usage in the workload "+
			"by %.2g %% of all usage, because their preset jobs before the window, or the accounts and users below them, used more: %s",
			n, 100*used.excess, strings.Join(used.exceeded, ", ")), used.excess > precision)
	}
	var list []Own
	for i, a := range known.list {
		if used.own[i] > 0 {
			list = append(list, Own{Account: a.account, User: a.user, Partition: a.partition, Raw: used.own[i], id: a.id})
		}
	}
	return list
}

// limitsWithout removes limits from a text such as "GrpTRESMins=cpu=100,gres/gpu=5
// GrpWall=01:00:00". It removes the limits on TRES in given.
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

// ledger computes the usage with which each association starts.
type ledger struct {
	*Accounts
	accrued []float64 // usage that preset jobs add, by association
	// own is the usage of each association, not counting the associations below it. slurmctld adds
	// these values up to the root. If an account has more usage than its users and subaccounts
	// together, the difference is its own usage: for example, the usage of users who have left.
	own      []float64
	unknown  []string // accounts and users in the workload's usage that slurmdbd does not have
	exceeded []string // accounts and users whose usage will exceed the workload's
	excess   float64  // the sum of these excesses, as a share of all usage
}

// accrue adds a job's usage to the association that slurmctld finds for the job
// (assoc_mgr_fill_in_assoc in assoc_mgr.c). An association for the job's partition comes before an
// association for all partitions.
func (l *ledger) accrue(a hpc.Accrual, defaultPartition string) {
	user := strings.ToLower(a.User)
	partition, _, _ := strings.Cut(strings.ToLower(cmp.Or(a.Partition, defaultPartition)), ",")
	i := l.find(strings.ToLower(a.Account), user, partition)
	if i < 0 { // without enforcement slurmctld uses the default account
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

// find returns the index of a user's association in an account. It prefers the association for the
// partition to the association for all partitions. It returns -1 if there is neither.
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

// balance computes each association's own usage at the start. When the preset jobs have added
// their usage, the result is the given usage.
func (l *ledger) balance(usage []hpc.Usage) {
	given := map[owner]float64{}
	for _, u := range usage {
		given[owner{strings.ToLower(u.Account), strings.ToLower(u.User)}] += u.Raw
	}
	holder := map[owner]int{} // the association that gets the usage; one for all partitions comes first
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
	below := map[string]float64{} // final usage below each account
	// sacctmgr lists an account before the associations below it, so the loop goes backwards.
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

// precision is the relative error of the usage at the window's start. The usage is not exact,
// because slurmctld adds usage and applies the decay in steps of PriorityCalcPeriod.
const precision = 0.01

// nameOf returns the name of an account, or of a user in an account.
func nameOf(account, user string) string { return strings.Trim(account+"/"+user, "/") }

// ReadAccounts asks slurmdbd for the accounts of a cluster. list runs sacctmgr -nP list with the
// given arguments and returns its output. If a line has an unexpected form, the error quotes the
// line.
func ReadAccounts(cluster string, list func(args ...string) (string, error)) (*Accounts, error) {
	known := &Accounts{of: map[owner][]int{}, defaults: map[string]string{}, qos: map[string]qos{}}
	for _, part := range []struct {
		what []string
		take func(fields []string) error
	}{
		{[]string{"assoc", "cluster=" + cluster,
			"format=ID,Account,User,ParentName,Partition,DefaultQOS,GrpTRESMins,GrpWall"}, known.takeAssociation},
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
				return nil, fmt.Errorf("reading sacctmgr's output: %q: wrong number of fields (want %s)", line, format)
			}
			if err := part.take(fields); err != nil {
				return nil, fmt.Errorf("reading sacctmgr's output: %q (%s): %w", line, format, err)
			}
		}
	}
	return known, nil
}

// DeclaredAccounts returns the accounts that commands for sacctmgr declare. The returned accounts lack slurmdbd's
// numbers.
func DeclaredAccounts(set *associations.Set) *Accounts {
	known := &Accounts{of: map[owner][]int{}, defaults: map[string]string{}, qos: map[string]qos{}}
	// Each account must come before the accounts below it, but commands may have moved accounts.
	list := slices.Clone(set.Associations)
	slices.SortStableFunc(list, func(a, b *associations.Association) int {
		return cmp.Compare(len(set.Line(a)),
			len(set.Line(b)))
	})
	for _, a := range list {
		who := owner{a.Account, a.User}
		known.of[who] = append(known.of[who], len(known.list))
		one := association{account: a.Account, user: a.User, parent: a.Parent, partition: a.Partition}
		one.qos, one.limits = a.DefaultQOS, declaredLimits(&a.Limits)
		known.list = append(known.list, one)
		if a.Default {
			known.defaults[a.User] = a.Account
		}
	}
	for name, p := range set.Policies {
		known.qos[name] = qos{factor: 1, limits: declaredLimits(&p.Limits)}
		if p.UsageFactor != nil {
			known.qos[name] = qos{factor: *p.UsageFactor, limits: declaredLimits(&p.Limits)}
		}
	}
	return known
}

// declaredLimits returns limits on usage in the form that sacctmgr prints.
func declaredLimits(l *associations.Limits) string {
	var tres slurmspec.TRESList
	for _, name := range slices.Sorted(maps.Keys(l.GrpTRESMins)) {
		tres.Add(name, l.GrpTRESMins[name], "")
	}
	wall := ""
	if l.GrpWall != nil {
		wall = slurmspec.FormatSpan(time.Duration(*l.GrpWall) * time.Minute)
	}
	return limitsText(tres.String(), wall)
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
		id: uint32(id), account: who.account, user: who.user, parent: lower(3), partition: lower(4), qos: lower(5),
		limits: limitsText(f[6], f[7]),
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

// limitsText returns limits on usage as text; empty if there are none.
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
