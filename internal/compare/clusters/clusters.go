// Package clusters lists the settings that differ between two cluster directories: keys of slurm.conf and of the
// files beside it, nodes, partitions, QOS, accounts and users.
//
// It compares the texts of the files: a key that only one side sets is a difference, even if its
// value is Slurm's default.
package clusters

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/lines"
	"rmreplay/internal/quantity"
	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/workload"
)

// Setting is a setting with its values on both sides.
type Setting struct {
	// Name has the form of [rmreplay/internal/rm/slurm/conf/edit]: "PreemptType", "SchedulerParameters.bf_interval",
	// "partition gpu MaxTime", "qos high preempt", "user ada in physics fairshare"; for other files "gres.conf:
	// ..."; and for sizes as they were played ([Played]) "nodes of the machine as it was played".
	Name string `json:"name"`
	// Baseline and Set are the values. A value is "" if its side does not have the setting. A value of a line DEFAULT
	// in slurm.conf is followed by the name of this line: "1-00:00:00, of PartitionName=DEFAULT". An object that only
	// one side has, such as a partition, is a single setting. Its value has all settings of the object.
	Baseline string `json:"baseline"`
	Set      string `json:"set"`
}

const slurmConf = "slurm.conf"

// Between returns what differs between two clusters, in the order of the baseline's files: slurm.conf first, with the
// files that it includes, then the other files by name. The maps have the text of each file by its name below the
// cluster's directory. If a map is nil, its files are not known, and Between returns nil.
func Between(baseline, set map[string]string) []Setting {
	if baseline == nil || set == nil {
		return nil
	}
	a, b := read(baseline), read(set)
	var list []Setting
	for _, name := range a.order {
		list = append(list, a.objects[name].differences(b.objects[name], name)...)
	}
	for _, name := range b.order {
		if a.objects[name] == nil {
			list = append(list, (*object)(nil).differences(b.objects[name], name)...)
		}
	}
	return list
}

// Processors returns the processors of each node by its name, as the cluster's files have them: CPUs, or else the
// product of the node's sockets, cores and threads. It leaves out nodes whose numbers cannot be read.
func Processors(files map[string]string) map[string]int {
	c, of := read(files), map[string]int{}
	for name, o := range c.objects {
		hosts, isNode := strings.CutPrefix(name, "node ")
		names, err := hostlist.Expand(hosts)
		if !isNode || err != nil || strings.EqualFold(hosts, "DEFAULT") {
			continue
		}
		count := func(keys ...string) int { // 1 without any of the keys
			for _, key := range keys {
				if value, _ := o.inForce(key); value != "" {
					n, _ := strconv.Atoi(value)
					return max(0, n)
				}
			}
			return 1
		}
		n := count("cpus", "procs")
		if cpus, _ := o.inForce("cpus"); cpus == "" && o.values["procs"] == "" && o.inherited["procs"] == "" {
			n = count("corespersocket") * count("threadspercore")
			if perBoard, _ := o.inForce("socketsperboard"); perBoard == "" {
				n *= count("sockets", "boards")
			} else {
				n *= count("boards") * count("socketsperboard")
			}
		}
		for _, name := range names {
			if n > 0 {
				of[name] = n
			}
		}
	}
	return of
}

// Size is the size of a machine as it was played; 0 if it is not known. It may differ from that in the cluster's
// files, because runs can scale the number of nodes (--nodes).
type Size struct{ Nodes, Processors int }

// Played returns what differs between the sizes of two machines as they were played. Sizes that are not known do not
// count.
func Played(baseline, set Size) (list []Setting) {
	for _, s := range []struct {
		name string
		a, b int
	}{{"nodes", baseline.Nodes, set.Nodes}, {"processors", baseline.Processors, set.Processors}} {
		if s.a > 0 && s.b > 0 && s.a != s.b {
			list = append(list, Setting{s.name + " of the machine as it was played", strconv.Itoa(s.a), strconv.Itoa(s.b)})
		}
	}
	return list
}

