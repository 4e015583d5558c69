package build

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/quantity"
	"rmreplay/internal/workload"
)

// names are the users, accounts and QOS that the jobs of a workload name, and the other QOS that
// its associations need. Slurm keeps accounts and QOS in lower case (sacctmgr(1)).
type names struct {
	users map[string]*submitter
	qos   map[string]bool // maps a QOS to whether a job names it
}

// submitter is a user as the jobs name it.
type submitter struct {
	group string         // the group of the first job that has one
	jobs  map[string]int // number of jobs by account; "" for jobs without an account
}

// normalQOS exists in every database of slurmdbd and is the default.
const normalQOS = "normal"

// defaultAccount is the account of users whose jobs do not name an account.
const defaultAccount = "default"

// namesOf collects the names in a workload's jobs.
func namesOf(w *workload.Workload) *names {
	n := &names{users: make(map[string]*submitter), qos: map[string]bool{normalQOS: false}}
	for _, job := range w.Jobs.All() {
		if job.QOS != "" {
			n.qos[strings.ToLower(job.QOS)] = true
		}
		if job.User == "" {
			continue
		}
		u := n.users[job.User]
		if u == nil {
			u = &submitter{jobs: make(map[string]int)}
			n.users[job.User] = u
		}
		u.group = cmp.Or(u.group, job.Group)
		u.jobs[strings.ToLower(job.Account)]++
	}
	return n
}

// accounts returns the user's accounts. The account with the most jobs is the first, because
// sacctmgr makes the first account of a user the default.
func (u *submitter) accounts() []string {
	var list []string
	for account := range u.jobs {
		if account != "" {
			list = append(list, account)
		}
	}
	if list == nil {
		return []string{defaultAccount}
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(u.jobs[b], u.jobs[a]), cmp.Compare(a, b)) })
	return list
}

// commands returns the commands for sacctmgr that make the QOS, the accounts and the associations.
// With them, Slurm refuses no job because of its names. Each account may use each QOS.
func (n *names) commands() string {
	var b strings.Builder
	qos := slices.Sorted(maps.Keys(n.qos))
	for i, name := range qos {
		qos[i] = quote(name)
		if name != normalQOS {
			fmt.Fprintf(&b, "add qos name=%s\n", qos[i])
		}
	}
	all := strings.Join(qos, ",")
	made := map[string]bool{"root": true} // exists in every database
	people := slices.Sorted(maps.Keys(n.users))
	for _, user := range people {
		for _, account := range n.users[user].accounts() {
			if !made[account] {
				made[account] = true
				fmt.Fprintf(&b, "add account name=%s parent=root QOS=%s\n", quote(account), all)
			}
		}
	}
	for _, user := range people {
		for _, account := range n.users[user].accounts() {
			// root is an administrator with an association from the start.
			if user != "root" || account != "root" {
				fmt.Fprintf(&b, "add user name=%s account=%s QOS=%s\n", quote(user), quote(account), all)
			}
		}
	}
	if b.Len() == 0 { // write a file anyway, so that a replay does not make accounts by its own rules
		b.WriteString("# Every database has the association of root in the account root, and no other one is needed.\n")
	}
	return b.String()
}

// accountsOfJobs makes the commands from the names in the jobs, if the source has no accounts.
func (r *Result) accountsOfJobs(n *names) {
	if r.Accounts != "" || len(n.users) == 0 {
		return
	}
	r.Accounts = n.commands()
	accounts := make(map[string]bool) // maps an account to whether a job names it
	for _, u := range n.users {
		for _, account := range u.accounts() {
			accounts[account] = accounts[account] || u.jobs[account] > 0
		}
	}
	var also []string
	namedAccounts, others := count(accounts)
	if len(others) > 0 {
		also = append(also, "account "+strings.Join(others, ", "))
	}
	namedQOS, others := count(n.qos)
	if len(others) > 0 {
		also = append(also, "QOS "+strings.Join(others, ", "))
	}
	beside := ""
	if len(also) > 0 {
		beside = fmt.Sprintf(" (also %s, which no job names)", strings.Join(also, " and "))
	}
	r.Missing = append(r.Missing, fmt.Sprintf("accounts.sacctmgr has the %d %s, %d %s and %d QOS that the jobs name%s, "+
		"without limits, shares and priorities, which are not known (want --accounts with the output of sacctmgr dump)",
		namedAccounts, quantity.Plural(namedAccounts, "account", "accounts"), len(n.users),
		quantity.Plural(len(n.users), "user", "users"), namedQOS, beside))
}

// count returns how many names have the value true, and the names with the value false, in order.
func count(names map[string]bool) (named int, others []string) {
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] {
			named++
		} else {
			others = append(others, name)
		}
	}
	return named, others
}

// usersOfJobs adds the users without a number in the source, and gives them new numbers.
func (r *Result) usersOfJobs(n *names) {
	uids, gids, known := map[uint32]bool{0: true}, make(map[string]uint32), make(map[string]bool)
	taken := map[uint32]bool{0: true}
	for _, u := range r.Workload.Users {
		uids[u.UID], gids[u.Group], known[u.Name], taken[u.GID] = true, u.GID, true, true
	}
	added, unfit := 0, 0
	for _, name := range slices.Sorted(maps.Keys(n.users)) {
		group := cmp.Or(n.users[name].group, "users")
		switch {
		case known[name]:
			continue
		case hpc.CheckUserName(name) != nil || hpc.CheckUserName(group) != nil:
			unfit++
			continue
		}
		gid, ok := gids[group]
		if !ok {
			gid = free(taken)
			gids[group] = gid
		}
		r.Workload.Users = append(r.Workload.Users, hpc.User{Name: name, UID: free(uids), Group: group, GID: gid})
		added++
	}
	if added > 0 {
		r.Missing = append(r.Missing, fmt.Sprintf("the UIDs of %d %s are not known: the file users has made-up UIDs for them, "+
			"from %d on", added, quantity.Plural(added, "user", "users"), firstNumber))
	}
	if unfit > 0 {
		r.Missing = append(r.Missing, fmt.Sprintf("%d %s whose name, or whose group's name, is not possible in passwd(5) "+
			"are not in the file users", unfit, quantity.Plural(unfit, "user", "users")))
	}
}

// firstNumber is the first number for a user or a group whose number is not known.
const firstNumber = 20001

// free returns the first number that is not taken, and marks it as taken.
func free(taken map[uint32]bool) uint32 {
	n := uint32(firstNumber)
	for taken[n] {
		n++
	}
	taken[n] = true
	return n
}

// quote quotes a name that sacctmgr would split.
func quote(name string) string {
	if strings.ContainsAny(name, " \t,='\"") {
		return `"` + strings.ReplaceAll(name, `"`, "") + `"`
	}
	return name
}
