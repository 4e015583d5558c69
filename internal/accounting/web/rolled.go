package web

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/accounting/store"
)

// rolled is how a panel's answer is counted from the cells of a rollup. It is the answer of the panel's
// query, but for the order in which numbers are added.
type rolled struct {
	// sql is the query, in which the name of a rollup in braces stands for the table of its cells. A panel
	// over time has its buckets; others do not depend on them.
	sql func(r *request, b buckets) string
	// running is whether the panel has jobs that ended after the range of time, too.
	running bool
	// quarters is whether the cells have instants in quarters of an hour.
	quarters bool
}

// mostGaps is how many ranges of jobs a query has between days that are rolled up. With more, it
// counts the jobs of all days.
const mostGaps = 20

// rollable reports whether cells can stand for the jobs of a request. They know nothing but the cluster.
func (r *request) rollable() bool {
	for _, t := range r.filters {
		if t.field.Name != "cluster" {
			return false
		}
	}
	return strings.TrimSpace(r.values.Get("q")) == ""
}

// aligned reports whether buckets, days and hours of the request begin with quarters of an hour of UTC.
func (r *request) aligned(b buckets) bool {
	if b.step%store.Quarter != 0 {
		return false
	}
	for at := r.from; ; {
		if _, offset := at.In(r.zone).Zone(); offset%store.Quarter != 0 {
			return false
		}
		_, end := at.In(r.zone).ZoneBounds()
		if end.IsZero() || end.After(r.until) {
			return true
		}
		if end.Unix()%store.Quarter != 0 {
			return false
		}
		at = end
	}
}

func onQuarter(at time.Time) bool { return at.Unix()%store.Quarter == 0 }

// query returns the query over the days that are rolled up and the jobs of the others. Where there are no
// such days, it is the query over jobs.
func (p *rolled) query(v *store.Snapshot, r *request, jobs condition) (condition, error) {
	b := r.buckets()
	if p.quarters && !r.aligned(b) || p.running && (!onQuarter(b.edges[0]) || !onQuarter(b.edges[len(b.edges)-1])) {
		return jobs, nil
	}
	days, err := v.RolledUp()
	if err != nil {
		return condition{}, err
	}
	from, until := r.from, r.until
	if p.running {
		from, until = b.edges[0], time.Time{}
	} else if r.whole {
		from, until = time.Time{}, time.Time{}
	}
	chosen, gaps, ok := split(days, from, until, r.until, r.whole && !p.running)
	if !ok {
		return jobs, nil
	}
	cells := condition{sql: p.sql(r, b)}
	cells.sql = rollupName.ReplaceAllStringFunc(cells.sql, func(name string) string {
		cells.args = append(cells.args, slices.Repeat(r.where.args, 1+len(gaps))...)
		return store.Rollups[strings.Trim(name, "{}")].Cells(chosen, gaps, "("+r.where.sql+")")
	})
	return cells, nil
}

var rollupName = regexp.MustCompile(`\{[a-z]+\}`)

// split returns the condition of the days with cells that lie within a range of ends, and those of the
// jobs whose ends lie in each part of the rest of it. A range without a beginning or an end has a zero
// instant there, and no day after latest is taken. If whole, the jobs without an end are in the rest.
// It returns false if no day lies within, or if too many ranges are left.
func split(days []store.Days, from, until, latest time.Time, whole bool) (cells string, gaps []string, ok bool) {
	var chosen []string
	if whole {
		gaps = append(gaps, "end_time IS NULL")
	}
	begin := from // of the next gap
	gap := func(end time.Time) {
		switch {
		case begin.IsZero() && end.IsZero():
			gaps = append(gaps, "end_time IS NOT NULL")
		case begin.IsZero():
			gaps = append(gaps, "end_time < "+timestamp(end))
		case end.IsZero():
			gaps = append(gaps, "end_time >= "+timestamp(begin))
		case begin.Before(end):
			gaps = append(gaps, "(end_time >= "+timestamp(begin)+" AND end_time < "+timestamp(end)+")")
		}
	}
	const day = 24 * 60 * 60
	for _, d := range days {
		if !from.IsZero() {
			d.First = max(d.First, (from.Unix()+day-1)/day)
		}
		if end := until; !end.IsZero() || !whole {
			if end.IsZero() {
				end = latest
			}
			d.End = min(d.End, end.Unix()/day)
		}
		if d.First >= d.End {
			continue
		}
		chosen = append(chosen, fmt.Sprintf("day BETWEEN %d AND %d", d.First, d.End-1))
		gap(d.From())
		begin = d.Until()
	}
	gap(until)
	if len(chosen) == 0 || len(gaps) > mostGaps {
		return "", nil, false
	}
	return "(" + strings.Join(chosen, " OR ") + ")", gaps, true
}

