package transform

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

// Cluster anonymizes a cluster directory with the names of its workload, so that the anonymous
// workload can be replayed on it. It reads slurm.conf with its includes, gres.conf and
// topology.conf from dir. accounts are the commands for sacctmgr, which may be nil. users are the
// users of the cluster. It returns the new files by name. Comments, addresses, the hosts of
// daemons, passwords and paths are removed. ClusterName stays. If the cluster has an epilog, the
// new files have one, too. The error names the file and the line that cannot be read.
func (a *Anonymizer) Cluster(dir string, accounts []byte, users []hpc.User) (map[string]string, error) {
	files := map[string]string{}
	for _, name := range []string{"slurm.conf", "gres.conf", "topology.conf"} {
		text, err := a.config(dir, name, 0)
		if errors.Is(err, os.ErrNotExist) && name != "slurm.conf" {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("anonymizing cluster: %w", err)
		}
		files[name] = text
	}
	if accounts != nil {
		out, err := a.accounts(string(accounts))
		if err != nil {
			return nil, fmt.Errorf("anonymizing cluster: commands for sacctmgr:%w", err)
		}
		files["accounts.sacctmgr"] = out
	}
	if len(users) > 0 {
		files["users"] = a.usersFile(users)
	}
	return files, nil
}

func (a *Anonymizer) usersFile(users []hpc.User) string {
	var b strings.Builder
	b.WriteString("# name:uid:group:gid\n")
	lines := make([]string, len(users))
	for i, u := range users {
		u = a.user(u)
		lines[i] = workload.UserLine(u)
	}
	slices.Sort(lines)
	for _, line := range lines {
		b.WriteString(line)
	}
	return b.String()
}

// maxIncludes is the largest depth of nested includes.
const maxIncludes = 10

// config anonymizes a file of Key=Value words. Included files are inserted in place.
func (a *Anonymizer) config(dir, name string, depth int) (string, error) {
	if depth > maxIncludes {
		return "", fmt.Errorf("%s: included more than %d deep", name, maxIncludes)
	}
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return "", err
	}
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\\\n"), nil)
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(withoutComment(line))
		if word, file, ok := strings.Cut(line, " "); ok && strings.EqualFold(word, "include") {
			if file = strings.TrimSpace(file); filepath.IsAbs(file) {
				file = filepath.Base(file)
			}
			included, err := a.config(dir, file, depth+1)
			if err != nil {
				return "", err
			}
			out.WriteString(included)
			continue
		}
		line, err := a.configLine(line)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if line != "" {
			out.WriteString(line + "\n")
		}
	}
	return out.String(), nil
}

// withoutComment cuts a line at the first # that no backslash escapes.
func withoutComment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] != '\\') {
			return line[:i]
		}
	}
	return line
}

func (a *Anonymizer) configLine(line string) (string, error) {
	var out []string
	for _, word := range splitQuoted(line) {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return "", fmt.Errorf("%q: not Key=Value", word)
		}
		value, err := a.configValue(strings.ToLower(key), value)
		if err != nil {
			return "", fmt.Errorf("%s: %w", key, err)
		}
		if value == "" {
			a.leftOut[key] = true
			continue
		}
		out = append(out, key+"="+value)
	}
	return strings.Join(out, " "), nil
}

// exported are the keys and attributes of slurm.conf, gres.conf and topology.conf that decide scheduling, in
// lower case. All others are removed: they have paths, hosts, programs, users and secrets of the site.
var exported = func() map[string]bool {
	set := map[string]bool{}
	for key := range strings.FieldsSeq(`
		clustername slurmctldhost controlmachine slurmuser accountingstoragehost accountingstoragetype accountingstorageenforce
		accountingstoragetres authtype dependencyparameters enforcepartlimits grestypes licenses preemptmode preempttype preemptexempttime
		preemptparameters prioritydecayhalflife prioritycalcperiod prioritymaxage priorityparameters priorityflags priorityfavorsmall
		prioritytype priorityusageresetperiod priorityweightage priorityweightassoc priorityweightfairshare priorityweightjobsize
		priorityweightpartition priorityweightqos priorityweighttres fairsharedampeningfactor schedulertype schedulerparameters
		schedulertimeslice selecttype selecttypeparameters topologyplugin topologyparam topologyparameters mcsplugin batchstarttimeout
		completewait epilogmsgtime groupupdateforce groupupdatetime inactivelimit jobrequeue killonbadexit killwait overtimelimit
		resvoverrun requeueexit requeueexithold slurmctldtimeout slurmdtimeout unkillablesteptimeout waittime maxarraysize
		maxbatchrequeue maxjobcount maxjobid firstjobid maxstepcount maxtaskspernode minjobage defcpupergpu defmempercpu defmempergpu
		defmempernode maxmempercpu maxmempernode trackwckey disablerootjobs prologflags launchparameters
		nodename boards corespersocket corespeclist corespeccount cpus cpuspeclist feature features gres memspeclimit procs
		realmemory sockets socketsperboard state threadspercore tmpdisk weight
		nodeset downnodes
		partitionname nodes default allowaccounts allowgroups allowqos allocnodes alternate cpubind defaulttime defmempercore
		denyaccounts denyqos disablerootjobs exclusivetopo exclusiveuser gracetime hidden lln maxcpuspernode maxcpuspersocket maxnodes
		maxtime minnodes oversubscribe shared overtimelimit powerdownonidle priorityjobfactor prioritytier priority qos reqresv
		rootonly tresbillingweights defcpuperg jobdefaults
		name type count file multiplefiles cores links flags autodetect
		switchname switches linkspeed blockname blocksizes`) {
		set[key] = true
	}
	return set
}()

