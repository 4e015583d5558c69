package admission

import (
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/jobdesc"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
)

// viewer has the properties of the submitting user that decide about access.
type viewer struct {
	user        string
	operator    bool
	account     string                    // of the association; in lower case
	association *associations.Association // nil without an association
	qos         string
	policy      *associations.Policy // nil without a QOS
}

// Reservations returns the reservation of a name at the instant of a submission, or nil.
type Reservations func(name string) *hpc.Reservation

// Judge returns why slurmctld does not run a job, or nil. It ignores the job's dependencies.
// reservations may be nil.
func (s *Site) Judge(job *hpc.Job, reservations Reservations) *Finding {
	if reservations == nil {
		reservations = func(string) *hpc.Reservation { return nil }
	}
	job = Admitted(s.cluster, job)
	if _, known := s.users[job.User]; !known {
		return &Finding{Verdict: Rejected, Rule: RuleUser, Text: fmt.Sprintf("there is no user %q", job.User),
			Remedy: "name the user in the file users or in the workload"}
	}
	sub := jobdesc.Submission{
		Request: job.Request, Script: "#!/bin/sh\n", Args: []string{"script"}, UID: 1, GID: 1, Now: job.Submit,
		Release: s.release,
	}
	j, err := sub.JobDesc()
	if err != nil {
		return &Finding{Verdict: Rejected, Rule: RuleSubmission, Text: err.Error(),
			Remedy: "correct the options: sbatch refuses them"}
	}
	v := &viewer{user: job.User, operator: job.AsOperator}
	for _, check := range []func(*hpc.Job, *rpc.JobDesc, *viewer) *Finding{s.request, s.array} {
		if why := check(job, j, v); why != nil {
			return why
		}
	}
	c := &creation{Site: s, job: job, j: j, v: v, reservations: reservations}
	return c.judge()
}

// request makes slurmctld's checks before it looks at partitions (validate_job_create_req), and derives the same
// numbers of tasks, CPUs and nodes as slurmctld.
func (s *Site) request(job *hpc.Job, j *rpc.JobDesc, v *viewer) *Finding {
	if !v.operator {
		switch {
		case j.Nice < rpc.NiceOffset && j.Nice != slurmspec.NoVal:
			return reject(errNice, RuleAccess, "only operators may submit with a negative nice value",
				"take --nice out of the jobs")
		case j.Reboot != 0 && j.Reboot != slurmspec.NoVal16:
			return reject(errAccess, RuleAccess, "only administrators may submit with --reboot", "take --reboot out of the jobs")
		}
	}
	const arrayLength, usualLength = 4096, 1024
	for _, f := range []struct {
		option, value string
		maxLength     int
	}{
		{"--account", j.Account, usualLength}, {"--array", j.ArrayIndices, arrayLength},
		{"--comment", j.Comment, usualLength},
		{"--constraint", j.Features, usualLength}, {"--licenses", j.Licenses, usualLength},
		{"--job-name", j.Name, usualLength},
		{"--partition", j.Partition, usualLength}, {"--prefer", j.Prefer, usualLength}, {"--qos", j.QOS, usualLength},
		{"--reservation", j.Reservation, usualLength}, {"--gres", j.TRESPerNode, usualLength},
		{"--gpus", j.TRESPerJob, usualLength},
		{"--wckey", j.WCKey, usualLength}, {"--mcs-label", j.MCSLabel, usualLength},
	} {
		if len(f.value) > f.maxLength {
			return reject(errTooLong, RuleSubmission, fmt.Sprintf("%s has more than %d characters", f.option, f.maxLength),
				"shorten the option's value")
		}
	}
	if s.release.Since(slurmspec.R2302) {
		if why := s.allFeatures(j); why != nil {
			return why
		}
	}
	nodes := j.MinNodes
	if j.ReqNodes != "" && (nodes == slurmspec.NoVal || !s.release.Since(slurmspec.R2302)) {
		if n, err := hostlist.Count(j.ReqNodes); err == nil && (nodes == slurmspec.NoVal || nodes < uint32(n)) {
			j.MinNodes = uint32(n)
		}
	}
	if j.MinNodes == slurmspec.NoVal && s.release.Since(slurmspec.R2302) {
		j.MinNodes = 1
	}
	if j.TasksPerNode != slurmspec.NoVal16 && j.MinNodes != slurmspec.NoVal && j.Tasks == slurmspec.NoVal {
		j.Tasks = uint32(j.TasksPerNode) * j.MinNodes
	}
	if j.Overcommit == slurmspec.NoVal8 && j.MinCPUs != slurmspec.NoVal && j.Tasks != slurmspec.NoVal &&
		j.Tasks > j.MinCPUs {
		j.MinCPUs = j.Tasks
		if j.CPUsPerTask != slurmspec.NoVal16 {
			j.MinCPUs *= uint32(j.CPUsPerTask)
		}
	}
	return nil
}

