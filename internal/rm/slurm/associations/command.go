package associations

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/slurmspec"
	"rmreplay/internal/spelling"
)

// maxWords is the largest number of words of a command (MAX_INPUT_FIELDS in sacctmgr.h).
const maxWords = 128

var quotes = strings.NewReplacer(`"`, "", `'`, "")

// split splits a command into words as _get_command of sacctmgr.c does: a quote of either kind
// may begin and end anywhere in a word. It removes the quotes.
func split(text string) ([]string, error) {
	var words []string
	for i := 0; i < len(text); i++ {
		if isSpace(text[i]) {
			continue
		}
		var single, double bool
		start := i
		for ; i < len(text) && (single || double || !isSpace(text[i])); i++ {
			single = single != (text[i] == '\'')
			double = double != (text[i] == '"')
		}
		word := text[start:i]
		switch {
		case single || double:
			return nil, fmt.Errorf("%.40q: a quote without its end", word)
		case word[0] == '#' && len(words) > 0:
			return nil, fmt.Errorf("%.40q: sacctmgr accepts no comment after a command (want it on a separate line)", word)
		case len(words) == maxWords:
			return nil, fmt.Errorf("more than %d words", maxWords)
		}
		words = append(words, quotes.Replace(word))
	}
	return words, nil
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// verb is the action of a command.
type verb struct {
	name    string
	changes bool // the verb adds or changes associations
}

// verbs are the commands of sacctmgr by their names.
var verbs = map[string]verb{
	"add": {"add", true}, "create": {"add", true}, "modify": {"modify", true}, "delete": {"delete", true},
	"remove":  {"delete", true},
	"archive": {}, "clear": {}, "dump": {}, "exit": {}, "help": {}, "list": {}, "load": {}, "oneliner": {}, "ping": {},
	"problem": {},
	"quiet":   {}, "quit": {}, "reconfigure": {}, "rollup": {}, "show": {}, "shutdown": {}, "verbose": {}, "version": {},
	"!!": {},
}

func verbOf(word string) (verb, error) {
	word = strings.ToLower(word)
	for _, name := range slices.Sorted(maps.Keys(verbs)) {
		if word != "" && strings.HasPrefix(name, word) && (len(word) >= 3 || len(word) == len(name)) {
			return verbs[name], nil
		}
	}
	if word == "cluster" || word == "parent" || word == "account" || word == "user" {
		return verb{}, fmt.Errorf("%s: a line of sacctmgr dump among commands (want a file of commands, or the whole dump)",
			word)
	}
	return verb{}, fmt.Errorf("%.40q is not a command of sacctmgr%s", word, didYouMean(word, verbs))
}

// entity is the kind of object of a command.
type entity struct {
	name    string
	options options // nil if the options are not checked
}

var entities = map[string]entity{
	"account": {"account", accountOptions}, "accounts": {"account", accountOptions},
	"cluster": {"cluster", clusterOptions}, "clusters": {"cluster", clusterOptions},
	"coordinator": {"coordinator", coordinatorOptions}, "coordinators": {"coordinator", coordinatorOptions},
	"qos": {"qos", qosOptions}, "user": {"user", userOptions}, "users": {"user", userOptions},
	"association": {name: "association"}, "federation": {name: "federation"}, "job": {name: "job"},
	"resource": {name: "resource"}, "runawayjobs": {name: "runawayjobs"},
}

func entityOf(word string) (entity, error) {
	word = strings.ToLower(word)
	for _, name := range slices.Sorted(maps.Keys(entities)) {
		if word != "" && strings.HasPrefix(name, word) {
			return entities[name], nil
		}
	}
	return entity{}, fmt.Errorf("%.40q: sacctmgr has no such entity (want account, cluster, coordinator, qos or user)%s",
		word, didYouMean(word, entities))
}

// command is a command that declares, changes or removes objects. values has the command's values
// by the full names of the options.
type command struct {
	verb   verb
	entity entity
	values map[string][]string
	// where are the options of the command's condition. set are the options that declare or change
	// something. Both keep the order of the words.
	where, set []assignment
}

// assignment is one option of a command, as sacctmgr reads it.
type assignment struct {
	word  string // in lower case; it may abbreviate the option's name
	sign  byte   // '+' or '-' for a change of a list, otherwise 0
	value string
}

// parseCommand reads the words of a command: the verb, the entity and the options. Words without
// "=" are names. In a change, the word "where" begins the conditions and the word "set" begins the
// changes.
func parseCommand(v verb, words []string) (*command, error) {
	if len(words) < 2 {
		return nil, fmt.Errorf("%s: the entity is missing (want account, cluster, coordinator, qos or user)", words[0])
	}
	e, err := entityOf(words[1])
	if err != nil {
		return nil, err
	}
	c := &command{verb: v, entity: e, values: map[string][]string{}}
	if e.options == nil {
		return c, nil
	}
	setting := false
	for _, word := range words[2:] {
		switch key, value, isOption := strings.Cut(word, "="); {
		case isOption:
			a := assignment{word: strings.ToLower(strings.TrimRight(key, "+-")), value: value}
			if len(a.word) < len(key) {
				a.sign = key[len(a.word)]
			}
			if err := c.option(a.word, value, setting); err != nil {
				return nil, err
			}
			if setting || v.name == "add" {
				c.set = append(c.set, a)
			} else {
				c.where = append(c.where, a)
			}
		case v.name != "add" && isPrefix(word, "where"):
			setting = false
		case v.name != "add" && isPrefix(word, "set"):
			setting = true
		case setting || strings.EqualFold(word, "set"): // sacctmgr skips the word
		default:
			c.values["names"] = append(c.values["names"], strings.Split(strings.ToLower(word), ",")...)
		}
	}
	return c, nil
}

func isPrefix(word, of string) bool {
	return word != "" && strings.HasPrefix(of, strings.ToLower(word))
}

// option stores the value of an option. A user who is added gets an association in the default account, too, whatever
// the accounts are (sacctmgr_add_user of user_functions.c).
func (c *command) option(key, value string, setting bool) error {
	name, kind, ok := c.entity.options.find(key)
	if !ok {
		return fmt.Errorf("%s: not an option of %s %s%s", key, c.verb.name, c.entity.name, didYouMean(key, c.entity.options))
	}
	if err := kind.check(value); err != nil {
		return fmt.Errorf("%s=%.60s: %w", key, value, err)
	}
	if c.entity.name == "account" && name == "accounts" {
		name = "names"
	}
	if kind == isList && (!setting || name != "names") {
		for item := range strings.SplitSeq(strings.ToLower(value), ",") {
			item = strings.TrimLeft(strings.TrimSpace(item), "+-=")
			c.values[name] = append(c.values[name], item)
			if name == "defaultaccount" && c.verb.name == "add" {
				c.values["accounts"] = append(c.values["accounts"], item)
			}
		}
	} else {
		c.values[name] = append(c.values[name], value)
	}
	return nil
}

func (c *command) has(option string) bool { return len(c.values[option]) > 0 }

// list returns the names in an option whose value is a list.
func (c *command) list(option string) []string { return c.values[option] }

// kind is the form of an option's value.
type kind int

const (
	isText   kind = iota
	isList        // names, separated by commas
	isCount       // a number of 32 bits, or -1 for no value (get_uint of sacctmgr's common.c)
	isTotal       // a number of 64 bits, or -1 for no value (get_uint64)
	isShare       // a number or "parent"
	isFactor      // a number with a fraction, or -1 for no value (get_double)
	isTime        // a span of time (time_str2secs)
	isFlags       // flags of a QOS, or -1 for none (str_2_qos_flags)
	isMode        // a mode of preemption (preempt_mode_num)
	isTRES        // trackable resources, checked by [Set.resources]
)

// maxCount is the largest number of 32 bits that has no other meaning (NO_VAL and INFINITE in slurm.h).
const maxCount = 1<<32 - 3

// qosFlags are the flags of a QOS in all releases, in lower case.
var qosFlags = func() map[string]bool {
	all := map[string]bool{"relative": true}
	for _, name := range slurmspec.QOSFlags {
		all[strings.ToLower(name)] = true
	}
	return all
}()

// modes are the modes of preemption, in lower case. A value has at most one of the modes that are true here. GANG,
// WITHIN and PRIORITY may be added to each mode.
var modes = map[string]bool{"cancel": true, "cluster": true, "off": true, "on": true, "requeue": true, "suspend": true,
	"gang": false, "within": false, "priority": false}

// ExclusiveModes checks the modes of preemption in one value (preempt_mode_num in slurm_protocol_defs.c). They are in
// lower case.
func ExclusiveModes(list []string) error {
	count := 0
	for _, mode := range list {
		if modes[mode] {
			count++
		}
	}
	gang := slices.Contains(list, "gang")
	switch {
	case count > 1:
		return errors.New("more than one mode (want one of OFF, CANCEL, REQUEUE and SUSPEND, with or without GANG)")
	case gang && slices.Contains(list, "within"):
		return errors.New("GANG and WITHIN exclude each other")
	case gang && slices.Contains(list, "priority"):
		return errors.New("GANG and PRIORITY exclude each other")
	}
	return nil
}

// check refuses a value that sacctmgr refuses. It also refuses the values that sacctmgr reads as another number:
// sacctmgr 22.05 reads 1.5 as 1, and every release reads numbers of more than 32 bits modulo 2^32. A negative number
// means no value.
func (k kind) check(value string) error {
	if value == "" && (k >= isCount && k <= isMode && k != isShare) {
		return errors.New("no value")
	}
	switch k {
	case isShare:
		if isPrefix(value, "parent") {
			return nil
		}
		fallthrough
	case isCount, isTotal:
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil && k == isShare:
			return errors.New("not a whole number (want a number of shares, or parent)")
		case err != nil:
			return errors.New("not a whole number (want, for example, 10, or -1 for none)")
		case n > maxCount && k != isTotal:
			return fmt.Errorf("too large (want at most %d)", maxCount)
		}
	case isFactor:
		if f, err := strconv.ParseFloat(value, 64); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return errors.New("not a number (want, for example, 0.5)")
		}
	case isTime:
		_, err := slurmspec.ParseTimeSpec(value)
		return err
	case isFlags:
		if value == "-1" {
			return nil
		}
		for flag := range strings.SplitSeq(strings.ToLower(value), ",") {
			isFlag := func(name string) bool { return flag != "" && strings.HasPrefix(name, flag) }
			if !slices.ContainsFunc(slices.Collect(maps.Keys(qosFlags)), isFlag) {
				return fmt.Errorf("%.40q is not a flag of a QOS (want %s)%s", flag,
					strings.Join(slices.Sorted(maps.Keys(qosFlags)), ", "), didYouMean(flag, qosFlags))
			}
		}
	case isMode:
		list := strings.Split(strings.ToLower(value), ",")
		for _, mode := range list {
			if _, known := modes[mode]; !known {
				return fmt.Errorf("%.40q is not a mode of preemption (want cluster, off, cancel, requeue or suspend)%s", mode,
					didYouMean(mode, modes))
			}
		}
		return ExclusiveModes(list)
	}
	return nil
}

