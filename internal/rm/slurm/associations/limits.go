package associations

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// TRES has counts of trackable resources by Slurm's names for them: "cpu", "mem" (MiB), "node",
// "billing", "gres/gpu", "gres/gpu:a100", "license/matlab". A nil TRES sets no limit.
type TRES map[string]int64

// Limits are the limits that QOS and associations have in common.
type Limits struct {
	GrpTRES, GrpTRESMins, GrpTRESRunMins                TRES
	MaxTRESPerJob, MaxTRESPerNode, MaxTRESMinutesPerJob TRES
	// GrpWall and MaxWall are in minutes; nil for no limit.
	GrpWall, MaxWall *int64
	// The next six fields limit the number of running jobs, of submitted jobs, and of pending jobs
	// that accrue age; nil for no limit. The Max limits are an association's MaxJobs, MaxSubmitJobs
	// and MaxJobsAccrue, and a QOS's MaxJobsPerUser, MaxSubmitJobsPerUser and MaxJobsAccruePerUser.
	GrpJobs, GrpSubmit, GrpAccrue *int64
	MaxJobs, MaxSubmit, MaxAccrue *int64
	// MinPriority is MinPrioThresh: the lowest priority at which a pending job reserves resources.
	MinPriority *int64
	// Priority is the priority of a QOS, or of an association; nil if it is not set.
	Priority *int64
}

// Policy is a QOS.
type Policy struct {
	Limits
	MaxTRESPerUser, MaxTRESPerAccount, MinTRESPerJob            TRES
	MaxTRESRunMinsPerUser, MaxTRESRunMinsPerAccount             TRES
	MaxJobsPerAccount, MaxSubmitPerAccount, MaxAccruePerAccount *int64
	// UsageFactor multiplies the usage of the jobs; nil for 1.
	UsageFactor *float64
	// UsageThreshold is the lowest fair-share factor with which users may submit; nil if unset.
	UsageThreshold *float64
	// Preempt are the QOS whose jobs the jobs of this QOS may preempt. PreemptMode is in lower case;
	// empty for the cluster's mode.
	Preempt     []string
	PreemptMode string
	// GraceTime and PreemptExempt are in seconds. PreemptExempt is nil if it is not set.
	GraceTime     int64
	PreemptExempt *int64
	// Flags are in lower case: "denyonlimit", "partitiontimelimit", "overpartqos".
	Flags []string
	// LimitFactor multiplies the association's TRES limits; 0 if it is not set.
	LimitFactor float64
}

// Has reports whether the QOS has a flag. A flag's name may be abbreviated, as in sacctmgr.
func (p *Policy) Has(flag string) bool {
	return p != nil && slices.ContainsFunc(p.Flags, func(f string) bool { return f != "" && strings.HasPrefix(flag, f) })
}

// Association is an account, or a user in an account. The names are in lower case.
type Association struct {
	Account string
	Parent  string // the account above an account
	User    string // empty for an account itself
	// Partition is empty for an association with all partitions.
	Partition string
	// QOS is nil if the association inherits its parent's list. Added and Removed change that list.
	QOS, Added, Removed []string
	DefaultQOS          string
	// Default says that the account is the user's default account.
	Default bool
	// Line is the line number of the command that adds the association; 0 for the root and its user.
	Line int
	// Shares are the fair-share shares: 1 if no command sets them, [SharesOfParent] for
	// Fairshare=parent.
	Shares uint32
	Limits
}

// SharesOfParent says that an association uses the shares of the account above it
// (SLURMDB_FS_USE_PARENT in slurmdb.h).
const SharesOfParent uint32 = 0x7FFFFFFF

// Find returns the association of a user with an account and a partition, or nil. The account may be
// empty for the user's default. An association with the partition is preferred to an association
// without a partition (assoc_mgr_fill_in_assoc in assoc_mgr.c).
func (s *Set) Find(user, account, partition string) *Association {
	var found *Association
	for _, a := range s.byUser(user) {
		if account == "" && !a.Default || account != "" && a.Account != account {
			continue
		}
		switch {
		case a.Partition == "" && found == nil:
			found = a
		case a.Partition != "" && a.Partition == partition:
			return a
		}
	}
	return found
}

