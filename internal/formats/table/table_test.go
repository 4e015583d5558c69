package table

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/workload"
)

func readWith(m *Map, text string, opts workload.ReadOptions) (*workload.Workload, []string, error) {
	r, err := NewReader(m, "jobs", opts)
	if err != nil {
		return nil, nil, err
	}
	if err := r.Read(bufio.NewReaderSize(strings.NewReader(text), headLength), strings.NewReader(text), int64(len(text)), "jobs"); err != nil {
		return nil, nil, err
	}
	return r.Finish()
}

// read reads a table with a map in YAML.
func read(t *testing.T, mapText, text string) *workload.Workload {
	t.Helper()
	m, err := ParseMap([]byte(mapText), "map.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := readWith(m, text, workload.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestForms reads the same job in all forms of a table.
func TestForms(t *testing.T) {
	fields := "fields: {id: job, user: who, submit: s, start: b, end: e, cpus: n}\n"
	header, cells := []string{"job", "who", "s", "b", "e", "n"}, []string{"7", "ann", "1709280000", "1709280060", "1709280120", "4"}
	for name, tt := range map[string]struct{ head, text string }{
		"comma":          {"", strings.Join(header, ",") + "\n" + strings.Join(cells, ",") + "\n"},
		"quotes, CRLF":   {"", "\xef\xbb\xbf" + `"job","who","s","b","e","n"` + "\r\n" + `"7","ann","1709280000",1709280060,1709280120,4` + "\r\n"},
		"tab":            {"", strings.Join(header, "\t") + "\n" + strings.Join(cells, "\t") + "\n"},
		"semicolon":      {"", strings.Join(header, ";") + "\n" + strings.Join(cells, ";") + "\n"},
		"blanks":         {"", strings.Join(header, "   ") + "\n" + strings.Join(cells, " ") + "\n"},
		"two characters": {"delimiter: '::'\n", strings.Join(header, "::") + "\n" + strings.Join(cells, "::") + "\n"},
		"no header":      {"columns: [job, who, s, b, e, n]\n", strings.Join(cells, ",") + "\n"},
		"other header":   {"columns: [job, who, s, b, e, n]\nheader: true\n", "a,b,c,d,e,f\n" + strings.Join(cells, ",") + "\n"},
		"comments":       {"comment: '#'\n", "# by hand\n" + strings.Join(header, ",") + "\n# now\n" + strings.Join(cells, ",") + "\n"},
		"JSON list":      {"", `[{"job":7,"who":"ann","s":1709280000,"b":1709280060,"e":1709280120,"n":4}]`},
		"JSON lines":     {"", `{"job":"7","who":"ann","s":1709280000,"b":1709280060,"e":1709280120.0,"n":4}` + "\n"},
		"JSON in object": {"rows: list\n", `{"about":[1],"list":[{"job":7,"who":"ann","s":1709280000,"b":1709280060,"e":1709280120,"n":4}]}`},
	} {
		w := read(t, tt.head+fields, tt.text)
		j := w.Jobs.At(0)
		if w.Jobs.Len() != 1 || j.ID != "7" || j.User != "ann" || j.Tasks != 4 || j.RunTime != time.Minute || j.Submit.UnixSeconds() != 1709280000 || j.Recorded.State != hpc.Completed || w.Rules[NoteStateGuessed] != 1 {
			t.Errorf("%s: %d jobs, %+v, %v", name, w.Jobs.Len(), j, w.Rules)
		}
	}
}

// parquetRow has the types that Parquet files of jobs have.
type parquetRow struct {
	ID     int64     `parquet:"job_id"`
	User   *string   `parquet:"user,optional"`
	Submit time.Time `parquet:"submit_time,timestamp(microsecond)"`
	Start  int64     `parquet:"start_time,timestamp(millisecond:local)"`
	Run    float64   `parquet:"run_time"`
	Cores  int32     `parquet:"cores"`
	Power  []float64 `parquet:"power,list"`
}

func parquetFile(t testing.TB, rows int) string {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[parquetRow](&b, parquet.MaxRowsPerRowGroup(700), parquet.Compression(&parquet.Zstd))
	user := "ann"
	for i := range rows {
		row := parquetRow{ID: int64(i), Submit: time.Unix(1709280000+int64(i), 0), Start: (1709283600 + int64(i)) * 1000, Run: 60.5, Cores: 4, Power: []float64{1, 2}}
		if i%2 == 0 {
			row.User = &user
		}
		if _, err := w.Write([]parquetRow{row}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const parquetMap = "zone: Europe/Zurich\nfields: {id: job_id, user: user, submit: submit_time, start: start_time, run_time: run_time, cpus: cores}\n"

func TestParquet(t *testing.T) {
	text := parquetFile(t, 1500)
	w := read(t, parquetMap, text)
	a, b := w.Jobs.At(0), w.Jobs.At(1499)
	if w.Jobs.Len() != 1500 || a.User != "ann" || b.User != "" || b.ID != "1499" || b.RunTime != 60500*time.Millisecond || b.Tasks != 4 {
		t.Errorf("%d jobs, %+v, %+v", w.Jobs.Len(), a, b)
	}
	// The file has the submission in UTC and the start in local time, one hour ahead of UTC. The start
	// is written an hour later, so both are the same instant.
	if a.Recorded.Start != a.Submit {
		t.Errorf("submit %s, start %s", a.Submit, a.Recorded.Start)
	}
	m, _ := ParseMap([]byte(parquetMap), "m")
	for _, damaged := range []string{text[:len(text)-20], text[:4] + strings.Repeat("\xff", 500) + text[504:], "PAR1", "PAR1" + strings.Repeat("x", 100) + "PAR1"} {
		if _, _, err := readWith(m, damaged, workload.ReadOptions{}); err == nil || !strings.HasPrefix(err.Error(), "reading table: jobs: ") {
			t.Errorf("damaged: %v", err)
		}
	}
	r, _ := NewReader(m, "x", workload.ReadOptions{})
	if err := r.Read(bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "pipe"); err == nil || !strings.Contains(err.Error(), "want the file itself") {
		t.Errorf("pipe: %v", err)
	}
}

// TestUnits reads values in all units and notations.
func TestUnits(t *testing.T) {
	value := func(field, cell string) (*hpc.Job, map[string]int, error) {
		m, err := ParseMap([]byte("columns: [s, b, e, n, x]\ndelimiter: '|'\nfields: {submit: s, start: b, end: e, cpus: n, "+field+"}"), "m")
		if err != nil {
			return nil, nil, err
		}
		w, _, err := readWith(m, "1709280000|1709280060|1709280120|4|"+cell+"\n", workload.ReadOptions{})
		if err != nil {
			return nil, nil, err
		}
		return w.Jobs.At(0), w.Rules, nil
	}
	for _, tt := range []struct {
		field, cell string
		want        func(j *hpc.Job) any
		is          any
	}{
		{"time_limit: {column: x, unit: minutes}", "90", limit, 90 * time.Minute},
		{"time_limit: {column: x, unit: hours}", "1.5", limit, 90 * time.Minute},
		{"time_limit: {column: x, unit: 'HH:MM'}", "1:30", limit, 90 * time.Minute},
		{"time_limit: {column: x, unit: 'HH:MM'}", "1:30:30", limit, 90*time.Minute + 30*time.Second},
		{"time_limit: {column: x, unit: 'HH:MM'}", "1-12:00", limit, 36 * time.Hour},
		{"time_limit: {column: x, unit: ms}", "1500", limit, 1500 * time.Millisecond},
		{"time_limit: {column: x, unit: clock}", "1-02:00:00", limit, 26 * time.Hour},
		{"time_limit: x", "1-12:00", limit, 36 * time.Hour},
		{"time_limit: x", "1 day 12:30", limit, 36*time.Hour + 30*time.Minute},
		{"time_limit: {column: x, unit: clock}", "2-03", limit, 51 * time.Hour},
		{"time_limit: x", "12:30", limit, 12*time.Minute + 30*time.Second},
		{"time_limit: x", "1 day, 2:00:00", limit, 26 * time.Hour},
		{"time_limit: {column: x, unlimited: '-1'}", "-1", limit, hpc.Unlimited},
		{"time_limit: {column: x, unknown: ['0']}", "0", limit, time.Duration(0)},
		{"memory_per_cpu: {column: x, unit: GiB}", "2", perCPU, int64(2048)},
		{"memory_per_cpu: {column: x, unit: GB}", "2", perCPU, int64(1908)},
		{"memory_per_cpu: {column: x, unit: KiB}", "1025", perCPU, int64(2)},
		{"memory_per_cpu: {column: x, unit: B}", "1", perCPU, int64(1)},
		{"memory_per_cpu: x", "2.5G", perCPU, int64(2560)},
		{"memory_per_cpu: x", "500", perCPU, int64(500)},
		{"memory_per_cpu: x", "4 GiB", perCPU, int64(4096)},
		{"gpus: {column: x, times: 4}", "2", func(j *hpc.Job) any { return j.GPUs }, "8"},
		{"user: {column: x, prefix: user}", "17", func(j *hpc.Job) any { return j.User }, "user17"},
		{"qos: {value: normal}", "", func(j *hpc.Job) any { return j.QOS }, "normal"},
		{"state: {column: x, values: {bad: FAILED}}", "bad", state, hpc.Failed},
		{"state: x", "Killed", state, hpc.Cancelled},
		{"state: x", "completed", state, hpc.Completed},
		{"state: x", "CD", state, hpc.Completed},
		{"state: x", "oom", state, hpc.OutOfMemory},
		{"state: {column: x, unit: slurm}", "11", state, hpc.OutOfMemory},
		{"exit_code: x", "3:0", exit, 3},
		{"exit_code: {column: x, unit: wait}", "768", exit, 3},
		{"exit_code: x", "-7", exit, 1},
		{"req_tres: {column: x, names: {'1': cpu, '2': mem, '1002': 'gres/gpu:volta'}}", "1=40,2=80000,5=9,1002=2", func(j *hpc.Job) any { return fmt.Sprintf("%d %s", j.MemPerNode, j.GPUs) }, "80000 volta:2"},
		{"node_list: x", "['n1', 'n3']", nodes, "n[1,3]"},
		{"node_list: {column: x, prefix: n}", "1,2", nodes, "n[1-2]"},
		{"node_list: x", "n[1-3]", nodes, "n[1-3]"},
		{"eligible: {column: x, time: '%d.%m.%Y %H:%M'}", "01.03.2024 08:00", func(j *hpc.Job) any { return j.Recorded.Eligible.UnixSeconds() }, int64(1709280000)},
		{"eligible: {column: x, time: '%d.%m.%Y %H:%M'}", "1.3.2024 8:00", func(j *hpc.Job) any { return j.Recorded.Eligible.UnixSeconds() }, int64(1709280000)},
		{"eligible: {column: x, time: '%Y_%m_%d %H:%M'}", "2024_03_01 08:00", func(j *hpc.Job) any { return j.Recorded.Eligible.UnixSeconds() }, int64(1709280000)},
		{"eligible: {column: x, time: '%Y%m%d%H%M%S'}", "20240301080000", func(j *hpc.Job) any { return j.Recorded.Eligible.UnixSeconds() }, int64(1709280000)},
		{"eligible: {column: x, time: unix_ms}", "1709280000500", func(j *hpc.Job) any { return j.Recorded.Eligible }, hpc.Unix(1709280000).Add(500 * time.Millisecond)},
		{"eligible: x", "2024-03-01 08:00:00+00:00", func(j *hpc.Job) any { return j.Recorded.Eligible.UnixSeconds() }, int64(1709280000)},
		{"eligible: x", "2024-03-01T09:00:00.250", func(j *hpc.Job) any { return j.Recorded.Eligible }, hpc.Unix(1709283600).Add(250 * time.Millisecond)},
	} {
		j, rules, err := value(tt.field, tt.cell)
		if err != nil || tt.want(j) != tt.is || rules[finished.RuleBadValue] > 0 {
			t.Errorf("%s of %q: %+v %v, %v (want %v)", tt.field, tt.cell, j, rules, err, tt.is)
		}
	}
	for _, field := range []string{"time_limit: x", "memory: {column: x, unit: GB}", "gpus: x", "state: x", "exit_code: x", "req_tres: x", "eligible: x", "priority: x"} {
		if _, rules, err := value(field, "some thing"); err != nil || rules[finished.RuleBadValue] != 1 {
			t.Errorf("%s: %v, %v", field, rules, err)
		}
	}
}

func limit(j *hpc.Job) any  { return j.TimeLimit }
func perCPU(j *hpc.Job) any { return j.MemPerCPU }
func state(j *hpc.Job) any  { return j.Recorded.State }
func exit(j *hpc.Job) any   { return j.ExitCode }
func nodes(j *hpc.Job) any  { return j.Recorded.Nodes }

// TestTimes reads tables without a column for some instants, which then follow from other columns.
func TestTimes(t *testing.T) {
	for mapText, text := range map[string]string{
		"origin: 2024-03-01T08:00:00Z\ntime: relative\nfields: {submit: s, wait: w, run_time: r, nodes: n}": "s,w,r,n\n0,60,120,2\n",
		"fields: {submit: s, start: b, run_time: {column: r, unit: minutes}, nodes: n}":                     "s,b,r,n\n1709280000,1709280060,2,2\n",
		"fields: {submit: s, end: e, run_time: r, nodes: n}":                                                "s,e,r,n\n1709280000,1709280180,120,2\n",
		"fields: {start: b, wait: w, end: e, nodes: n}":                                                     "b,w,e,n\n1709280060,60,1709280180,2\n",
		"zone: Asia/Tokyo\nfields: {submit: s, start: b, end: e, nodes: n}":                                 "s,b,e,n\n2024-03-01 17:00:00,2024-03-01 17:01:00,2024-03-01T08:03:00Z,2\n",
	} {
		j := read(t, mapText, text).Jobs.At(0)
		if j.Submit.UnixSeconds() != 1709280000 || j.Recorded.Start.UnixSeconds() != 1709280060 || j.Recorded.End.UnixSeconds() != 1709280180 || j.RunTime != 2*time.Minute || j.MinNodes != 2 {
			t.Errorf("%s: %+v %+v", mapText, j, j.Recorded)
		}
	}
}

// TestTasks reads IDs of tasks as Slurm writes them. A number with several submissions is not an array.
func TestTasks(t *testing.T) {
	text := "job,s,b,e,n,st\n17_1,100,200,300,4,COMPLETED\n17_2,100,200,350,4,COMPLETED\n17_[5-6],100,,400,4,CANCELLED\n" +
		"2024_1,100,200,300,4,COMPLETED\n2024_2,500,600,700,4,COMPLETED\nc1_7,1,2,3,4,COMPLETED\n"
	w := read(t, "fields: {id: job, submit: s, start: b, end: e, cpus: n, state: st}\n", text)
	var got []string
	for i := range w.Jobs.Len() {
		job := w.Jobs.At(i)
		got = append(got, job.ID+":"+job.Array)
	}
	slices.Sort(got)
	want := []string{"17:1-2,5-6", "2024:1", "2024_2:", "c1_7:"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRows counts rows that are not jobs. Strict reading says where they are and what is wrong.
func TestRows(t *testing.T) {
	const mapText = "fields: {id: job, submit: submitted, start: started, end: ended, cpus: cores, memory: mem}"
	const head, good = "job,submitted,started,ended,cores,mem\n", "1,1709280000,1709280060,1709280120,4,100\n"
	for row, tt := range map[string]struct{ rule, says string }{
		"2,soon,1709280060,1709280120,4,1\n":       {finished.RuleNoRecord, `line 3: column submitted (submit) "soon": not a time (want 2024-03-01T08:00:00`},
		"2,1709280000\n":                           {finished.RuleNoRecord, "line 3: 2 fields (want 6)"},
		"2,,1709280060,1709280120,4,1\n":           {finished.RuleNoSubmit, "line 3: job 2: no submit time"},
		"2,1709280000,1709280060,1709280120,,1\n":  {finished.RuleNoSize, "line 3: job 2: neither processors nor nodes"},
		"2,1709280000,1709280060,1709280120,4,x\n": {finished.RuleBadValue, `line 3: job 2: column mem (memory) "x": not an amount of memory`},
		good: {finished.RuleDuplicate, "line 3: job 1 occurs twice"},
		"2,1709280000,1709280060,1709280120,1e30,1\n": {finished.RuleBadValue, "line 3: job 2: column cores (cpus)"},
	} {
		w := read(t, mapText, head+good+row)
		if w.Rules[tt.rule] != 1 {
			t.Errorf("%q: %v", row, w.Rules)
		}
		m, _ := ParseMap([]byte(mapText), "m")
		if _, _, err := readWith(m, head+good+row, workload.ReadOptions{Strict: true}); err == nil || !strings.HasPrefix(err.Error(), "reading table: jobs: "+tt.says) {
			t.Errorf("%q, strict: %v (want %s)", row, err, tt.says)
		}
	}
}

// TestUnknownCPUs counts the jobs whose nodes are known, but not their CPUs. Without nodes they are unusable.
func TestUnknownCPUs(t *testing.T) {
	const fields = "columns: [s, b, e, c, n, g]\nfields: {submit: s, start: b, end: e, cpus: c, nodes: n}"
	var rows strings.Builder
	for _, cells := range []string{"4,2,", "0,2,", ",2,", "abc,2,"} {
		rows.WriteString("1709280000,1709280060,1709280120," + cells + "\n")
	}
	for mapText, want := range map[string]struct {
		jobs, lack, bad, unusable int
		missing                   string
	}{
		fields: {4, 3, 1, 0, "jobs without CPUs: 3 of 4: each of these asks for one CPU a node, as with sbatch -N alone (want the CPUs; "},
		strings.Replace(fields, "cpus: c, ", "", 1):                               {4, 4, 0, 0, "no job has CPUs: each asks for one CPU a node"},
		strings.Replace(fields, ", nodes: n", "", 1):                              {1, 0, 1, 3, ""},
		strings.Replace(fields, "cpus: c,", "cpus: {column: n, times: 64},", 1):   {4, 0, 0, 0, ""},
		strings.Replace(fields, "cpus: c, nodes: n", "gpus: n", 1):                {4, 4, 0, 0, "no job has CPUs: "},
		strings.Replace(fields, "cpus: c,", "tasks_per_node: {value: \"8\"},", 1): {4, 0, 0, 0, ""},
	} {
		m, err := ParseMap([]byte(mapText), "m")
		if err != nil {
			t.Fatal(err)
		}
		w, missing, err := readWith(m, rows.String(), workload.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if w.Jobs.Len() != want.jobs || w.Rules[finished.NoteNoCPUs] != want.lack || w.Rules[finished.RuleBadValue] != want.bad || len(w.Unusable) != want.unusable {
			t.Errorf("%s: %d jobs, %v", mapText, w.Jobs.Len(), w.Rules)
		}
		if all := strings.Join(missing, "\n"); strings.Contains(all, "CPUs:") != (want.missing != "") || !strings.Contains(all, want.missing) {
			t.Errorf("%s: missing %s, want %s", mapText, all, want.missing)
		}
	}
}

func TestMapErrors(t *testing.T) {
	const rest = "submit: s, start: b, end: e, cpus: n"
	for text, want := range map[string]string{
		"":                                 "no fields",
		"felds: {id: x}":                   "map.yaml:1: unknown field",
		"fields: {submit: s}":              "no field start (or wait), nor end (or run_time), nor cpus",
		"fields: {" + rest + ", usr: x}":   "field usr: not known (did you mean user?)",
		"fields: {" + rest + ", user: {}}": "field user: no column",
		"fields: {" + rest + ", user: {column: x, value: y}}":        "field user: both column and value",
		"fields: {" + rest + ", user: {column: x, unit: h}}":         "field user: unit h: the field takes no unit",
		"fields: {" + rest + ", time_limit: {column: x, unit: w}}":   "field time_limit: unit w: not known (want HH:MM, clock, d,",
		"fields: {" + rest + ", user: {column: x, unlimited: '-1'}}": "field user: unlimited: the key is only for durations",
		"fields: {" + rest + ", eligible: {column: x, time: now}}":   `field eligible: time "now": not known`,
		"fields: {" + rest + ", eligible: {column: x, time: '%Q'}}":  "%Q is not known",
		"fields: {" + rest + ", gpus: {column: x, times: -1}}":       "times -1",
		"zone: Mars/Base\nfields: {" + rest + "}":                    "zone Mars/Base: not known",
		"origin: soon\nfields: {" + rest + "}":                       "origin soon: not a time",
		"header: false\nfields: {" + rest + "}":                      "columns: missing",
		"fields: [":                                                  "map.yaml:1: ",
	} {
		if _, err := ParseMap([]byte(text), "map.yaml"); err == nil || !strings.HasPrefix(err.Error(), "reading map map.yaml") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	m, _ := ParseMap([]byte("fields: {"+rest+", user: [who, owner]}"), "m")
	if _, _, err := readWith(m, "s,b,e,n\n1,2,3,4\n", workload.ReadOptions{}); err == nil || !strings.Contains(err.Error(), "no column who or owner, which the map has for user (want one of: s, b, e, n)") {
		t.Errorf("absent column: %v", err)
	}
	if _, err := NamedMap("helio"); err == nil || !strings.Contains(err.Error(), "did you mean helios?") {
		t.Errorf("%v", err)
	}
}

// Tables in the form of public data sets, by the name of their map.
var dataSets = map[string]string{
	"helios":         "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n7,uA,vcB,8,32,1,FAILED,2020-06-09 18:41:01,2020-06-09 18:42:01,2020-06-09 18:43:01,60,60\n",
	"nrel-eagle":     "job_id,user,account,partition,qos,wallclock_req,nodes_req,processors_req,gpus_req,mem_req,submit_time,start_time,end_time,run_time,state,name,work_dir,submit_line\n7,user1,acc1,part1,normal,3600.0,2,72,8,0.0,2019-01-01 08:00:00,2019-01-01 08:01:00,2019-01-01 08:02:00,60.0,FAILED,name1,w1,s1\n",
	"mit-supercloud": "id_job,id_user,partition,time_submit,time_eligible,time_start,time_end,timelimit,cpus_req,nodes_alloc,tres_req,tres_alloc,state,exit_code,nodelist\n4071251073298,99,normal,1620000000,1620000000,1620000060,1620000120,4294967295,40,1,\"1=40,2=80000,4=1,5=40,1002=8\",\"1=40,2=80000,4=1,5=40,1002=8\",5,256,\"['r1-n2']\"\n",
	"f-data":         "jid,usr,jnam,cnumr,cnumat,nnumr,nnuma,adt,sdt,edt,elpl,ec,exit state,duration,pri\nj7,u1,n1,96,96,2,2,2021-04-01 08:00:00,2021-04-01 08:01:00,2021-04-01 08:02:00,3600.0,1,failed,60.0,127\n",
	"pm100":          "job_id,user_id,group_id,partition,qos,submit_time,eligible_time,start_time,end_time,run_time,time_limit,job_state,derived_ec,num_cores_req,num_cores_alloc,num_nodes_req,num_nodes_alloc,num_gpus_req,mem_req,nodes,priority\n7,1,2,1,0,2020-05-01T08:00:00Z,2020-05-01T08:00:00Z,2020-05-01T08:01:00Z,2020-05-01T08:02:00Z,60,60,FAILED,1:0,128,128,1,1,4,200,[12],99\n",
	"openb":          "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\np,11908,16384,8,1000,A|B,LS,Failed,100,220,160\n",
	"philly":         `[{"status":"Failed","vc":"ee9e","jobid":"application_1_7","attempts":[{"start_time":"2017-10-07 01:00:00","end_time":"2017-10-07 01:00:30","detail":[]},{"start_time":"2017-10-07 01:12:00","end_time":"2017-10-07 01:13:00","detail":[{"ip":"m1","gpus":["gpu0","gpu1","gpu2","gpu3"]},{"ip":"m2","gpus":["gpu0","gpu1","gpu2","gpu3"]}]}],"submitted_time":"2017-10-07 01:11:00","user":"ce2f"}]`,
}

func TestDataSets(t *testing.T) {
	for _, name := range MapNames() {
		m, err := NamedMap(name)
		if err != nil {
			t.Fatal(err)
		}
		w, _, err := readWith(m, dataSets[name], workload.ReadOptions{Strict: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		j := w.Jobs.At(0)
		if m.Name != name || m.Source == "" || w.Jobs.Len() != 1 || (j.User == "") != (name == "openb") || j.RunTime != time.Minute || j.Recorded.State != hpc.Failed || j.ExitCode != 1 || j.Recorded.Start.Sub(j.Submit) != time.Minute {
			t.Errorf("%s: %+v %+v", name, j, j.Recorded)
		}
		if name != "f-data" && j.GPUs != "8" && j.GPUs != "volta:8" && j.GPUs != "4" {
			t.Errorf("%s: %q GPUs", name, j.GPUs)
		}
		var proposed strings.Builder
		fits, err := Propose(&proposed, bufio.NewReaderSize(strings.NewReader(dataSets[name]), headLength), nil, 0, "x")
		if err != nil || fits.Fits != name {
			t.Errorf("%s: proposed %q, %v\n%s", name, fits, err, proposed.String())
		}
	}
}

// TestTypicalHeaders proposes maps for tables whose columns have names that sites use, each with a
// value. It lists the names by the field that must get the column. A column whose values do not
// suit its name gets no field ("").
func TestTypicalHeaders(t *testing.T) {
	const at, later, clock = "2026-06-01 08:00:00", "2026-06-01 09:00:00", "04:00:00"
	for field, headers := range map[string]map[string][]string{
		"id":         {"4711": {"Job Number", "JobID", "Job No", "job_nr", "Job", "Request ID"}},
		"user":       {"anna": {"Owner", "User", "User Name", "Submitted by", "Submitter", "Login", "Job Owner"}},
		"account":    {"p17": {"Project", "Project Code", "Account", "Allocation", "Cost Center", "Charge Account"}},
		"partition":  {"long": {"Queue", "Partition", "Queue Name", "Job Queue", "Pool"}},
		"submit":     {at: {"Queued at", "Queued", "Submitted", "Submit Date", "Submission Time", "Enqueued", "Arrival Time", "Date Submitted", "Created"}},
		"start":      {at: {"Started", "Start Date", "Start", "Started At", "Begin", "Began", "Dispatched", "Dispatch Time", "Launched"}},
		"end":        {later: {"Finished", "Finish", "Finished At", "End Date", "Completed", "Completed At", "Completion Date", "Stopped", "Stop Time", "Terminated", "Job End"}},
		"run_time":   {clock: {"Run Time", "Elapsed", "Duration", "Execution Time", "Wallclock Used", "Walltime Used"}, "14400": {"runtime_s", "Elapsed (sec)", "Used Walltime"}},
		"time_limit": {clock: {"Wall limit", "Time Limit", "Wallclock Limit", "Requested Walltime", "Max Runtime", "Max Walltime", "Limit", "Time Requested"}, "240": {"Limit (min)"}},
		"wait":       {clock: {"Wait", "Waiting Time", "Time in Queue", "Queue Wait Time", "Pending Time"}},
		"state":      {"ok": {"Result", "State", "Status", "Outcome", "Final State", "Job Status", "Completion Status"}, "crash": {"Result"}},
		"exit_code":  {"1": {"Exit Code", "Exit", "Return Code", "rc"}},
		"cpus":       {"64": {"Cores", "CPUs", "NCPUs", "Core Count", "Cores Requested", "Number of Cores", "Total CPUs", "procs", "vCPUs"}},
		"nodes":      {"4": {"Nodes", "Node Count", "Num Nodes", "Number of Nodes", "Nodes Requested", "nhosts"}},
		"gpus":       {"2": {"GPUs", "GPU Count", "Number of GPUs", "Accelerators"}},
		"memory":     {"64": {"Memory", "Memory (GB)", "Req Mem", "RAM", "Memory Requested"}},
		"node_list":  {"n[1-4]": {"Node List", "Exec Host", "Hosts", "Hostnames"}},
		"":           {"yes": {"Completed", "Finished", "Exit", "Limit"}, "anna": {"Waiting", "Cores"}, "a note": {"Ended"}},
	} {
		for value, names := range headers {
			for _, header := range names {
				var b strings.Builder
				text := header + ";other thing\n" + value + ";x\n" + value + ";y\n"
				if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "jobs"); err != nil {
					t.Errorf("%s: %v", header, err)
					continue
				}
				placed := strings.Contains(b.String(), "\n  "+field+": ")
				if none := strings.Contains(b.String(), "\n#   "+header); field == "" && !none || field != "" && !placed {
					t.Errorf("%s (%s): not in the field %q:\n%s", header, value, field, b.String())
				}
			}
		}
	}
}

// TestPropose reads tables with the maps that are proposed for them.
func TestPropose(t *testing.T) {
	for text, want := range map[string][]string{
		"JobID;User;Submit Time;Start Time;End Time;CPUs;Walltime Limit (min);Mem_GB;Colour\n7;17;01.03.2024 08:00:00;01.03.2024 08:01:00;01.03.2024 08:02:00;4;60;2;red\n": {
			`submit: {column: "Submit Time", time: "%d.%m.%Y %H:%M:%S"}`, `user: {column: "User", prefix: user}`, `memory: {column: "Mem_GB", unit: GiB} # guess: GiB, because Slurm's units are powers of 1024; for powers of 1000 write unit: GB`, "#   Colour (red)", `unit: minutes}`,
		},
		// German dates, as spreadsheets show them.
		"JobID;Submit;Start;End;CPUs\n7;05.03.2024 10:00;05.03.2024 10:01;13.3.2024 8:02;4\n": {
			`submit: {column: "Submit", time: "%d.%m.%Y %H:%M"}`, `end: {column: "End", time: "%d.%m.%Y %H:%M"}`, "",
		},
		"JobID;Submit;Start;End;CPUs\n7;2024, 5 March;5.3.24 10:01;5.3.24 10:02;4\n": {
			`#   Submit (2024, 5 March): not instants (want 2024-03-05T10:00:00, or their format, such as submit: {column: "Submit", time: "%d.%m.%Y %H:%M:%S"})`, "",
		},
		// Kubernetes counts thousandths of CPUs, and its pod phases are not job states.
		"name,cpu_milli,memory_mib,num_gpu,pod_phase,creation_time,scheduled_time,deletion_time\np1,11908,512,1,Running,0,5,90\np2,500,512,0,Pending,7,,60\n": {
			`submit: {column: "creation_time", time: "relative"}`, `start: {column: "scheduled_time", time: "relative"}`,
			`cpus: {column: "cpu_milli", times: 0.001} # guess: thousandths of cpu`, `values: {"Running": CANCELLED, "Pending": CANCELLED}`, "# zone: Europe",
		},
		"Result;Finished;x\nok;2026-06-01 08:00:00;1\nkilled;2026-06-01 09:00:00;2\nwithdrawn;;3\ncrash;2026-06-01 09:00:00;4\nbroken;;5\n": {
			`state: {column: "Result", values: {"ok": COMPLETED, "killed": CANCELLED, "withdrawn": CANCELLED, "crash": FAILED, "broken": FAILED}} # guess`, "",
		},
		// squeue's codes are read, but a person must check them: F is also a letter of qstat.
		"Result;Finished;x\nCD;2026-06-01 08:00:00;1\nF;2026-06-01 09:00:00;2\nCA;;3\nTO;2026-06-01 09:00:00;4\nPD;;5\n": {
			`state: {column: "Result", values: {"CD": COMPLETED, "F": FAILED, "CA": CANCELLED, "TO": TIMEOUT, "PD": PENDING}} # guess`, "",
		},
		// Start and end give the run time, so walltime is the time limit. The map names no zone, so that
		// --timezone counts.
		"id,submit,began,ended,walltime\n1,2026-06-01 08:00:00,2026-06-01 08:01:00,2026-06-01 08:02:00,01:00:00\n": {
			`time_limit: {column: "walltime", unit: clock} # guess: what the job asked for`, "\n# zone: Europe", "",
		},
		// Limits and run times are compared within rows. Limits that are shorter are in minutes.
		"id,submit,cpus,run_time,time_limit\n1,1709280000,4,,10\n2,1709280000,4,100,200\n3,1709280000,4,1000,2000\n": {
			`time_limit: {column: "time_limit", unit: seconds}`, "",
		},
		"id,submit,cpus,run_time,time_limit\n1,1709280000,4,,10000\n2,1709280000,4,100,20\n3,1709280000,4,1000,2000\n": {
			`time_limit: {column: "time_limit", unit: minutes}`, "",
		},
		// A job that runs or waits has an expected end; the start and this end show that limits are minutes.
		"JOBID,ST,SUBMIT_TIME,START_TIME,END_TIME,TIME_LIMIT\n1,R,2024-03-05T08:00:00,2024-03-05T08:20:00,2024-03-05T18:20:00,600\n" +
			"2,PD,2024-03-05T08:02:00,2024-03-05T20:02:00,2024-03-06T00:02:00,240\n3,PD,2024-03-05T08:02:00,N/A,N/A,240\n": {
			`values: {"R": RUNNING, "PD": PENDING}`, `time_limit: {column: "TIME_LIMIT", unit: minutes} # guess: the unit; jobs that ran longer than so many seconds: 2 of 2`, "",
		},
		"start,end,limit\n1709280000,1709290000,4\n1709280000,1709294400,4\n1709280000,1709283600,0.5\n1709280000,1709283600,2\n": {
			`time_limit: {column: "limit", unit: hours} # guess: the unit; jobs that ran longer than so many minutes: 4 of 4`, "",
		},
		"name,creation_time,pod_phase,deletion_time\np1,0,Running,90\np2,7,Running,60\np3,8,Running,\n": {`values: {"Running": CANCELLED}}`, ""},
		// The times between instants show the units of waits and run times; sacct's raw limits are minutes.
		"submit,start,end,waited,wait,elapsed,TimelimitRaw\n1709280000,1709283600,1709290800,1,60,2,240\n1709280000,1709283660,1709289000,1,61,1.48,240\n": {
			`wait: {column: "wait", unit: minutes}`, `run_time: {column: "elapsed", unit: hours}`, `time_limit: {column: "TimelimitRaw", unit: minutes}`, "",
		},
		// A column with the name of a state, but with instants.
		"sub,st,en\n2024-03-05T08:00:00,2024-03-05T08:00:00,2024-03-05T09:00:00\n": {"#   st (2024-03-05T08:00:00)", ""},
		"id,status\n1,1709280000\n": {"#   status (1709280000)", ""},
		"id,status\n1,3\n":          {`state: {column: "status", unit: slurm} # guess`, ""},
		// Clock times among numbers, and numbers among clock times.
		"id;limit;cpus\n1;1.440;1,5\n2;90;1\n3;30,5;1\n4;01:30;1\n":                                                {`time_limit: {column: "limit", unit: seconds} # guess: the unit; the table does not say whether it is seconds, minutes or hours; not that of 1 of the 4 values, such as 01:30`, ""},
		"id,limit_min\n1,01:30:00\n2,02:00:00\n3,90\n":                                                             {`unit: clock} # guess: the unit; not that of 1 of the 3 values, such as 90`, ""},
		"submit,start,end,walltime\n0,0,70,01:00:00\n0,0,70,60\n":                                                  {`unit: clock} # guess: what the job asked for, not how long it ran; the unit; not that of 1 of the 2 values, such as 60`, ""},
		"id,limit\n1,UNLIMITED\n2,01:30\n":                                                                         {`unit: clock} # guess: the unit; the table does not say whether it is MM:SS, as the map reads it, or HH:MM (unit: HH:MM)`, ""},
		"submit,start,end,timelimit\n0,0,70,UNLIMITED\n0,0,70,1-00:00:00\n":                                        {`time_limit: {column: "timelimit", unit: clock}`, ""},
		`{"job":{"id":7,"cores":4},"queued_time":60,"submit":1709280000000,"elapsed":"00:01:00","status":"weird"}`: {`id: "job.id"`},
	} {
		var b strings.Builder
		if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "jobs"); err != nil {
			t.Fatal(err)
		}
		for _, line := range want[:len(want)-1] {
			if !strings.Contains(b.String(), line) {
				t.Errorf("no %s in\n%s", line, b.String())
			}
		}
	}
	good := "id,submit,start,end,cpus,state\n1,1709280000,1709280060,1709280120,4,ok\n"
	var b strings.Builder
	if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(good), headLength), nil, 0, "jobs"); err != nil {
		t.Fatal(err)
	}
	if w := read(t, b.String(), good); w.Jobs.Len() != 1 || w.Jobs.At(0).RunTime != time.Minute {
		t.Errorf("%+v with\n%s", w, b.String())
	}
	b.Reset()
	if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader("1,2,3\n4,5,6\n"), headLength), nil, 0, "jobs"); err != nil || !strings.Contains(b.String(), "header: false\ncolumns: [column1, column2, column3]") || !strings.Contains(b.String(), "no field submit, ") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// TestProposeWalltime: a column such as walltime_hours has time limits if other columns say how long the jobs ran, unless
// its values are these times. Each choice that the values do not confirm is marked as a guess.
func TestProposeWalltime(t *testing.T) {
	const head, instants = "jobid,user,submit,start,end,ncores,", "7,ann,1709280000,1709280000,1709283600,4,"
	const limit = " # guess: what the job asked for, not how long it ran\n"
	for text, want := range map[string]string{
		head + "walltime_hours\n" + instants + "24\n":      `  time_limit: {column: "walltime_hours", unit: hours}` + limit,
		head + "walltime_min\n" + instants + "1440\n":      `  time_limit: {column: "walltime_min", unit: minutes}` + limit,
		head + "walltime_s\n" + instants + "86400\n":       `  time_limit: {column: "walltime_s", unit: seconds}` + limit,
		head + "walltime_seconds\n" + instants + "86400\n": `  time_limit: {column: "walltime_seconds", unit: seconds}` + limit,
		head + "Wallclock (h)\n" + instants + "24\n":       `  time_limit: {column: "Wallclock (h)", unit: hours}` + limit,
		head + "walltime_hours\n" + instants + "1\n":       `  run_time: {column: "walltime_hours", unit: hours}` + "\n",
		head + "walltime\n" + instants + "01:00:00\n":      `  run_time: {column: "walltime", unit: clock}` + "\n",
		head + "walltime\n" + instants + "3600\n":          `  run_time: {column: "walltime", unit: seconds}` + "\n",
		"jobid,submit,wait,end,ncores,walltime_h\n7,1709280000,0,1709283600,4,24\n": `  time_limit: {column: "walltime_h", unit: hours}` +
			limit,
		"jobid,submit,start,ncores,walltime_hours\n7,1709280000,1709280000,4,24\n": `  run_time: {column: "walltime_hours", unit: hours}` +
			" # guess: how long the job ran, not what it asked for\n",
		"jobid,submit,start,ncores,walltime\n7,1709280000,1709280000,4,24:00:00\n": `  run_time: {column: "walltime", unit: clock}` +
			" # guess: how long the job ran, not what it asked for\n",
		head + "elapsed_hours\n" + instants + "24\n": `  run_time: {column: "elapsed_hours", unit: hours} # guess: ` +
			"values longer than the time from start to end: 1 of 1\n",
		head + "timelimit,walltime_hours\n" + instants + "01:00:00,24\n": `  run_time: {column: "walltime_hours", unit: hours} # guess: ` +
			"how long the job ran, not what it asked for; values longer than the time from start to end: 1 of 1\n",
	} {
		var b strings.Builder
		if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "jobs"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q: no %s in\n%s", text, want, b.String())
		}
	}
}

// TestProposeScontrol: the map has a field for each name of scontrol show job that a job needs.
func TestProposeScontrol(t *testing.T) {
	const text = "JobId,JobName,UserId,JobState,Dependency,RunTime,TimeLimit,SubmitTime,StartTime,EndTime,Partition,NodeList,NumNodes,NumCPUs,NumTasks,MinMemoryNode,TRES\n" +
		"7,a,ann,COMPLETED,(null),00:01:00,01:00:00,2024-03-05T10:00:00,2024-03-05T10:00:00,2024-03-05T10:01:00,batch,n[1-2],2,64,8,4G,\"cpu=64,node=2\"\n"
	var b strings.Builder
	if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "jobs"); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`cpus: "NumCPUs"`, `nodes: "NumNodes"`, `alloc_tres: "TRES"`, `memory_per_node: {column: "MinMemoryNode", unit: text}`} {
		if !strings.Contains(b.String(), "\n  "+line+"\n") {
			t.Errorf("no %s in\n%s", line, b.String())
		}
	}
	if w := read(t, b.String(), text); w.Jobs.Len() != 1 || w.Jobs.At(0).Tasks != 64 || w.Jobs.At(0).Dependency != "" || w.Rules["bad_value"] != 0 {
		t.Errorf("%+v, %v with\n%s", w.Jobs.List(), w.Rules, b.String())
	}
}

// TestProposeSize: the proposal says that no column has the processors, and what is a guess about them.
func TestProposeSize(t *testing.T) {
	const missing = "# Missing: no column has the processors of the jobs. Each job counts one CPU for each node.\n"
	for text, want := range map[string]string{
		"JobID,Submit,Start,End,NumNodes,zpus\n7,1709280000,1709280000,1709283600,4,9\n": missing,
		"JobID,Submit,Start,End,GPUs\n7,1709280000,1709280000,1709283600,4\n":            missing,
		"JobID,Submit,Start,End\n7,1709280000,1709280000,1709283600\n":                   "# Missing: the map has no field cpus (or nodes, gpus, req_tres)",
		"JobID,Submit,Start,End,NumTasks\n7,1709280000,1709280000,1709283600,4\n":        `  cpus: "NumTasks" # guess: one CPU for each task` + "\n",
		"JobID,Submit,Start,End,NumCPUs\n7,1709280000,1709280000,1709283600,4\n":         "  cpus: \"NumCPUs\"\n",
	} {
		var b strings.Builder
		if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "jobs"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) || strings.Contains(b.String(), "# Missing") != strings.Contains(want, "# Missing") {
			t.Errorf("%q: no %s in\n%s", text, want, b.String())
		}
	}
}

// TestProposeHosts: a column such as Hosts has the names of nodes or their number, and the values decide.
func TestProposeHosts(t *testing.T) {
	for text, want := range map[string]string{
		"Hosts\n1\n2\n":       "  nodes: \"Hosts\" # guess: numbers of nodes, and not their names (node_list)\n",
		"ExecHosts\n1\n\n2\n": "  nodes: \"ExecHosts\" # guess",
		"hosts\n1.0\n2.0\n":   "  nodes: \"hosts\" # guess",
		"Hosts\nn1\nn2\n":     "  node_list: \"Hosts\"\n",
		"Hosts\nn1\n17\n": "  node_list: \"Hosts\" # guess: names of nodes; 1 of the 2 values are whole numbers, such as 17: " +
			"if they count nodes, use nodes in place of node_list\n",
		"NodeList\n17\n18\n":           "  node_list: \"NodeList\" # guess: names of nodes; 2 of the 2 values are whole numbers",
		"Nodes,Hosts\n1,17\n2,18\n":    "# Columns without a place:\n#   Hosts (17)\n",
		"NodeList,Hosts\nn1,1\nn2,1\n": "  nodes: \"Hosts\" # guess: numbers of nodes, and not their names (node_list)\n  node_list: \"NodeList\"\n",
	} {
		var b strings.Builder
		if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "jobs"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q: no %s in\n%s", text, want, b.String())
		}
	}
}

// TestUnitless: units that neither names nor values say are named, for a warning.
func TestUnitless(t *testing.T) {
	some := "id,start,end,mem,limit\n1,1709280000,1709280100,4000,120\n"
	for text, want := range map[string][]string{
		some:                                   {"time_limit", "memory"},
		"id,start,elapsed\n1,1709280000,20\n":  {"run_time"},
		"id,start,limit\n1,1709280000,01:30\n": {"time_limit"},
		// Of many jobs, no more than a tenth ran longer than so many seconds.
		some + strings.Repeat("1,1709280000,1709280100,4000,120\n", 17) + "1,1709280000,1709280190,4000,120\n1,1709280000,1709280190,4000,120\n": {"memory"},
		// No unit is long enough.
		"id,start,end,limit\n1,1709280000,1709290000,1\n":                  {"time_limit"},
		"id,start,end,wait_s,mem,limit\n1,1709280000,1709290000,9,4G,10\n": nil,
	} {
		var b strings.Builder
		got, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "jobs")
		if err != nil || !slices.Equal(got.Unitless, want) {
			t.Errorf("%v, %v; want %v in\n%s", got.Unitless, err, want, b.String())
		}
		if strings.Contains(b.String(), "the table does not say") != (len(want) > 0) {
			t.Errorf("no comment, or one too many in\n%s", b.String())
		}
	}
}

