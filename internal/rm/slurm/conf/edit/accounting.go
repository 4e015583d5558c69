package edit

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/rm/slurm/associations"
	"rmreplay/internal/rm/slurm/conf/values"
)

// setAccounting adds the sacctmgr command that changes a QOS, an account or a user.
func (e *editor) setAccounting(p parameter, value string) error {
	switch {
	case !e.site.Accounting():
		return errors.New("slurm.conf has no accounting (want AccountingStorageType=accounting_storage/slurmdbd)")
	case e.site.Accounts == nil:
		return fmt.Errorf("%s has no accounts.sacctmgr (want this file, with the commands that make accounts and QOS)",
			e.dir)
	}
	where, err := e.entity(p)
	if err != nil {
		return err
	}
	assignment, err := e.assignment(p, value)
	if err != nil {
		return err
	}
	command := fmt.Sprintf("modify %s where %s set %s", p.kind, where, assignment)
	if err := e.checkCommand(command); err != nil {
		return err
	}
	e.commands = append(e.commands, command)
	e.checks = append(e.checks, func() { e.warnOfNoEffect(p) })
	return nil
}

// entity returns the condition that selects the parameter's QOS, account or user in a command. It
// returns an error if no command of the site adds the entity.
func (e *editor) entity(p parameter) (string, error) {
	set := e.declared()
	switch p.kind {
	case ofQOS:
		return "name=" + quote(p.object), exists("QOS", p.object, set.QOS)
	case ofAccount:
		return "name=" + quote(p.object), exists("account", p.object, set.Accounts)
	}
	if err := exists("user", p.object, set.Users); err != nil || p.account == "" {
		return "name=" + quote(p.object), err
	}
	return "name=" + quote(p.object) + " account=" + quote(p.account), associated(p.object, p.account, set)
}

// associated returns an error if no command gives a user an association with an account.
func associated(user, account string, set *associations.Set) error {
	own := set.Users[strings.ToLower(user)]
	if _, ok := own[strings.ToLower(account)]; ok {
		return nil
	}
	has := "accounts of the user: " + strings.Join(slices.Sorted(maps.Keys(own)), ", ")
	if err := exists("account", account, set.Accounts); err != nil {
		return fmt.Errorf("user %s: %w (%s)", user, err, has)
	}
	return fmt.Errorf("user %s has no association with account %s (%s)", user, account, has)
}

// assignment returns the part of a command that sets the value.
func (e *editor) assignment(p parameter, value string) (string, error) {
	isTRES := strings.Contains(strings.ToLower(p.key), "tres")
	switch {
	case isTRES:
		if p.part != "" {
			if value == values.Off {
				value = "-1" // no limit
			}
			value = p.part + "=" + value
		}
		for item := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(item, "=")
			if err := e.knownTRES(name); err != nil {
				return "", err
			}
		}
	case p.part != "":
		sign := "+="
		if value == values.Off {
			sign = "-="
		}
		return p.key + sign + quote(p.part), nil
	}
	return p.key + "=" + quote(value), nil
}

// quote writes a word for sacctmgr. [Setting.Check] refuses quotes.
func quote(word string) string {
	if strings.ContainsAny(word, " #") {
		return `"` + word + `"`
	}
	return word
}

// checkCommand returns the error for which sacctmgr would refuse the command. The site's commands
// and the commands of the settings so far come first.
func (e *editor) checkCommand(command string) error {
	const name = "accounts"
	text := strings.TrimRight(string(e.site.Accounts), "\n") + "\n"
	before := text + strings.Join(e.commands, "\n") + "\n"
	tracked := e.get("AccountingStorageTRES")
	known := associations.Read([]byte(before), name, e.site.Name, tracked).Mistakes
	prefix := fmt.Sprintf("%s:%d: ", name, strings.Count(before, "\n")+1)
	for _, mistake := range associations.Read([]byte(before+command+"\n"), name, e.site.Name, tracked).Mistakes {
		if what, of := strings.CutPrefix(mistake, prefix); of && !slices.Contains(known, mistake) {
			return errors.New(what)
		}
	}
	return nil
}

// accountsFile returns the name of the file with the commands. If the site has a dump of sacctmgr,
// commands with the same effect replace it.
func (e *editor) accountsFile() string {
	return filepath.Base(strings.TrimSuffix(e.site.AccountsFile, " as commands"))
}

// warnOfNoEffect warns about a setting that slurmctld ignores.
func (e *editor) warnOfNoEffect(p parameter) {
	lower := strings.ToLower(p.key)
	warn := func(why string) {
		e.warnings = append(e.warnings, fmt.Sprintf("%s %s %s has no effect: %s", p.kind, p.object, p.key, why))
	}
	switch {
	case strings.HasPrefix(lower, "fairshare"), lower == "shares":
		if weight := e.get("PriorityWeightFairshare"); weight == "" || weight == "0" {
			warn("PriorityWeightFairshare is 0")
		}
	case strings.HasPrefix(lower, "grp"), strings.HasPrefix(lower, "max"), strings.HasPrefix(lower, "min"):
		if enforced := strings.ToLower(e.get("AccountingStorageEnforce")); !limits(enforced) {
			warn("AccountingStorageEnforce does not have the option limits")
		}
	}
}

// limits reports whether a value of AccountingStorageEnforce makes slurmctld enforce limits
// (_validate_accounting_storage_enforce in read_config.c, where 2 means limits).
func limits(enforced string) bool {
	for item := range strings.SplitSeq(enforced, ",") {
		if slices.Contains([]string{"2", "all", "limits", "safe"}, strings.TrimSpace(item)) {
			return true
		}
	}
	return false
}
