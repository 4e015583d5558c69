// Package associations reads a site's commands for sacctmgr, the file accounts.sacctmgr of a cluster directory. It
// finds the mistakes for which sacctmgr would refuse a command. sacctmgr continues after a refused command. Without the
// package's checks, a replay could have other accounts, users and limits than the site. A refused command declares
// nothing: if a cluster is refused, its accounts and users are refused, too.
//
// The package follows src/sacctmgr of Slurm: words and quotes follow sacctmgr.c; the options of each entity follow
// account_functions.c, association_functions.c, cluster_functions.c, qos_functions.c and user_functions.c. The package
// accepts every abbreviation of an option, even an abbreviation that is too short for sacctmgr.
package associations

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/lines"
)

// Set holds everything that the commands of a file declare. All names are in lower case, as
// sacctmgr stores them.
type Set struct {
	// Accounts are the accounts by name. Users are the accounts of each user. Both include root.
	Accounts map[string]bool
	Users    map[string]map[string]bool
	QOS      map[string]bool
	// Policies has the limits of the QOS, and Associations has the limits of accounts and users.
	Policies     map[string]*Policy
	Associations []*Association
	// WCKeys are the workload characterization keys of each user.
	WCKeys map[string][]string
	// Mistakes are in the order of the file. Each begins with the file's name and the line's
	// number.
	Mistakes []string

	clusters map[string]bool
	tracked  resources
	adds     bool // a command adds a cluster; if none does, rmreplay adds the cluster first
	line     int  // of the present command
	users    map[string][]*Association
	pairs    map[string]int // the line of each user, account and partition
	lines    map[string]int // the line of each account
}

// maxMistakes is the number of mistakes after which Read gives up.
const maxMistakes = 1000

// Read reads the commands for a cluster. name is the name of the file, with which each mistake
// begins. tracked is the cluster's AccountingStorageTRES.
func Read(commands []byte, name, cluster, tracked string) *Set {
	s := &Set{
		Accounts: map[string]bool{"root": true}, Users: map[string]map[string]bool{"root": {"root": true}},
		QOS:      map[string]bool{"normal": true},
		Policies: map[string]*Policy{"normal": {}}, WCKeys: map[string][]string{},
		Associations: []*Association{{Account: "root", QOS: []string{"normal"}, Shares: 1},
			{Account: "root", User: "root", Shares: 1}},
		clusters: map[string]bool{}, pairs: map[string]int{}, lines: map[string]int{}, adds: AddsCluster(string(commands)),
		tracked: resourcesOf(tracked),
	}
	cluster = strings.ToLower(cluster)
	err := lines.Each(bytes.NewReader(commands), name, func(number int, line []byte) error {
		text := strings.TrimSpace(string(line))
		if text == "" || text[0] == '#' {
			return nil
		}
		mistake := s.command(text, cluster, number)
		if mistake == nil {
			return nil
		}
		if len(s.Mistakes) == maxMistakes {
			return fmt.Errorf("more than %d mistakes; the lines below are not checked", maxMistakes)
		}
		s.mistake("%s:%d: %v", name, number, mistake)
		return nil
	})
	if err != nil {
		s.mistake("%v", err)
	} else if len(s.clusters) > 0 && !s.clusters[cluster] {
		s.mistake("%s: no command adds the cluster %s of slurm.conf (want add cluster %s)", name, cluster, cluster)
	}
	s.byUser("") // builds the index: from here on several goroutines may read the set
	return s
}

func (s *Set) mistake(format string, args ...any) {
	s.Mistakes = append(s.Mistakes, fmt.Sprintf(format, args...))
}

// command checks a command and adds its declarations to the set.
func (s *Set) command(text, cluster string, line int) error {
	words, err := split(text)
	if err != nil {
		return err
	}
	verb, err := verbOf(words[0])
	if err != nil || !verb.changes {
		return err
	}
	c, err := parseCommand(verb, words)
	if err != nil || c.entity.options == nil {
		return err
	}
	if on := c.list("clusters"); c.entity.name != "cluster" && len(on) > 0 {
		if err := s.known("cluster", on, func(name string) bool { return s.clusters[name] || name == cluster },
			nil); err != nil {
			return err
		}
		if !slices.Contains(on, cluster) {
			return nil // the command changes another cluster
		}
	}
	if err := s.references(c); err != nil {
		return err
	}
	if err := s.resources(c); err != nil {
		return err
	}
	if verb.name == "add" && s.adds && len(s.clusters) == 0 && (c.entity.name == "account" || c.entity.name == "user") {
		return fmt.Errorf("add %s: no cluster has been added (want a correct command add cluster %s above)", c.entity.name,
			cluster)
	}
	switch verb.name {
	case "add":
		err = s.add(c, line)
	case "delete":
		s.remove(c)
	}
	if err == nil {
		s.line = line
		s.limits(c)
	}
	return err
}

