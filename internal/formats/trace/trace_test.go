package trace

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"rmreplay/internal/hpc"
)

// drawValue sets every settable field of v at random, by its type; so a field that
// is added to hpc.Job is part of the property without a line here.
func drawValue(t *rapid.T, label string, v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *hpc.Time:
		*x = hpc.Time(rapid.Int64Range(1, 4e18).Draw(t, label))
		return
	case *time.Duration:
		*x = time.Duration(rapid.Int64Range(0, 1e17).Draw(t, label))
		if rapid.IntRange(0, 4).Draw(t, label) == 0 {
			*x = hpc.Unlimited
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			drawValue(t, label+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, label) {
			v.Set(reflect.New(v.Type().Elem()))
			drawValue(t, label, v.Elem())
		}
	case reflect.Slice:
		for range rapid.IntRange(0, 3).Draw(t, label) {
			element := reflect.New(v.Type().Elem()).Elem()
			drawValue(t, label, element)
			v.Set(reflect.Append(v, element))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 3).Draw(t, label) {
			key, element := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			drawValue(t, label, key)
			drawValue(t, label, element)
			v.SetMapIndex(key, element)
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, label))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, label))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(rapid.Int32().Draw(t, label)))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.IntRange(0, 9).Draw(t, label)))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, label)))
	default:
		t.Fatalf("%s: no generator for %s", label, v.Type())
	}
}

// drawSWF gives the kept numbers different fields, and what they derive from.
func drawSWF(job *hpc.Job, epoch hpc.Time) {
	if job.SWF == nil {
		return
	}
	derived := newSWFNames().record(job, epoch)
	for i := range job.SWF.Kept {
		job.SWF.Kept[i].Field, job.SWF.Kept[i].Derived = i+1, derived[i]
	}
}

func TestTraceRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := &Workload{Epoch: hpc.Time(rapid.Int64Range(0, 4e18).Draw(t, "epoch")), Source: "any"}
		drawValue(t, "machine", reflect.ValueOf(&want.MachineProcessors).Elem())
		drawValue(t, "header", reflect.ValueOf(&want.Header).Elem())
		drawValue(t, "unusable", reflect.ValueOf(&want.Unusable).Elem())
		for range rapid.IntRange(1, 3).Draw(t, "jobs") {
			job := &hpc.Job{}
			drawValue(t, "job", reflect.ValueOf(job).Elem())
			job.ID = "j" + job.ID
			drawSWF(job, want.Epoch)
			want.Jobs.Append(job)
		}
		drawValue(t, "users", reflect.ValueOf(&want.Users).Elem())
		for i := range want.Users {
			want.Users[i].Name = "u" + want.Users[i].Name
		}
		drawValue(t, "nodes", reflect.ValueOf(&want.NodeEvents).Elem())
		for i := range want.NodeEvents {
			want.NodeEvents[i].Nodes, want.NodeEvents[i].State = "n1", "drain"
		}
		drawValue(t, "reservations", reflect.ValueOf(&want.Reservations).Elem())
		for i := range want.Reservations {
			want.Reservations[i].Name, want.Reservations[i].Action = "r", "create"
		}
		drawValue(t, "actions", reflect.ValueOf(&want.Actions).Elem())
		for i := range want.Actions {
			want.Actions[i] = hpc.Action{At: want.Actions[i].At, Run: []string{"scontrol", want.Actions[i].Shell}}
		}
		want.Start = hpc.Time(rapid.Int64Range(0, 4e18).Draw(t, "start"))
		want.Usage = []hpc.Usage{{Account: "a", User: "u", Raw: rapid.Float64Range(0, 1e12).Draw(t, "usage")}}
		want.sort()
		want.Rules = map[string]int{"some_rule": 3}

		var text bytes.Buffer
		if err := WriteTrace(&text, want); err != nil {
			t.Fatal(err)
		}
		got, err := ReadTrace(bytes.NewReader(text.Bytes()), "trace")
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Transformer("jobs", func(l Jobs) []*hpc.Job { return l.List() })); diff != "" {
			t.Fatalf("(-want +got)\n%s\n%s", diff, text.String())
		}
	})
}

const header = `{"rmreplay_trace":1,"epoch":"2024-01-01T00:00:00Z","source":"test"}` + "\n"

