package slurm

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/realdata"
	"rmreplay/internal/replay"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/rm/slurm/install"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmdb"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// rebuild replays a scenario with accounting and reads a workload from slurmdbd's database.
func (s *scenario) rebuild(t *testing.T, limit time.Duration, opts slurmdb.Options) *slurmdb.Result {
	t.Helper()
	return read(t, s.database(t, limit), opts)
}

// database replays a scenario with accounting and returns the source name of slurmdbd's
// database.
func (s *scenario) database(t *testing.T, limit time.Duration) string {
	t.Helper()
	needSlurm(t, s.slurm, true)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	e := s.start(ctx, t)
	writer, err := run.Create(filepath.Join(t.TempDir(), "run"), run.Manifest{Engine: "slurm"}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	s.workload.Epoch = epoch
	if _, err := replay.Rigid(ctx, e, &s.workload, writer, replay.Options{DrainLimit: s.drainLimit}); err != nil {
		t.Fatalf("replaying: %v", err)
	}
	if _, err := e.sacct(ctx); err != nil { // gives slurmctld time to send its last records
		t.Fatal(err)
	}
	return "root@unix(" + e.sandbox.File("db.sock") + ")/slurm_acct_db"
}

func read(t *testing.T, source string, opts slurmdb.Options) *slurmdb.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	result, err := slurmdb.Read(ctx, source, opts)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// sameJobs compares the requests of the replayed workload with the requests in the workload from
// the database. Jobs correspond by their names.
func sameJobs(t *testing.T, want, got *workload.Workload) {
	t.Helper()
	byName := make(map[string]*hpc.Job)
	for _, job := range got.Jobs.List() {
		byName[job.Name] = job
	}
	if got.Jobs.Len() != want.Jobs.Len() {
		t.Errorf("%d jobs, want %d", got.Jobs.Len(), want.Jobs.Len())
	}
	type essence struct {
		Submit, User, Account, Partition, QOS, Array, Constraint, Dependency string
		Limit, Run, Begin                                                    time.Duration
		CPUs, Nodes, PerNode                                                 int
		Memory                                                               int64
	}
	of := func(job *hpc.Job, accounts bool) essence {
		r := job.Request
		if err := sbatch.Complete(&r); err != nil { // adds the values that sbatch derives
			t.Error(err)
		}
		e := essence{
			Submit: job.Submit.Std().Truncate(time.Second).String(), User: job.User, Array: job.Array,
			Constraint: job.Constraint, Limit: job.TimeLimit, Run: min(job.RunTime, job.TimeLimit), Begin: job.Begin,
			CPUs: workload.CPUs(&r), Nodes: r.MinNodes, PerNode: r.TasksPerNode, Memory: r.MemPerNode,
		}
		e.Run = e.Run.Round(time.Second) // Slurm's times are whole seconds
		if job.CancelAfter > 0 {
			e.Run = 0 // the job never ran, so the database has no run time
		}
		if accounts {
			e.Account, e.QOS, e.Partition = job.Account, job.QOS, job.Partition
		}
		return e
	}
	for _, job := range want.Jobs.All() {
		name := job.Name
		if name == "" {
			name = job.ID
		}
		again := byName[name]
		if again == nil {
			t.Errorf("job %s is lost", name)
			continue
		}
		asked := job.Account != "" && job.QOS != "" && job.Partition != ""
		if diff := cmp.Diff(of(job, asked), of(again, asked)); diff != "" {
			t.Errorf("job %s (-want +got)\n%s", name, diff)
		}
		if (job.Dependency != "") != (again.Dependency != "") {
			t.Errorf("job %s depends on %q, built on %q", name, job.Dependency, again.Dependency)
		}
	}
}

// databaseScenario is a scenario with every kind of record that slurmdbd has, and the files of its
// cluster.
func databaseScenario(t *testing.T, slurm *install.Installation) (s scenario, files map[string]string) {
	t.Helper()
	files = clusterFiles(t,
		"AccountingStorageType=accounting_storage/none", "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageEnforce=associations,limits,qos\nPriorityWeightFairshare=100000\nPriorityCalcPeriod=1",
		"PriorityType=priority/basic", "PriorityType=priority/multifactor")
	files["accounts.sacctmgr"] = `add cluster tiny
add qos high priority=100 maxjobsperuser=7 maxtresperuser=cpu=20 flags=DenyOnLimit
add account physics fairshare=50 maxjobs=40
add account optics parent=physics fairshare=5
add user ann account=optics fairshare=10 qos=normal,high defaultqos=normal
add user ben account=physics fairshare=parent qos=normal adminlevel=operator
`
	s = scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
	s.workload.Jobs = workload.JobsOf(
		job("first", 10, 60, on("c1")),
		job("second", 20, 30, func(j *hpc.Job) {
			j.Dependency, j.QOS, j.Account, j.Partition = "afterok:first", "high", "optics", "batch"
		}),
		job("array", 30, 20, func(j *hpc.Job) { j.Array, j.Name = "0-3%2", "array|name" }),
		job("memory", 30, 40, func(j *hpc.Job) { j.User, j.MemPerNode, j.MinNodes, j.MaxNodes, j.Tasks = "ben", 100, 2, 2, 4 }),
		job("timeout", 40, 4000, func(j *hpc.Job) { j.TimeLimit = 5 * time.Minute }),
		job("later", 50, 20, func(j *hpc.Job) { j.Begin = 10 * time.Minute }),
		job("cancelled", 60, 600, with(on("c1"), func(j *hpc.Job) { j.Begin = time.Hour; j.CancelAfter = 2 * time.Minute })),
		job("last", 4300, 60, nil),
	)
	s.workload.NodeEvents = []hpc.NodeEvent{
		{At: after(1000), Nodes: "c[2-3]", State: "down", Reason: "power"},
		{At: after(2400), Nodes: "c[2-3]", State: "resume"},
	}
	s.workload.Reservations = []hpc.ReservationEvent{
		{At: after(800), Action: "create", Reservation: hpc.Reservation{
			Name: "course", Start: after(1200), Duration: 10 * time.Minute, Nodes: "c1", Users: []string{"ann"}, Flags: []string{"MAINT", "NO_HOLD_JOBS_AFTER_END"},
		}},
		{At: after(1500), Action: "update", Reservation: hpc.Reservation{Name: "course", Duration: 20 * time.Minute, Nodes: "c[1,4]"}},
		{At: after(100), Action: "create", Reservation: hpc.Reservation{Name: "twice", Start: after(200), Duration: 5 * time.Minute, Nodes: "g1", Users: []string{"ann"}}},
		{At: after(1000), Action: "create", Reservation: hpc.Reservation{Name: "twice", Start: after(1100), Duration: 5 * time.Minute, Nodes: "g1", Users: []string{"ann"}}},
		{At: after(100), Action: "create", Reservation: hpc.Reservation{Name: "lesson", Start: after(600), Duration: 5 * time.Minute, Nodes: "g2", Users: []string{"ann"}, Flags: []string{"HOURLY"}}},
	}
	return s, files
}

// TestDatabaseIsTheWorkload: slurmdbd's records of a replay give the replayed workload and the
// accounts.
func TestDatabaseIsTheWorkload(t *testing.T) { eachSlurm(t, testDatabaseIsTheWorkload) }

func testDatabaseIsTheWorkload(t *testing.T, slurm *install.Installation) {
	s, files := databaseScenario(t, slurm)
	source := s.database(t, deadline)
	r := read(t, source, slurmdb.Options{})
	sameJobs(t, &s.workload, r.Workload)
	if slurm.Release.Series() == slurmspec.R2205 {
		otherSchemas(t, source, r)
	}

	checkOutages(t, r.Workload)
	checkReservations(t, "reservations", r.Workload,
		"200 create twice: 200+5m0s g1 [ann] []",
		"600 create lesson: 600+5m0s g2 [ann] [HOURLY]",
		"1100 create twice: 1100+5m0s g1 [ann] []",
		"1200 create course: 1200+5m0s c1 [ann] [MAINT NO_HOLD_JOBS_AFTER_END]",
		"1500 update course: -1+20m0s c[1,4] [ann] [MAINT NO_HOLD_JOBS_AFTER_END]")
	window := read(t, source, slurmdb.Options{ReadOptions: workload.ReadOptions{Start: after(300), End: after(4400)}}).Workload
	checkReservations(t, "reservations of a window", window,
		"300 create twice: 200+5m0s g1 [ann] []",
		"300 create lesson: 600+5m0s g2 [ann] [HOURLY]",
		"300 create course: 1200+5m0s c1 [ann] [MAINT NO_HOLD_JOBS_AFTER_END]",
		"540 create twice: 1100+5m0s g1 [ann] []",
		"1500 update course: -1+20m0s c[1,4] [ann] [MAINT NO_HOLD_JOBS_AFTER_END]")
	for _, p := range workload.Validate(window, workload.Cluster{}) {
		if strings.HasPrefix(p.Rule, "reservation") {
			t.Errorf("in a window: %s", p)
		}
	}
	checkAccounts(t, r)
	// The commands make the same accounts in an empty database.
	files["accounts.sacctmgr"] = r.Accounts
	again := scenario{slurm: slurm, cluster: writeCluster(t, files), accounting: true}
	again.workload.Jobs = s.workload.Jobs.First(1)
	once := again.rebuild(t, deadline, slurmdb.Options{ReadOptions: workload.ReadOptions{Start: after(30), End: after(40)}})
	if diff := cmp.Diff(r.Accounts, once.Accounts); diff != "" {
		t.Errorf("accounts made again (-want +got)\n%s", diff)
	}
	if w := once.Workload; w.Jobs.Len() != 1 || !w.Preset(w.Jobs.At(0)) || w.Start != after(30) {
		t.Errorf("in the window: %+v, start %s", w.Jobs, w.Start)
	}
}

func checkOutages(t *testing.T, w *workload.Workload) {
	t.Helper()
	var outages []string
	for _, e := range w.NodeEvents {
		if e.At >= epoch && e.Reason != "Not responding" {
			outages = append(outages, strings.TrimSpace(e.Nodes+" "+e.State+" "+e.Reason))
		}
	}
	if diff := cmp.Diff([]string{"c[2-3] down power", "c[2-3] resume"}, outages); diff != "" {
		t.Errorf("node events (-want +got)\n%s", diff)
	}
}

func checkReservations(t *testing.T, what string, w *workload.Workload, want ...string) {
	t.Helper()
	var got []string
	for _, ev := range w.Reservations {
		got = append(got, fmt.Sprintf("%g %s %s: %g+%v %s %v %v", since(ev.At), ev.Action, ev.Name, since(ev.Start), ev.Duration, ev.Nodes, ev.Users, ev.Flags))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

// checkAccounts compares the commands for sacctmgr and the users from the database with the
// commands and users of databaseScenario.
func checkAccounts(t *testing.T, r *slurmdb.Result) {
	t.Helper()
	for _, line := range []string{
		"add qos name=high GraceTime=0 MaxJobsPerUser=7 MaxTRESPerUser=cpu=20 Priority=100",
		"add account name=physics parent=root Fairshare=50 MaxJobs=40",
		"add account name=optics parent=physics Fairshare=5",
		"add user name=ann account=optics Fairshare=10 QOS=normal,high DefaultQOS=normal",
		"add user name=ben account=physics AdminLevel=Operator Fairshare=parent QOS=normal",
	} {
		found := false
		for made := range strings.Lines(r.Accounts) {
			found = found || strings.HasPrefix(made, line)
		}
		if !found {
			t.Errorf("no command %q in\n%s", line, r.Accounts)
		}
	}
	if t.Failed() {
		t.Logf("%s\nrules %v, missing %v", r.Accounts, r.Workload.Rules, r.Missing)
	}
	users := []hpc.User{{Name: "ann", UID: 21001, Group: "21000", GID: 21000}, {Name: "ben", UID: 21002, Group: "21000", GID: 21000}}
	for i := range r.Workload.Users {
		r.Workload.Users[i].GID, r.Workload.Users[i].Group = 21000, "21000"
	}
	if diff := cmp.Diff(users, r.Workload.Users); diff != "" {
		t.Errorf("users (-want +got)\n%s", diff)
	}
}

// disconnectOthers ends the other connections to the database. slurmdbd may have an open
// transaction, which locks tables, and slurmdbd runs only while the driver waits.
func disconnectOthers(t *testing.T, db *sql.DB) {
	t.Helper()
	var others []int64
	rows, err := db.Query("SELECT id FROM information_schema.processlist WHERE id != CONNECTION_ID() AND user != 'system user'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		others = append(others, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, id := range others {
		if _, err := db.Exec("KILL ?", id); err != nil {
			t.Logf("connection %d: %v", id, err) // it has ended
		}
	}
}

// otherSchemas changes a database of Slurm 22.05 into the schemas of later and earlier versions
// (as_mysql_cluster.c, accounting_storage_mysql.c and a database of 25.05), one after the other,
// and reads a workload from each. Only the values without a column in a version may be missing.
func otherSchemas(t *testing.T, source string, want *slurmdb.Result) {
	t.Helper()
	db, err := sql.Open("mysql", source)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	disconnectOthers(t, db)
	alter := func(statements ...string) *slurmdb.Result {
		t.Helper()
		for _, statement := range statements {
			if _, err := db.Exec(strings.ReplaceAll(statement, "PREFIX", "tiny")); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
		return read(t, source, slurmdb.Options{})
	}
	same := func(version string, got *slurmdb.Result) {
		t.Helper()
		if !got.Workload.Jobs.Equal(want.Workload.Jobs) {
			t.Errorf("%s: other jobs", version)
		}
		withoutJobs := func(r *slurmdb.Result) slurmdb.Result {
			w := *r.Workload
			w.Jobs = workload.Jobs{}
			return slurmdb.Result{Workload: &w, Accounts: r.Accounts, Missing: r.Missing}
		}
		if diff := cmp.Diff(withoutJobs(want), withoutJobs(got), cmp.AllowUnexported(workload.Jobs{})); diff != "" {
			t.Errorf("%s (-22.05 +got)\n%s", version, diff)
		}
	}
	same("25.05", alter(
		// 23.11 replaced the nested sets of associations by their lineage.
		"ALTER TABLE PREFIX_assoc_table ADD comment text, ADD flags int unsigned NOT NULL DEFAULT 0, ADD id_parent int unsigned NOT NULL DEFAULT 0, ADD lineage text",
		`UPDATE PREFIX_assoc_table a LEFT JOIN (
			SELECT n.id_assoc, CONCAT('/', GROUP_CONCAT(IF(p.user = '', p.acct, CONCAT('0-', p.user)) ORDER BY p.lft SEPARATOR '/'), '/') AS path
			FROM PREFIX_assoc_table n JOIN PREFIX_assoc_table p ON n.lft BETWEEN p.lft AND p.rgt
			WHERE p.acct != 'root' OR p.user != '' GROUP BY n.id_assoc) l ON l.id_assoc = a.id_assoc
			SET a.lineage = COALESCE(l.path, '/')`,
		"ALTER TABLE PREFIX_assoc_table DROP lft, DROP rgt",
		`ALTER TABLE PREFIX_job_table ADD extra text, ADD failed_node tinytext, ADD licenses text, ADD qos_req text,
			ADD restart_cnt smallint unsigned DEFAULT 0, ADD resv_req text, ADD segment_size smallint unsigned NOT NULL DEFAULT 0,
			ADD std_err text NOT NULL DEFAULT '', ADD std_in text NOT NULL DEFAULT '', ADD std_out text NOT NULL DEFAULT ''`,
		`ALTER TABLE PREFIX_event_table ADD deleted tinyint NOT NULL DEFAULT 0 FIRST, ADD extra text, ADD instance_id text,
			ADD instance_type text, MODIFY state int unsigned NOT NULL DEFAULT 0`,
		"ALTER TABLE PREFIX_resv_table ADD time_force bigint unsigned NOT NULL DEFAULT 0, ADD comment text",
		"ALTER TABLE PREFIX_assoc_usage_hour_table ADD id_alt int unsigned NOT NULL DEFAULT 0 AFTER id",
	))
	same("21.08", alter(
		"ALTER TABLE PREFIX_assoc_table ADD lft int NOT NULL DEFAULT 0, ADD rgt int NOT NULL DEFAULT 0",
		`UPDATE PREFIX_assoc_table a JOIN (SELECT id_assoc, ROW_NUMBER() OVER (ORDER BY lineage) AS place FROM PREFIX_assoc_table) l
			ON l.id_assoc = a.id_assoc SET a.lft = l.place`,
		"ALTER TABLE PREFIX_assoc_table DROP lineage, DROP id_parent, DROP flags, DROP comment",
		"ALTER TABLE PREFIX_job_table ADD batch_script longtext, ADD env_vars longtext",
		`UPDATE PREFIX_job_table j JOIN PREFIX_job_script_table s ON s.hash_inx = j.script_hash_inx SET j.batch_script = s.batch_script`,
		`ALTER TABLE PREFIX_job_table DROP extra, DROP failed_node, DROP licenses, DROP qos_req, DROP restart_cnt, DROP resv_req,
			DROP segment_size, DROP std_err, DROP std_in, DROP std_out, DROP script_hash_inx, DROP env_hash_inx`,
		"DROP TABLE PREFIX_job_script_table", "DROP TABLE PREFIX_job_env_table",
		"ALTER TABLE PREFIX_event_table DROP deleted, DROP extra, DROP instance_id, DROP instance_type, MODIFY state smallint unsigned NOT NULL DEFAULT 0",
		"ALTER TABLE PREFIX_resv_table DROP time_force, DROP comment",
		"ALTER TABLE PREFIX_assoc_usage_hour_table DROP id_alt",
	))
	// 20.11 has neither command lines nor scripts. The reader reports that.
	old := alter(`ALTER TABLE PREFIX_job_table DROP submit_line, DROP batch_script, DROP env_vars, DROP container,
		ADD gres_req text NOT NULL DEFAULT '', ADD gres_alloc text NOT NULL DEFAULT ''`,
		"UPDATE qos_table SET flags = flags | 0x400 WHERE name = 'high'") // a flag that 22.05 does not have
	if got, all := old.Workload.Jobs.Len(), want.Workload.Jobs.Len(); got != all {
		t.Errorf("20.11: %d jobs, want %d", got, all)
	}
	if old.Accounts != want.Accounts {
		t.Errorf("20.11: accounts (-22.05 +got)\n%s", cmp.Diff(want.Accounts, old.Accounts))
	}
	for _, text := range []string{"SubmitLine", "QOS high: flags of a Slurm later than 22.05 (bits 0x400)"} {
		if !slices.ContainsFunc(old.Missing, func(s string) bool { return strings.Contains(s, text) }) {
			t.Errorf("20.11: nothing of %q in %q", text, old.Missing)
		}
	}
}

// sameRequests compares the whole requests of a real site's jobs. The database also has the
// cluster's defaults for options that a job leaves out.
func sameRequests(t *testing.T, want, got *workload.Workload) {
	t.Helper()
	byName := make(map[string]*hpc.Job)
	for _, job := range got.Jobs.List() {
		byName[job.Name] = job
	}
	different := 0
	for _, job := range want.Jobs.All() {
		again := byName[job.Name]
		if again == nil {
			continue // sameJobs reports it
		}
		a, b := job.Request, again.Request
		for _, r := range []*hpc.Request{&a, &b} {
			if err := sbatch.Complete(r); err != nil {
				t.Error(err)
			}
		}
		for _, name := range []struct{ asked, built *string }{{&a.Account, &b.Account}, {&a.Partition, &b.Partition}, {&a.QOS, &b.QOS}} {
			if *name.asked == "" {
				*name.asked = *name.built
			}
		}
		if a.MemPerNode == 0 && a.MemPerCPU == 0 && a.MemPerGPU == 0 { // accounting has the cluster's default
			a.MemPerNode, a.MemPerCPU = b.MemPerNode, b.MemPerCPU
		}
		if diff := cmp.Diff(a, b); diff != "" {
			if different++; different <= 5 {
				t.Errorf("job %s (-want +got)\n%s", job.Name, diff)
			}
		}
	}
	if different > 0 {
		t.Errorf("%d of %d requests differ", different, want.Jobs.Len())
	}
}

// realSite returns the cluster and the workload of a real site, if there is one in the real data.
// The edits are pairs of strings to replace in slurm.conf.
func realSite(t *testing.T, slurm *install.Installation, name, events string, edits ...string) scenario {
	t.Helper()
	from := realdata.Path(t, "slurm", name)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "slurm.conf")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	edited := string(text)
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(edited, edits[i]) {
			t.Fatalf("%s has no %s", file, edits[i])
		}
		edited = strings.ReplaceAll(edited, edits[i], edits[i+1])
	}
	if err := errors.Join(os.Remove(file), os.WriteFile(file, []byte(edited), 0o600)); err != nil {
		t.Fatal(err)
	}
	w, err := formats.Open(filepath.Join(dir, events))
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := conf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return scenario{slurm: slurm, cluster: cluster, accounting: true, workload: *w}
}

// TestRealDatabaseIsTheWorkload replays the workload of a real site on its cluster and reads it
// back from the database.
func TestRealDatabaseIsTheWorkload(t *testing.T) { eachSlurmIfLong(t, testRealDatabaseIsTheWorkload) }

func testRealDatabaseIsTheWorkload(t *testing.T, slurm *install.Installation) {
	s := realSite(t, slurm, "micro", "jobs500org.events")
	again := s.rebuild(t, deadline, slurmdb.Options{}).Workload
	sameJobs(t, &s.workload, again)
	sameRequests(t, &s.workload, again)
}

// TestLargeDatabaseIsTheWorkload does the same for a larger site with other options. It replays
// 300 of the site's jobs, or all 5,000 if RMREPLAY_LONG_TESTS is set, which takes seven
// minutes. The jobs in the database do not depend on the schedule. So the scheduler tries few
// jobs in a cycle: with the site's own parameters scheduling takes nearly all the time.
func TestLargeDatabaseIsTheWorkload(t *testing.T) { eachSlurmIfLong(t, testLargeDatabaseIsTheWorkload) }

func testLargeDatabaseIsTheWorkload(t *testing.T, slurm *install.Installation) {
	s := realSite(t, slurm, "medium", "workload_5k.events",
		"bf_interval=120,bf_max_job_test=2500,default_queue_depth=2500",
		"bf_interval=3000,bf_max_job_test=100,default_queue_depth=100,sched_min_interval=60000000",
		"DebugFlags=Backfill", "")
	limit := time.Hour
	if os.Getenv("RMREPLAY_LONG_TESTS") == "" {
		t.Log("SKIPPED in part: 300 of 5,000 jobs; set RMREPLAY_LONG_TESTS=1 for all")
		limit = deadline
		s.workload.Jobs.Delete(func(j *hpc.Job) bool {
			return min(j.RunTime, j.TimeLimit) > 2*time.Hour // else it takes days to end
		})
		s.workload.Jobs = s.workload.Jobs.First(300)
	}
	again := s.rebuild(t, limit, slurmdb.Options{}).Workload
	sameJobs(t, &s.workload, again)
	sameRequests(t, &s.workload, again)
}