// Has reports whether a user has an association with an account that is not limited to a partition. Like sacctmgr, it
// ignores the case of names.
func (s *Set) Has(user, account string) bool {
	return s.Find(strings.ToLower(user), strings.ToLower(account), "") != nil
}

// byUser returns a user's associations. Its first call after a change of the set makes the index.
func (s *Set) byUser(user string) []*Association {
	if s.users == nil {
		s.users = map[string][]*Association{}
		for _, a := range s.Associations {
			s.users[a.User] = append(s.users[a.User], a)
		}
	}
	return s.users[user]
}

// Above returns the parent of an association, or nil for the root.
func (s *Set) Above(a *Association) *Association {
	name := a.Account
	if a.User == "" {
		if name == "root" {
			return nil
		}
		name = a.Parent
	}
	for _, up := range s.byUser("") {
		if up.Account == name {
			return up
		}
	}
	return nil
}

// maxLevels bounds the number of levels up to the root, because a mistaken command may move an account below itself.
const maxLevels = 100

// Line returns an association and all associations above it, up to the root.
func (s *Set) Line(a *Association) (line []*Association) {
	for ; a != nil && len(line) < maxLevels; a = s.Above(a) {
		line = append(line, a)
	}
	return line
}

// Allowed returns the QOS that an association may use. An association without a list of its own
// inherits the list of its nearest ancestor with a list.
func (s *Set) Allowed(a *Association) []string {
	line := s.Line(a)
	var allowed []string
	for _, at := range slices.Backward(line) {
		if at.QOS != nil {
			allowed = slices.Clone(at.QOS)
		}
		for _, name := range at.Added {
			if !slices.Contains(allowed, name) {
				allowed = append(allowed, name)
			}
		}
		allowed = slices.DeleteFunc(allowed, func(name string) bool { return slices.Contains(at.Removed, name) })
	}
	return allowed
}

// DefaultQOS returns the QOS of a job that names no QOS (assoc_mgr_get_default_qos_info in
// assoc_mgr.c). a may be nil.
func (s *Set) DefaultQOS(a *Association) string {
	if a != nil {
		for _, at := range s.Line(a) {
			if at.DefaultQOS != "" {
				return at.DefaultQOS
			}
		}
		if allowed := s.Allowed(a); len(allowed) == 1 {
			return allowed[0]
		}
	}
	if root := s.byUser(""); len(root) > 0 && root[0].DefaultQOS != "" {
		return root[0].DefaultQOS
	}
	return "normal"
}

// Inherited returns an association's limits per job. An association inherits a limit that it does
// not set from its nearest ancestor that sets the limit, because slurmdbd passes such limits down.
// Group limits are not inherited.
func (s *Set) Inherited(a *Association) Limits {
	l := Limits{}
	for _, at := range s.Line(a) {
		for _, f := range []struct{ to, from *TRES }{
			{&l.MaxTRESPerJob, &at.MaxTRESPerJob}, {&l.MaxTRESPerNode, &at.MaxTRESPerNode}, {&l.MaxTRESMinutesPerJob,
				&at.MaxTRESMinutesPerJob},
		} {
			for name, n := range *f.from {
				if _, set := (*f.to)[name]; !set {
					if *f.to == nil {
						*f.to = TRES{}
					}
					(*f.to)[name] = n
				}
			}
		}
		for _, f := range []struct{ to, from **int64 }{
			{&l.MaxWall, &at.MaxWall}, {&l.MaxJobs, &at.MaxJobs}, {&l.MaxSubmit, &at.MaxSubmit}, {&l.MaxAccrue, &at.MaxAccrue},
			{&l.MinPriority, &at.MinPriority}, {&l.Priority, &at.Priority},
		} {
			if *f.to == nil {
				*f.to = *f.from
			}
		}
	}
	return l
}

// limits applies a correct command to the QOS and associations.
func (s *Set) limits(c *command) {
	s.users = nil
	switch c.entity.name {
	case "qos":
		s.changeQOS(c)
	case "account":
		s.changeAccounts(c)
	case "user":
		s.changeUsers(c)
	case "cluster": // a cluster's options apply to the root
		if c.verb.name != "delete" {
			s.Associations[0].apply(c.set)
		}
	}
}