// TestExpectedInstants: a job that runs has no end, and a job that waits neither a start nor an end.
func TestExpectedInstants(t *testing.T) {
	w := read(t, "fields: {id: id, submit: submit, start: start, end: end, run_time: run, cpus: cpus, state: state}\n",
		"id,submit,start,end,run,cpus,state\n1,1709280000,1709280060,1709290000,9940,4,R\n2,1709280000,1709280060,1709290000,9940,4,PD\n")
	running, waiting := w.Jobs.At(0), w.Jobs.At(1)
	if running.Recorded.State != hpc.Running || running.Recorded.Start == 0 || running.Recorded.End != 0 || running.RunTime != hpc.Unlimited {
		t.Errorf("a running job: %+v", running)
	}
	if waiting.Recorded.State != hpc.Pending || waiting.Recorded.Start != 0 || waiting.Recorded.End != 0 {
		t.Errorf("a waiting job: %+v", waiting)
	}
}

func checkJobs(t *testing.T, w *workload.Workload) {
	if w.Rows.Lost() != 0 || w.Rows.Read == 0 {
		t.Errorf("rows %+v, rules %v", w.Rows, w.Rules)
	}
	for _, job := range w.Jobs.All() {
		if job.Submit <= 0 || job.ID == "" || job.RunTime < 0 || job.CancelAfter < 0 || job.TimeLimit < 0 || job.MemPerNode < 0 || job.MemPerCPU < 0 || workload.CPUs(&job.Request) < 1 {
			t.Errorf("job %+v", job)
		}
	}
}

