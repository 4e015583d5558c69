package records_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/records"
	"rmreplay/internal/finished"
	"rmreplay/internal/formats/sacct"
	"rmreplay/internal/formats/table"
	"rmreplay/internal/hpc"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// fact is a column of sacct and its value.
type fact struct{ column, value string }

// drawFacts draws a job as sacct prints it, with the facts that all sources of Slurm's accounting
// have.
func drawFacts(t *rapid.T) (facts []fact) {
	number := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, name) }
	word := func(name string, words ...string) string { return rapid.SampledFrom(words).Draw(t, name) }
	nodes := number("nodes", 1, 3)
	cpus := nodes * number("cpus", 1, 8)
	tres := fmt.Sprintf("cpu=%d,node=%d", cpus, nodes)
	if mem := number("memory", 0, 4); mem > 0 {
		tres += fmt.Sprintf(",mem=%dM", 1024*mem*nodes)
	}
	if a, h := number("a100", 0, 2), number("h100", 0, 2); a+h > 0 {
		tres += fmt.Sprintf(",gres/gpu=%d", (a+h)*nodes)
		if rapid.Bool().Draw(t, "models") {
			tres += fmt.Sprintf(",gres/gpu:a100=%d,gres/gpu:h100=%d", a*nodes, h*nodes)
		}
	}
	tres += word("others", "", fmt.Sprintf(",gres/shard=%d", 4*nodes), ",license/matlab=1,license/abaqus@db=5", ",gres/shard=7,bb/datawarp=100")
	list := []string{"n1", "n[1-2]", "n[1-3]"}[nodes-1]
	return []fact{
		{"JobID", "7"}, {"Cluster", "vale"}, {"JobName", word("name", "a", "b c")}, {"User", "ann"}, {"UID", "1001"}, {"Group", "phys"}, {"GID", "100"},
		{"Account", word("account", "", "acc")}, {"Partition", word("partition", "batch", "gpu")}, {"QOS", word("qos", "", "high")}, {"WCKey", word("wckey", "", "w")},
		{"Reservation", word("reservation", "", "r")}, {"Constraints", word("features", "", "fast")}, {"Comment", word("comment", "", "x")},
		{"Submit", "2024-06-10T06:17:48"}, {"Eligible", "2024-06-10T06:17:48"}, {"Start", "2024-06-10T06:19:15"}, {"End", "2024-06-10T06:50:16"},
		{"State", "COMPLETED"}, {"ExitCode", "0:0"}, {"Timelimit", word("limit", "01:00:00", "1-00:00:00", "UNLIMITED")}, {"Priority", "77"},
		{"ReqTRES", tres}, {"AllocTRES", tres}, {"NodeList", list}, {"AllocNodes", fmt.Sprint(nodes)},
	}
}

func textOf(facts []fact) string {
	var names, values []string
	for _, f := range facts {
		names, values = append(names, f.column), append(values, f.value)
	}
	return strings.Join(names, "|") + "\n" + strings.Join(values, "|") + "\n"
}

// jsonOf formats a job like sacct --json.
func jsonOf(facts []fact) string {
	v := make(map[string]string)
	for _, f := range facts {
		v[f.column] = f.value
	}
	type object = map[string]any
	var list []object
	for item := range strings.SplitSeq(v["ReqTRES"], ",") {
		name, amount, _ := strings.Cut(item, "=")
		kind, name, _ := strings.Cut(name, "/")
		list = append(list, object{"type": kind, "name": name, "count": json.Number(strings.TrimSuffix(amount, "M"))})
	}
	limits := map[string]any{"01:00:00": 60, "1-00:00:00": 1440, "UNLIMITED": object{"set": false, "infinite": true, "number": 0}}
	text, err := json.Marshal(object{"meta": object{}, "jobs": []object{{
		"job_id": 7, "cluster": v["Cluster"], "name": v["JobName"], "user": v["User"], "group": v["Group"], "account": v["Account"], "partition": v["Partition"], "qos": v["QOS"],
		"wckey": object{"wckey": v["WCKey"]}, "reservation": object{"name": v["Reservation"]}, "constraints": v["Constraints"], "comment": object{"job": v["Comment"]},
		"time":  object{"submission": 1718000268, "eligible": 1718000268, "start": 1718000355, "end": 1718002216, "limit": limits[v["Timelimit"]]},
		"state": object{"current": []string{"COMPLETED"}}, "exit_code": object{"return_code": 0}, "priority": 77,
		"tres": object{"requested": list, "allocated": list}, "nodes": v["NodeList"], "allocation_nodes": json.Number(v["AllocNodes"]),
	}}})
	if err != nil {
		panic(err) // a mistake in this test
	}
	return string(text)
}

