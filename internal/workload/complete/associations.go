package complete

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rmreplay/internal/workload"
)

// Associations returns the commands for sacctmgr that make the accounts and users that rules made in a
// workload, and let them use the site's QOS; "" if they made no users and no accounts. The site has the
// accounts in declared. Without the commands slurmctld refuses the jobs where it enforces associations.
func Associations(w *workload.Workload, declared map[string]bool) string {
	if w.Completion == nil || !slices.ContainsFunc(w.Completion.Fields, func(f workload.MadeField) bool {
		return f.Field == workload.FieldUser || f.Field == workload.FieldAccount
	}) {
		return ""
	}
	made := map[string]map[string]bool{} // users by account
	for _, job := range w.Jobs.All() {
		fields := workload.MadeFields(job)
		_, user := fields[workload.FieldUser]
		_, account := fields[workload.FieldAccount]
		if job.Account == "" || job.User == "" || !user && !account {
			continue
		}
		if made[job.Account] == nil {
			made[job.Account] = map[string]bool{}
		}
		made[job.Account][job.User] = true
	}
	var names []string
	for _, q := range w.Completion.Site.QOS {
		names = append(names, q.Name)
	}
	qos := ""
	if names != nil {
		qos = " QOS=" + strings.Join(names, ",")
	}
	var b strings.Builder
	for _, account := range slices.Sorted(maps.Keys(made)) {
		if !declared[strings.ToLower(account)] {
			fmt.Fprintf(&b, "add account name=%s parent=root%s\n", account, qos)
		}
	}
	for _, account := range slices.Sorted(maps.Keys(made)) {
		for _, user := range slices.Sorted(maps.Keys(made[account])) {
			fmt.Fprintf(&b, "add user name=%s account=%s\n", user, account)
		}
	}
	return b.String()
}
