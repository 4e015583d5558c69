package embedded

import (
	"fmt"
	"strings"
	"time"
)

// Query is a query in SQL. Texts from users must be in Args, never in SQL.
type Query struct {
	SQL  string
	Args []any
}

// Bars are the bars of a diagram: the periods between consecutive edges. A query returns figures of schedulers for
// each bar. An empty list of clusters means all clusters.
type Bars struct {
	Edges    []time.Time
	Clusters []string
}

// counters are the columns of health that are shown as sums over time. The columns in largest are
// shown as the largest value of a bar. The columns in ofLastCycle describe the last cycle and are
// shown as their mean in a bar.
var (
	counters = strings.Fields("submitted started completed cancelled failed backfilled main_cycles main_us " +
		"main_depth bf_cycles bf_us bf_depth bf_tried")
	largest     = strings.Fields("threads agent_queue agents dbd_queue pending running")
	ofLastCycle = strings.Fields("bf_table main_queue bf_queue")
)

// divide returns a query that divides the figures among the bars. The result has a row for each
// interval of a scheduler and each bar that the interval touches. Besides the columns of health, a
// row has the bar's number (bucket) and the seconds of the interval in the bar (covered). It also
// has these seconds as a share of the interval (share; NULL if no counters are known), and whether
// sdiag answered in the bar (told). sdiag's times are whole seconds, so the column until is the
// interval's last second.
func (b Bars) divide() Query {
	bars := make([]string, len(b.Edges)-1)
	for i := range bars {
		bars[i] = fmt.Sprintf("(%d::BIGINT, %d, %d)", i, b.Edges[i].UnixMicro(), b.Edges[i+1].UnixMicro())
	}
	of, args := "true", []any{}
	if len(b.Clusters) > 0 {
		of = "cluster IN (?" + strings.Repeat(", ?", len(b.Clusters)-1) + ")"
	}
	for _, name := range b.Clusters {
		args = append(args, name)
	}
	return Query{"SELECT *, greatest(least(high, ended) - greatest(low, begun), 0) / 1e6 AS covered, " +
		"covered * 1e6 / nullif(interval_us, 0) AS share, told_us >= low AND told_us < high AS told FROM (" +
		"SELECT *, epoch_us(until) AS told_us, told_us + 1000000 AS ended, ended - interval_us AS begun " +
		"FROM health WHERE until >= " + Timestamp(b.Edges[0].Add(-time.Second)) + " AND " + of + ") JOIN (VALUES " +
		strings.Join(bars, ", ") + ") AS bars(bucket, low, high) ON least(begun, told_us) < high AND ended > low", args}
}

// Levels returns a function that makes a query with a row for each bar: its number, the seconds of the bar for which
// figures exist, and the value of what. The parameter what is SQL that aggregates over clusters: its input has one row
// for each cluster, with the cluster's figures in the bar. Counters are spread evenly over their intervals. For a
// level, such as the number of running jobs, the row has the largest answer in the bar; the SQL can add up levels over
// clusters. Figures of the last cycle count only if a cycle ran in their interval; queues and tables are means of the
// bar's answers. The longest cycle is the longest of the intervals that touch the bar; it is at least each interval's
// mean cycle. An unknown figure is NULL.
func Levels(what string) func(b Bars) Query {
	of := "sum(covered) AS covered"
	for _, name := range counters {
		of += ", sum(share * " + name + ") AS " + name
	}
	for _, name := range largest {
		of += ", max(" + name + ") FILTER (told) AS " + name
	}
	for _, name := range ofLastCycle {
		prefix, _, _ := strings.Cut(name, "_")
		of += ", avg(" + name + ") FILTER (told AND " + prefix + "_cycles > 0) AS " + name
	}
	for _, prefix := range []string{"main_", "bf_"} {
		of += strings.ReplaceAll(", arg_max(@last_us, until) FILTER (told AND @cycles > 0) AS @last_us, "+
			"max(greatest(@longest_us, @us / @cycles)) FILTER (@cycles > 0 AND share > 0) AS @longest_us", "@", prefix)
	}
	return func(b Bars) Query {
		parts := b.divide()
		return Query{"SELECT bucket, max(covered), " + what + " FROM (SELECT bucket, cluster, " + of + " FROM (" +
			parts.SQL + ") GROUP BY 1, 2) GROUP BY 1", parts.Args}
	}
}

// Counts returns a function that makes a query with three kinds of rows. A row with a name is for the counts of this
// kind and name in a bar. Its value is the sum of the SQL expression what over these counts. A row without a name has
// the seconds of the bar for which figures exist. A row without a bar names a cluster that has figures but no counts
// of this kind. Its value is the number of events of this kind, the sum of the SQL expression events; NULL if events
// is NULL.
func Counts(kind, what, events string) func(b Bars) Query {
	return func(b Bars) Query {
		parts := b.divide()
		return Query{"WITH parts AS (" + parts.SQL + "), counted AS MATERIALIZED (SELECT bucket, cluster, name, " +
			"share * " + what + " AS amount FROM parts JOIN health_counts USING (cluster, until) WHERE kind = ? AND share > 0) " +
			"SELECT bucket, name, sum(amount) FROM counted GROUP BY 1, 2 " +
			"UNION ALL SELECT bucket, NULL, max(covered) FROM (SELECT bucket, cluster, sum(covered) AS covered " +
			"FROM parts GROUP BY 1, 2) GROUP BY 1 UNION ALL SELECT NULL, cluster, sum(share * " + events + ") FROM parts " +
			"WHERE share > 0 AND cluster NOT IN (SELECT cluster FROM counted) GROUP BY 2", append(parts.Args, kind)}
	}
}
