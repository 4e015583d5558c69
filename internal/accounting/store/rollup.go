package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Rollup is a way in which jobs are counted ahead, for each UTC day of their ends and each cluster. The
// table daily_NAME has its cells: a row for each day, cluster and value of the keys that occurs.
//
// The cells of a day are those of the jobs that ended in it, all or none: the transaction that adds a
// job to a day, or removes one, removes the day's cells. The table days lists the days that have them.
// [Store.RollUp] makes them again. So a reader takes the cells of the days in days, and counts the
// jobs of all others.
type Rollup struct {
	Name string
	// Keys are expressions over the columns of jobs, in SQL. Those named a and b are texts, and those
	// named x, y and z are integers.
	Keys     map[string]string
	Where    string   // which jobs are in it, in SQL; empty for all
	Measures []string // names in [Measures]
}

// Failed returns the SQL of whether a state is one of jobs that ended otherwise than their owners
// meant, or than anybody did. DuckDB calls a function once for each state that there is, and compares
// with IN once for each job.
func Failed(state string) string {
	return "contains(',FAILED,TIMEOUT,NODE_FAIL,OUT_OF_MEMORY,BOOT_FAIL,DEADLINE,', ',' || " + state + " || ',')"
}

// Class returns the SQL of the class of a column of integers that are not negative: so many classes
// for each doubling. Because of the half, no integer lies on an edge, and 0 has a class.
func Class(name string, classes int) string {
	return fmt.Sprintf("floor(log2(%s + 0.5::DOUBLE) * %d)::BIGINT", name, classes)
}

// LimitUsed is the SQL of the twentieth of its time limit up to which a job ran; 20 for all of it.
const LimitUsed = "floor(least(20::DOUBLE * elapsed_s / limit_s, 20))"

// Unused is the SQL of the CPU seconds that a job asked for by its limit and did not use.
const Unused = "cpus::DOUBLE * (limit_s::DOUBLE - elapsed_s)"

// Ran is the SQL of whether a job held processors from an instant to another.
const Ran = "cpus > 0 AND start_time <= end_time"

// Quarter is the length of the quarters of an hour that rollups have for instants, in seconds. All
// zones of our time are ahead of UTC by a multiple of it.
const Quarter = 900

func quarter(column string) string {
	return fmt.Sprintf("epoch_us(%s) // %d", column, Quarter*1_000_000)
}

// sinceQuarter is the time from the beginning of the quarter to the instant, in seconds.
func sinceQuarter(column string) string {
	return fmt.Sprintf("((epoch_us(%s) %% %d) / 1e6)", column, Quarter*1_000_000)
}

// Measures are what a cell has of its jobs, in SQL. Times are in seconds. Cells are put together by
// adding them, but for first_end and last_end.
var Measures = map[string]string{
	"jobs": "count(*)", "failed": "count(*) FILTER (" + Failed("state") + ")", "waits": "count(wait_s)", "wait_s": "sum(wait_s)::DOUBLE",
	"elapsed_s": "sum(elapsed_s)::DOUBLE", "cpu_hours": "sum(cpu_hours)", "failed_cpu_hours": "sum(cpu_hours) FILTER (" + Failed("state") + ")",
	"unused": "sum(" + Unused + ")", "node_hours": "sum(node_hours)", "gpu_hours": "sum(gpu_hours)",
	"cpus": "sum(cpus)::DOUBLE", "cpu_starts": "sum(cpus::DOUBLE * " + sinceQuarter("start_time") + ")", "cpu_ends": "sum(cpus::DOUBLE * " + sinceQuarter("end_time") + ")",
	"first_end": "min(end_time)", "last_end": "max(end_time)",
}