// maxLines is the largest number of settings that [Render] writes, and maxNames the largest number
// that [Names] names.
const maxLines, maxNames = 20, 3

// Render writes what differs between two clusters, a line for each setting. The parameters a and b are the letters of
// the sides.
func Render(w io.Writer, list []Setting, a, b string) {
	if len(list) == 0 {
		return
	}
	add := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // into memory
	add("\nthe clusters of the first runs differ in %s, %s instead of %s:\n", quantity.Regular(len(list), "setting"), b, a)
	for _, s := range list[:min(len(list), maxLines)] {
		add("  %s: %s instead of %s\n", s.Name, cmp.Or(s.Set, Unset), cmp.Or(s.Baseline, Unset))
	}
	if more := len(list) - maxLines; more > 0 {
		add("  and %d more (compare --json has all)\n", more)
	}
}

// Unset is shown as the value of a setting that a side does not have.
const Unset = "unset"

// Names returns a text with the names of the first settings, and with the number of further
// settings.
func Names(list []Setting) string {
	var names []string
	for _, s := range list[:min(len(list), maxNames)] {
		names = append(names, s.Name)
	}
	text := strings.Join(names, ", ")
	if more := len(list) - maxNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// object is a partition, a node, a QOS and so on, or all keys of a file that do not belong to such
// an object.
type object struct {
	order  []string // names of the keys in lower case, in the order of the file
	names  map[string]string
	values map[string]string
	// inherited are the values of the line DEFAULT above the object's line, and from names that line.
	inherited map[string]string
	from      string
}

// inForce returns the value of a key, which may be inherited, and the text of the value in a
// [Setting].
func (o *object) inForce(key string) (value, shown string) {
	if value, ok := o.values[key]; ok {
		return value, value
	}
	if value, ok := o.inherited[key]; ok {
		return value, value + ", of " + o.from
	}
	return "", ""
}

func (o *object) set(key, value string) {
	lower := strings.ToLower(key)
	if before, twice := o.values[lower]; twice {
		o.values[lower] = before + ", " + value // a repeated key, such as SlurmctldHost, or nodes of gres.conf
		return
	}
	o.order, o.names[lower], o.values[lower] = append(o.order, lower), key, value
}

// whole returns all settings of the object as one text.
func (o *object) whole() string {
	var list []string
	for _, key := range o.order {
		list = append(list, strings.Trim(o.names[key]+"="+o.values[key], "="))
	}
	return cmp.Or(strings.TrimSpace(strings.Join(list, " ")), "declared")
}

// differences returns the settings of the object of this name that two sides set differently.
// Either side may be nil.
func (o *object) differences(other *object, name string) (list []Setting) {
	isObject := name != "" && !strings.HasSuffix(name, ":")
	switch {
	case isObject && o == nil:
		return []Setting{{name, "", other.whole()}}
	case isObject && other == nil:
		return []Setting{{name, o.whole(), ""}}
	case o == nil:
		o = newObject()
	case other == nil:
		other = newObject()
	}
	add := func(key, called string) {
		a, baseline := o.inForce(key)
		b, set := other.inForce(key)
		if a != b {
			list = append(list, Setting{strings.TrimSpace(name + " " + called), baseline, set})
		}
	}
	for _, key := range o.order {
		add(key, o.names[key])
	}
	for _, key := range other.order {
		if _, both := o.values[key]; !both {
			add(key, other.names[key])
		}
	}
	return list
}

func newObject() *object { return &object{names: map[string]string{}, values: map[string]string{}} }

// cluster has the contents of a side's files. The object "" has the keys of slurm.conf that belong to no object, and
// the object "gres.conf:" those of gres.conf.
type cluster struct {
	files   map[string]string
	seen    map[string]bool // files that were read
	order   []string
	objects map[string]*object
	// defaults has the values of the last lines DEFAULT, by the first key of these lines in lower case.
	defaults map[string]map[string]string
}

func read(files map[string]string) *cluster {
	c := &cluster{files: files, seen: map[string]bool{}, objects: map[string]*object{},
		defaults: map[string]map[string]string{}}
	c.statements(slurmConf, "")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch {
		case c.seen[name]:
		case name == "accounts.sacctmgr" || name == "sacctmgr.script" && files["accounts.sacctmgr"] == "":
			c.accounts(files[name])
		case path.Ext(name) == ".conf":
			c.statements(name, name+":")
		default:
			c.lines(name)
		}
	}
	return c
}