// documentsOf imports sacct's output as documents, and builds a workload from these. The rules are
// those of both steps.
func documentsOf(text string) (*workload.Workload, error) {
	b := finished.NewBuilder("documents", workload.ReadOptions{})
	imported, _, err := sacct.Accounting(strings.NewReader(text), "sacct", workload.ReadOptions{Record: func(record any) error {
		text, err := records.Document(record.(*finished.Job), "", false)
		if err != nil {
			return err
		}
		r, _ := records.Finished(text, "")
		b.Row()
		return b.Add(r, string(text))
	}})
	if err != nil {
		return nil, err
	}
	w, err := b.Finish()
	if err != nil {
		return nil, err
	}
	for rule, n := range imported.Rules {
		if rule == finished.NoteCPUsRequested || rule == finished.NoteNoCPUHours {
			continue // only imports count this
		}
		if rule == finished.RuleNoStartAtAll {
			continue // the import stores the job, and counts it as the workload does
		}
		if w.Rules == nil {
			w.Rules = make(map[string]int)
		}
		w.Rules[rule] += n
	}
	return w, nil
}

const tableMap = `
delimiter: "|"
fields:
  {id: JobID, cluster: Cluster, name: JobName, user: User, group: Group, account: Account, partition: Partition, qos: QOS, wckey: WCKey, reservation: Reservation,
   constraint: Constraints, comment: Comment, submit: Submit, eligible: Eligible, start: Start, end: End, state: State, exit_code: ExitCode,
   time_limit: Timelimit, priority: Priority, req_tres: ReqTRES, alloc_tres: AllocTRES, node_list: NodeList, alloc_nodes: AllocNodes}
`

func tableOf(text string) (*workload.Workload, error) {
	m, err := table.ParseMap([]byte(tableMap), "map")
	if err != nil {
		return nil, err
	}
	r, err := table.NewReader(m, "table", workload.ReadOptions{})
	if err != nil {
		return nil, err
	}
	if err := r.Read(bufio.NewReaderSize(strings.NewReader(text), 1<<16), nil, 0, "table"); err != nil {
		return nil, err
	}
	w, _, err := r.Finish()
	return w, err
}

