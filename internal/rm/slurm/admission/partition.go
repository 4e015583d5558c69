package admission

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/rpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/spelling"
)

// partition is a partition with its values in slurmctld's units: minutes and MiB. NoVal means that
// a value is not set, and Infinite means no limit.
type partition struct {
	*conf.Partition
	classes              []class
	has                  map[string]bool // its nodes
	first                *hpc.Node       // its first node, or nil
	cpus                 uint32          // of all nodes
	minNodes, maxNodes   uint32
	maxTime, defaultTime uint32
	maxCPUsPerNode       uint32
	defMem, maxMem       uint64 // MiB per node; MiB per CPU if slurmspec.MemPerCPU is set; 0 for no limit
	submit, sched        bool   // whether the partition accepts jobs, and whether it starts jobs
	alternate            string
	rootOnly, needsResv  bool
	exclusive            bool // OverSubscribe=EXCLUSIVE
}

// class is a set of nodes of a partition that differ only in their names.
type class struct {
	node  *hpc.Node // one of the nodes
	names []string
}

// readPartition reads a partition. kinds is the result of [kindsOf] for the cluster's nodes.
func (s *Site) readPartition(from *conf.Partition, kinds []int) (*partition, error) {
	p := &partition{Partition: from, has: map[string]bool{},
		maxNodes: slurmspec.Infinite, maxTime: slurmspec.Infinite, defaultTime: slurmspec.NoVal,
		maxCPUsPerNode: slurmspec.Infinite}
	classes := map[int]int{} // the index in p.classes of each kind of node
	for _, name := range from.Nodes {
		i, ok := s.cluster.Node(name)
		if !ok {
			continue
		}
		n := &s.cluster.Nodes[i]
		p.has[name] = true
		if p.first == nil {
			p.first = n
		}
		p.cpus += uint32(n.CPUs)
		if n.State == "FUTURE" {
			continue
		}
		at, known := classes[kinds[i]]
		if !known {
			at = len(p.classes)
			classes[kinds[i]] = at
			p.classes = append(p.classes, class{node: n})
		}
		p.classes[at].names = append(p.classes[at].names, name)
	}
	p.submit, p.sched = slurmspec.PartitionState(from.Get)
	p.alternate, _ = from.Get("Alternate")
	p.rootOnly, p.needsResv = isYes(from, "RootOnly"), isYes(from, "ReqResv")
	share, _ := from.Get("OverSubscribe")
	p.exclusive = strings.EqualFold(share, "EXCLUSIVE")
	for _, err := range []error{
		number(from, "MinNodes", &p.minNodes), number(from, "MaxNodes", &p.maxNodes),
		number(from, "MaxCPUsPerNode", &p.maxCPUsPerNode),
		timeLimit(from, "MaxTime", &p.maxTime), timeLimit(from, "DefaultTime", &p.defaultTime),
	} {
		if err != nil {
			return nil, err
		}
	}
	p.defMem, p.maxMem = s.memory(from, "DefMemPer"), s.memory(from, "MaxMemPer")
	return p, nil
}

// kindsOf numbers the kinds of nodes. Nodes of equal numbers differ only in their names.
func kindsOf(nodes []hpc.Node) []int {
	kinds, numbers := make([]int, len(nodes)), map[string]int{}
	var last hpc.Node
	for i, like := range nodes {
		like.Name, like.Weight, like.State = "", 0, ""
		if i > 0 && reflect.DeepEqual(&like, &last) { // comparing the nodes is faster than making their text
			kinds[i] = kinds[i-1]
			continue
		}
		text := fmt.Sprintf("%+v", like)
		if _, known := numbers[text]; !known {
			numbers[text] = len(numbers)
		}
		kinds[i], last = numbers[text], like
	}
	return kinds
}

func isYes(p *conf.Partition, key string) bool {
	v, _ := p.Get(key)
	return slices.Contains([]string{"YES", "UP", "TRUE", "1"}, strings.ToUpper(v))
}

func number(p *conf.Partition, key string, to *uint32) error {
	v, ok := p.Get(key)
	if !ok {
		return nil
	}
	if slices.Contains([]string{"UNLIMITED", "INFINITE"}, strings.ToUpper(v)) {
		*to = slurmspec.Infinite
		return nil
	}
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil {
		return fmt.Errorf("%s=%s: not a number (want 0 to 4294967295, or UNLIMITED)", key, v)
	}
	*to = uint32(n)
	return nil
}

func timeLimit(p *conf.Partition, key string, to *uint32) error {
	v, ok := p.Get(key)
	if !ok || strings.EqualFold(v, "NONE") {
		return nil
	}
	if strings.EqualFold(v, "INFINITE") {
		v = "UNLIMITED"
	}
	d, err := slurmspec.ParseTimeLimit(v)
	if err != nil {
		return fmt.Errorf("%s=%s: %w", key, v, err)
	}
	if d == hpc.Unlimited {
		*to = slurmspec.Infinite
		return nil
	}
	if d == 0 {
		*to = 0
		return nil
	}
	*to, err = slurmspec.Minutes(d)
	return err
}