// FuzzRead reads tables with the built-in map that fits, or the proposed one.
func FuzzRead(f *testing.F) {
	for name, text := range dataSets {
		f.Add(name, text)
	}
	f.Add("", "JobID;User;Submit Time;Start Time;End Time;CPUs;Walltime Limit (min);Mem_GB;Colour\n7;17;01.03.2024 08:00:00;01.03.2024 08:01:00;01.03.2024 08:02:00;4;60;2;red\n")
	f.Fuzz(func(t *testing.T, name, text string) {
		m, err := NamedMap(name)
		if err != nil {
			var b strings.Builder
			if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "fuzz"); err != nil {
				return
			}
			if m, err = ParseMap([]byte(b.String()), "proposed"); err != nil {
				if !strings.Contains(b.String(), "# Missing: ") && !strings.Contains(b.String(), "values: ") {
					t.Errorf("%v in a proposal without a gap:\n%s", err, b.String())
				}
				return
			}
		}
		if strings.HasPrefix(text, "PAR1") {
			return // this would test the Parquet library, and is slow
		}
		if w, _, err := readWith(m, text, workload.ReadOptions{}); err == nil {
			checkJobs(t, w)
		}
	})
}

func FuzzParseMap(f *testing.F) {
	for _, name := range MapNames() {
		text, err := mapFiles.ReadFile("maps/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseMap(text, "m")
		if err != nil {
			return
		}
		if w, _, err := readWith(m, dataSets["helios"], workload.ReadOptions{}); err == nil {
			checkJobs(t, w)
		}
	})
}

