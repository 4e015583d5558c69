package store

import (
	"context"
	"database/sql"
	"fmt"
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

// AddHealth adds figures of schedulers. Figures of a cluster and an instant that are there are replaced.
func (s *Store) AddHealth(ctx context.Context, list ...Health) error {
	err := s.write(ctx, func(conn *sql.Conn) error {
		for _, statement := range healthTables {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		for i := range list {
			if err := addHealth(ctx, conn, &list[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("adding figures of a scheduler: %w", err)
	}
	return nil
}

func addHealth(ctx context.Context, conn *sql.Conn, h *Health) error {
	at := h.At.UTC()
	for _, table := range []string{"health", "health_counts"} {
		if _, err := conn.ExecContext(ctx, "DELETE FROM "+table+" WHERE cluster = ? AND until = ?", h.Cluster, at); err != nil {
			return err
		}
	}
	_, err := conn.ExecContext(ctx, "INSERT INTO health VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		h.Cluster, at, h.Interval.Microseconds(), h.Threads, h.AgentQueue, h.Agents, h.DBDQueue, h.Pending, h.Running,
		h.Submitted, h.Started, h.Completed, h.Cancelled, h.Failed, h.Backfilled, h.Table,
		h.Main.Count, h.Main.Sum.Microseconds(), h.Main.Longest.Microseconds(), h.Main.Depth, h.Main.Last.Microseconds(), h.Main.Queue,
		h.Backfill.Count, h.Backfill.Sum.Microseconds(), h.Backfill.Longest.Microseconds(), h.Backfill.Depth, h.Backfill.Tried, h.Backfill.Last.Microseconds(), h.Backfill.Queue)
	if err != nil {
		return err
	}
	for _, c := range h.Counts {
		if _, err := conn.ExecContext(ctx, "INSERT INTO health_counts VALUES (?, ?, ?, ?, ?, ?)", h.Cluster, at, c.Kind, c.Name, c.Count, c.Micros); err != nil {
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