func (s *Site) array(job *hpc.Job, _ *rpc.JobDesc, _ *viewer) *Finding {
	if job.Array == "" {
		return nil
	}
	a, err := hpc.ParseArray(job.Array)
	switch {
	case err != nil || len(a.Tasks) == 0:
		return reject(errArray, RuleArray, "an array's indices cannot be read", "correct --array")
	case a.Tasks[len(a.Tasks)-1] >= s.maxArray:
		return reject(errArray, RuleArray, fmt.Sprintf("an array's index is not below MaxArraySize=%d", s.maxArray),
			"raise MaxArraySize in slurm.conf")
	case s.maxTasks != 0 && len(a.Tasks) > max(s.maxTasks, 0) && s.maxTasks < s.maxArray:
		return reject(errArray, RuleArray, fmt.Sprintf("an array has more tasks than max_array_tasks=%d allows",
			max(s.maxTasks, 0)), "raise max_array_tasks in SchedulerParameters")
	}
	return nil
}

// creation repeats slurmctld's checks while slurmctld creates a job's record (_job_create) and
// first tries to start the job.
type creation struct {
	*Site
	job          *hpc.Job
	j            *rpc.JobDesc
	v            *viewer
	reservations Reservations

	reservation *hpc.Reservation // set if the job names exactly one reservation
	partitions  []*partition
	required    []string // the named nodes, sorted
	excluded    map[string]bool
	// onlyRequired is set if the job needs some, but not all, of the named nodes.
	onlyRequired bool
	// waits is the limit because of which an accepted job pends. waitsAtOnce is set if slurmctld
	// checks the limit before it looks for nodes.
	waits       *Finding
	waitsAtOnce bool
}

func (c *creation) judge() *Finding {
	for _, check := range []func() *Finding{
		c.nodeList, c.choosePartitions, c.findAssociation, c.findQOS, c.checkPartitions, c.checkMemory, c.checkLicenses,
		c.checkGRES, c.checkLimits, c.checkTasks, c.excludeNodes, c.checkRecord, c.checkReservations, c.start,
	} {
		if why := check(); why != nil {
			return why
		}
	}
	return c.waits
}

// nodeList reads --nodelist.
func (c *creation) nodeList() *Finding {
	if c.j.ReqNodes == "" {
		return nil
	}
	names, err := hostlist.Expand(c.j.ReqNodes)
	if err != nil {
		return reject(errNodeName, RuleNodeList, "--nodelist cannot be read", "correct the host list")
	}
	for _, name := range names {
		if _, known := c.cluster.Node(name); !known {
			return reject(errNodeName, RuleNodeList, "--nodelist names nodes that the cluster does not have",
				"take --nodelist out of the jobs, or add the nodes to slurm.conf")
		}
	}
	slices.Sort(names)
	c.required = slices.Compact(names)
	n := uint32(len(c.required))
	j := c.j
	if j.MinNodes != slurmspec.NoVal && n > j.MinNodes {
		if c.release.Since(slurmspec.R2302) { // slurmctld excludes all other nodes instead
			c.onlyRequired = true
			return nil
		}
		j.MinNodes = n
	}
	if n > j.MinCPUs && j.MinCPUs != slurmspec.NoVal && !c.release.Since(slurmspec.R2302) {
		j.MinCPUs = n
	}
	if j.MaxNodes != 0 && j.MinNodes != slurmspec.NoVal && j.MinNodes > j.MaxNodes && !c.release.Since(slurmspec.R2302) {
		return reject(errNodeCount, RuleNodes, "--nodelist names more nodes than --nodes allows",
			"correct --nodelist or --nodes")
	}
	return nil
}

