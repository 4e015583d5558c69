package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rmreplay/internal/accounting/service"
	"rmreplay/internal/experiment"
	"rmreplay/internal/formats"
	"rmreplay/internal/metrics"
	"rmreplay/internal/waits"
	"rmreplay/internal/waits/waitstest"
	"rmreplay/internal/workload/build"
)

// randomSacct writes sacct's output for jobs with random eligible times and starts.
func randomSacct(r *rand.Rand, cluster string, jobs int) string {
	var b strings.Builder
	b.WriteString("JobID|JobIDRaw|JobName|User|UID|GID|Account|Partition|QOS|Submit|Eligible|Start|End|State|ExitCode|Timelimit|AllocCPUS|NNodes|ReqTRES|AllocTRES|NodeList|Cluster\n")
	begin := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	text := func(t time.Time) string { return t.Format("2006-01-02T15:04:05") }
	for i := 1; i <= jobs; i++ {
		submit := begin.Add(time.Duration(r.IntN(86400)) * time.Second)
		eligible := submit
		if r.IntN(3) == 0 {
			eligible = submit.Add(time.Duration(r.IntN(7200)) * time.Second)
		}
		start := eligible.Add(time.Duration(r.IntN(9000)) * time.Second)
		end := start.Add(time.Duration(1+r.IntN(3600)) * time.Second)
		fmt.Fprintf(&b, "%d|%d|j|u%d|1000|100|physics|%s|normal|%s|%s|%s|%s|COMPLETED|0:0|01:30:00|4|1|cpu=4,node=1|cpu=4,node=1|n%d|%s\n",
			i, i, r.IntN(4), []string{"batch", "gpu"}[r.IntN(2)], text(submit), text(eligible), text(start), text(end), 1+r.IntN(8), cluster)
	}
	return b.String()
}