func TestReadTrace(t *testing.T) {
	w, err := ReadTrace(strings.NewReader(header+`
{"type":"job","id":"b","submit":60.25,"run_time_s":"unlimited","time_limit_s":3600,"mem_per_node_mib":-1,"requeue":false}
{"type":"job","id":"a","submit":"2024-01-01T00:00:30Z","run_time_s":0,"recorded":{"start":90,"state":"FAILED"}}
{"type":"node","at":10,"nodes":"n[1-2]","state":"down"}
{"type":"reservation","at":0,"action":"create","name":"r","start":3600,"duration_s":60}
{"type":"user","name":"u","uid":0,"group":"g","gid":1}
{"type":"action","at":20,"shell":"date"}
{"type":"action","at":10,"slurm_conf":"later.conf"}
{"type":"action","at":15,"run":["scontrol","update","partitionname=a b"]}
{"type":"usage","account":"acc","user":"u","raw_s":1.5e6}
`), "t")
	if err != nil {
		t.Fatal(err)
	}
	epoch := DefaultEpoch
	want := &Workload{
		Epoch: epoch, Source: "test", Rules: map[string]int{RuleOutOfOrder: 1},
		Jobs: JobsOf([]*hpc.Job{
			{ID: "a", Submit: epoch + 30*hpc.Second, Recorded: &hpc.Recorded{Start: epoch + 90*hpc.Second, State: hpc.Failed}},
			{ID: "b", Submit: epoch.Add(60250 * time.Millisecond), Request: hpc.Request{TimeLimit: time.Hour, MemPerNode: hpc.AllMemory, Requeue: new(false)}, Behaviour: hpc.Behaviour{RunTime: hpc.Unlimited}},
		}...),
		NodeEvents:   []hpc.NodeEvent{{At: epoch + 10*hpc.Second, Nodes: "n[1-2]", State: "down"}},
		Reservations: []hpc.ReservationEvent{{At: epoch, Action: "create", Reservation: hpc.Reservation{Name: "r", Start: epoch + 3600*hpc.Second, Duration: time.Minute}}},
		Users:        []hpc.User{{Name: "u", Group: "g", GID: 1}},
		Actions: []hpc.Action{
			{At: epoch + 10*hpc.Second, SlurmConf: "later.conf"},
			{At: epoch + 15*hpc.Second, Run: []string{"scontrol", "update", "partitionname=a b"}},
			{At: epoch + 20*hpc.Second, Shell: "date"},
		},
		Usage: []hpc.Usage{{Account: "acc", User: "u", Raw: 1.5e6}},
	}
	if diff := cmp.Diff(want, w); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestReadTraceErrors(t *testing.T) {
	const job = `{"type":"job","id":"a","submit":0,"run_time_s":1`
	tests := []struct{ text, want string }{
		{"", "reading trace: t: empty"},
		{header + `{"type":"action","at":1}`, "t:2: what to do: want exactly one of run, shell and slurm_conf"},
		{header + `{"type":"action","at":1,"shell":"a","slurm_conf":"b"}`, "t:2: what to do: want exactly one of"},
		{header + `{"type":"action","shell":"a"}`, "t:2: at: missing"},
		{header + `{"type":"usage","raw_s":1}`, "t:2: account: missing"},
		{header + `{"type":"usage","account":"a","raw_s":-1}`, "t:2: raw_s: negative"},
		{header, "reading trace: t: no job in it"},
		{`{"rmreplay_trace":2}`, "reading trace: t:1: header: rmreplay_trace 2: this program reads version 1"},
		{`{"type":"job"}`, "t:1: header: type: not a field"},
		{`{"rmreplay_trace":1,"epoch":5}`, "header: epoch: not a time"},
		{header + job + `,"runtime":4}`, "reading trace: t:2: runtime: not a field of this record"},
		{header + job + `,"tasks":"4"}`, "t:2: tasks: is a string (want int)"},
		{header + job, "t:2: not JSON"},
		{header + job + `}{}`, "not JSON"},
		{header + `{"type":"job","id":"a","submit":0}`, "run_time_s: missing"},
		{header + `{"type":"job","id":"a","submit":0,"run_time_s":null}`, "run_time_s: missing"},
		{header + `{"type":"job","id":"a","submit":0,"run_time_s":-1}`, "run_time_s: negative"},
		{header + `{"type":"job","id":"a","submit":0,"run_time_s":"1h"}`, `t:2: run_time_s: "1h": not a duration (want seconds or "unlimited")`},
		{header + job + `,"time_limit_s":"1h"}`, `t:2: time_limit_s: "1h": not a duration`},
		{header + job + `,"recorded":{"start":"noon"}}`, `t:2: recorded.start: "noon": not a time`},
		{header + job + `,"task_run_times_s":{"1":"x"}}`, `t:2: task_run_times_s: "x": not a duration`},
		{header + job + `,"Tasks":4}`, "t:2: Tasks: not a field of this record (want it in lower case)"},
		{header + job + `,"recorded":{"NODES":"n1"}}`, "t:2: NODES: not a field of this record"},
		{header + job + `,"tasks":4,"tasks":5}`, "t:2: tasks: twice in one record"},
		{header + job + `,"tasks":4,"task\u0073":5}`, "t:2: tasks: twice in one record"},
		{header + job + `,"name":"a{\"tasks\":1,}\\","tasks":4,"comment":"]","tasks":5}`, "t:2: tasks: twice in one record"},
		{header + job + `,"recorded":{"end":5, "nodes":"n1" , "end":6}}`, "t:2: end: twice in one record"},
		{header + job + `,"task_run_times_s":{"1":5,"2":5,"1":6}}`, "t:2: 1: twice in one record"},
		{header + `{"type":"job","type":"user","name":"u"}`, "t:2: type: twice in one record"},
		{`{"rmreplay_trace":1,"Epoch":"2024-01-01T00:00:00Z"}`, "t:1: header: Epoch: not a field"},
		{header + `{"type":"job","id":"a","submit":0,"run_time_s":1e3}`, `1e3: not a duration`},
		{header + `{"type":"job","id":"a","run_time_s":1}`, "submit: missing"},
		{header + `{"type":"job","id":"a","submit":"noon","run_time_s":1}`, `t:2: submit: "noon": not a time (want "2024-03-01T08:00:00Z", or seconds from the epoch)`},
		{header + `{"type":"job","id":"a","submit":"1709596810","run_time_s":1}`, `t:2: submit: "1709596810": not a time`},
		{header + `{"type":"job","id":"a","submit":"9999-12-31T00:00:00Z","run_time_s":1}`, "not a time"},
		{header + `{"type":"job","submit":0,"run_time_s":1}`, "id: missing"},
		{header + `{"type":"jobs"}`, "type jobs: not known (want job, user, node, reservation, action, usage or unusable)"},
		{header + `{"id":"a"}`, "a record without a type"},
		{header + `{"type":"node","at":1,"nodes":"n1","state":"off"}`, `state "off": not known`},
		{header + `{"type":"node","nodes":"n1","state":"down"}`, "at: missing"},
		{header + `{"type":"reservation","at":1,"name":"r","action":"make"}`, `action "make": not known`},
		{header + `{"type":"user","uid":5}`, "name: missing"},
		{header + "[1]", "not JSON"},
		{header + "x", "not JSON"},
	}
	for _, tt := range tests {
		_, err := ReadTrace(strings.NewReader(tt.text), "t")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.text, err, tt.want)
		}
	}
}

