package web

import (
	"bytes"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"rmreplay/internal/accounting/embedded"
)

// inSQLite are the panels' queries in SQLite's dialect. The table jobs has the columns of
// sqliteColumns, with times in seconds since 1970. {from} is the beginning of the range, and {step}
// the length of a bucket, in seconds.
var inSQLite = map[string]string{
	"summary": `SELECT count(*), count(*) FILTER ({failed}), count(DISTINCT user_name), avg(wait_s), sum(elapsed_s) / 3600.0, sum(cpu_hours), sum(cpu_hours) FILTER ({failed}), sum({unused}) / 3600.0, sum(node_hours), sum(gpu_hours) FROM jobs`,
	"jobs":    "SELECT (end_time - {from}) / {step}, state, count(*) FROM jobs GROUP BY 1, 2",
	"utilization": `SELECT max((start_time - {from}) / {step}, -1), sum(cpus), sum(cpus * max(start_time - {from}, 0)) FROM jobs WHERE cpus > 0 AND start_time <= end_time GROUP BY 1
		UNION ALL SELECT max((end_time - {from}) / {step}, -1), -sum(cpus), -sum(cpus * max(end_time - {from}, 0)) FROM jobs WHERE cpus > 0 AND start_time <= end_time GROUP BY 1`,
	"shares":     `SELECT "partition", qos, sum(cpu_hours), count(*) FROM jobs GROUP BY 1, 2 ORDER BY 3 DESC`,
	"users":      `SELECT user_name, {top} FROM jobs GROUP BY 1 ORDER BY 3 DESC LIMIT 10`,
	"accounts":   `SELECT account, {top} FROM jobs GROUP BY 1 ORDER BY 4 DESC LIMIT 10`,
	"waits":      "SELECT CAST(floor(log2(wait_s + 0.5) * 2) AS INTEGER), count(*), sum(cpu_hours) FROM jobs WHERE wait_s >= 0 GROUP BY 1",
	"runs":       "SELECT CAST(floor(log2(elapsed_s + 0.5) * 2) AS INTEGER), count(*), sum(cpu_hours) FROM jobs WHERE elapsed_s >= 0 AND start_time IS NOT NULL GROUP BY 1",
	"sizes":      "SELECT CAST(floor(log2(nodes + 0.5)) AS INTEGER), count(*), sum(cpu_hours) FROM jobs WHERE nodes >= 0 AND start_time IS NOT NULL GROUP BY 1",
	"requested":  "SELECT min(20 * elapsed_s / limit_s, 20), count(*), sum(cpu_hours) FROM jobs WHERE limit_s > 0 AND start_time IS NOT NULL GROUP BY 1",
	"limits":     "SELECT CAST(floor(log2(limit_s + 0.5)) AS INTEGER), CAST(floor(log2(elapsed_s + 0.5)) AS INTEGER), count(*), sum(cpu_hours) FROM jobs WHERE limit_s > 0 AND elapsed_s >= 0 AND start_time IS NOT NULL GROUP BY 1, 2",
	"waste":      "SELECT (end_time - {from}) / {step}, sum(cpu_hours) FILTER (WHERE state = 'COMPLETED'), sum(cpu_hours) FILTER ({failed}), sum(cpu_hours), sum({unused}) / 3600.0 FROM jobs GROUP BY 1",
	"exits":      "SELECT (end_time - {from}) / {step}, exit_code, exit_signal, count(*) FROM jobs WHERE start_time IS NOT NULL GROUP BY 1, 2, 3",
	"week":       "SELECT (submit_time / 3600 + 72) % 168, count(*), avg(wait_s) FROM jobs GROUP BY 1",
	"partitions": `SELECT "partition", {top} FROM jobs GROUP BY 1 ORDER BY 4 DESC LIMIT 10`,
	"names":      `SELECT job_name, {top} FROM jobs GROUP BY 1 ORDER BY 2 DESC LIMIT 10`,
	"table":      "SELECT * FROM jobs ORDER BY end_time DESC LIMIT 51",
}

var sqliteColumns = []string{
	"submit_time", "start_time", "end_time", "state", "user_name", "account", `"partition"`, "qos", "job_name", "elapsed_s", "wait_s", "limit_s", "cpus", "nodes",
	"cpu_hours", "gpu_hours", "node_hours", "exit_code", "exit_signal",
}