// AddsCluster reports whether commands add a cluster, whatever its name.
func AddsCluster(commands string) bool {
	for line := range strings.Lines(commands) {
		f := strings.Fields(strings.ToLower(line))
		if len(f) >= 2 && (f[0] == "add" || f[0] == "create") && strings.HasPrefix("cluster", f[1]) {
			return true
		}
	}
	return false
}

// references checks that the QOS and accounts to which a command refers exist.
func (s *Set) references(c *command) error {
	isQOS := func(name string) bool { return s.QOS[name] || strings.Trim(name, "0123456789") == "" }
	for _, option := range []string{"qoslevel", "defaultqos", "preempt"} {
		if err := s.known("QOS", c.list(option), isQOS, s.QOS); err != nil {
			return err
		}
	}
	for _, option := range []string{"accounts", "defaultaccount", "parent"} {
		if err := s.known("account", c.list(option), func(name string) bool { return s.Accounts[name] },
			s.Accounts); err != nil {
			return err
		}
	}
	if c.verb.name == "add" {
		return nil
	}
	switch c.entity.name { // a change or a removal
	case "user":
		return s.known("user", c.list("names"), func(name string) bool { return s.Users[name] != nil }, nil)
	case "account":
		return s.known("account", c.list("names"), func(name string) bool { return s.Accounts[name] }, s.Accounts)
	case "qos":
		return s.known("QOS", c.list("names"), isQOS, s.QOS)
	}
	return nil
}

// known returns an error for the first name that has not been declared.
func (s *Set) known(what string, names []string, is func(string) bool, all map[string]bool) error {
	for _, name := range names {
		if name != "" && !is(name) {
			return fmt.Errorf("%s %s: no command above declares it%s", what, name, didYouMean(name, all))
		}
	}
	return nil
}

// add stores the objects that a command declares. It returns an error if an earlier command
// declared the same object.
func (s *Set) add(c *command, line int) error {
	names := c.list("names")
	if len(names) == 0 && c.entity.name != "coordinator" {
		return fmt.Errorf("add %s: no name (want add %s NAME)", c.entity.name, c.entity.name)
	}
	for _, name := range names {
		var err error
		switch c.entity.name {
		case "cluster":
			err = declare(s.clusters, "cluster", name)
		case "qos":
			err = declare(s.QOS, "QOS", name)
		case "account":
			if before, twice := s.lines[name]; twice {
				return fmt.Errorf("account %s is declared twice (first in line %d)", name, before)
			}
			s.lines[name] = line
			err = declare(s.Accounts, "account", name)
		case "user":
			err = s.addUser(c, name, line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func declare(declared map[string]bool, what, name string) error {
	if declared[name] {
		return fmt.Errorf("%s %s exists already", what, name)
	}
	declared[name] = true
	return nil
}

func (s *Set) addUser(c *command, name string, line int) error {
	accounts := c.list("accounts")
	if len(accounts) == 0 {
		if c.has("adminlevel") && s.Users[name] != nil {
			return nil
		}
		return fmt.Errorf("user %s: no account (want account=NAME)", name)
	}
	if s.Users[name] == nil {
		s.Users[name] = map[string]bool{}
	}
	added := false
	pair := func(account string) string {
		return strings.Join([]string{name, account, strings.Join(c.list("partitions"), ",")}, "\x00")
	}
	for _, account := range accounts {
		if _, twice := s.pairs[pair(account)]; !twice { // sacctmgr adds what is new
			s.pairs[pair(account)], added = line, true
		}
		s.Users[name][account] = true
	}
	if !added {
		return fmt.Errorf("user %s is declared twice in account %s (first in line %d)", name, accounts[0],
			s.pairs[pair(accounts[0])])
	}
	return nil
}

// remove deletes the objects that a command removes.
func (s *Set) remove(c *command) {
	for _, name := range c.list("names") {
		switch c.entity.name {
		case "account":
			delete(s.Accounts, name)
			delete(s.lines, name)
		case "qos":
			delete(s.QOS, name)
		case "cluster":
			delete(s.clusters, name)
		case "user":
			delete(s.Users, name)
			for pair := range s.pairs {
				if strings.HasPrefix(pair, name+"\x00") {
					delete(s.pairs, pair)
				}
			}
		}
	}
}