// TestReadTraceEpoch: what relative times count from, and when a workload begins, where the
// header does not say.
func TestReadTraceEpoch(t *testing.T) {
	const (
		relative = `{"type":"job","id":"a","submit":10,"run_time_s":1}` + "\n"
		absolute = `{"type":"job","id":"b","submit":"2024-03-05T00:00:10.5Z","run_time_s":1}` + "\n"
	)
	for _, test := range []struct{ text, epoch, submit string }{
		{`{"rmreplay_trace":1}` + "\n" + relative, "2024-01-01T00:00:00Z", "2024-01-01T00:00:10Z"},
		{`{"rmreplay_trace":1}` + "\n" + absolute, "2024-03-05T00:00:10Z", "2024-03-05T00:00:10.5Z"},
		{`{"rmreplay_trace":1}` + "\n" + absolute + relative, "2024-01-01T00:00:00Z", "2024-01-01T00:00:10Z"},
		{`{"rmreplay_trace":1}` + "\n" + absolute + `{"type":"node","at":"2024-03-04T00:00:00Z","nodes":"n1","state":"down"}`,
			"2024-03-04T00:00:00Z", "2024-03-05T00:00:10.5Z"},
		{`{"rmreplay_trace":1,"epoch":"1970-01-01T00:00:00Z"}` + "\n" + relative, "unset", "1970-01-01T00:00:10Z"},
		{`{"rmreplay_trace":1,"epoch":"2023-01-01T00:00:00Z"}` + "\n" + absolute, "2023-01-01T00:00:00Z", "2024-03-05T00:00:10.5Z"},
	} {
		w, err := ReadTrace(strings.NewReader(test.text), "t")
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if w.Epoch.String() != test.epoch || w.Jobs.Submit(0).String() != test.submit {
			t.Errorf("%s: epoch %s, submitted at %s; want %s and %s", test.text, w.Epoch, w.Jobs.Submit(0), test.epoch, test.submit)
		}
	}
}