func (c *creation) choosePartitions() (why *Finding) {
	within := ""
	if c.j.Reservation != "" { // the lookup scans a reservation's events, and few jobs name a reservation
		if r := c.reservations(c.j.Reservation); r != nil {
			c.reservation, within = r, r.Partition
		}
	}
	c.partitions, why = c.chosen(c.j, within)
	return why
}

// checkPartitions checks the access rules of the partitions. Then it checks the job against the widest of the
// partitions' limits (_valid_job_part).
func (c *creation) checkPartitions() *Finding {
	var failed *Finding
	accepted := false
	required := c.required
	if c.onlyRequired {
		required = nil
	}
	for _, p := range c.partitions {
		why := c.access(p, c.j, c.v, required)
		if why == nil {
			accepted = true
			continue
		}
		failed = why
		if c.enforce == enforceAll || c.always(why) {
			return why
		}
	}
	if failed != nil && c.enforce == enforceAny && !accepted {
		return failed
	}
	return c.withinLimits()
}

// checkTasks finds a job with at most one task that asks for several tasks per node. slurmctld
// 26.05 accepts such a job and finds no nodes for it, except with --overcommit, --mincpus or
// generic resources; the manual does not mention this. 22.05 and 24.11 start the job.
func (c *creation) checkTasks() *Finding {
	r := &c.job.Request
	if !c.release.Since(slurmspec.R2605) || c.waits != nil || r.TasksPerNode <= 1 || r.Tasks > 1 || r.Overcommit ||
		r.MinCPUsPerNode > 0 || len(gresOf(c.j)) > 0 {
		return nil
	}
	c.waits = pend("Resources", RuleTasks, "slurmctld starts no job with --ntasks-per-node and at most one task",
		"let the jobs ask for their tasks (--ntasks)")
	return nil
}

// always reports whether slurmctld rejects a job for the given finding even without EnforcePartLimits.
func (c *creation) always(why *Finding) bool {
	return why.Slurm == errAccess.Name() || why.Slurm == errGroup.Name() && !c.release.Since(slurmspec.R2302)
}

func (c *creation) withinLimits() *Finding {
	j, enforced := c.j, c.enforce != enforceNone
	least, most, longest := c.partitions[0].minNodes, uint32(1), uint32(0)
	for _, p := range c.partitions {
		least, most, longest = min(least, p.minNodes), max(most, p.maxNodes), max(longest, p.maxTime)
	}
	has := c.v.policy.Has
	switch {
	case j.MinNodes == slurmspec.NoVal:
		j.MinNodes = max(least, 1)
	case j.MinNodes > most && enforced && !has("partitionmaxnodes"):
		return reject(errNodeCount, RuleNodes, fmt.Sprintf("the partitions' MaxNodes is %d; the jobs ask for more nodes",
			most), "raise MaxNodes in slurm.conf")
	case j.MinNodes < least && (j.MaxNodes == slurmspec.NoVal || j.MaxNodes >= least):
		j.MinNodes = least
	}
	if j.MaxNodes != slurmspec.NoVal && enforced && j.MaxNodes < least && !has("partitionminnodes") {
		return reject(errNodeCount, RuleNodes, fmt.Sprintf("the partitions' MinNodes is %d; the jobs may have fewer nodes",
			least), "lower MinNodes in slurm.conf")
	}
	if c.release.Since(slurmspec.R2605) && j.Tasks != slurmspec.NoVal && enforced && j.Tasks < least &&
		!has("partitionminnodes") {
		return reject(errTaskCount, RuleTasks, fmt.Sprintf("the partitions' MinNodes is %d; the jobs have fewer tasks",
			least), "lower MinNodes in slurm.conf")
	}
	return c.withinTimes(longest, enforced)
}

func (c *creation) withinTimes(longest uint32, enforced bool) *Finding {
	j, first := c.j, c.partitions[0]
	free := c.v.policy.Has("partitiontimelimit")
	if j.TimeLimit == slurmspec.NoVal {
		if first.defaultTime == 0 {
			return reject(errTimeLimit, RuleTime, fmt.Sprintf("partition %s has DefaultTime=0; the jobs have no time limit",
				first.Name), "raise DefaultTime in slurm.conf")
		}
		j.TimeLimit = first.defaultTime // NoVal without a default
	}
	switch {
	case j.TimeMin != slurmspec.NoVal && j.TimeMin > longest && !free:
		return reject(errTimeMin, RuleTime, fmt.Sprintf("the partitions' MaxTime is %d minutes; --time-min is longer",
			longest), "raise MaxTime in slurm.conf")
	case j.TimeLimit != slurmspec.NoVal && j.TimeLimit > longest && j.TimeMin == slurmspec.NoVal && enforced && !free:
		return reject(errTimeLimit, RuleTime, fmt.Sprintf("the partitions' MaxTime is %d minutes; the jobs' time limits "+
			"are longer", longest),
			"raise MaxTime in slurm.conf, or shorten the jobs' time limits")
	case j.TimeMin != slurmspec.NoVal && j.TimeMin > j.TimeLimit && !free:
		return reject(errTimeMin, RuleTime, "--time-min is longer than the time limit", "correct --time-min")
	case j.Deadline == 0:
		return nil
	}
	return c.withinDeadline()
}