// Rollups are those that there are, by their names.
var Rollups = func() map[string]*Rollup {
	all := make(map[string]*Rollup)
	top := []string{"jobs", "failed", "waits", "wait_s", "elapsed_s", "cpu_hours", "unused"}
	for _, r := range []*Rollup{
		{"cluster", map[string]string{}, "", []string{"jobs", "first_end", "last_end"}},
		{"user", map[string]string{"a": "coalesce(user_name, '')"}, "", append([]string{"failed_cpu_hours", "node_hours", "gpu_hours"}, top...)},
		{"account", map[string]string{"a": "coalesce(account, '')"}, "", top},
		{"name", map[string]string{"a": "coalesce(job_name, '')"}, "", top},
		{"share", map[string]string{"a": `coalesce("partition", '')`, "b": "coalesce(qos, '')"}, "", top},
		{"state", map[string]string{"x": quarter("end_time"), "a": "coalesce(state, '')"}, "", []string{"jobs", "cpu_hours", "unused"}},
		{"exit", map[string]string{"x": quarter("end_time"), "y": "exit_code", "z": "exit_signal"}, "", []string{"jobs"}},
		{"submit", map[string]string{"x": quarter("submit_time")}, "submit_time IS NOT NULL", []string{"jobs", "waits", "wait_s"}},
		{"wait", map[string]string{"x": Class("wait_s", 2)}, "wait_s >= 0", []string{"jobs", "cpu_hours"}},
		{"run", map[string]string{"x": Class("elapsed_s", 2)}, "elapsed_s >= 0", []string{"jobs", "cpu_hours"}},
		{"size", map[string]string{"x": Class("nodes", 1)}, "nodes >= 0", []string{"jobs", "cpu_hours"}},
		{"used", map[string]string{"x": LimitUsed + "::BIGINT"}, "limit_s > 0 AND elapsed_s IS NOT NULL", []string{"jobs", "cpu_hours"}},
		{"limit", map[string]string{"x": Class("limit_s", 1), "y": Class("elapsed_s", 1)}, "limit_s > 0 AND elapsed_s >= 0", []string{"jobs", "cpu_hours"}},
		{"start", map[string]string{"x": quarter("start_time")}, Ran, []string{"cpus", "cpu_starts"}},
		{"end", map[string]string{"x": quarter("end_time")}, Ran, []string{"cpus", "cpu_ends"}},
	} {
		all[r.Name] = r
	}
	return all
}()

// columns returns the names of a rollup's keys and measures, and their expressions over jobs.
func (r *Rollup) columns() (names, expressions []string) {
	for _, key := range slices.Sorted(maps.Keys(r.Keys)) {
		names, expressions = append(names, key), append(expressions, r.Keys[key])
	}
	for _, m := range r.Measures {
		names, expressions = append(names, m), append(expressions, Measures[m])
	}
	return names, expressions
}

// cells returns the SQL of the cells of jobs. extra are further keys.
func (r *Rollup) cells(where string, extra ...string) string {
	names, expressions := r.columns()
	for i := range names {
		expressions[i] += " AS " + names[i]
	}
	if r.Where != "" {
		where += " AND " + r.Where
	}
	return "SELECT " + strings.Join(append(extra, expressions...), ", ") + " FROM jobs WHERE " + where + " GROUP BY ALL"
}

// Cells returns the SQL of a table of cells, a row for some of the jobs with the same keys: those of the
// days that a condition over the column day chooses, and of the jobs that any of some conditions
// chooses; no job may be in two of these. where holds for both, and so knows the column cluster alone.
//
// Each condition over jobs has a scan of its own: DuckDB skips rows by a range of ends, and not by
// several.
func (r *Rollup) Cells(days string, jobs []string, where string) string {
	names, _ := r.columns()
	parts := []string{fmt.Sprintf("SELECT %s FROM %s WHERE %s AND %s", strings.Join(names, ", "), r.table(), days, where)}
	for _, some := range jobs {
		parts = append(parts, r.cells(some+" AND "+where))
	}
	return "(" + strings.Join(parts, " UNION ALL ") + ")"
}

func (r *Rollup) table() string { return "daily_" + r.Name }

// rollupTables returns the statements that make the rollups' tables.
func rollupTables() (statements []string) {
	statements = append(statements, "CREATE TABLE days (day INTEGER NOT NULL)")
	for _, name := range rollupNames() {
		names, _ := Rollups[name].columns()
		columns := "day INTEGER NOT NULL, cluster VARCHAR NOT NULL"
		for _, column := range names {
			kind := "DOUBLE"
			switch column {
			case "a", "b":
				kind = "VARCHAR"
			case "x", "y", "z", "jobs", "failed", "waits":
				kind = "BIGINT"
			case "first_end", "last_end":
				kind = "TIMESTAMP"
			}
			columns += ", " + column + " " + kind
		}
		statements = append(statements, fmt.Sprintf("CREATE TABLE %s (%s)", Rollups[name].table(), columns))
	}
	return statements
}

func rollupNames() []string { return slices.Sorted(maps.Keys(Rollups)) }

const (
	dayOfEnd   = "(epoch_us(end_time) // 86400000000)::INTEGER"
	secondsDay = 86400
	// mostDays is how many days are rolled up in a transaction.
	mostDays = 31
)

// dayOf returns the day of an instant, from 1970-01-01.
func dayOf(t time.Time) int64 { return t.Unix() / secondsDay }

// Days are days from First until before End, counted from 1970-01-01 in UTC.
type Days struct{ First, End int64 }

// From returns the instant at which the days begin, and Until the one at which they end.
func (d Days) From() time.Time { return time.Unix(d.First*secondsDay, 0).UTC() }

