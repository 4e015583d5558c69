package slurmdb

import (
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/slurmspec"
)

// association is a row of assoc_table: an account, or a user in an account.
type association struct {
	id                               int
	account, user, partition, parent string
	isDefault                        bool
	values                           map[string]string // of the columns with limits, as text
}

// useParent is the value of shares with which an association uses its parent's shares
// (SLURMDB_FS_USE_PARENT in slurmdb.h).
const useParent = 0x7FFFFFFF

// assocOptions maps the columns of assoc_table to the options of sacctmgr.
var assocOptions = []struct {
	column, option string
	tres           bool
}{
	{"grp_jobs", "GrpJobs", false}, {"grp_jobs_accrue", "GrpJobsAccrue", false},
	{"grp_submit_jobs", "GrpSubmitJobs", false},
	{"grp_tres", "GrpTRES", true}, {"grp_tres_mins", "GrpTRESMins", true}, {"grp_tres_run_mins", "GrpTRESRunMins", true},
	{"grp_wall", "GrpWall", false}, {"max_jobs", "MaxJobs", false}, {"max_jobs_accrue", "MaxJobsAccrue", false},
	{"max_submit_jobs", "MaxSubmitJobs", false}, {"max_tres_pj", "MaxTRESPerJob", true},
	{"max_tres_pn", "MaxTRESPerNode", true},
	{"max_tres_mins_pj", "MaxTRESMinsPerJob", true}, {"max_wall_pj", "MaxWallDurationPerJob", false},
	{"priority", "Priority", false},
}

// qosOptions maps the columns of qos_table to the options of sacctmgr.
var qosOptions = []struct {
	column, option string
	tres           bool
}{
	{"grace_time", "GraceTime", false}, {"grp_jobs", "GrpJobs", false}, {"grp_jobs_accrue", "GrpJobsAccrue", false},
	{"grp_submit_jobs", "GrpSubmitJobs", false}, {"grp_tres", "GrpTRES", true}, {"grp_tres_mins", "GrpTRESMins", true},
	{"grp_tres_run_mins", "GrpTRESRunMins", true}, {"grp_wall", "GrpWall", false},
	{"max_jobs_pa", "MaxJobsPerAccount", false},
	{"max_jobs_per_user", "MaxJobsPerUser", false}, {"max_submit_jobs_pa", "MaxSubmitJobsPerAccount", false},
	{"max_submit_jobs_per_user", "MaxSubmitJobsPerUser", false}, {"max_tres_pa", "MaxTRESPerAccount", true},
	{"max_tres_pj", "MaxTRESPerJob", true}, {"max_tres_pn", "MaxTRESPerNode", true},
	{"max_tres_pu", "MaxTRESPerUser", true},
	{"max_tres_mins_pj", "MaxTRESMinsPerJob", true}, {"min_tres_pj", "MinTRESPerJob", true},
	{"max_wall_duration_per_job", "MaxWallDurationPerJob", false}, {"priority", "Priority", false},
	{"usage_factor", "UsageFactor", false}, {"usage_thres", "UsageThreshold", false},
	{"limit_factor", "LimitFactor", false},
	{"preempt_exempt_time", "PreemptExemptTime", false},
}

// flagBits masks the bits of a QOS's column flags that are flags (QOS_FLAG_BASE in slurmdb.h).
const flagBits = 0x0fffffff