// sqlite writes a SQLite database with a store's jobs: the columns that the panels need, and an
// index of the end times. It runs the program sqlite3.
func sqlite(b *testing.B, dir string) (path string) {
	b.Helper()
	if path = filepath.Join(dir, "jobs.sqlite"); fileExists(path) {
		return path
	}
	db, err := sql.Open("duckdb", filepath.Join(dir, "jobs.duckdb")+"?access_mode=read_only")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	list := slices.Clone(sqliteColumns)
	columns := make([]string, len(list))
	for i, name := range list {
		columns[i] = name
		switch {
		case strings.HasSuffix(name, "_time"):
			list[i] = fmt.Sprintf("epoch(%s)::BIGINT AS %s", name, name)
			columns[i] += " INTEGER"
		case strings.HasSuffix(name, "_hours"):
			columns[i] += " REAL"
		case slices.Contains([]string{"state", "user_name", "account", `"partition"`, "qos", "job_name"}, name):
			columns[i] += " TEXT"
		default:
			columns[i] += " INTEGER"
		}
	}
	table := filepath.Join(b.TempDir(), "jobs.csv")
	if _, err := db.ExecContext(b.Context(), fmt.Sprintf("COPY (SELECT %s FROM jobs) TO '%s' (HEADER false)", strings.Join(list, ", "), table)); err != nil {
		b.Fatal(err)
	}
	runSQLite(b, path, "PRAGMA journal_mode = off; PRAGMA synchronous = off;", "CREATE TABLE jobs ("+strings.Join(columns, ", ")+");", ".mode csv", ".import "+table+" jobs",
		"CREATE INDEX ends ON jobs(end_time); ANALYZE;")
	return path
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func runSQLite(b *testing.B, path string, lines ...string) string {
	b.Helper()
	command := exec.CommandContext(b.Context(), "sqlite3", "-batch", "-bail", path)
	command.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	var problem bytes.Buffer
	command.Stderr = &problem
	text, err := command.Output()
	if err != nil || problem.Len() > 0 {
		b.Fatalf("sqlite3: %v: %s", err, problem.Bytes())
	}
	return string(text)
}

// BenchmarkStores compares the time of the panels over all jobs, in ms (median of 5 answers),
// between the store, DuckDB without rollups, and SQLite. A filter that rollups cannot answer
// excludes them.
func BenchmarkStores(b *testing.B) {
	const rounds = 5
	if _, err := exec.LookPath("sqlite3"); err != nil {
		b.Skipf("SKIPPED: the program sqlite3 is not there: %v", err)
	}
	dir, millions := benchStore(b)
	path := sqlite(b, dir)
	s := openStore(b, dir)
	defer s.Close()
	v := newServer(s, nil)
	for _, p := range panels {
		b.Run(fmt.Sprintf("%dM/%s", millions, p.name), func(b *testing.B) {
			for name, query := range map[string]string{"store-ms": "", "duckdb-ms": "jobid>=0"} {
				r, sizes, err := v.read(b.Context(), url.Values{"last": {"all"}, "q": {query}})
				if err != nil {
					b.Fatal(err)
				}
				var took []float64
				for range rounds {
					v.jobs = embedded.New(s)
					a, err := v.ask(b.Context(), p, r, sizes)
					if err != nil {
						b.Fatal(err)
					}
					took = append(took, a.took.Seconds())
				}
				b.ReportMetric(1000*median(took), name)
				if query == "" {
					b.ReportMetric(1000*median(timeSQLite(b, path, p.name, r, rounds)), "sqlite-ms")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// ranFor matches the time that the program sqlite3 reports for an answer, in seconds.
var ranFor = regexp.MustCompile(`Run Time(?: \(s\))?: real ([0-9.]+)`)

// answerTimes returns the times in the output of sqlite3, in seconds.
func answerTimes(b *testing.B, text []byte, rounds int) (took []float64) {
	b.Helper()
	for _, found := range ranFor.FindAllSubmatch(text, -1) {
		one, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, one)
	}
	if len(took) != rounds {
		b.Fatalf("%d times, want %d: %s", len(took), rounds, text)
	}
	return took
}

// timeSQLite runs a panel's query with sqlite3, and returns the time of each answer, in seconds.
func timeSQLite(b *testing.B, path, panel string, r *request, rounds int) []float64 {
	b.Helper()
	edges := r.buckets()
	query := strings.NewReplacer("{from}", fmt.Sprint(edges.edges[0].Unix()), "{step}", fmt.Sprint(edges.step),
		"{failed}", "WHERE state IN ('FAILED', 'TIMEOUT', 'NODE_FAIL', 'OUT_OF_MEMORY', 'BOOT_FAIL', 'DEADLINE')", "{unused}", "CASE WHEN start_time IS NOT NULL THEN cpus * max(limit_s - elapsed_s, 0) END",
		"{top}", "count(*), sum(elapsed_s) / 3600.0, sum(cpu_hours), avg(wait_s), count(*) FILTER (WHERE state IN ('FAILED', 'TIMEOUT', 'NODE_FAIL', 'OUT_OF_MEMORY', 'BOOT_FAIL', 'DEADLINE')), sum(CASE WHEN start_time IS NOT NULL THEN cpus * max(limit_s - elapsed_s, 0) END) / 3600.0",
	).Replace(inSQLite[panel])
	lines := []string{"PRAGMA cache_size = -524288;", ".timer on"}
	for range rounds {
		lines = append(lines, strings.ReplaceAll(query, "\n", " ")+";")
	}
	return answerTimes(b, []byte(runSQLite(b, path, lines...)), rounds)
}