// TestInert: tables written by rmreplay have a quote before texts that a spreadsheet would take for
// formulas. The reader removes it.
func TestInert(t *testing.T) {
	w := read(t, "fields: {id: job, user: who, name: name, submit: s, start: b, end: e, cpus: n}\n",
		"job,who,name,s,b,e,n\n7,'@ann,'=1+1,1709280000,1709280060,1709280120,4\n8,'bob',''=2,1709280000,1709280060,1709280120,4\n")
	jobs := w.Jobs.List()
	if len(jobs) != 2 || jobs[0].User != "@ann" || jobs[0].Name != "=1+1" || jobs[1].User != "'bob'" || jobs[1].Name != "'=2" {
		t.Errorf("%+v", jobs)
	}
}

// TestProposeConverted: for a table that `workload convert` writes, the proposed map is complete.
func TestProposeConverted(t *testing.T) {
	const text = "id,submit,user,group,account,partition,time_limit_s,min_nodes,tasks,cpus_per_task,run_time_s,recorded_start,recorded_end,recorded_state,recorded_processors\n" +
		"15,1996-09-30T10:38:01Z,ann,staff,,,53940,,4,,3477,1996-10-02T16:01:01Z,1996-10-02T16:58:58Z,COMPLETED,4\n"
	var b strings.Builder
	if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "jobs"); err != nil {
		t.Fatal(err)
	}
	w := read(t, b.String(), text)
	if w.Jobs.Len() != 1 || strings.Contains(b.String(), "# Missing") {
		t.Fatalf("%d jobs with\n%s", w.Jobs.Len(), b.String())
	}
	if j := w.Jobs.At(0); j.RunTime != 3477*time.Second || j.TimeLimit != 53940*time.Second || j.Recorded == nil || j.Recorded.Processors != 4 {
		t.Errorf("%+v with\n%s", j, b.String())
	}
}

