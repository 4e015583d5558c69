package edit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/conf/values"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/spelling"
)

// Setting gives a parameter a value.
type Setting struct{ Name, Value string }

// The keys whose lists have items with names that the site chooses.
var (
	weightLists = []string{"priorityweighttres", "tresbillingweights"}
	nameLists   = []string{"allowaccounts", "allowgroups", "allowqos", "denyaccounts", "denyqos"}
)

// kind is the kind of object to which a parameter belongs.
type kind string

const (
	ofSlurmConf kind = "" // a key of slurm.conf itself
	ofPartition kind = "partition"
	ofQOS       kind = "qos"
	ofAccount   kind = "account"
	ofUser      kind = "user"
)

// parameter is the parsed name of a [Setting].
type parameter struct {
	kind    kind
	object  string // the partition, QOS, account or user
	account string // the account of a user; empty for all accounts
	key     string
	part    string // the option or the item of a list; empty for the whole value
}

// id returns the same text for all spellings of a parameter.
func (p parameter) id() string {
	object := p.object
	if p.kind != ofPartition { // Slurm compares only names of partitions with case
		object = strings.ToLower(object)
	}
	return strings.Join([]string{string(p.kind), object, strings.ToLower(p.account), strings.ToLower(p.key),
		strings.ToLower(p.part)}, "\x00")
}

const forms = "want KEY, KEY.OPTION, partition NAME KEY, qos NAME OPTION, account NAME OPTION, user NAME OPTION or " +
	"user NAME in ACCOUNT OPTION"

// parse splits the name of a parameter.
func parse(name string) (p parameter, err error) {
	words := strings.Fields(name)
	if len(words) == 0 {
		return p, fmt.Errorf("a parameter's name is missing (%s)", forms)
	}
	p.key, p.part, _ = strings.Cut(words[len(words)-1], ".")
	if p.key == "" || strings.HasSuffix(name, ".") {
		return p, fmt.Errorf("%.80q: the key is missing (%s)", name, forms)
	}
	if len(words) == 1 {
		return p, nil
	}
	kinds := []string{string(ofPartition), string(ofQOS), string(ofAccount), string(ofUser)}
	first := strings.ToLower(words[0])
	if !slices.Contains(kinds, first) {
		near := spelling.Nearest(first, 3, kinds)
		if near != "" {
			near = "; did you mean " + near + "?"
		}
		return p, fmt.Errorf("%.80q: not the name of a parameter (%s)%s", name, forms, near)
	}
	p.kind = kind(first)
	between := words[1 : len(words)-1]
	if at := slices.Index(between, "in"); p.kind == ofUser && at > 0 && at < len(between)-1 {
		p.account, between = strings.Join(between[at+1:], " "), between[:at]
	}
	if len(between) == 0 {
		return p, fmt.Errorf("%.80q: the name of the %s is missing (%s)", name, p.kind, forms)
	}
	p.object = strings.Join(between, " ")
	return p, nil
}

// Check returns an error if the setting is wrong for every cluster: its parameter does not exist,
// or Slurm would refuse or ignore the value.
func (s Setting) Check() error {
	_, err := s.parse()
	return err
}

// parse checks the setting and returns the parts of its name.
func (s Setting) parse() (parameter, error) {
	if strings.ContainsFunc(s.Name+s.Value, func(r rune) bool {
		return unicode.IsControl(r) ||
			r == unicode.ReplacementChar
	}) {
		return parameter{}, fmt.Errorf("%.80q: a control character in the name or the value (want one line of text)", s.Name)
	}
	p, err := parse(s.Name)
	if err != nil {
		return p, err
	}
	if strings.ContainsAny(p.part, `,;="'\#`) {
		return p, fmt.Errorf("%.80q: %.40q names no single item of a list (want one name)", s.Name, p.part)
	}
	switch p.kind {
	case ofSlurmConf:
		err = checkKey(p, s.Value)
	case ofPartition:
		err = checkAttribute(p, s.Value)
	default:
		err = checkAccounting(p, s.Value)
	}
	if err != nil && p.kind != ofSlurmConf {
		err = fmt.Errorf("%s %s: %w", p.kind, p.object, err)
	}
	return p, err
}

// several are the keys of slurm.conf that may begin more than one line.
var several = []string{"downnodes", "frontendname", "include", "nodename", "nodeset", "partitionname"}

// checkKey checks a key of slurm.conf, or one option of it.
func checkKey(p parameter, value string) error {
	lower := strings.ToLower(p.key)
	switch {
	case lower == "partitionname":
		return fmt.Errorf("%s: not a key with one value (want partition NAME KEY)", p.key)
	case slices.Contains(several, lower):
		return fmt.Errorf("%s: not a key with one value, so it cannot be set (change its lines in a copy of the cluster directory)", p.key)
	case p.part == "":
		if err := conf.CheckKey(p.key, value); err != nil {
			return err
		}
		return refused(p.key, value, values.Check)
	}
	switch err := conf.CheckKey(p.key, "0"); {
	case err != nil: // every kind accepts 0
		return err
	case values.HasOptions(p.key):
		return values.CheckOption(p.key, p.part, value)
	case slices.Contains(weightLists, lower):
		return checkWeight(p.part, value)
	case lower == "licenses":
		return checkLicense(p.part, value)
	}
	return fmt.Errorf("%s: not a list with options that can be set singly (to replace the whole value, set %[1]s itself)", p.key)
}