// configValue returns the new value of a key. An empty value means that the key is removed.
func (a *Anonymizer) configValue(key, value string) (string, error) {
	bare := strings.Trim(value, `"`)
	switch key {
	case "clustername":
		if a.with.Cluster != "" {
			return a.word(kindCluster, strings.ToLower(bare)), nil
		}
		return value, nil
	case "switchname", "switches":
		if a.with.Switches != nil {
			return a.nodes(bare)
		}
		return value, nil
	case "nodename", "nodes", "downnodes":
		if strings.EqualFold(bare, "DEFAULT") || strings.EqualFold(bare, allNodes) {
			return value, nil
		}
		return a.nodes(bare)
	case "allowaccounts", "denyaccounts":
		return a.commaList(kindAccount, bare), nil
	case "allowgroups":
		return a.commaList(kindGroup, bare), nil
	case "slurmctldhost", "controlmachine":
		return "controller", nil
	case "accountingstoragehost":
		return "database", nil
	case "slurmuser", "slurmduser":
		return "slurm", nil
	case "epilog": // it does not run in a replay, but with an epilog nodes become free later
		return "/etc/slurm/epilog", nil
	case "nodeaddr", "nodehostname", "allocnodes", "controladdr", "backupcontroller", "backupaddr", "maildomain",
		"accountingstoragebackuphost", "accountingstorageuser", "accountingstoragepass", "accountingstorageloc",
		"jobcomphost", "jobcompuser", "jobcomppass", "jobcomploc", "reason", "slurmctldaddr", "authinfo":
		return "", nil
	case "file", "multiplefiles": // device files of gres.conf; their number matters
		return value, nil
	}
	if !exported[key] || strings.HasPrefix(bare, "/") {
		return "", nil
	}
	if holdsNames(key) {
		return a.scrub(value), nil
	}
	return a.keep(value), nil
}

// accounts anonymizes commands of sacctmgr, one command a line.
func (a *Anonymizer) accounts(text string) (string, error) {
	var out strings.Builder
	number := 0
	for line := range strings.Lines(text) {
		number++
		words := splitQuoted(strings.TrimSpace(line))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) > 1 && words[1] == "-" {
			return "", fmt.Errorf("%d: a dump of sacctmgr, not commands (want add, modify or delete)", number)
		}
		command, err := a.accountCommand(words)
		if err != nil {
			return "", fmt.Errorf("%d: %w", number, err)
		}
		if command != "" {
			out.WriteString(command + "\n")
		}
	}
	return out.String(), nil
}

// accountCommand replaces the names in a command. Its words are the verb, the entity, the entity's
// names separated by commas, and options. The result is empty for an entity that a replay does not
// need.
func (a *Anonymizer) accountCommand(words []string) (string, error) {
	if len(words) < 2 {
		return "", fmt.Errorf("%s: the command has only one word (want, for example, add user NAME)", words[0])
	}
	kind := ""
	switch entity := strings.ToLower(words[1]); {
	case strings.HasPrefix(entity, "account"):
		kind = kindAccount
	case strings.HasPrefix(entity, "user"), strings.HasPrefix(entity, "coord"):
		kind = kindUser
	case strings.HasPrefix(entity, "cluster"):
		kind = kindCluster
	case strings.HasPrefix(entity, "qos"):
	case strings.HasPrefix(entity, "wckey"):
		kind = kindWCKey
	default:
		return "", nil
	}
	out := words[:2:2]
	for _, word := range words[2:] {
		switch i := strings.IndexByte(word, '='); {
		case strings.EqualFold(word, "where"), strings.EqualFold(word, "set"):
		case i < 0:
			word = a.accountName(kind, word)
		default:
			if word = a.accountOption(kind, word[:i], word[i+1:]); word == "" {
				continue
			}
		}
		out = append(out, word)
	}
	return strings.Join(out, " "), nil
}

// accountName replaces the names of a kind in a list separated by commas. If kind is empty, the names are names of QOS.
func (a *Anonymizer) accountName(kind, names string) string {
	bare := strings.Trim(names, `"'`)
	switch {
	case kind == kindCluster && a.with.Cluster == "" || bare == "root":
		return names
	case kind == "":
		return a.scrub(names)
	}
	return a.commaList(kind, bare)
}

// accountOption replaces the names in an option of a command about an entity of a kind. The result
// is empty for an option with free text.
func (a *Anonymizer) accountOption(kind, key, value string) string {
	name := strings.ToLower(strings.TrimRight(key, "+-"))
	is := func(prefixes ...string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	}
	switch {
	case is("desc", "org", "email", "comment", "rawusage"):
		return ""
	case is("name"):
		value = a.accountName(kind, value)
	case is("parent", "acc", "defaulta", "newa"):
		value = a.accountName(kindAccount, value)
	case is("user", "coord", "newname"):
		value = a.accountName(kindUser, value)
	case is("wckey", "defaultw"):
		value = a.accountName(kindWCKey, value)
	case is("cluster"):
		value = a.accountName(kindCluster, strings.ToLower(value))
	case holdsNames(name):
		value = a.scrub(value)
	default:
		value = a.keep(value)
	}
	return key + "=" + value
}

// splitQuoted splits at blanks outside quotes.
func splitQuoted(line string) []string {
	var quote rune
	return strings.FieldsFunc(line, func(r rune) bool {
		switch {
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		default:
			return r == ' ' || r == '\t'
		}
		return false
	})
}
