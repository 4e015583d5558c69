package recorded

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurmmodel/accounts"
	"rmreplay/internal/rm/slurmmodel/fairshare"
	"rmreplay/internal/rm/slurmmodel/limits"
	"rmreplay/internal/rm/slurmmodel/priority"
	"rmreplay/internal/rm/slurmmodel/tres"
	"rmreplay/internal/slurmspec"
)

// model is the model of the three packages on a case's cluster.
type model struct {
	t *testing.T

	cluster    *conf.Cluster
	release    slurmspec.Release
	table      *tres.Table
	accounts   *accounts.Accounts
	shares     *fairshare.FairShare
	priorities *priority.Settings
	limits     *limits.Limits
	size       priority.Cluster
	partitions map[string]*partition
	users      map[string]string // names by number
	requests   map[string]request

	jobs  []*job // in the order of slurmctld's list
	byID  map[string]*job
	now   int64
	wrong int
}

type partition struct {
	priority priority.Partition
	limits   limits.Partition
	weights  []float64
}

// request is a job of the workload.
type request struct {
	ID       string
	Tasks    int
	MinNodes int     `json:"min_nodes"`
	Nice     int64   `json:"nice"`
	Limit    float64 `json:"time_limit_s"`
}

// job is a job of the record.
type job struct {
	m       *model
	id      string
	fields  map[string]string
	request request
	limits  limits.Job
	first   *partition
	amounts tres.Vector
	running bool
	over    bool

	parts    priority.Parts
	factor   float64
	computed uint32
	at       int64
}

// compare goes through a record and compares every number with the model's.
func compare(t *testing.T, c *txtar.Archive, release, record string) {
	m := newModel(t, c, release)
	lines := strings.Split(strings.TrimSpace(record), "\n")
	for i, text := range lines {
		f := strings.Fields(text)
		switch f[0] {
		case "job":
			m.addJob(f)
		case "boot":
			m.boot(number(f[1]))
		case "run":
			m.run(number(f[1]), number(f[2]))
		case "submit":
			m.submit(f)
		case "priority":
			m.checkPriority(f, m.byID[f[2]])
		case "start":
			m.start(f)
		case "end":
			m.end(f)
		case "usage":
			m.checkUsage(f)
		case "level":
			m.checkLevel(f)
		case "shown":
			m.checkCounts(number(f[1]), lines[i+1:])
		case "count":
		default:
			t.Fatalf("%q is no event of a record", text)
		}
		if m.wrong > 20 {
			t.Fatal("too many differences")
		}
	}
}