// memory returns a partition's memory limit: DefMemPerCPU or DefMemPerNode for the prefix "Def",
// MaxMemPerCPU or MaxMemPerNode for "Max". If the partition sets no value, memory returns the cluster's.
func (s *Site) memory(p *conf.Partition, prefix string) uint64 {
	for _, get := range []func(string) (string, bool){p.Get, s.cluster.Get} {
		for _, key := range []string{"CPU", "Node"} {
			text, ok := get(prefix + key)
			if !ok {
				continue
			}
			n, err := strconv.ParseUint(text, 10, 63)
			switch {
			case err != nil || n == 0: // UNLIMITED also means no limit
			case key == "CPU":
				return n | slurmspec.MemPerCPU
			default:
				return n
			}
		}
	}
	return 0
}

// chosen returns the partitions of a job. A closed partition is replaced by its alternate
// (_get_job_parts).
func (s *Site) chosen(j *rpc.JobDesc, inReservation string) ([]*partition, *Finding) {
	var list []*partition
	names := strings.Split(j.Partition, ",")
	if j.Partition == "" {
		names = nil
		if p := s.partitions[inReservation]; p != nil {
			list = append(list, p)
		} else if s.standard != nil {
			list = append(list, s.standard)
		} else {
			return nil, reject(errNoDefault, RulePartition, "the job names no partition, and no partition is the default",
				"give one partition Default=YES in slurm.conf")
		}
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		p := s.partitions[name]
		if p == nil {
			return nil, reject(errInvalidPartition, RulePartition, "there is no partition "+name+
				spelling.Suggest(name, slices.Sorted(maps.Keys(s.partitions))),
				"add it to slurm.conf, or map its jobs to another (workload transform --map-partition)")
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		return nil, reject(errInvalidPartition, RulePartition, fmt.Sprintf("%q names no partition", j.Partition),
			"name a partition of slurm.conf")
	}
	var open []*partition
	var closed *Finding
	for _, p := range list {
		if to, why := s.openOne(p); why != nil {
			closed = why
		} else {
			open = append(open, to)
		}
	}
	if len(open) == 0 {
		return nil, closed
	}
	return open, nil
}

// openOne returns the partition if it accepts jobs, and otherwise its first open alternate
// (_alt_part_test).
func (s *Site) openOne(p *partition) (*partition, *Finding) {
	at := p
	for range s.partitions {
		if at.submit {
			return at, nil
		}
		if at.alternate == "" {
			break
		}
		next := s.partitions[at.alternate]
		if next == nil {
			return nil, reject(errInvalidPartition, RulePartition, fmt.Sprintf("partition %s is closed, and its alternate %s "+
				"does not exist", p.Name, at.alternate),
				"correct Alternate in slurm.conf")
		}
		at = next
	}
	state, _ := p.Get("State")
	return nil, reject(errPartitionClosed, RulePartition, fmt.Sprintf("partition %s has State=%s and takes no jobs",
		p.Name, strings.ToUpper(state)), "set State=UP in slurm.conf")
}

// access checks whether a partition's conditions admit a job (_part_access_check). The parameter
// required lists the nodes that the job names.
func (s *Site) access(p *partition, j *rpc.JobDesc, v *viewer, required []string) *Finding {
	says := func(errno slurmspec.Errno, rule, key, what, remedy string) *Finding {
		value, _ := p.Get(key)
		return reject(errno, rule, fmt.Sprintf("partition %s has %s=%s; %s", p.Name, key, value, what), remedy)
	}
	newer := s.release.Since(slurmspec.R2302)
	switch {
	case p.needsResv && j.Reservation == "":
		return says(errAccess, RuleAccess, "ReqResv", "the jobs name no reservation",
			"take ReqResv out of slurm.conf, or record the reservations")
	case p.rootOnly && !v.operator:
		return says(errAccess, RuleAccess, "RootOnly", "the jobs' users are not root", "take RootOnly out of slurm.conf")
	case !newer && !s.inGroup(p, v.user):
		return s.wrongGroup(p)
	}
	if p.sched && j.MinCPUs != slurmspec.NoVal {
		most, key := uint64(p.cpus), ""
		if p.maxCPUsPerNode != slurmspec.Infinite {
			if n := uint64(p.maxCPUsPerNode) * uint64(len(p.Nodes)); n < most {
				most, key = n, fmt.Sprintf(" (MaxCPUsPerNode=%d)", p.maxCPUsPerNode)
			}
		}
		if uint64(j.MinCPUs) > most {
			return reject(errTooManyCPUs, RuleCPUs, fmt.Sprintf("partition %s has %d CPUs%s; the jobs ask for more", p.Name,
				most, key),
				"give the partition more nodes, or let the jobs ask for fewer tasks or CPUs")
		}
	}
	if p.sched && j.MinNodes != slurmspec.NoVal && int(j.MinNodes) > len(p.Nodes) {
		return reject(errNodeCount, RuleNodes, fmt.Sprintf("partition %s has %d nodes; the jobs ask for more", p.Name,
			len(p.Nodes)),
			"give the partition more nodes, or let the jobs ask for fewer (workload transform --scale-nodes)")
	}
	for _, name := range required {
		if !p.has[name] {
			return reject(errNotInPartition, RuleNodeList, fmt.Sprintf("the jobs name nodes that partition %s does not have",
				p.Name),
				"take --nodelist out of the jobs, or correct the partition's Nodes")
		}
	}
	switch {
	case p.sched && j.MinNodes != slurmspec.NoVal && j.MinNodes < p.minNodes && !v.policy.Has("partitionminnodes"):
		return says(errNodeCount, RuleNodes, "MinNodes", "the jobs ask for fewer nodes", "lower MinNodes in slurm.conf")
	case p.sched && j.MaxNodes != slurmspec.NoVal && j.MaxNodes > p.maxNodes && !v.policy.Has("partitionmaxnodes"):
		return says(errNodeCount, RuleNodes, "MaxNodes", "the jobs ask for more nodes", "raise MaxNodes in slurm.conf")
	case p.sched && j.TimeLimit != slurmspec.NoVal && j.TimeLimit > p.maxTime && !v.policy.Has("partitiontimelimit"):
		return says(errTimeLimit, RuleTime, "MaxTime", "the jobs' time limits are longer",
			"raise MaxTime in slurm.conf, or shorten the jobs' time limits")
	}
	if s.enforce == enforceNone {
		return nil
	}
	if newer && !s.inGroup(p, v.user) {
		return s.wrongGroup(p)
	}
	if why := s.wrongQOS(p, v); why != nil {
		why.Slurm = errQOS.Name()
		return why
	}
	if why := s.wrongAccount(p, v); why != nil {
		why.Slurm = errAccount.Name()
		return why
	}
	return nil
}

// inGroup reports whether a user is in one of the groups of AllowGroups (validate_group).
func (s *Site) inGroup(p *partition, user string) bool {
	if p.AllowGroups == nil || user == "root" {
		return true
	}
	u := s.users[user]
	return slices.Contains(p.AllowGroups, u.Group) || slices.ContainsFunc(u.Groups,
		func(name string) bool { return slices.Contains(p.AllowGroups, name) })
}

func (s *Site) wrongGroup(p *partition) *Finding {
	return reject(errGroup, RuleGroups,
		fmt.Sprintf("partition %s has AllowGroups=%s; the users are in none of these groups", p.Name,
			strings.Join(p.AllowGroups, ",")),
		"list the users' further groups in the file users (name:uid:group:gid:GROUP,…), or take AllowGroups out of "+
			"slurm.conf")
}

// wrongQOS checks AllowQos and DenyQos (part_policy_valid_qos). wrongAccount checks AllowAccounts
// and DenyAccounts (part_policy_valid_acct).
func (s *Site) wrongQOS(p *partition, v *viewer) *Finding {
	switch {
	case p.AllowQOS != nil && (v.policy == nil || !slices.Contains(p.AllowQOS, v.qos)):
		return reject(errPartConfig, RuleQOS, fmt.Sprintf("partition %s has AllowQos=%s; the jobs have QOS %s", p.Name,
			strings.Join(p.AllowQOS, ","), v.qos),
			"add QOS "+v.qos+" to AllowQos in slurm.conf")
	case v.policy != nil && slices.Contains(p.DenyQOS, v.qos):
		return reject(errPartConfig, RuleQOS, fmt.Sprintf("partition %s has DenyQos=%s; the jobs have QOS %s", p.Name,
			strings.Join(p.DenyQOS, ","), v.qos),
			"take QOS "+v.qos+" out of DenyQos in slurm.conf")
	}
	return nil
}

func (s *Site) wrongAccount(p *partition, v *viewer) *Finding {
	name := v.account
	if name == "" {
		name = "no account"
	}
	accounts := s.lineage(v)
	in := func(list []string) bool {
		return slices.ContainsFunc(accounts, func(account string) bool { return slices.Contains(list, account) })
	}
	switch {
	case p.AllowAccounts != nil && !in(p.AllowAccounts):
		return reject(errPartConfig, RuleAccount, fmt.Sprintf("partition %s has AllowAccounts=%s; the jobs have %s", p.Name,
			strings.Join(p.AllowAccounts, ","), name),
			"add account "+name+" to AllowAccounts in slurm.conf")
	case in(p.DenyAccounts):
		return reject(errPartConfig, RuleAccount, fmt.Sprintf("partition %s has DenyAccounts=%s; the jobs have %s", p.Name,
			strings.Join(p.DenyAccounts, ","), name),
			"take account "+name+" out of DenyAccounts in slurm.conf")
	}
	return nil
}

// lineage returns the account of a submission. Since 23.11 AllowAccounts and DenyAccounts also
// apply to subaccounts (slurm.conf(5)), so lineage then also returns the accounts above.
func (s *Site) lineage(v *viewer) (accounts []string) {
	if v.account != "" {
		accounts = []string{v.account}
	}
	if v.association != nil && s.release.Since(slurmspec.R2311) {
		for _, a := range s.standingOf(v.association).line {
			accounts = append(accounts, a.Account)
		}
	}
	return accounts
}