// TestOneDecompositionEverywhere checks that the dashboards and the search API show the same waits
// as metrics, jobs, explain and compare, for a simulated run, a run of the model of Slurm, and
// random records of sacct, in SWF and in CSV. If the same jobs are imported from accounting
// records, they must have the same waits, with unknown parts.
func TestOneDecompositionEverywhere(t *testing.T) {
	ctx, scratch := context.Background(), t.TempDir()
	sources := map[string]string{"run": filepath.Join(scratch, "run")}
	simulated(t, sources["run"], "")
	sources["model"] = filepath.Join(scratch, "model") // its record has the reasons of jobs as events, like a replay's
	simulated(t, sources["model"], experiment.SlurmPolicy)
	sources["window"] = filepath.Join(scratch, "window") // with jobs that are running at the beginning
	windowed(t, sources["window"])
	sources["preempted"] = filepath.Join(scratch, "preempted") // with jobs that have several runs
	preempting(t, sources["preempted"])
	for seed := range uint64(6) {
		text := filepath.Join(scratch, fmt.Sprintf("%d.sacct", seed))
		if err := os.WriteFile(text, []byte(randomSacct(rand.New(rand.NewPCG(seed, 1)), fmt.Sprintf("sacct%d", seed), 150)), 0o600); err != nil {
			t.Fatal(err)
		}
		built, err := build.From(ctx, build.Auto, text, build.Options{})
		if err != nil {
			t.Fatal(err)
		}
		format := []string{"trace", "swf", "csv"}[seed%3]
		var b bytes.Buffer
		if _, err := formats.Write(&b, built.Workload, format); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("%s%d", format, seed)
		sources[name] = filepath.Join(scratch, name+"."+format)
		if err := os.WriteFile(sources[name], b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if format == "trace" {
			sources["sacct"+fmt.Sprint(seed)] = text
		}
	}
	data := filepath.Join(scratch, "data")
	for name, path := range sources {
		if _, err := service.New().Import(ctx, data, service.Records{Sources: []string{path}, From: string(build.Auto), ClusterName: name}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	address, _ := listening(t, service.Serve{Data: data})
	for name, path := range sources {
		of := path
		if text, ok := strings.CutPrefix(name, "sacct"); ok {
			of = sources["trace"+text]
		}
		waitstest.Check(t, of)
		r, err := formats.OpenRun(of)
		if err != nil {
			t.Fatal(err)
		}
		want, err := metrics.FromRun(r, metrics.Options{}, metrics.ByPartition)
		if err != nil {
			t.Fatal(err)
		}
		checkPages(t, "http://"+address, name, want, of == path)
	}
}

// near compares two means in seconds. The store has whole seconds.
func near(a, b float64) bool { return math.Abs(a-b) <= 0.5 || math.IsNaN(a) && math.IsNaN(b) }

// checkPages compares a cluster's waits with metrics. parts says whether the store knows the parts
// of the waits.
func checkPages(t *testing.T, address, cluster string, want *metrics.Summary, parts bool) {
	t.Helper()
	panel := func(name string) (rows []map[string]any) {
		t.Helper()
		var answer struct {
			Columns []struct{ Name string }
			Rows    [][]any
		}
		text := body(t, address+"/_ui/api/v1/panels/"+strings.Replace(name, "&", "?", 1)+map[bool]string{true: "&", false: "?"}[strings.Contains(name, "&")]+
			"last=all&rows=1000&"+url.Values{"f": {"cluster=" + cluster}}.Encode(), 200)
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			t.Fatal(err)
		}
		for _, row := range answer.Rows {
			named := map[string]any{}
			for i, c := range answer.Columns {
				named[c.Name] = row[i]
			}
			rows = append(rows, named)
		}
		return rows
	}
	number := func(v any) float64 {
		if n, ok := v.(float64); ok {
			return n
		}
		return math.NaN()
	}
	summary := panel("summary")[0]
	if !near(number(summary["wait"]), float64(want.Wait.Mean)) || !near(number(summary["wait_since_eligible"]), float64(want.EligibleWait.Mean)) {
		t.Errorf("%s: the pages have mean waits of %v s and %v s since eligible; metrics %v and %v", cluster, summary["wait"],
			summary["wait_since_eligible"], want.Wait.Mean, want.EligibleWait.Mean)
	}
	if !parts {
		return
	}
	checkRuns(t, cluster, want, panel)
	sums := map[string]float64{}
	for _, row := range panel("reasons") {
		sums[row["part"].(string)] = number(row["waited"]) * 3600
	}
	for _, p := range want.WaitParts {
		if math.Abs(sums[p.Part.Words()]-float64(p.Seconds)) > 0.5*float64(want.Waited) || sums[p.Part.Words()] == 0 && p.Seconds >= 1 {
			t.Errorf("%s: the pages have %v s of %s, metrics %v", cluster, sums[p.Part.Words()], p.Part, p.Seconds)
		}
		searched := searchMean(t, address, cluster, "wait_"+string(p.Part)+"_s")
		if !near(searched, float64(want.MeanPart(p.Part))) {
			t.Errorf("%s: searches have a mean of %v s of %s, metrics %v", cluster, searched, p.Part, want.MeanPart(p.Part))
		}
	}
	for field, mean := range map[string]metrics.Float{"wait_s": want.Wait.Mean, "@queue_wait": want.EligibleWait.Mean} {
		if got := searchMean(t, address, cluster, field); !near(got, float64(mean)) {
			t.Errorf("%s: searches have %v s for %s, metrics %v", cluster, got, field, mean)
		}
	}
	groups, top := map[string]map[string]any{}, map[string]map[string]any{}
	for _, row := range panel("partitions") {
		top[row["partition"].(string)] = row
	}
	for _, row := range panel("groups") {
		groups[row["partition"].(string)] = row
	}
	for _, g := range want.Groups[metrics.ByPartition] {
		row := groups[g.Name]
		for _, row := range []map[string]any{row, top[g.Name]} {
			if !near(number(row["wait"]), float64(g.Wait.Mean)) || !near(number(row["wait_since_eligible"]), float64(g.EligibleWait.Mean)) {
				t.Errorf("%s: partition %s: %v, metrics %v and %v", cluster, g.Name, row, g.Wait.Mean, g.EligibleWait.Mean)
			}
		}
		for _, p := range g.WaitParts {
			if share := number(row["wait_"+string(p.Part)]); math.Abs(share-100*float64(p.Share)) > 0.5 && p.Part != waits.Unknown {
				t.Errorf("%s: partition %s: %v %% of %s, metrics %v", cluster, g.Name, share, p.Part, p.Share)
			}
		}
	}
}

// checkRuns compares panels about lost runs with metrics: each job counts once, but resources of
// all runs are added up.
func checkRuns(t *testing.T, cluster string, want *metrics.Summary, panel func(name string) []map[string]any) {
	t.Helper()
	number := func(v any) float64 { n, _ := v.(float64); return n }
	sum := func(name string, columns ...string) (sum float64) {
		for _, row := range panel(name) {
			for column, v := range row {
				if len(columns) == 0 || slices.Contains(columns, column) { // texts count as 0
					sum += number(v)
				}
			}
		}
		return sum
	}
	held, started := 0.0, want.Started
	for state, n := range want.JobsByState {
		held += float64(want.HeldByState[state]) / 3600
		if !state.Ended() {
			started -= n
		}
		if state.Ended() && sum("jobs", string(state)) != float64(n) {
			t.Errorf("%s: the pages have %v jobs %s, metrics %d", cluster, sum("jobs", string(state)), state, n)
		}
	}
	summary := panel("summary")[0]
	for what, both := range map[string][2]float64{
		"jobs": {number(summary["jobs"]), float64(want.Jobs)}, "jobs of partitions": {sum("partitions", "jobs"), float64(want.Jobs)},
		"jobs with exit codes": {sum("exits"), float64(started)},
		"jobs with run times":  {sum("runs", "jobs"), float64(started)}, "waits": {sum("waits", "jobs"), float64(want.Waited)},
		"submissions": {sum("week", "jobs"), float64(want.Jobs)}, "shares": {sum("shares", "jobs"), float64(want.Jobs)},
	} {
		if both[0] != both[1] {
			t.Errorf("%s: %s: the pages have %v, metrics %v", cluster, what, both[0], both[1])
		}
	}
	unused := float64(want.UnusedLimitProcessorSeconds) / 3600
	for what, both := range map[string][2]float64{
		"CPU hours": {number(summary["cpu_hours"]), held}, "CPU hours by state": {sum("waste", "completed", "failed", "other"), held},
		"CPU hours of partitions": {sum("partitions", "cpu_hours"), held}, "unused hours": {number(summary["unused_cpu_hours"]), unused},
	} {
		if math.Abs(both[0]-both[1]) > 0.002*both[1]+0.1 {
			t.Errorf("%s: %s: the pages have %v, metrics %v", cluster, what, both[0], both[1])
		}
	}
	if table := panel("table&f=lost=1"); len(table) != want.Requeues {
		t.Errorf("%s: the table has %d lost runs, metrics %d", cluster, len(table), want.Requeues)
	}
	if cluster == "preempted" && want.Requeues < 10 {
		t.Errorf("%d requeues are no test of them", want.Requeues)
	}
}

// searchMean returns the mean of a field over a cluster's jobs from the search API; NaN if no job
// has the field.
func searchMean(t *testing.T, address, cluster, field string) float64 {
	t.Helper()
	query := fmt.Sprintf(`{"size":0,"query":{"term":{"cluster":%q}},"aggs":{"m":{"avg":{"field":%q}}}}`, cluster, field)
	var answer struct {
		Aggregations struct{ M struct{ Value *float64 } }
	}
	response, err := http.Post(address+"/_search", "application/json", strings.NewReader(query))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", query, response.Status, err)
	}
	if answer.Aggregations.M.Value == nil {
		return math.NaN()
	}
	return *answer.Aggregations.M.Value
}