func (c *creation) withinDeadline() *Finding {
	j := c.j
	earliest := c.job.Submit.UnixSeconds()
	newer := c.release.Since(slurmspec.R2302)
	if newer {
		earliest = max(earliest, j.BeginTime)
	}
	late := func(minutes uint32) bool {
		return minutes != slurmspec.NoVal && minutes != 0 && j.Deadline < earliest+60*int64(minutes)
	}
	switch {
	case j.Deadline < earliest:
		return reject(errTimeLimit, RuleTime, "--deadline is before the earliest start", "correct --deadline")
	case late(j.TimeMin):
		return reject(errTimeMin, RuleTime, "--time-min does not fit before --deadline", "correct --deadline or --time-min")
	case late(j.TimeLimit) && !newer && j.TimeMin == slurmspec.NoVal:
		c.waits = pend("DeadLine", RuleTime,
			"the time limit does not fit before --deadline, at which slurmctld ends the jobs",
			"correct --deadline, or shorten the jobs' time limits")
	case late(j.TimeLimit) && newer && (j.TimeMin == slurmspec.NoVal || j.TimeMin == 0):
		return reject(errTimeLimit, RuleTime, "the time limit does not fit before --deadline",
			"correct --deadline, or shorten the jobs' time limits")
	}
	return nil
}

// checkMemory checks MaxMemPerCPU and MaxMemPerNode (_validate_min_mem_partition). A job that does
// not request memory gets the partition's default.
func (c *creation) checkMemory() *Finding {
	j := c.j
	if j.MinMemory == slurmspec.NoVal64 || c.enforce == enforceNone {
		c.finish()
		return nil
	}
	var failed *Finding
	for _, p := range c.partitions {
		failed = fitMemory(*j, p).why
		if (failed == nil) != (c.enforce == enforceAll) {
			break
		}
	}
	c.finish()
	return failed
}

// finish sets the numbers that are not given (_validate_job_desc).
func (c *creation) finish() {
	if c.j.MinNodes == slurmspec.NoVal {
		c.j.MinNodes = 1
	}
	if c.j.MinCPUs == slurmspec.NoVal {
		c.j.MinCPUs = c.j.MinNodes
	}
	if c.j.MinCPUsPerNode == slurmspec.NoVal16 || c.j.MinCPUsPerNode == 0 {
		c.j.MinCPUsPerNode = 1
	}
}

// checkLicenses checks the licenses that the cluster has (license_validate).
func (c *creation) checkLicenses() *Finding {
	list := c.j.Licenses
	mixed := false
	if c.release.Since(slurmspec.R2505) && strings.Contains(list, "|") { // alternatives
		list, mixed = strings.ReplaceAll(list, "|", ","), strings.ContainsAny(list, ",;(")
	}
	wanted, err := parseLicenses(list)
	if err != nil || mixed {
		return reject(errLicenses, RuleLicenses, "--licenses cannot be read", "correct --licenses (NAME:COUNT)")
	}
	for name, n := range wanted {
		has, known := c.licenses[name]
		switch {
		case !known:
			return reject(errLicenses, RuleLicenses, "slurm.conf has no license "+name,
				"add "+name+" to Licenses in slurm.conf, or take --licenses out of the jobs")
		case n > has && !c.zeroLicenses:
			return reject(errLicenses, RuleLicenses, fmt.Sprintf("slurm.conf has Licenses=%s:%d; the jobs ask for more", name,
				has), "raise the number in Licenses in slurm.conf")
		}
	}
	return nil
}

