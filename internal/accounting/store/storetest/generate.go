package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	_ "github.com/duckdb/duckdb-go/v2" // its driver

	"rmreplay/internal/accounting/store"
)

// Generate makes a store with n synthetic jobs in an empty directory, for benchmarks. It is faster than
// [Fill], because the database itself draws them, from the same distributions as [Entry], but not
// the same jobs. The result is the same for the same n but for the order of rows.
func Generate(ctx context.Context, dir string, n int64) (err error) {
	s, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	db, err := sql.Open("duckdb", filepath.Join(dir, "jobs.duckdb"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var names, values []string
	for _, c := range store.Columns {
		if expression, ok := generated[c.Name]; ok {
			names, values = append(names, c.Name), append(values, expression)
		}
	}
	jobs := fmt.Sprintf("INSERT INTO jobs (%s) SELECT %s FROM (%s)", strings.Join(names, ", "), strings.Join(values, ", "), fmt.Sprintf(draws, n, Begin.Unix(), PerDay))
	for _, statement := range []string{"SET threads = 2", "SET memory_limit = '4GiB'", jobs, documents, fmt.Sprintf("UPDATE applied SET seq = %d", n), "CHECKPOINT"} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("generating jobs: %w", err)
		}
	}
	return nil
}

// draws has a row for each job. u1 to u7 are uniform between 0 and 1, and independent.
const draws = `
WITH drawn AS (
  SELECT i,
    (hash(i * 7 + 1) %% 1000003 + 1) / 1000004 AS u1, (hash(i * 7 + 2) %% 1000003 + 1) / 1000004 AS u2, (hash(i * 7 + 3) %% 1000003 + 1) / 1000004 AS u3,
    (hash(i * 7 + 4) %% 1000003 + 1) / 1000004 AS u4, (hash(i * 7 + 5) %% 1000003 + 1) / 1000004 AS u5, (hash(i * 7 + 6) %% 1000003 + 1) / 1000004 AS u6,
    (hash(i * 7 + 7) %% 1000003 + 1) / 1000004 AS u7
  FROM range(1, %d + 1) r(i)),
sized AS (
  SELECT *, %d + i * 86400 // %d AS submit, least((-ln(u1) * 40)::BIGINT, 499) AS user_number,
    ['batch', 'batch', 'batch', 'batch', 'long', 'gpu', 'debug', 'fat'][1 + (u2 * 7.999)::INTEGER %% 8] AS part,
    ['COMPLETED', 'COMPLETED', 'COMPLETED', 'COMPLETED', 'COMPLETED', 'COMPLETED', 'COMPLETED', 'FAILED', 'TIMEOUT', 'CANCELLED', 'NODE_FAIL', 'OUT_OF_MEMORY'][1 + (u3 * 11.999)::INTEGER %% 12] AS ended,
    (-ln(u4) * 1800)::BIGINT AS wait, (1 + (u5 * 48)::BIGINT) * 1800 AS lim, 2 ** least((-ln(u6) * 1.5)::INTEGER, 8) AS size
  FROM drawn)
SELECT *, submit + wait AS begun, CASE WHEN ended = 'TIMEOUT' THEN lim ELSE least((-ln(u7) * 3600)::BIGINT, lim) END AS ran, size::BIGINT * 64 AS procs,
  CASE WHEN part = 'gpu' THEN size::BIGINT * 4 ELSE 0 END AS cards
FROM sized ORDER BY begun + ran`

// generated are the columns' values.
var generated = map[string]string{
	"seq": "row_number() OVER ()", "arrived": "make_timestamp((begun + ran + 1) * 1000000)", "source": "'received'", "collection": "'slurm'", "cluster": "'vale'",
	"jobid": "i", "run": "begun", "state": "ended", "submit_time": "make_timestamp(submit * 1000000)", "eligible_time": "make_timestamp(submit * 1000000)",
	"start_time": "make_timestamp(begun * 1000000)", "end_time": "make_timestamp((begun + ran) * 1000000)", "elapsed_s": "ran", "wait_s": "wait", "limit_s": "lim",
	"cpus": "procs", "nodes": "size::BIGINT", "mem_mib": "procs * 2048", "gpus": "cards", "billing": "procs",
	"req_cpus": "procs", "req_nodes": "size::BIGINT", "req_mem_mib": "procs * 2048", "req_gpus": "cards",
	"cpu_hours": "procs * ran / 3600", "gpu_hours": "cards * ran / 3600", "node_hours": "size * ran / 3600",
	"exit_code": "CASE WHEN ended = 'FAILED' THEN 1 + i % 3 ELSE 0 END", "exit_signal": "CASE ended WHEN 'TIMEOUT' THEN 15 WHEN 'OUT_OF_MEMORY' THEN 9 ELSE 0 END",
	"derived_code": "0", "derived_signal": "0",
	"user_name": "format('user{:03d}', user_number)", "user_id": "1000 + user_number", "group_name": "format('group{:02d}', user_number % 20)", "group_id": "500 + user_number % 20",
	"account": "format('account{:02d}', user_number % 30)", "parent_accounts": "format('/root/division{}/account{:02d}', user_number % 5, user_number % 30)",
	"partition": "part", "qos": "['normal', 'normal', 'normal', 'high', 'low'][1 + i % 5]", "job_name": "format('step{}', hash(i) % 200)",
	"ntasks": "procs", "cpus_per_task": "1", "priority": "(hash(i + 1) % 100000)::BIGINT",
	"node_list": "format('node[{:04d}-{:04d}]', hash(i) % 1000, hash(i) % 1000 + size::BIGINT)", "alloc_node": "format('login{}', user_number % 4)",
	"work_dir": "format('/home/user{:03d}/project{}', user_number, i % 5)", "std_in": "'/dev/null'",
	"std_out":    "format('/home/user{:03d}/project{}/slurm-{}.out', user_number, i % 5, i)",
	"std_err":    "format('/home/user{:03d}/project{}/slurm-{}.out', user_number, i % 5, i)",
	"tres_req":   "format('cpu={},mem={}G,node={},billing={}', procs, 2 * procs, size::BIGINT, procs)",
	"tres_alloc": "format('cpu={},mem={}G,node={},billing={}', procs, 2 * procs, size::BIGINT, procs)",
}

// documents makes the documents of the rows.
const documents = `
INSERT INTO documents SELECT seq, encode(format('{{"jobid":{},"username":"{}","user_id":{},"groupname":"{}","group_id":{},"@start":"{}","@end":"{}","elapsed":{},' ||
  '"partition":"{}","alloc_node":"{}","nodes":"{}","total_cpus":{},"total_nodes":{},"exit_code":"{}:{}","state":"{}","cpu_hours":{},"@submit":"{}","@eligible":"{}",' ||
  '"cluster":"{}","qos":"{}","time_limit":{},"job_name":"{}","tres_req":"{}","tres_alloc":"{}","account":"{}","parent_accounts":"{}","work_dir":"{}","std_out":"{}"}}',
  jobid, user_name, user_id, group_name, group_id, strftime(start_time, '%Y-%m-%dT%H:%M:%S'), strftime(end_time, '%Y-%m-%dT%H:%M:%S'), elapsed_s,
  "partition", alloc_node, node_list, cpus, nodes, exit_code, exit_signal, state, cpu_hours, strftime(submit_time, '%Y-%m-%dT%H:%M:%S'), strftime(eligible_time, '%Y-%m-%dT%H:%M:%S'),
  cluster, qos, limit_s, job_name, tres_req, tres_alloc, account, parent_accounts, work_dir, std_out)) FROM jobs ORDER BY seq`