// texts calls f with each row of a query, as a map of columns to texts. Columns that are null are
// left out.
func (r *reader) texts(query string, f func(map[string]string) error) error {
	rows, err := r.tx.QueryContext(r.ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	cells := make([]sql.NullString, len(columns))
	targets := make([]any, len(columns))
	for i := range cells {
		targets[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		row := make(map[string]string, len(columns))
		for i, c := range cells {
			if c.Valid {
				row[strings.ToLower(columns[i])] = c.String
			}
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readAssociations reads accounts and users, parents before children. It includes deleted
// associations, because jobs may refer to them.
func (r *reader) readAssociations() error {
	r.assocs, r.users = make(map[int]*association), make(map[uint32]string)
	order := "id_assoc"
	has, err := r.columns(r.cluster + "_assoc_table")
	if err != nil {
		return err
	}
	if has["lft"] { // before 23.11: nested sets
		order = "lft"
	} else if has["lineage"] {
		order = "lineage"
	}
	return r.texts("SELECT * FROM "+r.table("assoc_table")+" ORDER BY "+order, func(row map[string]string) error {
		id, err := strconv.Atoi(row["id_assoc"])
		if err != nil {
			return fmt.Errorf("association with the ID %q: not a number", row["id_assoc"])
		}
		a := &association{
			id: id, account: row["acct"], user: row["user"], partition: row["partition"],
			parent: row["parent_acct"], isDefault: row["is_def"] == "1", values: row,
		}
		r.assocs[id] = a
		if row["deleted"] == "0" || row["deleted"] == "" {
			r.order = append(r.order, a)
		}
		return nil
	})
}

// readAccounts returns the commands that create the present QOS, accounts and users. The database
// does not record earlier limits.
func (r *reader) readAccounts() (string, error) {
	var b strings.Builder
	if err := r.writeQOS(&b); err != nil {
		return "", err
	}
	admins := make(map[string]string)
	err := r.texts("SELECT name, admin_level FROM user_table WHERE deleted = 0", func(row map[string]string) error {
		admins[row["name"]] = map[string]string{"2": "Operator", "3": "Administrator"}[row["admin_level"]]
		return nil
	})
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&b, "add cluster name=%s\n", r.cluster)
	made := make(map[string]bool)
	var users []*association
	for _, a := range r.order {
		switch {
		case a.user != "":
			users = append(users, a)
		case a.account == "root":
			if options := r.options(a); options != "" {
				fmt.Fprintf(&b, "modify account name=root set%s\n", options)
			}
		default:
			parent := a.parent
			if parent == "" {
				parent = "root"
			}
			fmt.Fprintf(&b, "add account name=%s parent=%s%s\n", quote(a.account), quote(parent), r.options(a))
		}
	}
	// A user's default account must come first, because sacctmgr uses the first account as default.
	slices.SortStableFunc(users, func(x, y *association) int {
		switch {
		case x.isDefault == y.isDefault:
			return 0
		case x.isDefault:
			return -1
		}
		return 1
	})
	for _, a := range users {
		if a.user == "root" {
			continue
		}
		fmt.Fprintf(&b, "add user name=%s account=%s", quote(a.user), quote(a.account))
		if a.partition != "" {
			fmt.Fprintf(&b, " partition=%s", quote(a.partition))
		}
		if level := admins[a.user]; level != "" && !made[a.user] {
			fmt.Fprintf(&b, " AdminLevel=%s", level)
		}
		made[a.user] = true
		fmt.Fprintf(&b, "%s\n", r.options(a))
	}
	return b.String(), nil
}

// options returns an association's shares, limits and QOS as options of sacctmgr.
func (r *reader) options(a *association) string {
	var b strings.Builder
	if shares := a.values["shares"]; shares == strconv.Itoa(useParent) {
		b.WriteString(" Fairshare=parent")
	} else if shares != "" {
		fmt.Fprintf(&b, " Fairshare=%s", shares)
	}
	for _, o := range assocOptions {
		r.option(&b, o.option, a.values[o.column], o.tres)
	}
	if names := r.qosNames(a.values["qos"]); names != "" {
		fmt.Fprintf(&b, " QOS=%s", names)
	}
	// ",+3,-4" changes the parent's list.
	if names := r.qosNames(a.values["delta_qos"]); names != "" {
		fmt.Fprintf(&b, " QOS=%s", names)
	}
	if id, err := strconv.Atoi(a.values["def_qos_id"]); err == nil && r.qos[id] != "" {
		fmt.Fprintf(&b, " DefaultQOS=%s", quote(r.qos[id]))
	}
	return b.String()
}

// option writes a limit, if it is set.
func (r *reader) option(b *strings.Builder, option, value string, isTRES bool) {
	if n, err := strconv.ParseFloat(value, 64); value == "" || err == nil && (n >= float64(slurmspec.NoVal) || n < 0) {
		return
	}
	switch seconds, err := strconv.ParseInt(value, 10, 32); {
	case isTRES:
		if value = r.tresNames(value); value == "" {
			return
		}
	case option == "PreemptExemptTime" && err == nil: // in the database in seconds; sacctmgr reads a plain number as minutes
		value = slurmspec.FormatSpan(time.Duration(seconds) * time.Second)
	}
	fmt.Fprintf(b, " %s=%s", option, value)
}

// tresNames converts "1=8,1001=2" to sacctmgr's form: "cpu=8,gres/gpu=2".
func (r *reader) tresNames(list string) string {
	var parts []string
	for item := range strings.SplitSeq(list, ",") {
		id, count, found := strings.Cut(item, "=")
		if n, err := strconv.Atoi(id); found && err == nil && r.tres[n] != "" {
			parts = append(parts, r.tres[n]+"="+count)
		}
	}
	return strings.Join(parts, ",")
}

// qosNames converts ",1,+2" to "normal,+high". It ignores numbers that belong to no QOS.
func (r *reader) qosNames(list string) string {
	var parts []string
	for item := range strings.SplitSeq(list, ",") {
		digits := strings.TrimLeft(item, "+-")
		if n, err := strconv.Atoi(digits); err == nil && r.qos[n] != "" {
			parts = append(parts, item[:len(item)-len(digits)]+r.qos[n])
		}
	}
	return strings.Join(parts, ",")
}

func (r *reader) writeQOS(b *strings.Builder) error {
	return r.texts("SELECT * FROM qos_table WHERE deleted = 0 ORDER BY id", func(row map[string]string) error {
		verb, set := "add qos name="+quote(row["name"]), ""
		if row["name"] == "normal" { // every database has this QOS
			verb, set = "modify qos name=normal", " set"
		}
		var options strings.Builder
		for _, o := range qosOptions {
			r.option(&options, o.option, row[o.column], o.tres)
		}
		if flags, err := strconv.ParseUint(row["flags"], 10, 64); err == nil {
			var names []string
			for bit, name := range slurmspec.QOSFlags {
				if flags&(1<<bit) != 0 {
					names = append(names, name)
				}
			}
			if len(names) > 0 {
				fmt.Fprintf(&options, " Flags=%s", strings.Join(names, ","))
			}
			if others := flags & flagBits >> len(slurmspec.QOSFlags); others != 0 {
				r.leftOut = append(r.leftOut, fmt.Sprintf("QOS %s: flags of a Slurm later than 22.05 (bits %#x) are left out",
					row["name"], others<<len(slurmspec.QOSFlags)))
			}
		}
		if names := r.preempted(row["preempt"]); names != "" {
			fmt.Fprintf(&options, " Preempt=%s", names)
		}
		if set == "" || options.Len() > 0 {
			fmt.Fprintf(b, "%s%s%s\n", verb, set, options.String())
		}
		return nil
	})
}

// preempted returns the names of the QOS that a QOS can preempt. The column has their numbers in
// Slurm's format of a bit set: ",2,5-7".
func (r *reader) preempted(list string) string {
	var names []string
	for item := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(item, "-")
		if !isRange {
			last = first
		}
		low, err1 := strconv.Atoi(first)
		high, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil {
			continue
		}
		for id, name := range r.qos {
			if id >= low && id <= high {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// quote quotes a name that contains blanks.
func quote(name string) string {
	if strings.ContainsAny(name, " \t") {
		return `"` + strings.ReplaceAll(name, `"`, "") + `"`
	}
	return name
}
