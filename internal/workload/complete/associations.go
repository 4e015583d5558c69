package complete

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rmreplay/internal/workload"
)

// Associations returns the commands for sacctmgr for the QOS, accounts and users that rules made in a workload. The
// commands create them, and let them use the site's QOS. The result is "" if rules made no QOS, account or user.
// The parameters accounts and qos are the names that the site already has, in lower case. The function has reports
// whether a user of the site already has an association with an account. A QOS that the site does not
// have gets no limits, and all accounts may use it. Without the commands, a slurmctld that enforces associations and
// QOS refuses the jobs.
func Associations(w *workload.Workload, accounts, qos map[string]bool, has func(user, account string) bool) string {
	if w.Completion == nil {
		return ""
	}
	made := map[string]map[string]bool{} // users by account
	lacking := map[string]bool{}
	for _, job := range w.Jobs.All() {
		fields := workload.MadeFields(job)
		if _, drawn := fields[workload.FieldQOS]; drawn && !qos[strings.ToLower(job.QOS)] {
			lacking[job.QOS] = true
		}
		_, user := fields[workload.FieldUser]
		_, account := fields[workload.FieldAccount]
		if job.Account == "" || job.User == "" || !user && !account || has(job.User, job.Account) {
			continue
		}
		if made[job.Account] == nil {
			made[job.Account] = map[string]bool{}
		}
		made[job.Account][job.User] = true
	}
	var b strings.Builder
	var names []string
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		fmt.Fprintf(&b, "add qos name=%s\nmodify account where name=root set qoslevel+=%s\n", name, name)
		names = append(names, name)
	}
	for _, q := range w.Completion.Site.QOS {
		if qos[strings.ToLower(q.Name)] {
			names = append(names, q.Name)
		}
	}
	allowed := ""
	if names != nil {
		allowed = " QOS=" + strings.Join(names, ",")
	}
	for _, account := range slices.Sorted(maps.Keys(made)) {
		if !accounts[strings.ToLower(account)] {
			fmt.Fprintf(&b, "add account name=%s parent=root%s\n", account, allowed)
		}
	}
	for _, account := range slices.Sorted(maps.Keys(made)) {
		for _, user := range slices.Sorted(maps.Keys(made[account])) {
			fmt.Fprintf(&b, "add user name=%s account=%s\n", user, account)
		}
	}
	return b.String()
}
