package conf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf/slurmdbd"
	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
)

// Environment describes where the daemons of a replay run.
type Environment struct {
	// StateDir is a directory of this run on a memory file system, for slurmctld's state,
	// spool and pid files. LogDir is the directory for logs.
	StateDir, LogDir string
	// DaemonUser is the name of the user that runs the daemons. getpwnam(3) must find it.
	DaemonUser string
	// Hostname is the result of gethostname(2) in the daemons. If it is set, Adapt writes a hosts file
	// that maps Hostname to ControlAddress, for libnss-wrapper's NSS_WRAPPER_HOSTS. With
	// NoCtldInAddrAny, slurmctld and slurmdbd listen on the address to which their host name resolves.
	// If Hostname is empty, the host name must resolve to ControlAddress without such a file.
	Hostname string
	// ControlAddress is the address of slurmctld and slurmdbd, in 127.0.0.0/8.
	ControlAddress netip.Addr
	ControlPort    uint16
	// DBPort is slurmdbd's port; not used for a site without accounting.
	DBPort uint16
	// NodePort is the port that all nodes share.
	NodePort uint16
	// NodeAddress returns the address of node i of [Cluster.Nodes]. No two nodes may have the same address.
	// [LoopbackAddresses] makes such a function.
	NodeAddress func(i int) netip.Addr
	// JobCompletionPath is the file that jobcomp/filetxt writes. If it is empty, the file is LogDir/jobcomp.log.
	JobCompletionPath string
	// PluginDir is the directory of Slurm's plugins. If it is empty, Adapt leaves PluginDir out and
	// assumes that all plugins are installed.
	PluginDir string
	// KeepScripts keeps PrologSlurmctld and EpilogSlurmctld. Both scripts run on this machine.
	KeepScripts bool
	// WithoutAccounting turns the site's accounting off. The replay needs no database, and
	// associations, limits, QOS and fair-share have no effect.
	WithoutAccounting bool
}

// nodesPerOctet is the number of nodes whose addresses differ only in the last octet, which is 1 to
// 250.
const nodesPerOctet = 250

// LoopbackAddresses returns a function from node i to the address 127.second.(i/250).(1+i%250). After 64,000 nodes it
// continues with the next second octet. After 127.255.255.250 it returns the zero Addr.
func LoopbackAddresses(second uint8) func(i int) netip.Addr {
	return func(i int) netip.Addr {
		block := i / nodesPerOctet
		high := int(second) + block/256
		if i < 0 || high > 255 {
			return netip.Addr{}
		}
		return netip.AddrFrom4([4]byte{127, byte(high), byte(block % 256), byte(1 + i%nodesPerOctet)})
	}
}

func (env Environment) check() error {
	var errs []error
	for _, f := range []struct{ name, value string }{
		{"StateDir", env.StateDir}, {"LogDir", env.LogDir}, {"DaemonUser", env.DaemonUser},
	} {
		if f.value == "" {
			errs = append(errs, fmt.Errorf("%s is not set", f.name))
		}
	}
	if !env.ControlAddress.IsLoopback() {
		errs = append(errs, fmt.Errorf("ControlAddress %v: not a loopback address", env.ControlAddress))
	}
	if env.ControlPort == 0 || env.NodePort == 0 {
		errs = append(errs, errors.New("ControlPort and NodePort must be set"))
	}
	if env.NodeAddress == nil {
		errs = append(errs, errors.New("NodeAddress is not set"))
	}
	return errors.Join(errs...)
}