func (s *Set) changeQOS(c *command) {
	names := c.list("names")
	if len(names) == 0 && c.verb.name == "modify" {
		names = slices.Sorted(maps.Keys(s.Policies))
	}
	for _, name := range names {
		switch {
		case c.verb.name == "delete":
			delete(s.Policies, name)
			continue
		case s.Policies[name] == nil:
			s.Policies[name] = &Policy{}
		}
		for _, a := range c.set {
			s.Policies[name].assign(a)
		}
	}
}

func (s *Set) changeAccounts(c *command) {
	names := c.list("names")
	if c.verb.name == "add" {
		parent := "root"
		if given := c.list("parent"); len(given) > 0 {
			parent = given[0]
		}
		for _, name := range names {
			if name == "root" {
				continue
			}
			a := &Association{Account: name, Parent: parent, Line: s.line, Shares: 1}
			a.apply(c.set)
			s.Associations = append(s.Associations, a)
		}
		return
	}
	of := func(a *Association) bool { return len(names) == 0 || slices.Contains(names, a.Account) }
	if c.verb.name == "delete" {
		s.Associations = slices.DeleteFunc(s.Associations, func(a *Association) bool { return a.Account != "root" && of(a) })
		return
	}
	for _, a := range s.Associations {
		if a.User == "" && of(a) {
			a.apply(c.set)
		}
	}
}

func (s *Set) changeUsers(c *command) {
	names, accounts, partitions := c.list("names"), c.list("accounts"), c.list("partitions")
	of := func(a *Association) bool {
		return a.User != "" && (len(names) == 0 || slices.Contains(names, a.User)) &&
			(len(accounts) == 0 || slices.Contains(accounts, a.Account)) &&
			(len(partitions) == 0 || slices.Contains(partitions, a.Partition))
	}
	switch c.verb.name {
	case "add":
		s.addAssociations(c, names, accounts, partitions)
	case "delete":
		s.Associations = slices.DeleteFunc(s.Associations, of)
	default:
		for _, a := range s.Associations {
			if of(a) {
				a.apply(c.set)
			}
		}
	}
	for _, a := range c.set {
		switch {
		case strings.HasPrefix("wckeys", a.word) && len(a.word) > 1:
			for _, name := range names {
				s.WCKeys[name] = append(s.WCKeys[name], splitLower(a.value)...)
			}
		case strings.HasPrefix("defaultwckey", a.word) && len(a.word) > len("defaultw"):
			for _, name := range names { // the default comes first
				s.WCKeys[name] = append(splitLower(a.value), s.WCKeys[name]...)
			}
		case strings.HasPrefix("defaultaccount", a.word) && len(a.word) > len("defaulta"):
			s.makeDefault(names, strings.ToLower(a.value))
		}
	}
}

// addAssociations adds users to accounts. A user's first account is the user's default account.
func (s *Set) addAssociations(c *command, names, accounts, partitions []string) {
	if len(partitions) == 0 {
		partitions = []string{""}
	}
	for _, name := range names {
		for _, account := range accounts {
			first := !slices.ContainsFunc(s.Associations, func(a *Association) bool { return a.User == name })
			for _, partition := range partitions {
				if !first && slices.ContainsFunc(s.Associations, func(a *Association) bool {
					return a.User == name && a.Account == account && a.Partition == partition
				}) {
					continue
				}
				a := &Association{Account: account, User: name, Partition: partition, Default: first, Line: s.line, Shares: 1}
				a.apply(c.set)
				s.Associations = append(s.Associations, a)
			}
		}
	}
}

func (s *Set) makeDefault(users []string, account string) {
	for _, a := range s.Associations {
		if a.User != "" && slices.Contains(users, a.User) {
			a.Default = a.Account == account
		}
	}
}

// apply sets options of accounts and users.
func (a *Association) apply(set []assignment) {
	for _, as := range set {
		switch {
		case as.word == "qos" || strings.HasPrefix("qoslevel", as.word) && len(as.word) > 1:
			a.applyQOS(as)
		case strings.HasPrefix("defaultqos", as.word) && len(as.word) > len("default"):
			a.DefaultQOS = strings.ToLower(strings.TrimPrefix(as.value, "-1"))
		case strings.HasPrefix("parent", as.word) && len(as.word) > 2:
			if a.User == "" {
				a.Parent = strings.ToLower(as.value)
			}
		case as.word != "" && (strings.HasPrefix("fairshare", as.word) || strings.HasPrefix("shares", as.word)):
			a.Shares = shares(as.value)
		default:
			a.assign(as, associationWords)
		}
	}
}