// at returns the SQL of the instant at which a quarter of an hour begins.
func at(quarter string) string {
	return fmt.Sprintf("make_timestamp(%s * %d)", quarter, store.Quarter*1_000_000)
}

// overall makes the query of a panel that does not depend on buckets.
func overall(sql string) func(*request, buckets) string {
	return func(*request, buckets) string { return sql }
}

var rolledSummary = &rolled{sql: overall("SELECT coalesce(sum(jobs), 0)::BIGINT, coalesce(sum(failed), 0)::BIGINT, count(DISTINCT nullif(a, '')), sum(wait_s) / nullif(sum(waits), 0), " +
	"sum(elapsed_s) / 3600, sum(cpu_hours), coalesce(sum(failed_cpu_hours), 0), sum(unused) / 3600, sum(node_hours), sum(gpu_hours) FROM {user}")}

var rolledStates = &rolled{quarters: true, sql: func(_ *request, b buckets) string {
	return "SELECT " + b.of(at("x")) + ", a, sum(jobs)::BIGINT FROM {state} GROUP BY 1, 2"
}}

var rolledExits = &rolled{quarters: true, sql: func(_ *request, b buckets) string {
	return "SELECT " + b.of(at("x")) + ", y, z, sum(jobs)::BIGINT FROM {exit} GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT 20000"
}}

var rolledWaste = &rolled{quarters: true, sql: func(_ *request, b buckets) string {
	bad := store.Failed("a")
	return "SELECT " + b.of(at("x")) + ", coalesce(sum(cpu_hours) FILTER (a = 'COMPLETED'), 0), coalesce(sum(cpu_hours) FILTER (" + bad + "), 0), " +
		"coalesce(sum(cpu_hours) FILTER (a <> 'COMPLETED' AND NOT " + bad + "), 0), coalesce(sum(unused) / 3600, 0) FROM {state} GROUP BY 1"
}}

var rolledUtilization = &rolled{quarters: true, running: true, sql: func(_ *request, b buckets) string {
	begin, last := b.edges[0].Unix(), b.edges[len(b.edges)-1].Unix()
	side := func(sign, instants, cells string) string {
		since := fmt.Sprintf("greatest(least(%s + cpus * (x * %d::DOUBLE - %d), cpus * %d), 0)", instants, store.Quarter, begin, last-begin)
		return fmt.Sprintf("SELECT greatest(%s, -1), %ssum(cpus), %ssum(%s) FROM %s GROUP BY 1", b.of(at("x")), sign, sign, since, cells)
	}
	return side("", "cpu_starts", "{start}") + " UNION ALL " + side("-", "cpu_ends", "{end}")
}}

var rolledShares = &rolled{sql: overall("SELECT a, b, sum(cpu_hours), sum(jobs)::BIGINT FROM {share} GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 2000")}

func rolledTop(kind, by string) *rolled {
	return &rolled{sql: overall("SELECT a, sum(jobs)::BIGINT AS number, sum(elapsed_s) / 3600 AS ran, sum(cpu_hours) AS used, sum(wait_s) / nullif(sum(waits), 0), " +
		"sum(failed)::BIGINT, sum(unused) / 3600 FROM {" + kind + "} GROUP BY 1 ORDER BY " + topOrder[by] + " DESC, 1 LIMIT 10")}
}

func rolledClasses(kind string) *rolled {
	return &rolled{sql: overall("SELECT x, sum(jobs)::BIGINT, sum(cpu_hours) FROM {" + kind + "} GROUP BY 1 ORDER BY 1")}
}

var (
	rolledLimitUsed = &rolled{sql: overall("SELECT x, sum(jobs)::BIGINT, sum(cpu_hours) FROM {used} GROUP BY 1")}
	rolledLimits    = &rolled{sql: overall("SELECT x, y, sum(jobs)::BIGINT, sum(cpu_hours) FROM {limit} GROUP BY 1, 2 ORDER BY 1, 2")}
)

var rolledWeek = &rolled{quarters: true, sql: func(r *request, _ buckets) string {
	return "SELECT " + r.weekHour(at("x")) + ", sum(jobs)::BIGINT, sum(wait_s) / nullif(sum(waits), 0) FROM {submit} GROUP BY 1"
}}
