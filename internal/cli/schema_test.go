package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"rmreplay/internal/cli/console"
	"rmreplay/internal/hpc"
	"rmreplay/internal/metrics"
	"rmreplay/internal/run"
	"rmreplay/internal/workload"
)

// schema compiles a schema in docs.
func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	compiled, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "..", "docs", "schemas", name))
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// recordRuns writes two sets of five realizations of twelve jobs with different waits, and
// returns their directories.
func recordRuns(t *testing.T) (a, b string) {
	t.Helper()
	root := t.TempDir()
	start := hpc.Unix(1_700_000_000)
	for s, set := range []string{"a", "b"} {
		for k := range 5 {
			dir := filepath.Join(root, set, run.RealizationDir(k+1))
			w, err := run.Create(dir, run.Manifest{
				Engine: "sim", Policy: "easy", Seed: uint64(k), VirtualStart: start, Started: start.Std(),
				Cluster: run.Cluster{Nodes: 2, Processors: 20},
				Made:    []workload.MadeField{{Field: workload.FieldTimeLimit, Rule: "published", Draw: uint64(k % 3), Jobs: 12}},
			}, run.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 12 {
				wait := time.Duration((i*7+k*13+s*20)%50) * time.Second
				if err := recordJob(w, fmt.Sprint("job", i), "ada", start.Add(time.Duration(i)*time.Minute), wait); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Warn(run.Warning{Code: "note", Text: "a note"}); err != nil {
				t.Fatal(err)
			}
			err = w.Finish(run.StateComplete, func(m *run.Manifest) { m.VirtualEnd = start.Add(time.Hour) })
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return filepath.Join(root, "a"), filepath.Join(root, "b")
}

// recordReaction writes a run whose users reacted.
func recordReaction(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "reaction")
	start := hpc.Unix(1_700_000_000)
	w, err := run.Create(dir, run.Manifest{
		Engine: "sim", VirtualStart: start, Feedback: &run.Feedback{Model: "think-time", Sessions: "arrival:60m", Jitter: 5},
		Cluster: run.Cluster{Nodes: 2, Processors: 20},
	}, run.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := recordJob(w, fmt.Sprint("job", i), "ada", start.Add(time.Duration(i)*time.Hour), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(run.StateComplete, nil); err != nil {
		t.Fatal(err)
	}
	return dir
}

// recordIO writes two sets of five realizations of twelve jobs that share a file system.
func recordIO(t *testing.T) (a, b string) {
	t.Helper()
	root := t.TempDir()
	start := hpc.Unix(1_700_000_000)
	for s, set := range []string{"a", "b"} {
		for k := range 5 {
			dir := filepath.Join(root, set, run.RealizationDir(k+1))
			w, err := run.Create(dir, run.Manifest{
				Engine: "sim", Policy: "io-aware", Seed: uint64(k), VirtualStart: start, Started: start.Std(), Workload: run.Source{SHA256: "w"},
				Cluster: run.Cluster{Nodes: 2, Processors: 20}, FileSystems: []run.FileSystem{{Name: "lustre", Bandwidth: 2000, Limit: 1500}}, IOEstimate: "perfect",
			}, run.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 12 {
				job := &hpc.Job{ID: fmt.Sprint("job", i), Submit: start}
				job.User, job.RunTime, job.IO = "ada", time.Minute, []hpc.Phase{{FileSystem: "lustre", Rate: 300}}
				if err := recordRequest(w, job, time.Duration((i*7+k*13+s*20)%50)*time.Second); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Finish(run.StateComplete, func(m *run.Manifest) { m.VirtualEnd = start.Add(time.Hour) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	return filepath.Join(root, "a"), filepath.Join(root, "b")
}

// TestSchemas validates the commands' JSON against the documented schemas. The schemas allow no
// key that they do not describe.
func TestSchemas(t *testing.T) {
	a, b := recordRuns(t)
	reaction := recordReaction(t)
	ioA, ioB := recordIO(t)
	shared := filepath.Join(ioA, run.RealizationDir(1))
	one, other := filepath.Join(a, run.RealizationDir(1)), filepath.Join(b, run.RealizationDir(1))
	const by = "--by=partition,account,user,qos,size"
	for _, c := range []struct {
		schema string
		args   []string
	}{
		{"metrics.schema.json", []string{"metrics", one, "--json"}},
		{"metrics.schema.json", []string{"metrics", one, "--json", by}},
		{"metrics.schema.json", []string{"metrics", reaction, "--json"}},
		{"metrics.schema.json", []string{"metrics", one, "--json", "--fair-start=easy"}},
		{"metrics.schema.json", []string{"metrics", shared, "--json"}},
		{"compare.schema.json", []string{"compare", one, reaction, "--json"}},
		{"compare.schema.json", []string{"compare", ioA, ioB, "--json"}},
		{"compare.schema.json", []string{"compare", one, shared, "--json"}},
		{"compare.schema.json", []string{"compare", one, other, "--json"}},
		{"compare.schema.json", []string{"compare", a, b, "--json", by, "--jobs"}},
		{"compare.schema.json", []string{"compare", a, b, other, "--json"}},
		{"compare.schema.json", []string{"compare", a, b, "--json", "--fair-start=own"}},
	} {
		t.Run(strings.Join(c.args[:1], " ")+c.args[len(c.args)-1], func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := execute(t.Context(), c.args, &out, &errs); code != console.ExitOK {
				t.Fatalf("exit status %d: %s", code, errs.String())
			}
			validate(t, c.schema, out.Bytes())
		})
	}
}

// validate validates a JSON object against a schema, and checks that the schema refuses an unknown
// key.
func validate(t *testing.T, name string, text []byte) {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	s := schema(t, name)
	if err := s.Validate(value); err != nil {
		t.Errorf("%v", err)
	}
	value.(map[string]any)["surprise"] = true
	if s.Validate(value) == nil {
		t.Error("a key that is not described passes")
	}
}

// TestSweepSchema validates the table of a sweep with complete, failed and missing runs. The
// schema has every metric that can be in the table.
func TestSweepSchema(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"work.jsonl": `{"rmreplay_trace":1,"epoch":"2024-03-05T00:00:00Z"}
{"type":"job","id":"a","submit":0,"user":"ada","tasks":2,"run_time_s":600,"time_limit_s":600}
`,
		"experiment.yaml": `
workload: work.jsonl
seeds: 2
sim:
  machines: [{procs: 4}, {name: broken, cluster: nowhere}]
`})
	const made, failed = `"state": "complete"`, `"state": "failed"`
	for _, c := range []struct {
		option string
		has    []string
	}{{"--collect", []string{`"state": "not run"`, failed}}, {"--quiet", []string{made, failed, `"jobs": 1`}}} {
		out, _ := runHere(t, dir, 1, "sweep", "experiment.yaml", "-o", "out", "--json", c.option)
		for _, text := range c.has {
			if !strings.Contains(out, text) {
				t.Errorf("%s: no %s in\n%s", c.option, text, out)
			}
		}
		validate(t, "sweep.schema.json", []byte(out))
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "schemas", "sweep.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range metrics.Figures {
		if !strings.Contains(string(text), fmt.Sprintf("%q", f.Key)) {
			t.Errorf("sweep.schema.json does not have %s", f.Key)
		}
	}
	for _, f := range metrics.FeedbackFigures {
		if !strings.Contains(string(text), fmt.Sprintf("%q", f.Key)) {
			t.Errorf("sweep.schema.json does not have %s", f.Key)
		}
	}
}

// TestSchemasDescribe checks that every key has a description, except self-explanatory ones.
func TestSchemasDescribe(t *testing.T) {
	for _, name := range []string{"metrics.schema.json", "compare.schema.json", "sweep.schema.json", "tune.schema.json", "predict-evaluate.schema.json", "predict-compare.schema.json"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "schemas", name))
		if err != nil {
			t.Fatal(err)
		}
		var root map[string]any
		if err := json.Unmarshal(text, &root); err != nil {
			t.Fatal(err)
		}
		if root["description"] == nil || root["additionalProperties"] != false {
			t.Errorf("%s: no description, or open to any key", name)
		}
		for key, property := range root["properties"].(map[string]any) {
			p := property.(map[string]any)
			if p["description"] == nil && p["$ref"] == nil && p["type"] != "array" {
				t.Errorf("%s: %s is not described", name, key)
			}
		}
	}
}
