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

// Cluster anonymizes a cluster directory with the names of its workload, so that the
// anonymous workload can be replayed on it. It reads slurm.conf with its includes,
// gres.conf and topology.conf from dir; accounts are the commands for sacctmgr (nil for
// none) and users the users, from whichever files they come. It returns the new files by
// name. Comments, addresses, the hosts of daemons, passwords and paths are removed.
// ClusterName stays. The error names the file and the line that cannot be read.
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

// mostIncludes is the largest depth of nested includes.
const mostIncludes = 10

// config anonymizes a file of Key=Value words. Included files are inserted in place.
func (a *Anonymizer) config(dir, name string, depth int) (string, error) {
	if depth > mostIncludes {
		return "", fmt.Errorf("%s: included more than %d deep", name, mostIncludes)
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
		if value != "" {
			out = append(out, key+"="+value)
		}
	}
	return strings.Join(out, " "), nil
}

// configValue returns the new value of a key. An empty value means that the key is removed.
func (a *Anonymizer) configValue(key, value string) (string, error) {
	bare := strings.Trim(value, `"`)
	switch key {
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
	case "nodeaddr", "nodehostname", "allocnodes", "controladdr", "backupcontroller", "backupaddr", "maildomain",
		"accountingstoragebackuphost", "accountingstorageuser", "accountingstoragepass", "accountingstorageloc",
		"jobcomphost", "jobcompuser", "jobcomppass", "jobcomploc", "reason", "slurmctldaddr", "authinfo":
		return "", nil
	case "file", "multiplefiles": // device files of gres.conf; their number counts
		return value, nil
	}
	if strings.HasPrefix(bare, "/") {
		return "/anonymous/" + key, nil
	}
	return value, nil
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
		entity := ""
		if len(words) > 1 {
			entity = strings.ToLower(words[1])
		}
		for i, word := range words {
			words[i] = a.accountWord(entity, word)
		}
		out.WriteString(strings.Join(words, " ") + "\n")
	}
	return out.String(), nil
}

// accountWord replaces the names in one word of a command about an entity.
func (a *Anonymizer) accountWord(entity, word string) string {
	i := strings.IndexAny(word, "=")
	if i < 0 {
		return word
	}
	key, value := strings.ToLower(strings.TrimRight(word[:i], "+-")), strings.Trim(word[i+1:], `"'`)
	kind := ""
	switch {
	case strings.HasPrefix(key, "description"), strings.HasPrefix(key, "organization"), strings.HasPrefix(key, "email"):
		value = "anonymous"
	case key == "parent", strings.HasPrefix(key, "account"), strings.HasPrefix(key, "defaultaccount"):
		kind = kindAccount
	case strings.HasPrefix(key, "user"):
		kind = kindUser
	case strings.HasPrefix(key, "defaultwckey"), strings.HasPrefix(key, "wckey"):
		kind = kindWCKey
	case strings.HasPrefix(key, "name") && strings.HasPrefix(entity, "account"):
		kind = kindAccount
	case strings.HasPrefix(key, "name") && (strings.HasPrefix(entity, "user") || strings.HasPrefix(entity, "coord")):
		kind = kindUser
	}
	if kind != "" && value != "root" {
		value = a.commaList(kind, value)
	}
	if strings.ContainsAny(value, " \t") {
		value = `"` + value + `"`
	}
	return word[:i+1] + value
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
