package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Health is what a scheduler did in an interval. Counters are those of the interval; all other fields
// are of its end.
type Health struct {
	Cluster  string
	At       time.Time     // end of the interval
	Interval time.Duration // 0 if no counters are known

	Threads, AgentQueue, Agents, DBDQueue                        int64
	Pending, Running                                             int64
	Submitted, Started, Completed, Cancelled, Failed, Backfilled int64
	Main, Backfill                                               Cycles
	Table                                                        int64 // of the backfill scheduler
	Counts                                                       []HealthCount
}

// Cycles are those of a scheduler in an interval.
type Cycles struct {
	Count        int64
	Sum, Longest time.Duration
	Depth, Tried int64         // sums over the cycles
	Last         time.Duration // the last cycle
	Queue        int64         // its queue's length
}

// The kinds of HealthCount.
const (
	MainExit     = "main"     // why cycles of the main scheduler ended
	BackfillExit = "backfill" // the same of the backfill scheduler
	Requests     = "rpc"      // requests to slurmctld
)

// HealthCount counts something with a name in an interval.
type HealthCount struct {
	Kind, Name string
	Count      int64
	Micros     int64 // microseconds that requests took
}

// healthTables are made with the first figures, so that stores without figures stay as they are.
var healthTables = []string{
	`CREATE TABLE IF NOT EXISTS health (cluster VARCHAR NOT NULL, until TIMESTAMP NOT NULL, interval_us BIGINT NOT NULL,
		threads BIGINT, agent_queue BIGINT, agents BIGINT, dbd_queue BIGINT, pending BIGINT, running BIGINT,
		submitted BIGINT, started BIGINT, completed BIGINT, cancelled BIGINT, failed BIGINT, backfilled BIGINT, bf_table BIGINT,
		main_cycles BIGINT, main_us BIGINT, main_longest_us BIGINT, main_depth BIGINT, main_last_us BIGINT, main_queue BIGINT,
		bf_cycles BIGINT, bf_us BIGINT, bf_longest_us BIGINT, bf_depth BIGINT, bf_tried BIGINT, bf_last_us BIGINT, bf_queue BIGINT)`,
	`CREATE TABLE IF NOT EXISTS health_counts (cluster VARCHAR NOT NULL, until TIMESTAMP NOT NULL, kind VARCHAR NOT NULL, name VARCHAR NOT NULL, count BIGINT NOT NULL, us BIGINT NOT NULL)`,
}

// AddHealth adds figures of schedulers. Those of a cluster that are there between the first and the last
// instant of the list are replaced.
func (s *Store) AddHealth(ctx context.Context, list ...Health) error {
	err := s.write(ctx, func(conn *sql.Conn) error {
		for _, statement := range healthTables {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return addHealth(ctx, conn, list)
	})
	if err != nil {
		return fmt.Errorf("adding figures of a scheduler: %w", err)
	}
	return nil
}

func addHealth(ctx context.Context, conn *sql.Conn, list []Health) error {
	extents := make(map[string][2]time.Time)
	var figures, counts [][]any
	for i := range list {
		h := &list[i]
		at := h.At.UTC()
		extent, ok := extents[h.Cluster]
		if !ok || at.Before(extent[0]) {
			extent[0] = at
		}
		if at.After(extent[1]) {
			extent[1] = at
		}
		extents[h.Cluster] = extent
		figures = append(figures, []any{
			h.Cluster, at, h.Interval.Microseconds(), h.Threads, h.AgentQueue, h.Agents, h.DBDQueue, h.Pending, h.Running,
			h.Submitted, h.Started, h.Completed, h.Cancelled, h.Failed, h.Backfilled, h.Table,
			h.Main.Count, h.Main.Sum.Microseconds(), h.Main.Longest.Microseconds(), h.Main.Depth, h.Main.Last.Microseconds(), h.Main.Queue,
			h.Backfill.Count, h.Backfill.Sum.Microseconds(), h.Backfill.Longest.Microseconds(), h.Backfill.Depth, h.Backfill.Tried, h.Backfill.Last.Microseconds(), h.Backfill.Queue,
		})
		for _, c := range h.Counts {
			counts = append(counts, []any{h.Cluster, at, c.Kind, c.Name, c.Count, c.Micros})
		}
	}
	for cluster, extent := range extents {
		for _, table := range []string{"health", "health_counts"} {
			if _, err := conn.ExecContext(ctx, "DELETE FROM "+table+" WHERE cluster = ? AND until BETWEEN ? AND ?", cluster, extent[0], extent[1]); err != nil {
				return err
			}
		}
	}
	if err := insertRows(ctx, conn, "health", figures); err != nil {
		return err
	}
	return insertRows(ctx, conn, "health_counts", counts)
}

// insertRows adds rows to a table, many with a statement.
func insertRows(ctx context.Context, conn *sql.Conn, table string, list [][]any) error {
	const most = 100
	for part := range slices.Chunk(list, most) {
		row := "(?" + strings.Repeat(", ?", len(part[0])-1) + ")"
		statement := "INSERT INTO " + table + " VALUES " + row + strings.Repeat(", "+row, len(part)-1)
		if _, err := conn.ExecContext(ctx, statement, slices.Concat(part...)...); err != nil {
			return err
		}
	}
	return nil
}

// HasHealth reports whether the store has tables of figures of schedulers.
func (v *Snapshot) HasHealth() (bool, error) {
	var n int
	err := v.One("SELECT count(*) FROM duckdb_tables() WHERE database_name = 'jobs' AND table_name IN ('health', 'health_counts')", nil, &n)
	return n == len(healthTables), err
}

// ofSites holds for figures of clusters. Those of runs stay: their instants are virtual.
const ofSites = " AND cluster NOT IN (SELECT cluster FROM clusters WHERE kind = 'run')"

// ExpireHealth removes figures of clusters that are older than an instant, and returns how many intervals
// it removed.
func (s *Store) ExpireHealth(ctx context.Context, before time.Time) (removed int64, err error) {
	err = s.write(ctx, func(conn *sql.Conn) error {
		for _, statement := range healthTables {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		if _, err := conn.ExecContext(ctx, "DELETE FROM health_counts WHERE until < ?"+ofSites, before.UTC()); err != nil {
			return err
		}
		result, err := conn.ExecContext(ctx, "DELETE FROM health WHERE until < ?"+ofSites, before.UTC())
		if err == nil {
			removed, err = result.RowsAffected()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("removing old figures of schedulers: %w", err)
	}
	return removed, nil
}
