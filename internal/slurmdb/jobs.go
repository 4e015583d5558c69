package slurmdb

import (
	"database/sql"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// jobRow has the columns of a row of job_table.
type jobRow struct {
	dbIndex                                      uint64
	account, arrayTasks, constraints, name       sql.NullString
	nodeList, partition, wckey, resv             sql.NullString
	submitLine, script, tresReq, tresAlloc       sql.NullString
	licenses, comment, workDir                   sql.NullString
	cpusReq, exitCode, assoc, arrayJob, arrayTsk sql.NullInt64
	arrayMax, job, qos, uid, gid                 sql.NullInt64
	hetJob, hetOffset, reason, nodesAlloc        sql.NullInt64
	restarts, flags                              sql.NullInt64
	priority, state, limit                       sql.NullInt64
	memory                                       sql.NullString // unsigned, 64 bits
	submit, eligible, start, end, suspended      sql.NullInt64
}

// readJobs adds every job of the window to the builder.
func (r *reader) readJobs() error {
	has, err := r.columns(r.cluster + "_job_table")
	if err != nil {
		return err
	}
	if !has["time_submit"] {
		return fmt.Errorf("the table %s_job_table is missing, or has no column time_submit (want the database of slurmdbd "+
			"20.11 or later)", r.cluster)
	}
	script, join := "NULL", ""
	switch {
	case has["script_hash_inx"]: // 22.05
		script = "s.batch_script"
		join = " LEFT JOIN " + r.table("job_script_table") + " s ON s.hash_inx = j.script_hash_inx AND j.script_hash_inx != 0"
	case has["batch_script"]: // 21.08
		script = "j.batch_script"
	}
	column := func(name string) string {
		if has[name] {
			return "j." + name
		}
		return "NULL"
	}
	var row jobRow
	fields := row.fields()
	names := make([]string, 0, len(fields)+2)
	targets := make([]any, 0, len(fields)+2)
	for _, f := range fields {
		names, targets = append(names, column(f.column)), append(targets, f.target)
	}
	names, targets = append(names, script, "v.resv_name"), append(targets, &row.script, &row.resv)
	// A reservation has one row per period between two changes.
	join += " LEFT JOIN (SELECT id_resv, MAX(resv_name) AS resv_name FROM " + r.table("resv_table") +
		" GROUP BY id_resv) v ON v.id_resv = j.id_resv AND j.id_resv != 0"
	condition, args := r.jobWindow()
	query := "SELECT " + strings.Join(names, ", ") + " FROM " + r.table("job_table") + " j" + join +
		" WHERE j.deleted = 0 AND " + condition + " ORDER BY j.job_db_inx"
	jobs := int64(0)
	return r.each(query, func(rows *sql.Rows) error {
		if err := rows.Scan(targets...); err != nil {
			return fmt.Errorf("job %d: %w", row.job.Int64, err)
		}
		if jobs++; r.opts.Progress != nil && jobs%1024 == 0 {
			r.opts.Progress(jobs, 0)
		}
		r.builder.Row()
		record, err := r.record(&row)
		if err != nil {
			return r.builder.Unusable(finished.RuleNoRecord, strconv.FormatInt(row.job.Int64, 10), "job %d: %v", row.job.Int64,
				err)
		}
		return r.builder.Add(record, record.ID)
	}, args...)
}

type jobField struct {
	column string
	target any
}

func (row *jobRow) fields() []jobField {
	return []jobField{
		{"job_db_inx", &row.dbIndex}, {"account", &row.account}, {"array_task_str", &row.arrayTasks},
		{"array_max_tasks", &row.arrayMax}, {"constraints", &row.constraints}, {"cpus_req", &row.cpusReq},
		{"exit_code", &row.exitCode}, {"job_name", &row.name}, {"id_assoc", &row.assoc},
		{"id_array_job", &row.arrayJob}, {"id_array_task", &row.arrayTsk}, {"id_job", &row.job}, {"id_qos", &row.qos},
		{"id_user", &row.uid}, {"id_group", &row.gid}, {"het_job_id", &row.hetJob}, {"het_job_offset", &row.hetOffset},
		{"state_reason_prev", &row.reason}, {"mem_req", &row.memory}, {"nodelist", &row.nodeList},
		{"nodes_alloc", &row.nodesAlloc}, {"partition", &row.partition}, {"priority", &row.priority},
		{"state", &row.state}, {"timelimit", &row.limit}, {"time_submit", &row.submit}, {"time_eligible", &row.eligible},
		{"time_start", &row.start}, {"time_end", &row.end}, {"time_suspended", &row.suspended}, {"wckey", &row.wckey},
		{"submit_line", &row.submitLine}, {"tres_alloc", &row.tresAlloc}, {"tres_req", &row.tresReq},
		{"licenses", &row.licenses}, {"derived_es", &row.comment}, {"work_dir", &row.workDir},
		{"restart_cnt", &row.restarts}, {"flags", &row.flags},
	}
}

func instant(n sql.NullInt64) hpc.Time {
	if !n.Valid || n.Int64 <= 0 || n.Int64 > slurmspec.LastInstant {
		return 0
	}
	return hpc.Unix(n.Int64)
}

// record converts a row to a finished job.
func (r *reader) record(row *jobRow) (*finished.Job, error) {
	if row.submit.Int64 > slurmspec.LastInstant || row.end.Int64 > slurmspec.LastInstant {
		return nil, fmt.Errorf("submit time %d, end time %d: out of range (want seconds since 1970, before the year 2200)",
			row.submit.Int64, row.end.Int64)
	}
	exit := slurmspec.ExitCodeOfWait(uint32(row.exitCode.Int64))
	rec := &finished.Job{
		Cluster: r.cluster, Number: uint32(row.job.Int64), ArrayTask: -1, Elapsed: -1,
		Name: row.name.String, Account: row.account.String, Partition: row.partition.String, QOS: r.qos[int(row.qos.Int64)],
		WCKey: row.wckey.String, Reservation: row.resv.String, Constraint: row.constraints.String,
		Licenses: row.licenses.String, Comment: row.comment.String,
		UID: uint32(row.uid.Int64), GID: uint32(row.gid.Int64), HasUID: row.uid.Valid,
		Submit: instant(row.submit), Eligible: instant(row.eligible), Start: instant(row.start), End: instant(row.end),
		Suspended: time.Duration(max(0, min(row.suspended.Int64, 1<<31))) * time.Second,
		State:     slurmspec.RecordedJobState(row.state.Int64),
		ExitCode:  exit.Status, Signal: exit.Signal, HasExit: row.exitCode.Valid,
		Held:       slurmspec.Reason(row.reason.Int64).Held(),
		ReqCPUs:    int(row.cpusReq.Int64),
		SubmitLine: row.submitLine.String, Script: row.script.String, WorkDir: row.workDir.String,
		Restarts: int(row.restarts.Int64), Flags: slurmspec.JobFlags(uint32(row.flags.Int64)),
		NodeList: slurmspec.Given(row.nodeList.String),
		ReqTRES:  r.tresText(row.tresReq.String), AllocTRES: r.tresText(row.tresAlloc.String),
	}
	if row.priority.Valid && row.priority.Int64 >= 0 && row.priority.Int64 < int64(slurmspec.NoVal) {
		rec.Priority = new(uint32(row.priority.Int64))
	}
	switch limit := row.limit.Int64; {
	case limit == int64(slurmspec.Infinite):
		rec.TimeLimit = hpc.Unlimited
	case limit > 0 && limit < 1<<25:
		rec.TimeLimit = time.Duration(limit) * time.Minute
	}
	if a := r.assocs[int(row.assoc.Int64)]; a != nil {
		rec.User = a.user
	}
	if rec.User == "" && row.uid.Valid {
		rec.User = r.users[rec.UID]
	}
	identify(rec, row)
	r.sizes(rec, row)
	return rec, nil
}

// identify sets the record's ID to what sacct would print.
func identify(rec *finished.Job, row *jobRow) {
	rec.ID = strconv.FormatInt(row.job.Int64, 10)
	array := row.arrayJob.Int64
	switch {
	case array > 0 && row.arrayTsk.Valid && row.arrayTsk.Int64 < int64(slurmspec.NoVal):
		rec.ArrayJob, rec.ArrayTask = uint32(array), int(row.arrayTsk.Int64)
		rec.ID = fmt.Sprintf("%d_%d", array, rec.ArrayTask)
	case array > 0 && row.arrayTasks.String != "":
		rec.ArrayJob, rec.ArrayRest = uint32(array), slurmspec.ArrayTasks(row.arrayTasks.String)
		if row.arrayMax.Int64 > 0 && !strings.Contains(rec.ArrayRest, "%") {
			rec.ArrayRest += "%" + strconv.FormatInt(row.arrayMax.Int64, 10)
		}
		rec.ID = fmt.Sprintf("%d_[%s]", array, rec.ArrayRest)
	case row.hetJob.Int64 > 0:
		rec.HetJob, rec.HetOffset = uint32(row.hetJob.Int64), int(row.hetOffset.Int64)
		rec.ID = fmt.Sprintf("%d+%d", rec.HetJob, rec.HetOffset)
	}
}

// sizes sets the requested and allocated resources. The columns have TRES by number:
// "1=12,2=33600,4=1".
func (r *reader) sizes(rec *finished.Job, row *jobRow) {
	rec.AllocNodes = int(row.nodesAlloc.Int64)
	if n, err := strconv.ParseUint(row.memory.String, 10, 64); err == nil && n > 0 {
		if n >= slurmspec.MemPerCPU {
			rec.MemPerCPU = int64(n - slurmspec.MemPerCPU)
		} else if n < 1<<40 {
			rec.MemPerNode = int64(n)
		}
	}
	_ = finished.TakeTRES(rec) // tresText wrote the lists, so they are valid
}

// tresText converts a list of TRES to sacct's form, with names instead of numbers.
func (r *reader) tresText(text string) string {
	var list slurmspec.TRESList
	for name, amount := range r.tresAmounts(text) {
		list.AddRecorded(name, amount)
	}
	return list.String()
}

// tresAmounts yields the names and amounts in a list of TRES by number. It skips invalid elements,
// elements whose number has no name, and elements without an amount.
func (r *reader) tresAmounts(text string) iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for number, amount := range slurmspec.TRES(text) {
			id, err1 := strconv.Atoi(number)
			n, err2 := strconv.ParseInt(amount, 10, 64)
			if err1 == nil && err2 == nil && n >= 0 && r.tres[id] != "" && !yield(r.tres[id], n) {
				return
			}
		}
	}
}

// readSteps passes the start of the first step to the builder, for jobs without a start.
func (r *reader) readSteps() error {
	condition, args := r.window("j.time_submit", "j.time_end")
	query := "SELECT j.id_job, j.id_array_job, j.id_array_task, MIN(s.time_start) FROM " + r.table("job_table") +
		" j JOIN " +
		r.table("step_table") +
		" s ON s.job_db_inx = j.job_db_inx WHERE j.deleted = 0 AND s.deleted = 0 AND j.time_start = 0" +
		" AND s.time_start > 0 AND " + condition + " GROUP BY j.job_db_inx, j.id_job, j.id_array_job, j.id_array_task"
	return r.each(query, func(rows *sql.Rows) error {
		var row jobRow
		if err := rows.Scan(&row.job, &row.arrayJob, &row.arrayTsk, &row.start); err != nil {
			return err
		}
		var rec finished.Job
		identify(&rec, &row)
		r.builder.Step(rec.ID, instant(row.start))
		return nil
	}, args...)
}