// Change is one difference between the site's configuration and the adapted one.
type Change struct {
	Key string `json:"key"`
	// From is the site's value; empty if the site has none. To is the new value; empty if the key is dropped.
	From string `json:"from"`
	To   string `json:"to"`
	// Reason is the reason for the change.
	Reason string `json:"reason"`
	// File and Line are the position of From; empty and 0 if the site has none.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// Adapted is a configuration for the stock daemons of a replay.
type Adapted struct {
	// Files has the contents of the files by name: slurm.conf and, if needed, gres.conf, topology.conf, slurmdbd.conf and
	// hosts. The caller writes them into one directory and sets SLURM_CONF to the slurm.conf there, because Slurm looks
	// for the other files beside it.
	Files map[string][]byte `json:"-"`
	// Changes are all differences: first the changes of the site's lines, in their order, then added keys.
	Changes []Change `json:"changes"`
	// Warnings are the cluster's warnings, and warnings about changes that may alter scheduling.
	Warnings []string `json:"warnings"`
	// Accounting says that the run needs slurmdbd.
	Accounting bool `json:"accounting"`
	// Release is the release whose daemons read the configuration.
	Release slurmspec.Release `json:"-"`
	// Upgrade are the lines that the site itself has to change for the release, and the defaults that affect scheduling
	// and differ between the site's release and this one. It is empty if the site runs the release.
	Upgrade []Change `json:"upgrade"`
	// SelectType is the plugin that allocates resources ("select/cons_tres").
	SelectType string `json:"-"`
	// Nodes are the cluster's nodes in their state at the start of the replay. Nodes in state
	// "FUTURE" do not exist in the replay.
	Nodes []hpc.Node `json:"-"`
}

// adapter has the state of one adaptation.
type adapter struct {
	cluster *Cluster
	release slurmspec.Release
	env     Environment
	out     *Adapted
	seen    map[string]bool // the site's keys in canonical spelling
	kept    []string        // unchanged lines of slurm.conf
	set     []string        // changed and added lines of slurm.conf
	errs    []error
	// translated has the keys of the lines that the translation to the release has changed.
	translated map[string]bool
	// topologyConf is the topology.conf that replaces the site's topology.yaml; nil if the release reads the site's
	// files.
	topologyConf []byte
}

// Adapt rewrites a cluster's configuration for a release of Slurm in the given environment. It fails when
// it does not know the configuration of the release ([CheckRelease]), when env is incomplete, when a plugin
// that affects scheduling is not installed, or when slurmctld of the release would refuse the result.
func Adapt(cluster *Cluster, release slurmspec.Release, env Environment) (*Adapted, error) {
	if err := errors.Join(CheckRelease(release), env.check()); err != nil {
		return nil, fmt.Errorf("adapting %s: %w", cluster.Path, err)
	}
	a := &adapter{cluster: cluster, release: release, env: env, seen: make(map[string]bool), translated: make(map[string]bool), out: &Adapted{
		Release:  release,
		Upgrade:  []Change{}, // "[]" in JSON, not "null"
		Files:    make(map[string][]byte),
		Changes:  slices.Clone(cluster.changed),
		Warnings: append([]string{}, cluster.Warnings...),
		Nodes:    slices.Clone(cluster.Nodes),
	}}
	a.out.Accounting = cluster.Accounting() && !env.WithoutAccounting
	if a.out.Accounting && env.DBPort == 0 {
		return nil, fmt.Errorf("adapting %s: the site uses accounting, but DBPort is not set", cluster.Path)
	}
	a.translate()
	a.scalars()
	a.added()
	objects := a.objects()
	a.checkPlugins()
	if len(a.errs) > 0 {
		return nil, fmt.Errorf("adapting %s: %w", cluster.Path, cluster.private.Error(errors.Join(a.errs...)))
	}
	a.noteAccounting()
	a.write(objects)
	a.sortChanges()
	a.hidePrivate()
	return a.out, nil
}

// hidePrivate removes text of files outside the cluster's directory from changes and warnings.
func (a *adapter) hidePrivate() {
	for _, list := range [][]Change{a.out.Changes, a.out.Upgrade} {
		for i := range list {
			if list[i].From != "" && a.cluster.private.Has(list[i].File) {
				list[i].From = hidden
			}
		}
	}
	a.cluster.private.Texts(a.out.Warnings)
}

// sortChanges sorts the changes by the site's statements. Changes that belong to no statement come last.
func (a *adapter) sortChanges() {
	type position struct {
		file string
		line int
	}
	order := make(map[position]int)
	for _, list := range [][]Statement{a.cluster.Statements, a.cluster.GRES, a.cluster.Topology, a.cluster.Database} {
		for _, s := range list {
			if s.File == "" { // the translation added the statement
				continue
			}
			order[position{s.File, s.Line}] = len(order)
		}
	}
	rank := func(c Change) int {
		if i, ok := order[position{c.File, c.Line}]; ok {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(a.out.Changes, func(x, y Change) int { return rank(x) - rank(y) })
}

// scalars adapts the keys that are not part of an object's line, in the site's order.
func (a *adapter) scalars() {
	last := make(map[string]int)
	for i, s := range a.cluster.Statements {
		last[strings.ToLower(s.Key)] = i
	}
	for i, s := range a.cluster.Statements {
		r := a.rule(s.Key)
		if r == nil || r.attributes != nil && !strings.EqualFold(r.key, "SlurmctldHost") {
			continue
		}
		if last[strings.ToLower(s.Key)] != i {
			a.record(s, r, "", repeatedReason(r))
			continue
		}
		a.seen[r.key] = true
		a.scalar(s, r)
	}
}

func (a *adapter) rule(key string) *rule { return ruleOf(key, a.release) }

func repeatedReason(r *rule) string {
	if r.attributes != nil { // SlurmctldHost: a list of controllers
		return whyHA
	}
	return "set again below; Slurm uses the last value"
}

func (a *adapter) scalar(s Statement, r *rule) {
	to := s.Value
	switch {
	case r.action == drop:
		to = ""
	case r.value != nil:
		to = r.value(a, s.Value)
	}
	if to != s.Value {
		a.record(s, r, to, r.reason)
		if r.warning != nil {
			if text := r.warning(s.Value); text != "" {
				a.warn("%s=%s: %s", r.key, s.Value, text)
			}
		}
	}
	switch {
	case to == "":
	case to == s.Value && !a.translated[r.key]:
		a.kept = append(a.kept, line(r.key, to))
	default:
		a.set = append(a.set, line(r.key, to))
	}
}

func (a *adapter) added() {
	for i := range rules {
		r := &rules[i]
		if r.action != change || r.value == nil || a.seen[r.key] || !r.known.Includes(a.release) {
			continue
		}
		if to := r.value(a, ""); to != "" {
			a.out.Changes = append(a.out.Changes, Change{Key: r.key, To: to, Reason: r.reason})
			a.set = append(a.set, line(r.key, to))
		}
	}
}

func line(key, value string) string { return Statement{Key: key, Value: value}.String() }

// hidden replaces a password in reports.
const hidden = "(hidden)"

func (a *adapter) record(s Statement, r *rule, to, reason string) {
	from := s.Value
	if r.secret {
		from = hidden
	}
	a.out.Changes = append(a.out.Changes, Change{Key: r.key, From: from, To: to, Reason: reason, File: s.File, Line: s.Line})
}

func (a *adapter) warn(format string, args ...any) {
	a.out.Warnings = append(a.out.Warnings, fmt.Sprintf(format, args...))
}

// checkPlugins returns an error if a scheduling plugin of the configuration is not installed:
// another plugin would give another schedule.
func (a *adapter) checkPlugins() {
	for _, s := range a.cluster.Statements {
		r := a.rule(s.Key)
		if r == nil || r.plugin == "" {
			continue
		}
		if !strings.HasPrefix(s.Value, r.plugin) {
			a.errs = append(a.errs, s.errorf("%s=%s: not a plugin name (want %sNAME)", r.key, s.Value, r.plugin))
		} else if !a.installed(s.Value) {
			a.errs = append(a.errs, s.errorf("%s=%s: Slurm's plugin %s is not in %s", r.key, s.Value, pluginFile(s.Value), a.env.PluginDir))
		}
	}
}

// installed reports whether a plugin ("select/cons_tres") is installed. Without a plugin directory
// it assumes that all plugins are installed.
func (a *adapter) installed(plugin string) bool {
	if a.env.PluginDir == "" || history.NoPlugin(plugin, a.release) {
		return true
	}
	_, err := os.Stat(filepath.Join(a.env.PluginDir, pluginFile(plugin)))
	return !errors.Is(err, fs.ErrNotExist)
}

func pluginFile(plugin string) string {
	return strings.ReplaceAll(filepath.ToSlash(plugin), "/", "_") + ".so"
}

// noteAccounting warns of keys that have no effect without accounting.
func (a *adapter) noteAccounting() {
	if a.out.Accounting {
		return
	}
	if a.cluster.Accounting() {
		a.warn("accounting is off: associations, limits, QOS and fair-share have no effect")
	}
	for _, key := range []string{"AccountingStorageEnforce", "PriorityWeightAge", "PriorityWeightAssoc", "PriorityWeightFairshare"} {
		if v, ok := a.cluster.Get(key); ok && v != "0" {
			a.warn("%s=%s has no effect without slurmdbd", key, v)
		}
	}
}

// write makes the files. objects are the lines of nodes and partitions.
func (a *adapter) write(objects []string) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Cluster %s, adapted for a replay. Do not edit: written anew for every run.\n", a.cluster.Name)
	section(&b, "As the site has it", a.kept)
	section(&b, "Set for the replay", a.set)
	section(&b, "Nodes and partitions", objects)
	a.out.Files[slurmConf] = b.Bytes()
	if a.cluster.GRES != nil {
		a.out.Files[gresConf] = a.gresFile()
	}
	switch {
	case len(a.topologyConf) > 0:
		a.out.Files[topologyConf] = a.topologyConf
	case a.topologyConf != nil: // topology/flat reads no file
	case a.cluster.TopologyYAML != nil:
		a.out.Files[topologyYAML] = a.cluster.TopologyYAML
	case a.cluster.Topology != nil:
		a.out.Files[topologyConf] = statements("The site's topology", a.topology(), topologyGrammar)
	}
	if a.out.Accounting {
		a.out.Files[slurmdbd.File] = a.slurmdbd()
	}
	if a.env.Hostname != "" {
		a.out.Files["hosts"] = fmt.Appendf(nil, "%s %s\n127.0.0.1 localhost\n", a.env.ControlAddress, a.env.Hostname)
	}
}

func section(b *bytes.Buffer, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n# %s\n", title)
	for _, l := range lines {
		b.WriteString(l)
		b.WriteByte('\n')
	}
}

// statements formats a file of statements. It spells keys as the manual page does.
func statements(title string, list []Statement, g syntax.Grammar) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", title)
	for _, s := range list {
		b.WriteString(canonical(s, g).String())
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// canonical returns the statement with its keys spelled as in the manual page. It removes the
// operator, which has no effect.
func canonical(s Statement, g syntax.Grammar) Statement {
	k, _ := g.Lookup(s.Key)
	s.Key, s.Operator = g.Canonical(s.Key), 0
	s.Attributes = slices.Clone(s.Attributes)
	for i := range s.Attributes {
		s.Attributes[i].Key = k.Attributes.Canonical(s.Attributes[i].Key)
	}
	return s
}

// gresFile returns gres.conf without the attributes that need the devices. slurmctld 22.05 reads
// the file only for cloud nodes, which the adaptation removes, and for Include lines. Adapt
// writes it so that the run's directory is complete.
func (a *adapter) gresFile() []byte {
	var out []Statement
	for _, s := range a.cluster.GRES {
		if strings.EqualFold(s.Key, "AutoDetect") {
			if !strings.EqualFold(s.Value, "off") {
				a.out.Changes = append(a.out.Changes, Change{Key: "gres.conf AutoDetect", From: s.Value, To: "off",
					Reason: "there are no devices to look for", File: s.File, Line: s.Line})
			}
			continue
		}
		out = append(out, a.gresLine(s))
	}
	out = append([]Statement{{Key: "AutoDetect", Value: "off"}}, out...)
	out = slices.DeleteFunc(out, func(s Statement) bool {
		_, hasName := s.Get("Name")
		return strings.EqualFold(s.Key, "NodeName") && !hasName
	})
	return statements("Generic resources, without devices", out, gresGrammar)
}

func (a *adapter) gresLine(s Statement) Statement {
	s = canonical(s, gresGrammar)
	r := gresRecord{statement: s}
	if r.fill() != nil { // impossible: Open has already read the line
		return s
	}
	_, hasCount := s.Get("Count")
	kept := s.Attributes[:0:0]
	for _, attribute := range s.Attributes {
		switch attribute.Key {
		case "File", "Files", "MultipleFiles":
			a.out.Changes = append(a.out.Changes, Change{Key: "gres.conf " + attribute.Key, From: attribute.Value,
				Reason: "the devices are not here; their number is kept", File: s.File, Line: s.Line})
			if !hasCount {
				kept = append(kept, Attribute{"Count", strconv.FormatInt(r.resource.Count, 10)})
			}
		case "AutoDetect":
		default:
			kept = append(kept, attribute)
		}
	}
	s.Attributes = kept
	return s
}