// Until returns the instant at which the days end.
func (d Days) Until() time.Time { return time.Unix(d.End*secondsDay, 0).UTC() }

// RolledUp returns the days that have cells, in their order.
func (v *Snapshot) RolledUp() (list []Days, err error) {
	known, err := readDays(v.ctx, v.conn, "SELECT day::BIGINT FROM days")
	for _, day := range slices.Sorted(maps.Keys(known)) {
		if n := len(list); n > 0 && list[n-1].End == day {
			list[n-1].End++
		} else {
			list = append(list, Days{day, day + 1})
		}
	}
	return list, err
}

// staleDays are the days that have jobs and no cells. It may have others too.
type staleDays struct {
	mu   sync.Mutex
	days map[int64]bool // nil if it is not known
}

func (s *staleDays) add(days map[int64]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.days != nil {
		maps.Copy(s.days, days)
	}
}

// forget makes the next call of [Store.RollUp] look for the days.
func (s *staleDays) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.days = nil
}

// take removes the first days before a day, at most so many.
func (s *staleDays) take(before int64, most int) (days []int64, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, day := range slices.Sorted(maps.Keys(s.days)) {
		if day >= before {
			break
		}
		if len(days) == most || len(days) > 0 && day-days[0] >= int64(most) {
			return days, true
		}
		days = append(days, day)
		delete(s.days, day)
	}
	return days, false
}

// RollUp makes cells for days that were over at an instant and have none, and reports whether it has left
// some for another call. It holds up the writer for about a second.
func (s *Store) RollUp(ctx context.Context, now time.Time) (more bool, err error) {
	if err := s.findStale(ctx); err != nil {
		return false, fmt.Errorf("rolling up jobs: %w", err)
	}
	days, more := s.stale.take(dayOf(now), mostDays)
	if len(days) == 0 {
		return false, nil
	}
	err = s.write(ctx, func(conn *sql.Conn) error {
		if err := dropCells(ctx, conn, days); err != nil {
			return err
		}
		first, last := days[0], days[len(days)-1]
		span := Days{first, last + 1}
		where := fmt.Sprintf("end_time >= make_timestamp(%d) AND end_time < make_timestamp(%d) AND %s IN (%s)",
			span.From().UnixMicro(), span.Until().UnixMicro(), dayOfEnd, join(days))
		for _, name := range rollupNames() {
			r := Rollups[name]
			statement := "INSERT INTO " + r.table() + " BY NAME " + r.cells(where, dayOfEnd+" AS day", "cluster") + " ORDER BY day"
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		for _, day := range days {
			if _, err := conn.ExecContext(ctx, "INSERT INTO days VALUES (?)", day); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.stale.forget()
		return false, fmt.Errorf("rolling up jobs: %w", err)
	}
	return more, nil
}

// findStale looks for stale days unless they are known.
func (s *Store) findStale(ctx context.Context) error {
	s.stale.mu.Lock()
	known := s.stale.days != nil
	if !known {
		s.stale.days = make(map[int64]bool) // what is written from now on is added
	}
	s.stale.mu.Unlock()
	if known {
		return nil
	}
	err := s.read(ctx, longRead, func(v *Snapshot) error {
		found, err := readDays(v.ctx, v.conn, "SELECT DISTINCT "+dayOfEnd+"::BIGINT AS day FROM jobs WHERE end_time IS NOT NULL EXCEPT SELECT day FROM days")
		s.stale.add(found)
		return err
	})
	if err != nil {
		s.stale.forget()
	}
	return err
}

// readDays runs a query of days.
func readDays(ctx context.Context, conn *sql.Conn, query string) (map[int64]bool, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	days := make(map[int64]bool)
	for rows.Next() {
		var day int64
		if err := rows.Scan(&day); err != nil {
			return nil, err
		}
		days[day] = true
	}
	return days, rows.Err()
}

// dropCells removes the cells of days.
func dropCells(ctx context.Context, conn *sql.Conn, days []int64) error {
	if len(days) == 0 {
		return nil
	}
	list := join(days)
	var n int
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM days WHERE day IN ("+list+")").Scan(&n); err != nil || n == 0 {
		return err
	}
	for _, name := range rollupNames() {
		if _, err := conn.ExecContext(ctx, "DELETE FROM "+Rollups[name].table()+" WHERE day IN ("+list+")"); err != nil {
			return err
		}
	}
	_, err := conn.ExecContext(ctx, "DELETE FROM days WHERE day IN ("+list+")")
	return err
}

func join(numbers []int64) string {
	var b strings.Builder
	for i, n := range numbers {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, n)
	}
	return b.String()
}
