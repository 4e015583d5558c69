package edit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/rm/slurm/conf/values"
)

// Edited is the effect of settings on a cluster directory.
type Edited struct {
	// Files are the texts of the changed files, by their paths relative to the directory.
	Files map[string][]byte
	// Lines are the lines that the site itself would write for the settings, in the order of the settings.
	Lines []Line
	// Warnings are about settings that have no effect in this configuration.
	Warnings []string
}

// Line is a line of a configuration file. It replaces the line with the same key or partition.
type Line struct{ File, Text string }

// Open returns the edited cluster. It writes nothing. site must be the cluster that [Edit] got.
func (e *Edited) Open(site *conf.Cluster) (*conf.Cluster, error) {
	texts := make(map[string][]byte, len(e.Files))
	for name, text := range e.Files {
		texts[filepath.Join(filepath.Dir(site.Path), name)] = text
	}
	return site.Reopen(texts)
}

// Copy copies a cluster directory to a new directory and edits the copy. Its errors come from
// reading the cluster, from [Edit] and from writing.
func Copy(from, to string, settings []Setting) (*Edited, error) {
	site, err := conf.Open(from)
	if err != nil {
		return nil, err
	}
	edited, err := Edit(site, settings)
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return nil, fmt.Errorf("copying cluster: %w", err)
	}
	for name, text := range edited.Files {
		if err := os.WriteFile(filepath.Join(to, name), text, 0o666); err != nil {
			return nil, fmt.Errorf("editing %s: %w", name, err)
		}
	}
	if _, err := conf.Open(to); err != nil {
		return nil, fmt.Errorf("reading the edited copy: %w", err)
	}
	return edited, nil
}