// TestRequestedCPUs: if a record lacks the allocated processors, accounting and metrics use the requested ones. The
// record still lacks them when a workload is made from the document.
func TestRequestedCPUs(t *testing.T) {
	const text = "JobID|User|Submit|Start|End|State|ReqCPUS|ReqNodes|ReqMem\n" +
		"7|ann|2024-03-01T08:00:00|2024-03-01T08:00:00|2024-03-01T10:00:00|COMPLETED|4|2|8G\n"
	w, _, err := sacct.Accounting(strings.NewReader(text), "sacct", workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	metered, err := run.FromWorkload(w)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := metered.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	var stored []document.Job
	opts := workload.ReadOptions{Record: func(record any) error {
		text, err := records.Document(record.(*finished.Job), "vale", false)
		if err != nil {
			return err
		}
		stored = append(stored, document.Parse(text, "vale"))
		if back, _ := records.Finished(text, "vale"); back.AllocCPUs != 0 || back.ReqCPUs != 4 {
			t.Errorf("back from %s: %d allocated, %d requested", text, back.AllocCPUs, back.ReqCPUs)
		}
		return nil
	}}
	imported, _, err := sacct.Accounting(strings.NewReader(text), "sacct", opts)
	if err != nil || len(stored) != 1 || len(rows) != 1 {
		t.Fatalf("%v, %d documents, %d rows", err, len(stored), len(rows))
	}
	j := stored[0]
	if j.CPUs.Value != int64(rows[0].Processors) || j.CPUs.Value != 4 || j.CPUHours.Value != 8 || j.ReqCPUs.Value != 4 ||
		j.ReqNodes.Value != 2 || j.ReqMemMiB.Value != 8192 {
		t.Errorf("document %+v, row %+v", j, rows[0])
	}
	if n := imported.Rules[finished.NoteCPUsRequested]; n != 1 {
		t.Errorf("rules %v", imported.Rules)
	}
}

// TestSourcesAgree checks that all ways from a record to a workload give the same workload: sacct's
// text and JSON, a document in the accounting store, and a table with a map.
func TestSourcesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := drawFacts(t)
		text := textOf(facts)
		want, _, err := sacct.Accounting(strings.NewReader(text), "sacct", workload.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for name, read := range map[string]func() (*workload.Workload, error){
			"JSON": func() (*workload.Workload, error) {
				return sacct.Read(strings.NewReader(jsonOf(facts)), "json", workload.ReadOptions{})
			},
			"documents": func() (*workload.Workload, error) { return documentsOf(text) },
			"table":     func() (*workload.Workload, error) { return tableOf(text) },
		} {
			w, err := read()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			expected, got := *want.Jobs.At(0), *w.Jobs.At(0)
			if name != "documents" { // without UIDs, the users' groups are unknown
				expected.Group = "phys"
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Fatalf("%s: -sacct +%s\n%s%s", name, name, diff, text)
			}
			if diff := cmp.Diff(want.Rules, w.Rules); diff != "" {
				t.Fatalf("%s: rules: -sacct +%s\n%s%s", name, name, diff, text)
			}
		}
	})
}

// drawRows draws records of jobs, arrays and heterogeneous jobs in any state, with some of sacct's
// columns.
func drawRows(t *rapid.T) string {
	columns := []string{"JobID", "Submit", "Start", "End", "State", "ReqCPUS"}
	optional := []string{
		"JobIDRaw", "User", "UID", "GID", "Eligible", "Elapsed", "Suspended", "ExitCode", "Timelimit", "AllocCPUS", "NNodes", "ReqNodes", "ReqMem", "ReqGRES", "ReqTRES",
		"AllocTRES", "NodeList", "Licenses", "Restarts", "Reason", "Flags", "Priority", "SubmitLine", "WorkDir", "Constraints",
	}
	for _, name := range optional {
		if rapid.Bool().Draw(t, name) {
			columns = append(columns, name)
		}
	}
	text := strings.Join(columns, "|") + "\n"
	for n := range rapid.IntRange(1, 4).Draw(t, "rows") {
		row := drawRow(t, 10*(n+1))
		var values []string
		for _, name := range columns {
			values = append(values, row[name])
		}
		text += strings.Join(values, "|") + "\n"
	}
	return text
}