// excludeNodes reads --exclude.
func (c *creation) excludeNodes() *Finding {
	c.excluded = map[string]bool{}
	if c.onlyRequired {
		for _, n := range c.cluster.Nodes {
			if _, named := slices.BinarySearch(c.required, n.Name); !named {
				c.excluded[n.Name] = true
			}
		}
		c.required = nil
	}
	if c.j.ExcNodes == "" {
		return nil
	}
	names, err := hostlist.Expand(c.j.ExcNodes)
	if err != nil {
		return reject(errNodeName, RuleNodeList, "--exclude cannot be read", "correct the host list")
	}
	for _, name := range names {
		if _, known := c.cluster.Node(name); !known {
			return reject(errNodeName, RuleNodeList, "--exclude names nodes that the cluster does not have",
				"take --exclude out of the jobs")
		}
		c.excluded[name] = true
		if _, named := slices.BinarySearch(c.required, name); named {
			return reject(errNodeName, RuleNodeList, "--nodelist and --exclude name the same nodes", "correct --exclude")
		}
	}
	return nil
}

// checkRecord makes slurmctld's last checks before it creates the job's record: sizes, the wckey
// and the features.
func (c *creation) checkRecord() *Finding {
	j := c.j
	switch {
	case j.MaxNodes != slurmspec.NoVal && j.MaxNodes != 0 && j.MaxNodes < j.MinNodes:
		return reject(errNodeCount, RuleNodes, "the partition asks for more nodes than --nodes allows",
			"correct --nodes, or lower MinNodes in slurm.conf")
	case c.release.Since(slurmspec.R2605) && j.Tasks != slurmspec.NoVal && j.Tasks != 0 && j.Tasks < j.MinNodes:
		return reject(errTaskCount, RuleTasks, "the jobs have fewer tasks than nodes", "correct --ntasks or --nodes")
	}
	if c.wckeys && c.trackWCKey && c.accounts != nil {
		keys := c.accounts.WCKeys[strings.ToLower(c.job.User)]
		switch {
		case j.WCKey == "" && len(keys) == 0:
			return reject(errWCKey, RuleWCKey, "AccountingStorageEnforce has wckeys; the users have no default wckey",
				"give the users wckeys in "+c.accountsFile())
		case j.WCKey != "" && !slices.Contains(keys, strings.ToLower(j.WCKey)):
			return reject(errWCKey, RuleWCKey, "the users have no wckey "+j.WCKey, "give it to the users in "+c.accountsFile())
		}
	}
	return c.allFeatures(j)
}

// checkReservations checks that the reservations exist and admit the user (validate_job_resv).
func (c *creation) checkReservations() *Finding {
	if c.j.Reservation == "" {
		return nil
	}
	for name := range strings.SplitSeq(c.j.Reservation, ",") {
		if name == "" {
			continue
		}
		r := c.reservations(name)
		switch {
		case r == nil:
			return reject(errReservation, RuleReservation, "there is no reservation "+name+" when the jobs are submitted",
				"record the reservations, or take --reservation out of the jobs")
		case r.HasFlag(slurmspec.FlagTimeFloat) || !c.mayUse(r):
			return reject(errReservationAccess, RuleReservation, "the users may not use reservation "+name,
				"add the users or accounts to the reservation")
		}
	}
	return nil
}

// mayUse reports whether a reservation admits the job's user and account (_valid_job_access_resv).
func (c *creation) mayUse(r *hpc.Reservation) bool {
	account := c.v.account
	if account == "" {
		account = strings.ToLower(c.job.Account)
	}
	user := admits(r.Users, func(name string) bool { return name == c.job.User })
	if len(r.Users) > 0 && !denies(r.Users) && len(r.Accounts) == 0 || !user {
		return user
	}
	above := []string{account}
	if c.accounts != nil && c.associations {
		for _, a := range c.accounts.Line(c.v.association) {
			above = append(above, a.Account)
		}
	}
	return admits(r.Accounts, func(name string) bool { return slices.Contains(above, strings.ToLower(name)) })
}

func denies(list []string) bool { return len(list) > 0 && strings.HasPrefix(list[0], "-") }

// admits reports whether a list of users or accounts admits a user or an account. The parameter
// matches returns true for the names of this user or account. A minus before a name denies access.
func admits(list []string, matches func(string) bool) bool {
	named := slices.ContainsFunc(list, func(name string) bool { return matches(strings.TrimLeft(name, "+-")) })
	return len(list) == 0 || named != denies(list)
}
