package capture

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// accountsFile has the commands for sacctmgr that make the site's QOS, accounts and users. The file
// is in the cluster directory.
const accountsFile = "accounts.sacctmgr"

// qosColumns and accountColumns are the columns that sacctmgr prints of a QOS and of an association. The first
// columns have the names of the entity. All other columns are options of the command that adds the entity.
var (
	qosColumns = strings.Split(
		"Name,Flags,Preempt,GraceTime,GrpJobs,GrpJobsAccrue,GrpSubmitJobs,GrpTRES,GrpTRESMins,GrpTRESRunMins,GrpWall,"+
			"MaxJobsPerAccount,MaxJobsPerUser,MaxSubmitJobsPerAccount,MaxSubmitJobsPerUser,MaxTRESPerAccount,MaxTRESPerJob,MaxTRESPerNode,MaxTRESPerUser,"+
			"MaxTRESMinsPerJob,MinTRESPerJob,MaxWallDurationPerJob,Priority,UsageFactor,UsageThreshold,LimitFactor", ",")
	accountColumns = strings.Split(
		"Cluster,Account,User,Partition,ParentName,Fairshare,GrpJobs,GrpJobsAccrue,GrpSubmitJobs,GrpTRES,GrpTRESMins,GrpTRESRunMins,GrpWall,"+
			"MaxJobs,MaxJobsAccrue,MaxSubmitJobs,MaxTRESPerJob,MaxTRESPerNode,MaxTRESMinsPerJob,MaxWallDurationPerJob,Priority,QOSLevel,DefaultQOS", ",")
	userColumns = []string{"User", "DefaultAccount"}
)

// accountTexts is the output of sacctmgr.
type accountTexts struct{ qos, associations, users string }

// accountWords returns the three read-only commands that print [accountTexts].
func accountWords() [][]string {
	show := func(columns []string, words ...string) []string {
		return append(append([]string{"sacctmgr", "--readonly", "--noheader", "--parsable2", "show"}, words...),
			"format="+strings.Join(columns, ","))
	}
	return [][]string{show(qosColumns, "qos"), show(accountColumns, "associations", "WOPLimits"),
		show(userColumns, "user")}
}

// rows returns the rows of a text, with their cells by column. It leaves out rows with a wrong
// number of cells.
func rows(text string, columns []string) (list []map[string]string) {
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimRight(line, "\r\n"), "|")
		if len(cells) != len(columns) {
			continue
		}
		row := map[string]string{}
		for i, column := range columns {
			row[column] = strings.TrimSpace(cells[i])
		}
		list = append(list, row)
	}
	return list
}

// accountCommands returns the commands that make the QOS, accounts and users of a cluster in an
// empty database. Jobs may name QOS, accounts and users that sacctmgr hides from this user.
// accountCommands makes these without limits, so that Slurm refuses no job. The result hidden is
// their number. accountCommands returns an error if sacctmgr shows no accounts.
func accountCommands(cluster string, texts accountTexts, jobs []*job) (commands string, hidden int, err error) {
	a := accountWriter{accounts: map[string]bool{"root": true}, users: map[[2]string]bool{}}
	seen := rows(texts.qos, qosColumns)
	for _, j := range jobs { // all QOS come first: sacctmgr reads the list of QOS only once
		if j.QOS != "" && !slices.ContainsFunc(seen, func(row map[string]string) bool {
			return strings.EqualFold(row["Name"],
				j.QOS)
		}) {
			seen = append(seen, map[string]string{"Name": j.QOS})
			hidden++
		}
	}
	a.writeQOS(seen)
	fmt.Fprintf(&a.text, "add cluster name=%s\n", quote(cluster))
	list := rows(texts.associations, accountColumns)
	list = slices.DeleteFunc(list, func(row map[string]string) bool {
		return !strings.EqualFold(row["Cluster"], cluster) || row["Account"] == ""
	})
	if len(list) == 0 {
		return "", 0, errors.New("sacctmgr shows no accounts of the cluster")
	}
	defaults := map[string]string{}
	for _, row := range rows(texts.users, userColumns) {
		defaults[row["User"]] = row["DefaultAccount"]
	}
	a.writeAssociations(list, defaults)
	for _, j := range jobs {
		hidden += a.writeJob(j)
	}
	return a.text.String(), hidden, nil
}

// accountWriter writes the commands, and stores which accounts and users they add. Names are in
// lower case.
type accountWriter struct {
	text     strings.Builder
	accounts map[string]bool
	users    map[[2]string]bool // pairs of a user and an account
}

