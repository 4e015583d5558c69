package conf

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/conf/syntax"
)

// gresRecord is one line of gres.conf.
type gresRecord struct {
	statement   Statement
	nodes       map[string]bool // the nodes of the line; nil for all nodes
	resource    hpc.GRES        // on each of these nodes
	unspecified bool            // without Count= and File=, so the count of 1 is a guess
}

// gresConfig is gres.conf as a whole.
type gresConfig struct {
	records []gresRecord
	// autoDetect has the values of AutoDetect by node name. The key "" is for all other nodes.
	autoDetect map[string]string
}

// resolveGRES sets the generic resources of every node. Counts and types come from slurm.conf, as in slurmctld.
// Device files, cores and links come from gres.conf.
func (c *Cluster) resolveGRES() error {
	config, err := c.parseGRES()
	if err != nil {
		return err
	}
	kinds := c.gresTypes()
	var errs []error
	for _, l := range c.nodeLines {
		expr, _ := l.get("Gres")
		wanted, err := parseNodeGRES(expr)
		if err != nil {
			errs = append(errs, l.statement.errorf("Gres=%s: %w", expr, err))
			continue
		}
		wanted = slices.DeleteFunc(wanted, func(g hpc.GRES) bool {
			unknown := !slices.Contains(kinds, g.Name)
			if unknown {
				c.warn(l.statement, "Gres=%s: %s is not in GresTypes; Slurm ignores it", expr, g.Name)
			}
			return unknown
		})
		for i := l.first; i < l.first+l.count; i++ {
			c.Nodes[i].GRES = config.merge(c.Nodes[i].Name, wanted)
		}
		c.warnGRES(l, config, wanted)
	}
	return errors.Join(errs...)
}

// gresTypes returns the names in GresTypes. Slurm adds hbm if the site uses the plugins for KNL nodes.
func (c *Cluster) gresTypes() []string {
	v, _ := c.Get("GresTypes")
	kinds := syntax.List(v)
	if plugins, _ := c.Get("NodeFeaturesPlugins"); strings.Contains(plugins, "knl_") {
		kinds = append(kinds, "hbm")
	}
	return kinds
}

// parseNodeGRES reads a node's Gres= as _get_gres_cnt in src/common/gres.c does:
// "gpu:a100:4(S:0-1),bandwidth:no_consume:4G". The part in parentheses names the sockets of a
// resource. parseNodeGRES ignores the sockets, as slurmctld does here.
func parseNodeGRES(expr string) ([]hpc.GRES, error) {
	var list []hpc.GRES
	for _, item := range splitGRES(expr) {
		if i := strings.LastIndexByte(item, '('); i >= 0 {
			item = item[:i]
		}
		fields := strings.Split(item, ":")
		g := hpc.GRES{Name: fields[0], Count: 1}
		if g.Name == "" {
			return nil, fmt.Errorf("%q: no name (want gpu:2 or gpu:a100:2)", item)
		}
		fields = fields[1:]
		if n := len(fields); n > 0 && startsWithDigit(fields[n-1]) {
			var err error
			if g.Count, err = syntax.ParseCount(fields[n-1]); err != nil {
				return nil, err
			}
			fields = fields[:n-1]
		}
		for _, f := range fields {
			switch {
			case strings.EqualFold(f, "no_consume"):
			case g.Type != "" || f == "":
				return nil, fmt.Errorf("%q: not a generic resource (want name:type:count)", item)
			default:
				g.Type = f
			}
		}
		list = append(list, g)
	}
	return list, nil
}

func splitGRES(s string) []string {
	var items []string
	depth, start := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth <= 0 {
				items = append(items, s[start:i])
				start = i + 1
			}
		}
	}
	items = append(items, s[start:])
	return slices.DeleteFunc(items, func(item string) bool { return item == "" })
}

func startsWithDigit(s string) bool { return s != "" && '0' <= s[0] && s[0] <= '9' }

func (c *Cluster) parseGRES() (gresConfig, error) {
	config := gresConfig{autoDetect: make(map[string]string)}
	var errs []error
	for _, s := range c.GRES {
		record, err := c.parseGRESLine(s, &config)
		if err != nil {
			errs = append(errs, err)
		} else if record != nil {
			config.records = append(config.records, *record)
		}
	}
	return config, errors.Join(errs...)
}

// parseGRESLine returns nil for a line that only sets AutoDetect.
func (c *Cluster) parseGRESLine(s Statement, config *gresConfig) (*gresRecord, error) {
	if strings.EqualFold(s.Key, "AutoDetect") {
		config.autoDetect[""] = strings.ToLower(s.Value)
		return nil, nil
	}
	r := gresRecord{statement: s}
	r.resource.Name = s.Value
	if strings.EqualFold(s.Key, "NodeName") {
		names, err := c.expand(s.Value)
		if err != nil {
			return nil, s.errorf("NodeName=%s: %w", syntax.Shorten(s.Value), err)
		}
		if unknown := c.unknownNodes(names); len(unknown) > 0 {
			c.warn(s, "no such node in slurm.conf: %s", hostlist.Compress(unknown))
		}
		r.nodes = make(map[string]bool, len(names))
		for _, n := range names {
			r.nodes[n] = true
		}
		if v, ok := s.Get("AutoDetect"); ok {
			for _, n := range names {
				config.autoDetect[n] = strings.ToLower(v)
			}
		}
		name, ok := s.Get("Name")
		if !ok {
			if _, ok := s.Get("AutoDetect"); ok {
				return nil, nil
			}
			return nil, s.errorf("no Name= (want the resource's name, like Name=gpu)")
		}
		r.resource.Name = name
	}
	return &r, r.fill()
}