func (c *cluster) object(name string) *object {
	if c.objects[name] == nil {
		c.order, c.objects[name] = append(c.order, name), newObject()
	}
	return c.objects[name]
}

// kinds has the keys that begin a line about an object, in lower case, with the kind of object.
var kinds = map[string]string{
	"nodename": "node", "partitionname": "partition", "downnodes": "downnodes", "nodeset": "nodeset",
	"frontendname": "frontend", "switchname": "switch", "blockname": "block", "name": "gres",
}

// statements reads a file of Slurm's grammar, and the files that it includes. The parameter prefix begins the names of
// its objects.
func (c *cluster) statements(name, prefix string) {
	if c.seen[name] {
		return
	}
	c.seen[name] = true
	for line := range syntax.Lines([]byte(c.files[name])) {
		if included, _, ok := syntax.CutInclude(line.Text); ok {
			if _, there := c.files[included]; !there {
				included = path.Base(included) // an absolute path; files has no directories in its names
			}
			c.statements(included, prefix)
			continue
		}
		p, rest, ok := syntax.CutPair(line.Text)
		if first := strings.ToLower(p.Key); ok && kinds[first] != "" {
			o := c.object(strings.TrimSpace(prefix + " " + kinds[first] + " " + p.Value))
			defaults := maps.Clone(c.defaults[first]) // earlier objects have the earlier defaults
			if strings.EqualFold(p.Value, "DEFAULT") {
				if defaults == nil {
					defaults = map[string]string{}
				}
				c.defaults[first] = defaults
			} else {
				o.inherited, o.from = defaults, p.Key+"=DEFAULT"
			}
			for p, rest, ok = syntax.CutPair(rest); ok; p, rest, ok = syntax.CutPair(rest) {
				o.set(p.Key, p.Value)
				if o.from == "" {
					defaults[strings.ToLower(p.Key)] = p.Value
				}
			}
			continue
		}
		for ; ok; p, rest, ok = syntax.CutPair(rest) {
			c.key(c.object(prefix), p.Key, p.Value)
		}
	}
}

// key sets a key that belongs to no object. Each parameter of a list becomes a separate setting.
func (c *cluster) key(o *object, key, value string) {
	if !strings.HasSuffix(strings.ToLower(key), "parameters") {
		o.set(key, value)
		return
	}
	for item := range strings.SplitSeq(value, ",") {
		if name, value, given := strings.Cut(strings.TrimSpace(item), "="); given {
			o.set(key+"."+name, value)
		} else if name != "" {
			o.set(key+"."+name, "true")
		}
	}
}

// accounts reads commands for sacctmgr, or the output of sacctmgr dump.
func (c *cluster) accounts(text string) {
	if first, _ := lines.First([]byte(text)); strings.HasPrefix(first, "Cluster - ") {
		if commands, _, err := workload.ConvertAccountsDump(bytes.NewReader([]byte(text)), "accounts"); err == nil {
			text = commands
		}
	}
	for _, s := range associations.Settings([]byte(text)) {
		if o := c.object(s.Object); s.Option != "" {
			o.set(s.Option, s.Value)
		}
	}
}

// lines reads a file whose grammar is not Slurm's. Each line that only one side has is a difference.
func (c *cluster) lines(name string) {
	o := c.object(name + ":")
	for line := range strings.Lines(c.files[name]) {
		line = strings.TrimSpace(line)
		if _, twice := o.values[strings.ToLower(line)]; line != "" && line[0] != '#' && !twice {
			o.set(line, "there")
		}
	}
}