// TestProposeWait: the map takes a column called queue for the wait if its values are waits, and for
// the partition if they are names or numbers of queues.
func TestProposeWait(t *testing.T) {
	const header = "id,user,submit_time,start_time,end_time,cpus,queue\n"
	for text, want := range map[string]string{
		header + "a,u,2023-05-17 11:00:40+00:00,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,96,18.0\nb,u,2023-05-17 11:00:40+00:00,,,384,\n": "wait",
		header + "a,u,2023-05-17 11:00:40,2023-05-17 11:00:58,2023-05-17 11:01:08,96,18\n":                                                           "wait",
		header + "a,u,2023-05-17 11:00:40,2023-05-17 11:00:58,2023-05-17 11:01:08,96,2\n":                                                            "partition",
		header + "a,u,2023-05-17 11:00:40,2023-05-17 11:00:58,2023-05-17 11:01:08,96,2.0\n":                                                          "partition",
		header + "a,u,2023-05-17 11:00:40,2023-05-17 11:00:40,2023-05-17 11:01:08,96,0\n":                                                            "partition",
		header + "a,u,2023-05-17 11:00:40,2023-05-17 11:00:58,2023-05-17 11:01:08,96,17.25\n":                                                        "",
		header + "a,u,2023-05-17 11:00:40,2023-05-17 11:00:58,2023-05-17 11:01:08,96,long\n":                                                         "partition",
	} {
		var b strings.Builder
		if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "x.csv"); err != nil {
			t.Fatal(err)
		}
		m, err := ParseMap([]byte(b.String()), "proposed")
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		for _, field := range []string{"wait", "partition"} {
			f := m.Fields[field]
			if got := f != nil && f.Column[0] == "queue"; got != (field == want) {
				t.Errorf("%squeue as %s: %v in\n%s", text, field, got, b.String())
			}
		}
	}
}