// refused returns an error if slurmctld would not start with the value of a key or an attribute.
func refused(key, value string, check func(key, value string) error) error {
	if err := check(key, value); err != nil {
		return fmt.Errorf("%s=%.40s: %w", key, value, err)
	}
	return nil
}

// checkLicense checks the number of one licence.
func checkLicense(name, value string) error {
	if !strings.Contains(name, ":") && (value == values.Off || value != "" && strings.Trim(value, "0123456789") == "" &&
		len(value) < 10) {
		return nil
	}
	return fmt.Errorf("%s=%.40s: not a number of licences (want NAME and a whole number, or false)", name, value)
}

// checkAttribute checks a key of a partition's line.
func checkAttribute(p parameter, value string) error {
	lower := strings.ToLower(p.key)
	if p.part != "" {
		switch {
		case slices.Contains(weightLists, lower):
			return checkWeight(p.part, value)
		case !slices.Contains(nameLists, lower):
			if err := conf.CheckAttribute("PartitionName", p.key, "0"); err != nil {
				return err
			}
			return fmt.Errorf("%s: not a list with items that can be set singly (to replace the whole value, set %[1]s itself)", p.key)
		case value != values.On && value != values.Off:
			return fmt.Errorf("%s.%s=%.40s: want true or false", p.key, p.part, value)
		}
		return nil
	}
	if value == "" {
		return fmt.Errorf("%s: no value", p.key)
	}
	if err := conf.CheckAttribute("PartitionName", p.key, value); err != nil {
		return err
	}
	if lower == "overtimelimit" { // slurmctld would accept the digits at its beginning
		if _, err := slurmspec.ParseTimeLimit(value); err != nil {
			return fmt.Errorf("%s=%.40s: %w", p.key, value, err)
		}
	}
	return refused(p.key, value, values.CheckPartition)
}

// identities are the options of sacctmgr that a setting cannot change, because most of them name
// entities. sacctmgrLists are the options whose values are lists.
var (
	identities = []string{"account", "accounts", "acct", "cluster", "clusters", "name", "names", "newname", "partition",
		"partitions",
		"rawusage", "set", "user", "users", "where"}
	sacctmgrLists = []string{"defaultqos", "flags", "preempt", "qos", "qoslevel"}
)

// checkAccounting checks an option of sacctmgr. [Edit] checks that sacctmgr has the option and
// accepts the value.
func checkAccounting(p parameter, value string) error {
	lower := strings.ToLower(p.key)
	isTRES := strings.Contains(lower, "tres")
	switch {
	case slices.Contains(identities, lower):
		return fmt.Errorf("%s: not an option that can be changed", p.key)
	case strings.ContainsAny(p.object+p.account+p.key+p.part+value, `"'`):
		return errors.New("a quote in the name or the value (remove the quote)")
	case value == "":
		return fmt.Errorf("%s: no value (want -1 for no limit)", p.key)
	case p.part == "" && isTRES:
		return checkTRES(p.key, value)
	case p.part == "" && strings.Contains(lower, "wall"):
		if _, err := slurmspec.ParseTimeLimit(value); err != nil && value != "-1" {
			return fmt.Errorf("%s=%.40s: %w", p.key, value, err)
		}
	case p.part == "":
	case isTRES:
		if value == values.Off {
			return nil
		}
		return checkTRES(p.key, p.part+"="+value)
	case !slices.Contains(sacctmgrLists, lower) || lower == "defaultqos":
		return fmt.Errorf("%s: not a list with items that can be set singly (to replace the whole value, set %[1]s itself)", p.key)
	case value != values.On && value != values.Off:
		return fmt.Errorf("%s.%s=%.40s: want true or false", p.key, p.part, value)
	}
	return nil
}

// checkTRES checks a list of limits of trackable resources, in sacctmgr's form.
func checkTRES(key, value string) error {
	for item := range strings.SplitSeq(value, ",") {
		name, amount, ok := strings.Cut(item, "=")
		if amount = strings.TrimRight(amount, "kmgtpKMGTP"); amount != "-1" && strings.Trim(amount, "0123456789") != "" {
			amount = ""
		}
		if !ok || name == "" || amount == "" {
			return fmt.Errorf("%s=%.60s: not limits of TRES (want cpu=64 or cpu=64,gres/gpu=4, with -1 for no limit)", key,
				value)
		}
	}
	return nil
}

// checkWeight checks one weight of a TRES.
func checkWeight(name, value string) error {
	if value == values.Off {
		return nil
	}
	if _, err := slurmspec.ParseScaled(value); err != nil {
		return fmt.Errorf("%s=%.40s: not a weight (want a number such as 0.25 or 0.25G, or false)", name, value)
	}
	return nil
}