// applyQOS replaces or changes the list of QOS. Each name may have a sign of its own.
func (a *Association) applyQOS(as assignment) {
	if as.sign == 0 && !strings.ContainsAny(as.value, "+-") {
		a.QOS, a.Added, a.Removed = splitLower(as.value), nil, nil
		return
	}
	for _, name := range splitLower(as.value) {
		removed := as.sign == '-' || as.sign == 0 && name[0] == '-'
		name = strings.TrimLeft(name, "+-")
		without := func(list []string) []string { return slices.DeleteFunc(list, func(n string) bool { return n == name }) }
		a.Added, a.Removed = without(a.Added), without(a.Removed)
		if removed {
			a.Removed = append(a.Removed, name)
		} else {
			a.Added = append(a.Added, name)
		}
	}
}

// shares reads the value of Fairshare. -1 restores the default.
func shares(value string) uint32 {
	if isPrefix(value, "parent") && len(value) == len("parent") {
		return SharesOfParent
	}
	if n, err := strconv.ParseUint(value, 10, 31); err == nil {
		return uint32(n)
	}
	return 1
}

func splitLower(list string) []string {
	return slices.DeleteFunc(strings.Split(strings.ToLower(list), ","),
		func(name string) bool { return strings.Trim(name, "+- ") == "" })
}

// limitWord is the name of a limit in a command, and the smallest number of letters to which the
// name may be abbreviated. As in sacctmgr, the first matching entry of the table counts
// (sacctmgr_set_assoc_rec in association_functions.c, _set_rec in qos_functions.c).
type limitWord struct {
	name      string
	minLength int
	set       func(l *Limits, value string)
}

// tres returns a function that sets counts of TRES from a list such as "cpu=10,mem=4G".
func tres(of func(*Limits) *TRES) func(*Limits, string) {
	return func(l *Limits, value string) { of(l).set(value) }
}

func one(name string, of func(*Limits) *TRES) func(*Limits, string) {
	return func(l *Limits, value string) { of(l).set(name + "=" + value) }
}

func grpTRES(l *Limits) *TRES       { return &l.GrpTRES }
func grpTRESMins(l *Limits) *TRES   { return &l.GrpTRESMins }
func grpRunMins(l *Limits) *TRES    { return &l.GrpTRESRunMins }
func maxPerJob(l *Limits) *TRES     { return &l.MaxTRESPerJob }
func maxPerNode(l *Limits) *TRES    { return &l.MaxTRESPerNode }
func maxMinsPerJob(l *Limits) *TRES { return &l.MaxTRESMinutesPerJob }

var groupWords = []limitWord{
	{"grpcpumins", 7, one("cpu", grpTRESMins)},
	{"grpcpurunmins", 7, one("cpu", grpRunMins)},
	{"grpcpus", 7, one("cpu", grpTRES)},
	{"grpjobs", 4, func(l *Limits, v string) { l.GrpJobs = count(v) }},
	{"grpjobsaccrue", 8, func(l *Limits, v string) { l.GrpAccrue = count(v) }},
	{"grpmemory", 4, one("mem", grpTRES)},
	{"grpnodes", 4, one("node", grpTRES)},
	{"grpsubmitjobs", 4, func(l *Limits, v string) { l.GrpSubmit = count(v) }},
	{"grptres", 7, tres(grpTRES)},
	{"grptresmins", 8, tres(grpTRESMins)},
	{"grptresrunmins", 8, tres(grpRunMins)},
	{"grpwall", 4, func(l *Limits, v string) { l.GrpWall = minutes(v) }},
	{"maxcpuminsperjob", 7, one("cpu", maxMinsPerJob)},
	{"maxcpusperjob", 7, one("cpu", maxPerJob)},
	{"maxnodesperjob", 4, one("node", maxPerJob)},
	{"maxtresperjob", 7, tres(maxPerJob)},
	{"maxtrespernode", 11, tres(maxPerNode)},
	{"maxtresminsperjob", 8, tres(maxMinsPerJob)},
	{"maxwalldurationperjob", 4, func(l *Limits, v string) { l.MaxWall = minutes(v) }},
	{"minpriothresh", 4, func(l *Limits, v string) { l.MinPriority = count(v) }},
	{"priority", 2, func(l *Limits, v string) { l.Priority = count(v) }},
}