// TestProposeExit proposes no state for numbers that are not those of Slurm's states.
func TestProposeExit(t *testing.T) {
	for _, test := range []struct{ column, values, want string }{
		{"exit_status", "0 1", `exit_code: "exit_status"`},
		{"Exit_status", "0 271", `exit_code: "Exit_status"`},
		{"Exit Status", "1 -11", `exit_code: "Exit Status"`},
		{"exit_status", "COMPLETED FAILED", `state: "exit_status"`},
		{"status", "0 1", "#   status (0)"},
		{"JobStatus", "4 3", "#   JobStatus (4)"},
		{"state", "0 1", "#   state (0)"},
		{"state", "3 5", "state: {column: \"state\", unit: slurm} # guess: the numbers of Slurm's states"},
	} {
		values := strings.Fields(test.values)
		text := "id,submit,start,end,cpus," + test.column +
			"\n1,1709280493,1709281735,1709285145,64," + values[0] + "\n2,1709280500,1709281735,1709285145,64," + values[1] + "\n"
		var b strings.Builder
		if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "jobs"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), test.want) {
			t.Errorf("column %s with the values %s: got this map, want %s:\n%s", test.column, test.values, test.want, &b)
		}
	}
}

// TestProposeDurations: a unit in the name of a column says that it has durations.
func TestProposeDurations(t *testing.T) {
	for _, test := range []struct{ column, values, want string }{
		{"queue_ms", "1242000 1235000", "wait: {column: \"queue_ms\", unit: ms} # guess: the wait before the start"},
		{"queue_seconds", "1300 900", "wait: {column: \"queue_seconds\", unit: seconds} # guess: the wait before the start"},
		{"Queue (s)", "1300 900", "wait: {column: \"Queue (s)\", unit: seconds} # guess"},
		{"queue_s", "short long", "partition: \"queue_s\""},
		{"queue", "7 8", "partition: {column: \"queue\""},
		{"Requested Hours", "4 5", "time_limit: {column: \"Requested Hours\", unit: hours} # guess: the limit of the run time"},
		{"req_hours", "4 5", "time_limit: {column: \"req_hours\", unit: hours} # guess"},
		{"requested_min", "4 5", "time_limit: {column: \"requested_min\", unit: minutes} # guess"},
		{"max_duration_h", "4 5", "time_limit: {column: \"max_duration_h\", unit: hours} # guess"},
		{"h_rt", "7200 9000", "time_limit: {column: \"h_rt\", unit: seconds} # guess"},
		{"Wall limit (h:m:s)", "4:00:00 5:00:00", "time_limit: {column: \"Wall limit (h:m:s)\", unit: clock}"},
	} {
		values := strings.Fields(test.values)
		text := "id,qsub_time,start,end,cpus," + test.column +
			"\n1,1709280493,1709281735,1709285145,64," + values[0] + "\n2,1709280500,1709281735,1709285145,64," + values[1] + "\n"
		var b strings.Builder
		if _, err := Propose(&b, bufio.NewReaderSize(strings.NewReader(text), headLength), nil, 0, "jobs"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), test.want) || !strings.Contains(b.String(), `submit: {column: "qsub_time"`) {
			t.Errorf("column %s with the values %s: want %s in\n%s", test.column, test.values, test.want, &b)
		}
	}
}
