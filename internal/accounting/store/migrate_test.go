package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// migrateVariable makes the test's program open the store in the directory that it names.
const migrateVariable = "RMREPLAY_TEST_MIGRATE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(migrateVariable); dir != "" {
		s, err := Open(context.Background(), dir, Options{})
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// version1 makes a data directory of schema version 1 with some jobs: its tables as they were.
func version1(t *testing.T, jobs int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	columns := "seq BIGINT NOT NULL, arrived TIMESTAMP NOT NULL, source VARCHAR NOT NULL, collection VARCHAR, cluster VARCHAR NOT NULL, jobid BIGINT NOT NULL, run BIGINT NOT NULL, state VARCHAR"
	for _, part := range []struct{ kind, names string }{
		{"TIMESTAMP", "submit_time eligible_time start_time end_time"},
		{"BIGINT", "elapsed_s wait_s limit_s cpus nodes mem_mib gpus billing req_cpus req_nodes req_mem_mib req_gpus"}, {"DOUBLE NOT NULL", "cpu_hours gpu_hours node_hours"},
		{"BIGINT", "exit_code exit_signal derived_code derived_signal"}, {"VARCHAR", "user_name"}, {"BIGINT", "user_id"}, {"VARCHAR", "group_name"}, {"BIGINT", "group_id"},
		{"VARCHAR", "account parent_accounts partition qos wckey reservation job_name container"},
		{"BIGINT", "array_job_id array_task_id het_job_id het_job_offset ntasks ntasks_per_node ntasks_per_tres cpus_per_task priority"},
		{"VARCHAR", "node_list alloc_node failed_node excluded_nodes work_dir std_in std_out std_err dependency features tres_req tres_alloc comment admin_comment sluid original_sluid"},
		{"BIGINT", "script_bytes"}, {"VARCHAR", "marks"},
	} {
		for _, name := range strings.Fields(part.names) {
			columns += fmt.Sprintf(", %q %s", name, part.kind)
		}
	}
	for _, statement := range []string{
		"ATTACH " + quote(filepath.Join(dir, "jobs.duckdb")) + " AS jobs (STORAGE_VERSION 'latest')", "USE jobs",
		"CREATE TABLE jobs (" + columns + ", id VARCHAR GENERATED ALWAYS AS (cluster || ':' || jobid || ':' || run) VIRTUAL)",
		"CREATE TABLE documents (seq BIGINT NOT NULL, document BLOB NOT NULL)",
		`CREATE TABLE superseded (seq BIGINT NOT NULL, "by" BIGINT NOT NULL, document BLOB NOT NULL)`,
		"CREATE TABLE counts (rule VARCHAR NOT NULL PRIMARY KEY, documents BIGINT NOT NULL)",
		"CREATE TABLE clusters (cluster VARCHAR NOT NULL PRIMARY KEY, kind VARCHAR NOT NULL, nodes BIGINT, cpus BIGINT, gpus BIGINT, description VARCHAR)",
		"CREATE TABLE applied (seq BIGINT NOT NULL, version BIGINT NOT NULL)",
		fmt.Sprintf("INSERT INTO applied VALUES (%d, 1)", jobs),
		fmt.Sprintf(`INSERT INTO jobs (seq, arrived, source, cluster, jobid, run, state, submit_time, start_time, end_time, elapsed_s, wait_s, cpus, cpu_hours, gpu_hours, node_hours, user_name)
			SELECT i, TIMESTAMP '2024-03-01', 'received', 'vale', i, i, 'COMPLETED', TIMESTAMP '2024-03-01', TIMESTAMP '2024-03-01', TIMESTAMP '2024-03-01' + to_hours(i), 60, 0, 4, 1, 0, 1, 'u' || i %% 7
			FROM range(1, %d) r(i)`, jobs+1),
		"INSERT INTO documents SELECT seq, encode('{\"jobid\":' || jobid || '}') FROM jobs",
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(statement, err)
		}
	}
	return dir
}

// version2 gives a store of this version the rollups of schema version 2, with cells that are wrong.
func version2(t *testing.T, dir string) {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.write(t.Context(), func(conn *sql.Conn) error {
		for _, statement := range []string{
			"DROP TABLE daily_start", "DROP TABLE daily_end", "UPDATE daily_user SET jobs = jobs + 1", "UPDATE applied SET version = 2",
			"CREATE TABLE daily_busy (day INTEGER NOT NULL, cluster VARCHAR NOT NULL, x BIGINT, y BIGINT, cpus DOUBLE, cpu_starts DOUBLE, cpu_ends DOUBLE)",
		} {
			if _, err := conn.ExecContext(t.Context(), statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
}

// migrated checks that a store of version 1 has all of its jobs, and goes on as one of this version.
func migrated(t *testing.T, dir string, jobs int) {
	t.Helper()
	ctx := context.Background()
	s, err := Open(ctx, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for more := true; more; {
		if more, err = s.RollUp(ctx, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}
	}
	err = s.Read(ctx, func(v *Snapshot) error {
		var version, found, documents, applied, rolled int
		if err := v.One("SELECT version, seq, (SELECT count(*) FROM jobs), (SELECT count(*) FROM documents), (SELECT sum(jobs)::BIGINT FROM daily_user) FROM applied", nil, &version, &applied, &found, &documents, &rolled); err != nil {
			return err
		}
		var gone int
		if err := v.One("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'daily_busy'", nil, &gone); err != nil || gone > 0 {
			t.Error("a rollup of version 2 is still there", err)
		}
		if version != SchemaVersion || found != jobs || documents != jobs || applied != jobs || rolled != jobs {
			t.Errorf("version %d, %d jobs, %d documents, %d applied, %d rolled up, want %d", version, found, documents, applied, rolled, jobs)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestMigrate opens a store of version 1: for reading it is refused, and for writing brought up to date.
func TestMigrate(t *testing.T) {
	dir := version1(t, 1000)
	if err := os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := OpenReader(context.Background(), dir, Options{}); err == nil || !strings.Contains(err.Error(), "schema version 1 (want 3") {
		t.Error(s, err)
	}
	migrated(t, dir, 1000)
	version2(t, dir)
	migrated(t, dir, 1000)
	if s, err := OpenReader(context.Background(), dir, Options{}); err != nil {
		t.Error(err)
	} else if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestMigrateKilled kills processes that bring a store up to date, at random.
func TestMigrateKilled(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		dir := version1(t, 200)
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), migrateVariable+"="+dir)
		command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(r.IntN(150)) * time.Millisecond)
		_ = command.Process.Kill() // it may have ended
		_ = command.Wait()
		migrated(t, dir, 200)
	}
}