// drawRow draws the values of a record, by column.
func drawRow(t *rapid.T, number int) map[string]string {
	word := func(name string, words ...string) string { return rapid.SampledFrom(words).Draw(t, name) }
	nodes := rapid.IntRange(1, 3).Draw(t, "nodes")
	cpus := nodes * rapid.IntRange(1, 8).Draw(t, "cpus")
	v := map[string]string{
		"JobID": fmt.Sprint(number), "JobIDRaw": fmt.Sprint(number), "User": word("user", "ann", "bob"), "UID": "1001", "GID": "100",
		"Submit": "2024-06-10T06:17:48", "Eligible": word("eligible", "2024-06-10T06:17:48", "2024-06-10T06:18:00", "Unknown"), "Start": "Unknown", "End": "Unknown",
		"Elapsed": "00:00:00", "ExitCode": word("exit", "0:0", "3:0", "0:9"), "Timelimit": word("limit", "", "01:00:00", "UNLIMITED", "Partition_Limit"), "ReqCPUS": fmt.Sprint(cpus),
		"AllocCPUS": "0", "NNodes": fmt.Sprint(nodes), "ReqNodes": fmt.Sprint(nodes), "ReqMem": word("memory", "", "8G", "2800Mc", "100Gn", "0n"),
		"ReqGRES": word("gres", "", "gpu:2", "PER_NODE:gpu:a100:1"), "NodeList": "None assigned", "Licenses": word("licenses", "", "matlab:2"),
		"Restarts": word("restarts", "0", "1"), "Reason": word("reason", "None", "JobHeldUser", "Priority"), "Flags": word("flags", "", "SchedBackfill"), "Priority": word("priority", "", "77"),
		"ReqTRES":    word("tres", "", fmt.Sprintf("billing=4,cpu=%d,mem=8G,node=%d", cpus, nodes), fmt.Sprintf("cpu=%d,gres/gpu=%d,gres/gpu:a100=%d,node=%d", cpus, 2*nodes, 2*nodes, nodes)),
		"SubmitLine": word("line", "", "sbatch job.sh", "sbatch --mem-per-cpu=2800 --gres=gpu:2 job.sh", "sbatch -d afterok:9 job.sh"), "WorkDir": "/home/ann", "Constraints": word("features", "", "fast"),
	}
	started, ended := true, true
	switch v["State"] = word("state", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 7", "RUNNING", "PENDING", "NODE_FAIL"); v["State"] {
	case "CANCELLED by 7":
		started = rapid.Bool().Draw(t, "started")
	case "RUNNING":
		ended = false
	case "PENDING":
		started, ended = false, false
	}
	if started {
		v["Start"], v["AllocCPUS"], v["NodeList"] = "2024-06-10T06:20:00", fmt.Sprint(cpus), []string{"n1", "n[1-2]", "n[1-3]"}[nodes-1]
		v["AllocTRES"] = word("allocated", "", fmt.Sprintf("cpu=%d,mem=4G,node=%d", cpus, nodes), fmt.Sprintf("cpu=%d,gres/gpu=%d,mem=4G,node=%d", cpus, nodes, nodes))
	}
	if ended {
		v["End"], v["Elapsed"], v["Suspended"] = "2024-06-10T06:50:00", "00:30:00", "00:00:00"
		if started && rapid.Bool().Draw(t, "suspended") {
			v["Elapsed"], v["Suspended"] = "00:20:00", "00:10:00"
		}
	}
	switch kind := word("kind", "job", "task", "component", "tasks", "tasks"); {
	case kind == "task":
		v["JobID"], v["JobIDRaw"] = fmt.Sprintf("%d_3", number), fmt.Sprint(number+1)
	case kind == "component":
		v["JobID"], v["JobIDRaw"] = fmt.Sprintf("%d+1", number), fmt.Sprint(number+1)
	case kind == "tasks" && !started:
		v["JobID"] = fmt.Sprintf("%d_[%s]", number, word("list", "1-4", "2,7-9%2", "1,4,7,1...%2"))
		if strings.Contains(v["JobID"], "...") {
			v["SubmitLine"] = word("array", "sbatch --array=1-30:3%2 job.sh", "sbatch job.sh")
		}
	}
	return v
}

