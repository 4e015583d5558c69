package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/rm/slurm/conf/privacy"
	"rmreplay/internal/rm/slurm/conf/slurmdbd"
	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/rm/slurm/conf/topology"
	"rmreplay/internal/rm/slurm/conf/values"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// The names of the files in a cluster directory. The files of accounts and of users may have either of two names.
const (
	slurmConf    = "slurm.conf"
	gresConf     = "gres.conf"
	topologyConf = "topology.conf"
	topologyYAML = "topology.yaml"
)

var (
	accountsFiles = []string{"accounts.sacctmgr", "sacctmgr.script"}
	usersFiles    = []string{"users", "users.sim"}
)

// Cluster is a site's configuration before its adaptation.
type Cluster struct {
	// Path is the slurm.conf that was read.
	Path    string
	private privacy.Files
	// SiteRelease is the release that the site runs. The zero Release means a release that fits the
	// configuration: see [Cluster.Releases].
	SiteRelease slurmspec.Release
	// Name is ClusterName in lower case, which is how Slurm uses it.
	Name string
	// Statements are all statements of slurm.conf and its included files, in order.
	Statements []Statement
	// Nodes are in the order of slurm.conf. [Environment.NodeAddress] takes indices of this list.
	Nodes      []hpc.Node
	Partitions []Partition
	// GRES and Topology are the statements of gres.conf and topology.conf; nil if the site has no such file.
	GRES     []Statement
	Topology []Statement
	// TopologyYAML is the text of topology.yaml, which slurmctld reads since 25.05 in place of
	// topology.conf; nil if the site has none.
	TopologyYAML []byte
	// Database are the statements of slurmdbd.conf; nil if the directory has none.
	Database []Statement
	// Accounts are the commands for sacctmgr, from the file AccountsFile; nil if the directory has none.
	Accounts     []byte
	AccountsFile string
	// Users are the users of the cluster; nil if the directory has no list of users.
	Users []hpc.User
	// Warnings are about unusual statements of the configuration, in the order of the files. Most
	// begin with a file and line.
	Warnings []string
	// Mismatch is the warning of [Cluster.Scale] about a number of nodes unlike the requested one; "" without one.
	Mismatch string

	topology  *topology.File // of topology.yaml, or of a topology.conf that a plugin reads
	nodeLines []nodeLine
	nodeIndex map[string]int
	names     int      // number of names in expanded host lists; at most [maxNames]
	changed   []Change // by [Cluster.Scale], by [Cluster.With], or because a file is missing
	factor    float64  // of [Cluster.Scale]; 0 without it
}

// Open reads a cluster directory: slurm.conf and, if they exist, gres.conf, topology.conf or
// topology.yaml, slurmdbd.conf, accounts.sacctmgr (or sacctmgr.script) and users (or users.sim, or
// passwd with group). An error lists the mistakes of one file, each with its line.
func Open(dir string) (*Cluster, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("opening cluster directory: %w (want a directory that has slurm.conf)", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("opening cluster directory: %s: not a directory (want the directory that has slurm.conf)", dir)
	}
	return OpenFile(filepath.Join(dir, slurmConf))
}

// OpenFile reads the directory of a slurm.conf as [Open] does. The slurm.conf may have another name.
func OpenFile(path string) (*Cluster, error) {
	c, err := load(path, readFile)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading cluster: %w (a cluster directory needs the site's slurm.conf)", err)
		}
		return nil, fmt.Errorf("reading cluster: %w", err)
	}
	return c, nil
}

// Reopen reads the cluster again, as [OpenFile] does. texts are the contents of files that Reopen
// must not read from disk, by clean path.
func (c *Cluster) Reopen(texts map[string][]byte) (*Cluster, error) {
	return load(c.Path, func(path string) ([]byte, error) {
		if text, ok := texts[filepath.Clean(path)]; ok {
			return text, nil
		}
		return readFile(path)
	})
}