func (m *model) errorf(format string, args ...any) {
	m.t.Helper()
	m.wrong++
	m.t.Errorf("second %d: "+format, append([]any{m.now}, args...)...)
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func newModel(t *testing.T, c *txtar.Archive, release string) *model {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"slurm.conf", "accounts.sacctmgr", "users", "gres.conf"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(file(c, "cluster/"+name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := &model{t: t, byID: map[string]*job{}, partitions: map[string]*partition{}, users: map[string]string{"0": "root"}, requests: map[string]request{}}
	var err error
	if m.cluster, err = conf.Open(dir); err != nil {
		t.Fatal(err)
	}
	if m.release, err = slurmspec.ParseRelease(release); err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(file(c, "cluster/users")) {
		f := strings.Split(row, ":")
		m.users[f[1]] = f[0]
	}
	for row := range strings.Lines(file(c, "workload.jsonl")) {
		var r request
		if err := json.Unmarshal([]byte(row), &r); err == nil && r.ID != "" {
			m.requests[r.ID] = r
		}
	}
	return m
}

// boot makes a slurmctld that starts at a second.
func (m *model) boot(second int64) {
	get := m.cluster.Get
	tracked, _ := get("AccountingStorageTRES")
	m.table = tres.New(tracked)
	set := associations.Read(m.cluster.Accounts, "accounts", m.cluster.Name)
	if len(set.Mistakes) > 0 {
		m.t.Fatal(set.Mistakes)
	}
	settings, err := fairshare.ReadSettings(get, m.release)
	if err != nil {
		m.t.Fatal(err)
	}
	if m.priorities, err = priority.ReadSettings(get, m.table, true, m.release); err != nil {
		m.t.Fatal(err)
	}
	m.accounts = accounts.New(set, m.table, settings.FairTree, m.release)
	m.shares = fairshare.New(m.accounts, settings, second, 0)
	m.limits = limits.New(m.accounts, m.shares, accounts.ReadEnforcement(get), m.priorities.AccrueAlways, m.release)
	m.addPartitions()
	m.now = second
	m.shares.Run(second, m.each)
}

func (m *model) addPartitions() {
	nodes := map[string]tres.Vector{}
	for _, n := range m.cluster.Nodes {
		v := m.table.Vector()
		v[tres.CPU], v[tres.Memory], v[tres.Node] = uint64(n.CPUs), uint64(n.RealMemory), 1
		for _, g := range n.GRES {
			for _, name := range []string{"gres/" + g.Name, "gres/" + g.Name + ":" + g.Type} {
				if i, ok := m.table.Index(name); ok {
					v[i] += uint64(g.Count)
				}
			}
		}
		nodes[n.Name] = v
		m.size.Nodes++
		m.size.CPUs += uint32(n.CPUs)
	}
	var all []*priority.Partition
	for _, p := range m.cluster.Partitions {
		of := &partition{limits: limits.Partition{QOS: m.accounts.QOS[strings.ToLower(p.QOS)], MaxMinutes: slurmspec.Infinite, DefaultMinutes: slurmspec.NoVal}}
		of.priority.TRES, of.priority.JobFactor = m.table.Vector(), 1
		if text, ok := p.Get("PriorityJobFactor"); ok {
			of.priority.JobFactor = uint16(number(text))
		}
		for _, name := range p.Nodes {
			for i, n := range nodes[name] {
				of.priority.TRES[i] += n
			}
		}
		text, _ := p.Get("TRESBillingWeights")
		var err error
		if of.weights, err = m.table.Weights(text); err != nil {
			m.t.Fatal(err)
		}
		m.partitions[p.Name] = of
		all = append(all, &of.priority)
	}
	priority.NormalizePartitions(all)
}

// addJob takes a job as sacct describes it.
func (m *model) addJob(f []string) {
	j := &job{m: m, id: f[1], fields: map[string]string{}}
	for _, field := range f[2:] {
		name, value, _ := strings.Cut(field, "=")
		j.fields[name] = strings.Trim(value, "-")
	}
	j.request = m.requests[j.fields["name"]]
	m.byID[j.id] = j
}

// prepare makes the records of a job that is submitted.
func (m *model) prepare(j *job, second int64) {
	names := strings.Split(j.fields["partition"], ",")
	j.first = m.partitions[names[0]]
	a := m.accounts.Find(j.fields["user"], j.fields["account"], names[0])
	if a == nil {
		m.t.Fatalf("job %s has no association", j.id)
	}
	j.limits = limits.Job{
		Association: a, User: j.fields["user"], QOS: m.accounts.QOS[j.fields["qos"]], Partition: &j.first.limits,
		Minutes: uint32(j.request.Limit / 60), Submit: second, Begin: second,
	}
	j.amounts = m.table.Vector()
	j.amounts[tres.CPU], j.amounts[tres.Node] = uint64(j.request.Tasks), max(1, uint64(j.request.MinNodes))
	for name, text := range slurmspec.TRES(j.fields["tres"]) {
		i, ok := m.table.Index(name)
		if !ok {
			continue
		}
		n, err := slurmspec.ParseMemory(text)
		if err != nil {
			m.t.Fatal(err)
		}
		j.amounts[i] = uint64(n)
	}
	j.amounts[tres.Billing] = uint64(m.table.Bill(j.first.weights, j.amounts, m.priorities.MaxTRES))
	m.jobs = append(m.jobs, j)
}

func (m *model) each(yield func(fairshare.Job) bool) {
	for _, j := range m.jobs {
		if !j.over && !yield(j) {
			return
		}
	}
}

func (j *job) Association() *accounts.Association { return j.limits.Association }

func (j *job) Running() *fairshare.Running {
	if !j.running {
		return nil
	}
	return j.limits.Running
}

func (j *job) Prioritize(now int64) {
	if !j.running || j.m.priorities.CalculateRunning {
		j.compute(now)
	}
}

func (j *job) compute(now int64) {
	m := j.m
	j.factor = m.shares.Factor(j.limits.Association)
	of := priority.Job{
		Association: j.limits.Association, QOS: j.limits.QOS, FairShare: j.factor, Accrue: j.limits.Accrue, Nodes: max(1, uint32(j.request.MinNodes)),
		CPUs: uint32(j.request.Tasks), Minutes: j.limits.Minutes, Partitions: []*priority.Partition{&j.first.priority}, TRES: j.amounts, Nice: j.request.Nice,
	}
	j.parts = m.priorities.Of(&of, m.size, now)
	j.computed, j.at = m.priorities.Update(j.computed, j.parts.Sum()), now
}

func (m *model) run(second, delta int64) {
	if last := second - delta; m.shares.Last() < last {
		m.shares.Run(last, m.each)
	}
	m.now = second
	m.accrue()
	m.shares.Run(second, m.each)
}

// accrue lets the pending jobs gain age, as slurmctld does when it builds the queue.
func (m *model) accrue() {
	for _, j := range m.jobs {
		if !j.running && !j.over {
			m.limits.Accrue(&j.limits, m.now)
		}
	}
}

func (m *model) submit(f []string) {
	j := m.byID[f[2]]
	m.now = number(f[1])
	m.prepare(j, m.now)
	j.compute(m.now)
	m.checkPriority(f, j)
	m.limits.Submitted(&j.limits)
}

func (m *model) start(f []string) {
	j := m.byID[f[2]]
	m.now = number(f[1])
	m.accrue()
	names, err := hostlist.Expand(j.fields["nodes"])
	if err != nil {
		m.t.Fatal(err)
	}
	set := make([]uint64, 1)
	for _, name := range names {
		i, _ := m.cluster.Node(name)
		set[0] |= 1 << i
	}
	of := m.partitions[j.fields["partition"]]
	j.limits.Nodes, j.limits.Partition = set, &of.limits
	j.limits.Running = &fairshare.Running{
		Association: j.limits.Association, QOS: j.limits.QOS, PartitionQOS: of.limits.QOS, User: j.limits.User, Start: m.now,
		LimitEnd: m.now + 60*int64(j.limits.Minutes), Billing: m.table.Bill(of.weights, j.amounts, m.priorities.MaxTRES), TRES: j.amounts,
	}
	j.running = true
	m.limits.Begin(&j.limits)
}

func (m *model) end(f []string) {
	j := m.byID[f[2]]
	m.now = number(f[1])
	j.running, j.over = false, true
	m.limits.Finish(&j.limits, m.now, number(j.fields["end"]))
	m.limits.Removed(&j.limits, true)
}

func (m *model) checkPriority(f []string, j *job) {
	second := number(f[1])
	if j.at != second {
		j.compute(second)
	}
	if want := uint32(number(f[3])); j.computed != want {
		m.errorf("job %s has priority %d, want %d: %s; %+v", j.id, j.computed, want, strings.Join(f[4:], " "), j.parts)
	}
	p := &j.parts
	for name, got := range map[string]string{
		"factor": fmt.Sprintf("%.6f", j.factor), "effective": fmt.Sprintf("%.6f", sharing(j.limits.Association).FairShare.Effective),
		"age": fmt.Sprintf("%2.f", p.Age), "assoc": fmt.Sprintf("%.2f", p.Association), "fairshare": fmt.Sprintf("%.2f", p.FairShare),
		"size": fmt.Sprintf("%.2f", p.Size), "partition": fmt.Sprintf("%.2f", p.Partition), "qos": fmt.Sprintf("%.2f", p.QOS),
		"nice": strconv.FormatInt(p.Nice, 10),
	} {
		if want := field(f, name); want != "" && strings.TrimSpace(got) != want {
			m.errorf("job %s has %s %s, want %s", j.id, name, got, want)
		}
	}
}

// sharing returns the association whose shares an association uses.
func sharing(a *accounts.Association) *accounts.Association {
	if a.Shares == associations.SharesOfParent {
		return a.ShareParent
	}
	return a
}

// field returns the value of NAME=VALUE in a line.
func field(f []string, name string) string {
	for _, text := range f {
		if value, ok := strings.CutPrefix(text, name+"="); ok {
			return value
		}
	}
	return ""
}

// find returns an association by "account/user" or "account/user/partition".
func (m *model) find(name string) *accounts.Association {
	f := strings.Split(name, "/")
	a := m.accounts.Find(f[1], f[0], strings.Join(f[2:], "/"))
	if a == nil {
		m.t.Fatalf("no association %s", name)
	}
	return a
}

func (m *model) checkUsage(f []string) {
	a := m.find(f[1])
	if got := fmt.Sprintf("%.6f", a.Usage.Raw.Float64()); got != f[2] {
		m.errorf("%s has used %s, want %s", f[1], got, f[2])
	}
	if got := fmt.Sprintf("%.6f", a.Usage.Wall); got != f[3] {
		m.errorf("%s has used %s seconds, want %s", f[1], got, f[3])
	}
}

func (m *model) checkLevel(f []string) {
	a := m.find(f[1])
	if got := levelText(a); got != f[2] {
		m.errorf("%s has the Level FS %s, want %s", f[1], got, f[2])
	}
	if !a.IsUser() {
		return
	}
	want := float64(int64(m.accounts.Users)-number(f[3])) / float64(m.accounts.Users)
	if a.FairShare.Factor != want {
		m.errorf("%s has the factor %v, want %v", f[1], a.FairShare.Factor, want)
	}
}

// levelText is Level FS as slurmctld logs it: with 20 decimals.
func levelText(a *accounts.Association) string {
	switch {
	case a.Shares == associations.SharesOfParent:
		return "parent"
	case a.FairShare.Level.Big() == nil:
		return "inf"
	}
	return a.FairShare.Level.Big().Text('f', 20)
}

// counts are the lines of a record with the numbers of the model that are not 0.
func (m *model) counts() map[string]string {
	all := map[string]string{}
	put := func(name, key, value string) {
		if strings.Trim(value, "0.") != "" {
			all[name+" "+key] = value
		}
	}
	usage := func(name string, u *accounts.Usage, decimals int) {
		put(name, "UsageRaw", strconv.FormatFloat(u.Raw.Float64(), 'f', decimals, 64))
		put(name, "GrpWall", strconv.FormatFloat(u.Wall/60, 'f', 2, 64))
		for i, n := range u.TRES {
			put(name, "GrpTRESMins "+m.table.Name(i), strconv.FormatUint(uint64(n.Float64()/60), 10))
			put(name, "GrpTRESRunMins "+m.table.Name(i), strconv.FormatUint(u.Reserved[i]/60, 10))
		}
	}
	counts := func(name string, c *accounts.Counts, jobs, accruing, submitted, of, reserved string) {
		put(name, jobs, strconv.Itoa(c.Running))
		put(name, accruing, strconv.Itoa(c.Accruing))
		put(name, submitted, strconv.Itoa(c.Submitted))
		for i, n := range c.TRES {
			put(name, of+" "+m.table.Name(i), strconv.FormatUint(n, 10))
			put(name, reserved+" "+m.table.Name(i), strconv.FormatUint(c.Reserved[i]/60, 10))
		}
	}
	for _, a := range m.accounts.List {
		name := a.Account + "/" + a.User + strings.TrimSuffix("/"+a.Partition, "/")
		usage(name, &a.Usage, 2)
		counts(name, &a.Counts, "GrpJobs", "GrpJobsAccrue", "GrpSubmitJobs", "GrpTRES", "")
	}
	for _, q := range m.accounts.QOS {
		usage("qos:"+q.Name, &q.Usage, 6)
		counts("qos:"+q.Name, &q.Counts, "GrpJobs", "GrpJobsAccrue", "GrpSubmitJobs", "GrpTRES", "")
		for user, c := range q.ByUser {
			counts("qos:"+q.Name+":"+user, c, "MaxJobsPU", "MaxJobsAccruePU", "MaxSubmitJobsPU", "MaxTRESPU", "MaxTRESRunMinsPU")
		}
		for account, c := range q.ByAccount {
			counts("qos:"+q.Name+":"+account, c, "MaxJobsPA", "MaxJobsAccruePA", "MaxSubmitJobsPA", "MaxTRESPA", "MaxTRESRunMinsPA")
		}
	}
	return all
}

func (m *model) checkCounts(second int64, lines []string) {
	m.now = second
	m.accrue()
	got, want := m.counts(), map[string]string{}
	for _, text := range lines {
		f := strings.Fields(text)
		if f[0] != "count" {
			break
		}
		name := f[1]
		if qos, user, ok := cutLast(name, ":"); ok && strings.Contains(qos, ":") {
			user, _, _ = strings.Cut(user, "(") // since 24.05: "ida(21009)"
			name = qos + ":" + cmp.Or(m.users[user], user)
		}
		key, value := f[2], f[3]
		if resource, n, ok := cutLast(value, "="); ok {
			key, value = key+" "+resource, n
		}
		want[name+" "+key] = value
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			m.errorf("%s is %s, want %s", name, got[name], want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			m.errorf("%s is %s, want 0", name, got[name])
		}
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