// Edit applies settings to a cluster that [conf.Open] has read, in their order. It changes neither
// the cluster nor its directory. It fails for the first setting that is wrong for the cluster.
func Edit(site *conf.Cluster, settings []Setting) (*Edited, error) {
	e := &editor{site: site, dir: filepath.Dir(site.Path), values: map[string]string{},
		partitions: map[string]*conf.Statement{}}
	seen := map[string]string{}
	for _, s := range settings {
		p, err := s.parse()
		if err != nil {
			return nil, err
		}
		if before, twice := seen[p.id()]; twice {
			return nil, fmt.Errorf("%s: set twice, first as %s (want one value)", s.Name, before)
		}
		seen[p.id()] = s.Name
		if err := e.set(p, s.Value); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return e.result()
}

// editor collects the effect of settings.
type editor struct {
	site *conf.Cluster
	dir  string

	keys       []string          // keys of slurm.conf that are set, in the spelling of the first setting
	values     map[string]string // their values by key in lower case
	lines      []*conf.Statement // lines of changed partitions, in the order of the settings
	partitions map[string]*conf.Statement
	commands   []string // for sacctmgr
	accounts   *associations.Set
	warnings   []string
	checks     []func() // checks for warnings that depend on all settings
}

// set applies one setting.
func (e *editor) set(p parameter, value string) error {
	switch p.kind {
	case ofSlurmConf:
		return e.setKey(p, value)
	case ofPartition:
		return e.setPartition(p, value)
	}
	return e.setAccounting(p, value)
}

// get returns the value of a key of slurm.conf after the settings so far.
func (e *editor) get(key string) string {
	if value, set := e.values[strings.ToLower(key)]; set {
		return value
	}
	value, _ := e.site.Get(key)
	return value
}

func (e *editor) setKey(p parameter, value string) error {
	lower := strings.ToLower(p.key)
	if p.part != "" {
		separator := "="
		switch {
		case lower == "licenses":
			separator = ":"
		case slices.Contains(weightLists, lower):
			if err := e.knownTRES(p.part); err != nil {
				return err
			}
		}
		value = withItem(e.get(p.key), p.part, separator, value)
	} else {
		if err := e.knownWeights(lower, value); err != nil {
			return err
		}
		e.warnings = append(e.warnings, values.Ignored(p.key, value)...)
	}
	if _, again := e.values[lower]; !again {
		e.keys = append(e.keys, p.key)
	}
	e.values[lower] = value
	return nil
}

// setPartition changes an attribute in the line of a partition. The line's own attribute has
// precedence over an attribute of PartitionName=DEFAULT.
func (e *editor) setPartition(p parameter, value string) error {
	line, err := e.partition(p.object)
	if err != nil {
		return err
	}
	lower := strings.ToLower(p.key)
	if p.part != "" {
		now := e.attribute(line, p.key)
		switch {
		case slices.Contains(weightLists, lower):
			err = e.knownTRES(p.part)
		case now == "" || strings.EqualFold(now, "ALL"):
			err = fmt.Errorf("partition %s has no list %s to change (to make the list, set %[2]s itself)", p.object, p.key)
		default:
			err = e.knownName(lower, p.part)
		}
		if value = withItem(now, p.part, "=", value); err == nil && value == "" {
			err = fmt.Errorf("this would leave the list %s empty (to replace the whole list, set %[1]s itself)", p.key)
		}
	} else if slices.Contains(nameLists, lower) && !strings.EqualFold(value, "ALL") || lower == "qos" {
		for name := range strings.SplitSeq(value, ",") {
			err = errors.Join(err, e.knownName(lower, name))
		}
	} else {
		err = e.knownWeights(lower, value)
	}
	if err != nil {
		return err
	}
	line.Attributes = slices.DeleteFunc(line.Attributes, func(a conf.Attribute) bool {
		return strings.EqualFold(a.Key,
			p.key)
	})
	line.Attributes = append(line.Attributes, conf.Attribute{Key: p.key, Value: value})
	return nil
}

// partition returns the line of a partition after the settings so far.
func (e *editor) partition(name string) (*conf.Statement, error) {
	if line := e.partitions[name]; line != nil {
		return line, nil
	}
	var found []conf.Statement
	var names []string
	for _, s := range e.site.Statements {
		if !strings.EqualFold(s.Key, "PartitionName") {
			continue
		}
		if names = append(names, s.Value); s.Value == name || strings.EqualFold(name, "DEFAULT") &&
			strings.EqualFold(s.Value, name) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("the cluster has no partition %s%s", name, values.DidYouMean(name, slices.Values(names)))
	case 1:
	default: // several DEFAULT lines, whose attributes add up
		return nil, fmt.Errorf("slurm.conf has %d lines PartitionName=%s (want one)", len(found), name)
	}
	line := found[0]
	if _, err := e.relative(line.File); err != nil {
		return nil, err
	}
	line.Attributes = slices.Clone(line.Attributes)
	e.partitions[name] = &line
	e.lines = append(e.lines, &line)
	return &line, nil
}

// attribute returns an attribute of a partition: its own value or else the default.
func (e *editor) attribute(line *conf.Statement, key string) string {
	if value, ok := line.Get(key); ok {
		return value
	}
	for _, p := range e.site.Partitions {
		if p.Name == line.Value {
			value, _ := p.Get(key)
			return value
		}
	}
	return ""
}

// builtinTRES are the resources that Slurm tracks without AccountingStorageTRES.
var builtinTRES = []string{"billing", "cpu", "energy", "fs/disk", "mem", "node", "pages", "vmem"}

// knownTRES returns an error for a resource that the cluster does not track.
func (e *editor) knownTRES(name string) error {
	tracked := slices.Clone(builtinTRES)
	for item := range strings.SplitSeq(strings.ToLower(e.get("AccountingStorageTRES")), ",") {
		tracked = append(tracked, strings.TrimSpace(item))
	}
	if slices.Contains(tracked, strings.ToLower(name)) {
		return nil
	}
	return fmt.Errorf("the cluster does not track %s (want one of AccountingStorageTRES or %s)%s",
		name, strings.Join(builtinTRES, ", "), values.DidYouMean(name, slices.Values(tracked)))
}

// knownWeights returns an error if a whole list of weights names a resource that the cluster does not track.
func (e *editor) knownWeights(key, list string) error {
	for item := range strings.SplitSeq(list, ",") {
		if name, _, _ := strings.Cut(item, "="); name != "" && slices.Contains(weightLists, key) {
			if err := e.knownTRES(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// knownName checks an item of a partition's list of accounts or QOS. It does not check groups,
// because the cluster's groups are not known.
func (e *editor) knownName(key, name string) error {
	if !e.site.Accounting() || strings.HasSuffix(key, "groups") {
		return nil
	}
	set := e.declared()
	if strings.HasSuffix(key, "accounts") {
		return exists("account", name, set.Accounts)
	}
	return exists("QOS", name, set.QOS)
}

// exists returns an error if no command declares a name.
func exists[V any](what, name string, declared map[string]V) error {
	if _, ok := declared[strings.ToLower(name)]; ok {
		return nil
	}
	return fmt.Errorf("the cluster has no %s %s%s", what, name, values.DidYouMean(name, maps.Keys(declared)))
}

// declared returns what the site's commands for sacctmgr declare.
func (e *editor) declared() *associations.Set {
	if e.accounts == nil {
		e.accounts = associations.Read(e.site.Accounts, e.site.AccountsFile, e.site.Name, e.get("AccountingStorageTRES"))
	}
	return e.accounts
}

// result renders the changed files.
func (e *editor) result() (*Edited, error) {
	for _, check := range e.checks {
		check()
	}
	out := &Edited{Files: map[string][]byte{}, Warnings: e.warnings}
	if len(e.keys)+len(e.lines) > 0 {
		if err := e.render(out); err != nil {
			return nil, err
		}
	}
	if len(e.commands) > 0 {
		text := bytes.TrimRight(bytes.Clone(e.site.Accounts), "\n")
		text = append(text, "\n\n# "+setHere+"\n"+strings.Join(e.commands, "\n")+"\n"...)
		out.Files[e.accountsFile()] = text
		for _, command := range e.commands {
			out.Lines = append(out.Lines, Line{e.accountsFile(), command})
		}
	}
	if _, set := e.values["preempttype"]; set {
		accounts := slices.Concat(e.site.Accounts, []byte("\n"+strings.Join(e.commands, "\n")))
		get := func(key string) (string, bool) { text := e.get(key); return text, text != "" }
		out.Warnings = append(out.Warnings, values.NothingPreempts(get, accounts, e.site.AccountsFile)...)
	}
	return out, nil
}

// The comments of an edit.
const (
	setHere  = "Set by an edit"
	replaced = "# replaced: "
)

// render changes the files of slurm.conf. It comments out the lines of keys that are set, and
// appends the new lines. It replaces the line of a partition in place.
func (e *editor) render(out *Edited) error {
	changed := map[string]map[int]string{} // the new text below each line that becomes a comment, by file and line
	comment := func(s conf.Statement, below string) {
		if changed[s.File] == nil {
			changed[s.File] = map[int]string{}
		}
		changed[s.File][s.Line] = below
	}
	for _, s := range e.site.Statements {
		if _, set := e.values[strings.ToLower(s.Key)]; set && s.File == e.site.Path {
			comment(s, "")
		}
	}
	tail := "\n# " + setHere + "\n"
	main := filepath.Base(e.site.Path)
	for _, key := range e.keys {
		line := conf.Statement{Key: key, Value: e.values[strings.ToLower(key)]}.String()
		tail += line + "\n"
		out.Lines = append(out.Lines, Line{main, line})
	}
	for _, s := range e.lines {
		comment(*s, s.String()+"\n")
		name, err := e.relative(s.File)
		if err != nil {
			return err
		}
		out.Lines = append(out.Lines, Line{name, s.String()})
	}
	if len(e.keys) > 0 && changed[e.site.Path] == nil {
		changed[e.site.Path] = map[int]string{}
	}
	for path, lines := range changed {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the file to edit: %w", err)
		}
		text = commentOut(text, lines)
		if path == e.site.Path && len(e.keys) > 0 {
			text = append(append(bytes.TrimRight(text, "\n"), '\n'), tail...)
		}
		name, err := e.relative(path)
		if err != nil {
			return err
		}
		out.Files[name] = text
	}
	return nil
}

// commentOut turns the given logical lines of a text into comments, with their continuation lines.
// It puts other text below them.
func commentOut(text []byte, lines map[int]string) []byte {
	var starts []int // of the logical lines
	for line := range syntax.Lines(text) {
		starts = append(starts, line.Number)
	}
	physical := bytes.SplitAfter(text, []byte{'\n'})
	var out bytes.Buffer
	for i, start := range starts {
		end := len(physical)
		if i+1 < len(starts) {
			end = starts[i+1] - 1
		}
		below, replace := lines[start]
		for _, line := range physical[start-1 : end] {
			if replace && len(line) > 0 {
				out.WriteString(replaced)
				line = append(bytes.TrimRight(line, "\r\n"), '\n')
			}
			out.Write(line)
		}
		out.WriteString(below)
	}
	return out.Bytes()
}

// relative returns the path of a file relative to the cluster directory. It fails for an included
// file outside the directory, because the copy would not have the file.
func (e *editor) relative(path string) (string, error) {
	name, err := filepath.Rel(e.dir, path)
	if err != nil || !filepath.IsLocal(name) {
		return "", fmt.Errorf("the line to change is in %s, outside the cluster directory (want the file in the directory)",
			path)
	}
	return name, nil
}

// withItem returns a comma list in which an item has the given value. The item keeps its place; a new
// item comes last. The value [values.On] sets a name without a value, and [values.Off] removes the item.
func withItem(list, name, separator, value string) string {
	item := name + separator + value
	if value == values.On {
		item = name
	}
	var items []string
	done := value == values.Off
	for old := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ';' && separator == ":" }) {
		old = strings.TrimSpace(old)
		if same, _, _ := strings.Cut(old, separator); !strings.EqualFold(strings.TrimSpace(same), name) {
			items = append(items, old)
		} else if !done {
			items, done = append(items, item), true
		}
	}
	if !done {
		items = append(items, item)
	}
	return strings.Join(items, ",")
}