func load(path string, open reader) (c *Cluster, err error) {
	files := &files{open: open, private: privacy.Files{Dir: filepath.Dir(path)}}
	defer func() { err = files.private.Error(err) }()
	statements, err := parse(path, slurmGrammar, files)
	if err != nil {
		return nil, err
	}
	c = &Cluster{Path: path, Statements: statements, nodeIndex: make(map[string]int), Warnings: files.notes}
	dir := filepath.Dir(path)
	if c.GRES, err = optional(filepath.Join(dir, gresConf), gresGrammar, files); err != nil {
		return nil, err
	}
	if c.Topology, err = optional(filepath.Join(dir, topologyConf), topologyGrammar, files); err != nil {
		return nil, err
	}
	if c.TopologyYAML, err = files.read(filepath.Join(dir, topologyYAML)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := c.readDatabase(filepath.Join(dir, slurmdbd.File), files); err != nil {
		return nil, err
	}
	if err := c.resolve(); err != nil {
		return nil, err
	}
	if err := c.readAccounts(dir, files.read); err != nil {
		return nil, err
	}
	if c.Users, err = readUsers(dir, files.read); err != nil {
		return nil, err
	}
	c.Warnings = append(c.Warnings, values.NothingPreempts(c.Get, c.Accounts, c.AccountsFile)...)
	c.private = files.private
	c.private.Texts(c.Warnings)
	return c, nil
}

// Kept returns copies of the files of the cluster, as [privacy.Files.Kept] does.
func (c *Cluster) Kept() (files map[string]string, err error) { return c.private.Kept() }

// optional parses a file if the site has it. The result is nil only if the file does not exist.
func optional(path string, g syntax.Grammar, files *files) ([]Statement, error) {
	statements, err := parse(path, g, files)
	switch {
	case err == nil:
	case isMissing(err, path):
		return nil, nil
	default:
		return nil, err
	}
	if statements == nil {
		statements = []Statement{}
	}
	return statements, nil
}

// isMissing reports whether the file itself is missing, rather than a file that it includes.
func isMissing(err error, path string) bool {
	var missing *fs.PathError
	return errors.As(err, &missing) && missing.Path == path && errors.Is(missing, fs.ErrNotExist)
}

// readAccounts reads the first existing file of accounts. The output of sacctmgr dump becomes the
// commands that make the same associations.
func (c *Cluster) readAccounts(dir string, read reader) error {
	for _, name := range accountsFiles {
		path := filepath.Join(dir, name)
		data, err := read(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		c.Accounts, c.AccountsFile = data, path
		if first, _ := lines.First(data); strings.HasPrefix(first, "Cluster - ") {
			commands, _, err := workload.ConvertAccountsDump(bytes.NewReader(data), path)
			c.Accounts, c.AccountsFile = []byte(commands), path+" as commands"
			return err
		}
		return nil
	}
	return nil
}

// Get returns the value of a key that stands alone on its line, and whether it is set. It
// compares keys without case. For a repeated key it returns the last value, as Slurm does.
func (c *Cluster) Get(key string) (string, bool) {
	s, ok := c.statement(key)
	return s.Value, ok
}

// With returns a copy of the cluster in which a key that stands alone on its line has another
// value. It does not change the receiver. [Adapt] reports the change with the reason.
func (c *Cluster) With(key, value, reason string) *Cluster {
	site, set := c.statement(key)
	if set && site.Value == value {
		return c
	}
	out := *c
	out.Statements = slices.DeleteFunc(slices.Clone(c.Statements), func(s Statement) bool { return strings.EqualFold(s.Key, key) })
	out.Statements = append(out.Statements, Statement{File: site.File, Line: site.Line, Key: key, Value: value})
	out.changed = append(slices.Clip(c.changed),
		Change{Key: key, From: site.Value, To: value, Reason: reason, File: site.File, Line: site.Line})
	return &out
}

// RequeueExits returns the exit codes after which slurmctld requeues a job: RequeueExit and RequeueExitHold. It
// leaves out values that are not exit codes, as slurmctld does (_make_requeue_array in job_mgr.c).
func (c *Cluster) RequeueExits() []int {
	var codes []int
	for _, key := range []string{"RequeueExit", "RequeueExitHold"} {
		value, _ := c.Get(key)
		names, _ := hostlist.Expand("[" + value + "]") // slurmctld logs an error and ignores the value
		for _, name := range names {
			if code, err := strconv.Atoi(name); err == nil && 0 <= code && code <= 255 {
				codes = append(codes, code)
			}
		}
	}
	return codes
}

func (c *Cluster) statement(key string) (Statement, bool) {
	for _, s := range slices.Backward(c.Statements) {
		if strings.EqualFold(s.Key, key) {
			return s, true
		}
	}
	return Statement{}, false
}

func (c *Cluster) all(key string) []Statement {
	var found []Statement
	for _, s := range c.Statements {
		if strings.EqualFold(s.Key, key) {
			found = append(found, s)
		}
	}
	return found
}

// is reports whether a key has the value. It compares both without case.
func (c *Cluster) is(key, value string) bool {
	v, ok := c.Get(key)
	return ok && strings.EqualFold(v, value)
}

// Accounting reports whether the site uses accounting. If so, a replay needs slurmdbd:
// associations, limits, QOS and fair-share have no effect without it.
func (c *Cluster) Accounting() bool {
	kind, set := c.Get("AccountingStorageType")
	if !set {
		kind, _ = c.Get("DefaultStorageType") // the name of AccountingStorageType's default until 20.11
	}
	switch strings.TrimPrefix(strings.ToLower(kind), "accounting_storage/") {
	case "", "none", "filetxt", "pgsql":
		return false
	}
	return true
}

// EnforcesAssociations reports whether slurmctld refuses jobs whose user has no association. Every value of
// AccountingStorageEnforce except jobs, steps and their opposites implies this refusal (slurm.conf(5)).
func (c *Cluster) EnforcesAssociations() bool {
	value, _ := c.Get("AccountingStorageEnforce")
	return slices.ContainsFunc(syntax.List(value), func(item string) bool {
		return slices.Contains([]string{"1", "2", "3", "associations", "limits", "qos", "safe", "wckeys", "all"}, strings.ToLower(item))
	})
}

// PrologAtAllocation reports whether nodes run a prolog when a job is allocated.
func (c *Cluster) PrologAtAllocation() bool {
	flags, _ := c.Get("PrologFlags")
	return slurmspec.PrologAtAllocation(flags)
}

// Node returns the index in [Cluster.Nodes] of the node with the given name, and whether the node
// exists. It compares names with case, as Slurm does.
func (c *Cluster) Node(name string) (int, bool) {
	i, ok := c.nodeIndex[name]
	return i, ok
}

func (c *Cluster) resolve() error {
	name, ok := c.Get("ClusterName")
	if !ok || name == "" {
		return fmt.Errorf("%s: ClusterName is not set (want ClusterName=NAME)", c.Path)
	}
	c.Name = strings.ToLower(name)
	c.warnRepeated()
	if err := c.resolveNodes(); err != nil {
		return err
	}
	if err := c.resolvePartitions(); err != nil {
		return err
	}
	c.resolveDownNodes()
	if err := c.resolveGRES(); err != nil {
		return err
	}
	c.warnUnpartitioned()
	c.leaveOutTopology()
	return c.checkTopology()
}

// warnRepeated warns of repeated keys with different values, and of operators and misspelled
// options, which Slurm ignores. It also warns of options whose values Slurm misreads.
func (c *Cluster) warnRepeated() {
	first := make(map[string]Statement)
	for _, s := range c.Statements {
		k, _ := slurmGrammar.Lookup(s.Key)
		if s.Operator != 0 {
			c.warn(s, "%s%c=%s: Slurm ignores the sign, and the value replaces the earlier one", k.Name, s.Operator, s.Value)
		}
		for _, mistake := range values.Mistakes(k.Name, s.Value) {
			c.warn(s, "%s", mistake)
		}
		if k.Attributes != nil || slices.Contains([]string{"Prolog", "Epilog"}, k.Name) {
			continue // since 24.05 a site may have several prologs; none runs in a replay
		}
		if before, seen := first[k.Name]; seen && before.Value != s.Value {
			c.warn(s, "%s is set again (first in %s:%d); the last one counts", k.Name, before.File, before.Line)
		} else if !seen {
			first[k.Name] = s
		}
	}
}

func (c *Cluster) warn(s Statement, format string, args ...any) {
	c.Warnings = append(c.Warnings, s.warningf(format, args...))
}

// warnUnpartitioned warns of nodes in no partition, on which no job can run.
func (c *Cluster) warnUnpartitioned() {
	used := make(map[string]bool)
	for _, p := range c.Partitions {
		for _, n := range p.Nodes {
			used[n] = true
		}
	}
	var unused []string
	for _, n := range c.Nodes {
		if !used[n.Name] {
			unused = append(unused, n.Name)
		}
	}
	switch len(unused) {
	case 0:
	case 1:
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s: node %s is in no partition, so no job can run "+
			"there", c.Path, unused[0]))
	default:
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s: %d nodes are in no partition, so no job can run there: %s",
			c.Path, len(unused), hostlist.Compress(unused)))
	}
}