func TestNanos(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 1: "0.000000001", -1: "-0.000000001", 1500000000: "1.5", -61e9: "-61", 1<<62 + 1: "4611686018.427387905"} {
		got := string(appendNanos(nil, n))
		back, err := parseNanos(got)
		if got != want || back != n || err != nil {
			t.Errorf("%d: %s, and back %d, %v; want %s", n, got, back, err, want)
		}
	}
	for _, s := range []string{"", "-", ".5", "5.", "1.0000000001", "99999999999", "0x1", "1_0", "+1", "--1"} {
		if n, err := parseNanos(s); err == nil {
			t.Errorf("%q: %d, want an error", s, n)
		}
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add(header + `{"type":"job","id":"a","submit":0,"run_time_s":1,"task_run_times_s":{"1":2.5}}`)
	f.Add(header + `{"type":"node","at":10,"nodes":"n1","state":"down"}` + "\n" + `{"type":"job","id":"a","submit":"2024-01-01","run_time_s":"unlimited"}`)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ReadTrace(strings.NewReader(text), "fuzz")
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteTrace(&out, w); err != nil {
			t.Fatal(err)
		}
		Validate(w, Cluster{})
		NewInfo(w)
	})
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	trace := header + `{"type":"job","id":"a","submit":0,"run_time_s":1}`
	events := "# UB\n\n-dt 0 -e submit_batch_job | -J a"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(events)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"trace": trace, "events": events, "packed": packed.String()} {
		w, err := Open(write(name, text))
		if err != nil || w.Jobs.Len() != 1 || w.Jobs.At(0).ID != "a" {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "plain"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("run/manifest.json", "{}")
	for _, tt := range []struct{ path, want string }{
		{filepath.Join(dir, "none"), "reading workload: stat"},
		{filepath.Join(dir, "plain"), "a directory without manifest.json"},
		{filepath.Join(dir, "run"), "not supported yet: a run as a workload"},
		{write("empty", ""), "reading workload: empty: empty"},
		{write("comments", "# only\n"), "reading events: comments: no job in it"},
		{write("swf", "; Version: 2.2\n"), "reading SWF: swf: no usable job in it"},
		{write("swf2", "1 0 1 2 -1 -1 -1 -1 60 -1 1 12 12 -1 -1 -1 -1 -1\n"), "no usable job in it (swf_no_processors 1)"},
		{write("sacct", "Account|JobIDRaw|State\n"), "reading sacct: sacct:1: no column Submit, Start, End, ReqCPUS"},
		{write("text", "hello\n"), "format not known"},
		{write("badgzip", "\x1f\x8b\x00"), "badgzip"},
		{write("cutgzip", packed.String()[:packed.Len()-9]), "cutgzip"},
	} {
		_, err := Open(tt.path)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.path, err, tt.want)
		}
	}
}

func TestSave(t *testing.T) {
	w := readEvents(t, "-dt 0 -e submit_batch_job | -J a")
	for _, name := range []string{"w.jsonl", "w.jsonl.gz"} {
		path := filepath.Join(t.TempDir(), name)
		if err := Save(path, w); err != nil {
			t.Fatal(err)
		}
		got, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	if err := Save(filepath.Join(t.TempDir(), "no", "such"), w); err == nil {
		t.Error("saved into a directory that does not exist")
	}
}

func TestParseUsers(t *testing.T) {
	got, err := ParseUsers(strings.NewReader("# people\r\nadmin:1000:admin:1000 # me\r\n\n user2 : 1002 : g : 7\n"), "users")
	want := []hpc.User{{Name: "admin", UID: 1000, Group: "admin", GID: 1000}, {Name: "user2", UID: 1002, Group: "g", GID: 7}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	for text, want := range map[string]string{
		"a:1:g":            "users:1: not a user (want name:uid:group:gid)",
		"a:x:g:1":          `uid "x": not a number`,
		"a:1:g:4294967296": `gid "4294967296": not a number`,
		":1:g:1":           "empty name",
		"a:1:g:1\na:2:g:1": "users:2: user a is there twice",
	} {
		if _, err := ParseUsers(strings.NewReader(text), "users"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestParsePasswd(t *testing.T) {
	got, err := ParsePasswd(
		strings.NewReader("root:x:0:0:root:/root:/bin/bash\n# x\nbob:x:5:99:B:/home/bob:/bin/sh\nbob:x:6:0::\n+::::::\n"),
		strings.NewReader("root:x:0:\nstaff:x:50:bob\n"))
	want := []hpc.User{{Name: "root", Group: "root"}, {Name: "bob", UID: 5, Group: "99", GID: 99}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if _, err := ParsePasswd(strings.NewReader("root:x"), strings.NewReader("")); err == nil || !strings.Contains(err.Error(), "reading users: passwd:1: not a passwd entry") {
		t.Error(err)
	}
	if _, err := ParsePasswd(strings.NewReader(""), strings.NewReader("g:x:y:")); err == nil || !strings.Contains(err.Error(), `group:1: gid "y"`) {
		t.Error(err)
	}
}

func FuzzParseUsers(f *testing.F) {
	f.Add("admin:1000:admin:1000\n#x\na:1:b:2")
	f.Fuzz(func(t *testing.T, text string) {
		users, err := ParseUsers(strings.NewReader(text), "users")
		if err == nil {
			for _, u := range users {
				if u.Name == "" || u.Group == "" {
					t.Fatalf("%+v", u)
				}
			}
		}
		_, _ = ParsePasswd(strings.NewReader(text), strings.NewReader(text))
	})
}