var associationWords = append(slices.Clone(groupWords),
	limitWord{"maxjobs", 4, func(l *Limits, v string) { l.MaxJobs = count(v) }},
	limitWord{"maxjobsaccrue", 8, func(l *Limits, v string) { l.MaxAccrue = count(v) }},
	limitWord{"maxsubmitjobs", 4, func(l *Limits, v string) { l.MaxSubmit = count(v) }})

func (l *Limits) assign(a assignment, words []limitWord) {
	for _, w := range words {
		if len(a.word) >= min(w.minLength, len(w.name)) && strings.HasPrefix(w.name, a.word) {
			w.set(l, a.value)
			return
		}
	}
}

// policyWord is an option of a QOS, in the form of [limitWord].
type policyWord struct {
	name      string
	minLength int
	set       func(p *Policy, value string)
}

// policyWords are the options of a QOS. sacctmgr looks for a word first among these options, and
// then among the limits that QOS share with associations.
var policyWords = []policyWord{
	{"gracetime", 3, func(p *Policy, v string) {
		if p.GraceTime = 0; count(v) != nil {
			p.GraceTime = *count(v)
		}
	}},
	{"limitfactor", 6, func(p *Policy, v string) {
		p.LimitFactor = 0
		if f := number(v); f != nil {
			p.LimitFactor = *f
		}
	}},
	{"maxcpusperuser", 11, func(p *Policy, v string) { p.MaxTRESPerUser.set("cpu=" + v) }},
	{"maxcpuspu", 9, func(p *Policy, v string) { p.MaxTRESPerUser.set("cpu=" + v) }},
	{"maxjobsaccrueperaccount", 17, func(p *Policy, v string) { p.MaxAccruePerAccount = count(v) }},
	{"maxjobsaccruepa", 15, func(p *Policy, v string) { p.MaxAccruePerAccount = count(v) }},
	{"maxjobsaccrueperuser", 17, func(p *Policy, v string) { p.MaxAccrue = count(v) }},
	{"maxjobsaccruepu", 15, func(p *Policy, v string) { p.MaxAccrue = count(v) }},
	{"maxjobsperaccount", 11, func(p *Policy, v string) { p.MaxJobsPerAccount = count(v) }},
	{"maxjobspa", 9, func(p *Policy, v string) { p.MaxJobsPerAccount = count(v) }},
	{"maxjobsperuser", 4, func(p *Policy, v string) { p.MaxJobs = count(v) }},
	{"maxjobspu", 4, func(p *Policy, v string) { p.MaxJobs = count(v) }},
	{"maxnodesperjob", 4, func(p *Policy, v string) { p.MaxTRESPerJob.set("node=" + v) }},
	{"maxnodesperuser", 8, func(p *Policy, v string) { p.MaxTRESPerUser.set("node=" + v) }},
	{"maxnodespu", 8, func(p *Policy, v string) { p.MaxTRESPerUser.set("node=" + v) }},
	{"maxsubmitjobsperaccount", 17, func(p *Policy, v string) { p.MaxSubmitPerAccount = count(v) }},
	{"maxsubmitjobspa", 15, func(p *Policy, v string) { p.MaxSubmitPerAccount = count(v) }},
	{"maxsubmitjobsperuser", 4, func(p *Policy, v string) { p.MaxSubmit = count(v) }},
	{"maxsubmitjobspu", 4, func(p *Policy, v string) { p.MaxSubmit = count(v) }},
	{"maxtresperaccount", 11, func(p *Policy, v string) { p.MaxTRESPerAccount.set(v) }},
	{"maxtrespa", 9, func(p *Policy, v string) { p.MaxTRESPerAccount.set(v) }},
	{"maxtresperjob", 7, func(p *Policy, v string) { p.MaxTRESPerJob.set(v) }},
	{"maxtrespernode", 11, func(p *Policy, v string) { p.MaxTRESPerNode.set(v) }},
	{"maxtresperuser", 11, func(p *Policy, v string) { p.MaxTRESPerUser.set(v) }},
	{"maxtrespu", 9, func(p *Policy, v string) { p.MaxTRESPerUser.set(v) }},
	{"maxtresminsperjob", 8, func(p *Policy, v string) { p.MaxTRESMinutesPerJob.set(v) }},
	{"maxtresrunminspa", 16, func(p *Policy, v string) { p.MaxTRESRunMinsPerAccount.set(v) }},
	{"maxtresrunminspu", 8, func(p *Policy, v string) { p.MaxTRESRunMinsPerUser.set(v) }},
	{"mincpusperjob", 7, func(p *Policy, v string) { p.MinTRESPerJob.set("cpu=" + v) }},
	{"mintresperjob", 7, func(p *Policy, v string) { p.MinTRESPerJob.set(v) }},
	{"preemptmode", 8, func(p *Policy, v string) { p.PreemptMode = strings.ToLower(v) }},
	{"preemptexempttime", 8, func(p *Policy, v string) { p.PreemptExempt = seconds(v) }},
	{"usagefactor", 6, func(p *Policy, v string) { p.UsageFactor = number(v) }},
	{"usagethreshold", 6, func(p *Policy, v string) { p.UsageThreshold = number(v) }},
}