// writeQOS writes all QOS before the commands that refer to a QOS. Flags have separate commands, because an older Slurm
// refuses a command with a flag of a later release.
func (a *accountWriter) writeQOS(list []map[string]string) {
	var later strings.Builder
	for _, row := range list {
		name := row["Name"]
		if name == "" {
			continue
		}
		if grace, err := slurmspec.ParseTimeSpec(row["GraceTime"]); err == nil && grace > 0 && grace != hpc.Unlimited {
			row["GraceTime"] = fmt.Sprint(int64(grace / time.Second))
		} else {
			row["GraceTime"] = ""
		}
		limits := options(row, qosColumns[3:])
		switch {
		case name != "normal": // every database has the QOS normal
			fmt.Fprintf(&a.text, "add qos name=%s%s\n", quote(name), limits)
		case limits != "":
			fmt.Fprintf(&a.text, "modify qos name=normal set%s\n", limits)
		}
		for _, key := range qosColumns[1:3] {
			if row[key] != "" {
				fmt.Fprintf(&later, "modify qos name=%s set %s=%s\n", quote(name), key, quote(row[key]))
			}
		}
	}
	a.text.WriteString(later.String())
}

// writeAssociations writes the accounts in sacctmgr's order, parents first, and then the users. A user's default
// account comes first, because sacctmgr makes the first account the default.
func (a *accountWriter) writeAssociations(list []map[string]string, defaults map[string]string) {
	var users []map[string]string
	for _, row := range list {
		if row["Fairshare"] == "2147483647" { // SLURMDB_FS_USE_PARENT in slurmdb.h
			row["Fairshare"] = "parent"
		}
		limits := options(row, accountColumns[5:])
		switch {
		case row["User"] == "root":
		case row["User"] != "":
			users = append(users, row)
		case row["Account"] == "root":
			if limits != "" {
				fmt.Fprintf(&a.text, "modify account name=root set%s\n", limits)
			}
		case !a.accounts[strings.ToLower(row["Account"])]:
			parent := cmp.Or(row["ParentName"], "root")
			a.account(parent)
			a.accounts[strings.ToLower(row["Account"])] = true
			fmt.Fprintf(&a.text, "add account name=%s parent=%s%s\n", quote(row["Account"]), quote(parent), limits)
		}
	}
	slices.SortStableFunc(users, func(x, y map[string]string) int {
		return cmp.Compare(later(x, defaults), later(y, defaults))
	})
	for _, row := range users {
		a.account(row["Account"])
		a.users[[2]string{row["User"], strings.ToLower(row["Account"])}] = true
		partition := ""
		if row["Partition"] != "" {
			partition = " partition=" + quote(row["Partition"])
		}
		fmt.Fprintf(&a.text, "add user name=%s account=%s%s%s\n", quote(row["User"]), quote(row["Account"]), partition,
			options(row, accountColumns[5:]))
	}
}

// later returns 0 for an association with the user's default account, and 1 for any other
// association.
func later(row map[string]string, defaults map[string]string) int {
	if row["Account"] == defaults[row["User"]] {
		return 0
	}
	return 1
}

// account adds an account that sacctmgr does not show.
func (a *accountWriter) account(name string) {
	if !a.accounts[strings.ToLower(name)] {
		a.accounts[strings.ToLower(name)] = true
		fmt.Fprintf(&a.text, "add account name=%s\n", quote(name))
	}
}

// writeJob adds the association that a job names. It returns 1 if the association was missing, and 0 otherwise.
func (a *accountWriter) writeJob(j *job) int {
	key := [2]string{j.User, strings.ToLower(j.Account)}
	if j.User == "" || j.User == "root" || j.Account == "" || a.users[key] {
		return 0
	}
	a.users[key] = true
	a.account(j.Account)
	qos := ""
	if j.QOS != "" {
		qos = " QOS=" + quote(j.QOS)
	}
	fmt.Fprintf(&a.text, "add user name=%s account=%s%s\n", quote(j.User), quote(j.Account), qos)
	return 1
}

// options writes the values of columns as options of a command. sacctmgr prints nothing for a limit
// that is not set.
func options(row map[string]string, columns []string) string {
	var b strings.Builder
	for _, column := range columns {
		if value := row[column]; value != "" {
			fmt.Fprintf(&b, " %s=%s", column, quote(value))
		}
	}
	return b.String()
}

// quote quotes a name with blanks or quotes for sacctmgr.
func quote(name string) string {
	if strings.ContainsAny(name, " \t'\"") {
		return `"` + strings.ReplaceAll(name, `"`, "") + `"`
	}
	return name
}