// options are the options of an entity, in lower case.
type options map[string]kind

// find returns the option that a word names or abbreviates.
func (o options) find(word string) (name string, k kind, ok bool) {
	if k, ok := o[word]; ok {
		return aliasOf(word), k, true
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if word != "" && strings.HasPrefix(name, word) {
			return aliasOf(name), o[name], true
		}
	}
	return "", isText, false
}

// aliasOf returns the one name under which a command stores an option with several names.
func aliasOf(name string) string {
	switch name {
	case "name", "users":
		return "names"
	case "account", "acct":
		return "accounts"
	case "cluster":
		return "clusters"
	case "qos":
		return "qoslevel"
	case "partition":
		return "partitions"
	}
	return name
}

// with returns a copy of the options with further options of one kind.
func (o options) with(k kind, names ...string) options {
	out := maps.Clone(o)
	if out == nil {
		out = options{}
	}
	for _, name := range names {
		out[strings.ToLower(name)] = k
	}
	return out
}

// The options of the entities. A command that changes an entity accepts the options of the change
// and of the condition.
var (
	conditionOptions = options{}.with(isText, "Format", "IDs", "OnlyDefaults", "RawUsage", "WithAssoc", "WithCoordinators",
		"WithDeleted",
		"WithRawQOSLevel", "WithSubAccounts", "WOPInfo", "WOPLimits", "WOLimits")

	limitOptions = conditionOptions.
			with(isCount, "GrpJobs", "GrpJobsAccrue", "GrpSubmitJobs", "MinPrioThresh", "Priority").
			with(isTotal, "GrpCPUMins", "GrpCPURunMins", "GrpCPUs", "GrpMemory", "GrpNodes", "MaxCPUMinsPerJob", "MaxCPUsPerJob",
			"MaxNodes", "MaxNodesPerJob").
		with(isTRES, "GrpTRES", "GrpTRESMins", "GrpTRESRunMins", "MaxTRESPerJob", "MaxTRESPerNode", "MaxTRESMinsPerJob").
		with(isTime, "GrpWall", "MaxWallDurationPerJob")

	associationOptions = limitOptions.
				with(isCount, "MaxJobs", "MaxJobsAccrue", "MaxSubmitJobs").
				with(isTotal, "MaxCPURunMins").
				with(isTRES, "MaxTRESRunMins").
				with(isShare, "Fairshare", "Shares").
				with(isList, "QOS", "QosLevel", "DefaultQOS", "Cluster", "Clusters")

	accountOptions = associationOptions.with(isList, "Name", "Names", "Account", "Accounts", "Acct", "Parent").
			with(isText, "Description", "Organization")
	clusterOptions = associationOptions.with(isList, "Name", "Names").
			with(isText, "Classification", "Features", "Federation", "FedState", "Flags", "RPC", "ControlHost")
	userOptions = associationOptions.with(isList, "Name", "Names", "Users", "Account", "Accounts", "Acct",
		"DefaultAccount", "Partition", "Partitions").
		with(isText, "AdminLevel", "DefaultWCKey", "WCKeys", "NewName")
	coordinatorOptions = options{}.with(isList, "Name", "Names", "Users", "Account", "Accounts", "Acct", "Cluster",
		"Clusters")

	qosOptions = limitOptions.with(isList, "Name", "Names", "Preempt").
			with(isText, "Description").
			with(isFlags, "Flags").
			with(isMode, "PreemptMode").
			with(isFactor, "LimitFactor", "UsageFactor", "UsageThreshold").
			with(isTime, "MaxWall", "PreemptExemptTime").
			with(isTotal, "MaxCPUMins", "MaxCPUs", "MaxCPUsPerUser", "MaxCPUsPU", "MaxNodesPerUser", "MaxNodesPU",
			"MinCPUsPerJob").
		with(isTRES, "MaxTRES", "MaxTRESMins", "MaxTRESPerUser", "MaxTRESPU", "MaxTRESPerAccount", "MaxTRESPA",
			"MaxTRESRunMinsPU", "MaxTRESRunMinsPA", "MinTRESPerJob").
		with(isCount, "GraceTime", "MaxJobsPerUser", "MaxJobsPU", "MaxJobsPerAccount", "MaxJobsPA", "MaxJobsAccruePerUser",
			"MaxJobsAccruePU", "MaxJobsAccruePerAccount", "MaxJobsAccruePA", "MaxSubmitJobsPerUser", "MaxSubmitJobsPU",
			"MaxSubmitJobsPerAccount", "MaxSubmitJobsPA")
)

// didYouMean suggests the known name that is nearest to a wrong one.
func didYouMean[V any](wrong string, known map[string]V) string {
	if len(wrong) > 40 || len(known) > 5000 {
		return ""
	}
	if near := spelling.Nearest(wrong, 1+len(wrong)/3, slices.Collect(maps.Keys(known))); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}