// assign sets an option of a QOS.
func (p *Policy) assign(a assignment) {
	switch {
	case a.word != "" && len(a.word) >= 2 && strings.HasPrefix("flags", a.word):
		p.Flags = changed(p.Flags, a)
		return
	case len(a.word) == len("preempt") && a.word == "preempt":
		p.Preempt = changed(p.Preempt, a)
		return
	}
	for _, w := range policyWords {
		if len(a.word) >= min(w.minLength, len(w.name)) && strings.HasPrefix(w.name, a.word) {
			w.set(p, a.value)
			return
		}
	}
	p.Limits.assign(a, groupWords)
}

// changed returns a list of names as a command leaves it. Without a sign, the command's names
// replace the list. With + the names are added, and with - the names are removed. The value -1
// empties the list.
func changed(list []string, a assignment) []string {
	names := splitLower(a.value)
	switch a.sign {
	case 0:
		if a.value == "-1" {
			return nil
		}
		return names
	case '+':
		return append(list, slices.DeleteFunc(names, func(n string) bool { return slices.Contains(list, n) })...)
	default:
		return slices.DeleteFunc(list, func(n string) bool { return slices.Contains(names, n) })
	}
}

// set reads "cpu=10,mem=4G,gres/gpu=2" into the counts. -1 removes a limit.
func (t *TRES) set(value string) {
	for item := range strings.SplitSeq(value, ",") {
		name, number, ok := strings.Cut(item, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		n, readable := countOf(name, strings.TrimSpace(number))
		if !ok || !readable {
			continue // sacctmgr refuses the command
		}
		if n < 0 {
			delete(*t, name)
			continue
		}
		if *t == nil {
			*t = TRES{}
		}
		(*t)[name] = n
	}
}

// countOf reads a count with an optional unit. Memory without a unit is in MiB.
func countOf(name, number string) (int64, bool) {
	shift := 0
	if number != "" {
		if i := strings.IndexByte("kmgtp", number[len(number)-1]|0x20); i >= 0 {
			shift, number = 10*(i+1), number[:len(number)-1]
			if name == "mem" {
				shift -= 20
			}
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > 1<<40 {
		return 0, false
	}
	if shift < 0 {
		return n >> -shift, true
	}
	return n << min(shift, 22), true
}

// count reads a number of jobs; nil for no limit.
func count(value string) *int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

// minutes reads a time and returns minutes; nil for no limit.
func minutes(value string) *int64 {
	d, err := slurmspec.ParseTimeLimit(value)
	if err != nil || d == hpc.Unlimited || d < 0 {
		return nil
	}
	n, err := slurmspec.Minutes(d)
	if err != nil {
		return nil
	}
	long := int64(n)
	return &long
}

// number reads a factor; nil if it is negative or not a number.
func number(value string) *float64 {
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || f < 0 {
		return nil
	}
	return &f
}

// seconds reads a time and returns seconds; nil for no limit.
func seconds(value string) *int64 {
	d, err := slurmspec.ParseTimeSpec(value)
	if err != nil || d == hpc.Unlimited || d < 0 {
		return nil
	}
	n := int64(d.Seconds())
	return &n
}