// TestDocumentsAgree checks that imported records give the same workload as the records themselves,
// whatever columns they have. The rules of the import and of the workload together are the rules of
// the records.
func TestDocumentsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawRows(t)
		want, _, err := sacct.Accounting(strings.NewReader(text), "sacct", workload.ReadOptions{})
		got, err2 := documentsOf(text)
		if err != nil || err2 != nil {
			if err == nil || err2 == nil {
				t.Fatalf("sacct: %v; documents: %v\n%s", err, err2, text)
			}
			return // without usable records: all are lists of tasks that sacct cut off
		}
		if diff := cmp.Diff(jobsOf(want), jobsOf(got)); diff != "" {
			t.Fatalf("-sacct +documents\n%s%s", diff, text)
		}
		if diff := cmp.Diff([]any{want.Rules, want.Users}, []any{got.Rules, got.Users}); diff != "" {
			t.Fatalf("rules and users: -sacct +documents\n%s%s", diff, text)
		}
	})
}

func jobsOf(w *workload.Workload) (jobs []hpc.Job) {
	for _, job := range w.Jobs.All() {
		jobs = append(jobs, *job)
	}
	return jobs
}

// TestResourcesOfDocument checks that a workload from documents has the memory, GPUs, licenses and
// other generic resources in tres_req.
func TestResourcesOfDocument(t *testing.T) {
	text := `{"jobid":31,"cluster":"vale","username":"ann","@submit":"2024-05-19T08:00:00","@start":"2024-05-19T08:01:00","@end":"2024-05-19T08:11:00","nodes":"n[1-2]",` +
		`"total_cpus":4,"total_nodes":2,"state":"COMPLETED","tres_req":"cpu=4,mem=8G,node=2,billing=4,gres/gpu=3,gres/gpu:a100=2,gres/gpu:h100=1,gres/shard=8,license/matlab=1,bb/datawarp=100G"}`
	r, _ := records.Finished([]byte(text), "")
	b := finished.NewBuilder("documents", workload.ReadOptions{})
	b.Row()
	if err := b.Add(r, text); err != nil {
		t.Fatal(err)
	}
	w, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	want := hpc.Request{
		Name: "", User: "ann", MinNodes: 2, MaxNodes: 2, Tasks: 4, MemPerNode: 4096, GPUs: "a100:2,h100:1", GRES: "shard:4", Licenses: "matlab:1",
		TimeLimit: hpc.Unlimited,
	}
	if diff := cmp.Diff(want, w.Jobs.At(0).Request); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if w.Rules[finished.NoteTRES] != 1 {
		t.Errorf("rules %v", w.Rules)
	}
}

// TestPartsOfWholes checks that tasks of arrays and components of heterogeneous jobs without
// JobIDRaw are separate jobs in documents, and keep their IDs.
func TestPartsOfWholes(t *testing.T) {
	const header = "JobID|Cluster|User|Submit|Start|End|State|ReqCPUS\n"
	const times = "|vale|ann|2024-05-14T20:00:00|2024-05-15T01:10:00|2024-05-15T02:10:00|COMPLETED|4\n"
	text := header
	want := []string{"3_1", "3_2", "3_3", "123+0", "123+1"}
	for _, id := range want {
		text += id + times
	}
	seen := make(map[string]bool)
	var ids []string
	_, _, err := sacct.Accounting(strings.NewReader(text), "sacct", workload.ReadOptions{Record: func(record any) error {
		text, err := records.Document(record.(*finished.Job), "", false)
		if err != nil {
			return err
		}
		identity := identityOf(text)
		if seen[identity] {
			t.Errorf("%s: a second job %s", text, identity)
		}
		seen[identity] = true
		r, _ := records.Finished(text, "")
		ids = append(ids, r.ID)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("IDs (-want +got)\n%s", diff)
	}
}

// identityOf returns what identifies a job in the store.
func identityOf(text []byte) string {
	j := document.Identify(text, "")
	return fmt.Sprint(j.Cluster, " ", j.JobID, " ", j.Run)
}