func (r *gresRecord) fill() error {
	s := r.statement
	r.resource.Type, _ = s.Get("Type")
	r.resource.Flags, _ = s.Get("Flags")
	r.resource.Cores = firstOf(s, "Cores", "CPUs")
	r.resource.Links = firstOf(s, "Link", "Links")
	files := firstOf(s, "File", "Files")
	if files != "" {
		n, err := hostlist.Count(files)
		if err != nil {
			return s.errorf("File=%s: %w", syntax.Shorten(files), err)
		}
		r.resource.File, r.resource.Count = true, int64(n)
	}
	if _, ok := s.Get("MultipleFiles"); ok { // the files form one device
		if files != "" {
			return s.errorf("File and MultipleFiles exclude each other (want one of them)")
		}
		r.resource.File, r.resource.Count = true, 1
	}
	if v, ok := s.Get("Count"); ok {
		n, err := syntax.ParseCount(v)
		if err != nil {
			return s.errorf("Count=%s: %w", v, err)
		}
		if r.resource.File && n != r.resource.Count && !sharedGRES(r.resource.Name) {
			return s.errorf("Count=%d, but File= names %d (want the same)", n, r.resource.Count)
		}
		r.resource.Count = n
	} else if !r.resource.File {
		r.resource.Count, r.unspecified = 1, true
	}
	return nil
}

func firstOf(s Statement, keys ...string) string {
	for _, k := range keys {
		if v, ok := s.Get(k); ok {
			return v
		}
	}
	return ""
}

// sharedGRES reports whether one device file stands for several units of a resource.
func sharedGRES(name string) bool { return name == "mps" || name == "shard" }

func (r gresRecord) on(node string) bool { return r.nodes == nil || r.nodes[node] }

// merge divides a node's resources among the lines of gres.conf that describe them. Each part gets the cores and links
// of its line. Lines with the resource's type come before lines without a type. A part that no line describes has no
// cores. A part without a line has device files if another part has them: Slurm wants files for all records of a
// resource or for none.
func (config gresConfig) merge(node string, wanted []hpc.GRES) []hpc.GRES {
	var merged []hpc.GRES
	left := make([]int64, len(config.records))
	for i, r := range config.records {
		left[i] = r.resource.Count
	}
	for _, g := range wanted {
		need := g.Count
		for _, exact := range []bool{true, false} {
			for i, r := range config.records {
				if need == 0 || left[i] == 0 || !r.on(node) || r.resource.Name != g.Name || r.unspecified {
					continue
				}
				if same := r.resource.Type == g.Type; same != exact || !same && g.Type != "" && r.resource.Type != "" {
					continue
				}
				part := r.resource
				part.Count = min(need, left[i])
				if part.Type == "" {
					part.Type = g.Type
				}
				need -= part.Count
				left[i] -= part.Count
				merged = append(merged, part)
			}
		}
		if need > 0 {
			g.Count = need
			g.File = config.hasFiles(node, g.Name)
			merged = append(merged, g)
		}
	}
	return merged
}

// hasFiles reports whether a resource of a node has device files: a line has File=, or Slurm
// would detect the node's GPUs.
func (config gresConfig) hasFiles(node, name string) bool {
	for _, r := range config.records {
		if r.resource.Name == name && r.resource.File && r.on(node) {
			return true
		}
	}
	return name == "gpu" && config.detects(node)
}

// detects reports whether Slurm would detect the node's GPUs (AutoDetect).
func (config gresConfig) detects(node string) bool {
	detect, ok := config.autoDetect[node]
	if !ok {
		detect = config.autoDetect[""]
	}
	return detect != "" && detect != "off"
}

// warnGRES warns of resources with different counts in gres.conf and slurm.conf. slurmctld would
// drain a real node that has too few of a resource. warnGRES checks only the first node of a line.
func (c *Cluster) warnGRES(l nodeLine, config gresConfig, wanted []hpc.GRES) {
	node := c.Nodes[l.first].Name
	if config.detects(node) {
		return
	}
	expected := make(map[string]int64)
	var names []string
	for _, g := range wanted {
		if _, seen := expected[g.Name]; !seen {
			names = append(names, g.Name)
		}
		expected[g.Name] += g.Count
	}
	for _, name := range names {
		described, found := int64(0), false
		for _, r := range config.records {
			if r.resource.Name == name && r.on(node) && !r.unspecified {
				described, found = described+r.resource.Count, true
			}
		}
		if found && described != expected[name] {
			c.warn(l.statement, "node %s: gres.conf has %d of %s, slurm.conf %d; the replay uses the number in slurm.conf", node, described, name, expected[name])
		}
	}
}
