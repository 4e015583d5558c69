package service

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/records"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/compare"
	"rmreplay/internal/finished"
	"rmreplay/internal/formats"
	"rmreplay/internal/output"
	"rmreplay/internal/quantity"
	"rmreplay/internal/report"
	"rmreplay/internal/run"
	"rmreplay/internal/slurmdb"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/build"
)

const (
	batchDocuments = 5000     // highest number of documents in a bulk request
	batchBytes     = 16 << 20 // size at which a bulk request is sent
)

// sender sends documents to the server in bulk requests.
type sender struct {
	ctx    context.Context
	c      *client
	source store.Source
	body   bytes.Buffer
	n      int // number of documents in body
	all    int
	began  bool // a request was sent
}

// add adds the document of a job. Its index is the cluster's name, as if slurmctld had sent it to
// http://HOST:9200/CLUSTER/_doc.
func (s *sender) add(cluster string, text []byte) error {
	index, err := json.Marshal(indexOf(cluster))
	if err != nil {
		return err
	}
	s.body.WriteString("{\"index\":{\"_index\":")
	s.body.Write(index)
	s.body.WriteString("}}\n")
	s.body.Write(text) // compact JSON has no line breaks
	s.body.WriteByte('\n')
	s.n++
	s.all++
	if s.n == batchDocuments || s.body.Len() > batchBytes {
		return s.flush()
	}
	return nil
}

func (s *sender) flush() error {
	if s.n == 0 {
		return nil
	}
	s.began = true
	answer, err := s.c.stream(s.ctx, http.MethodPost, "/_bulk", &s.body, receive.SourceHeader, string(s.source))
	if err != nil {
		return err
	}
	defer answer.Close() // the body was only read
	var result struct {
		Errors bool
		Items  []map[string]struct{ Error *struct{ Reason string } }
	}
	if err := json.NewDecoder(answer).Decode(&result); err != nil {
		return fmt.Errorf("reading the server's answer: %w", unexpected(err))
	}
	if len(result.Items) != s.n {
		return fmt.Errorf("sending %d %s: the server's answer has %d results (want one result for each document)", s.n,
			quantity.Plural(s.n, "document", "documents"), len(result.Items))
	}
	for _, item := range result.Items {
		for _, outcome := range item {
			if outcome.Error != nil {
				return fmt.Errorf("sending a document: %s", outcome.Error.Reason)
			}
		}
	}
	s.n = 0
	s.body.Reset()
	return nil
}

// NoClusterIndex is the index, and so the cluster, of imported records for which no cluster is known.
const NoClusterIndex = "records"

// indexOf returns the index for a cluster's documents. The name of an index must not begin with an
// underscore.
func indexOf(cluster string) string {
	if cluster == "" || strings.HasPrefix(cluster, "_") {
		return NoClusterIndex
	}
	return cluster
}

// wait waits until the store has all documents that were sent.
func (c *client) wait(ctx context.Context) (outcome store.Outcome, err error) {
	return outcome, c.get(ctx, "/_accounting/wait", &outcome)
}

// wait responds when the store has all documents that were received before.
func (s *site) wait(w http.ResponseWriter, r *http.Request) {
	if err := s.intake.Wait(r.Context(), s.intake.Status().Received); err != nil {
		receive.Fail(w, http.StatusServiceUnavailable, "store_exception", err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.intake.Status().Outcome) // an error means that the client has disconnected
}

// Import adds records to a data directory.
func (Service) Import(ctx context.Context, dir string, from Records) (out *Imported, err error) {
	made := os.Mkdir(dir, 0o700) == nil
	send := &sender{ctx: ctx}
	defer func() {
		if err != nil && made && !send.began { // the new directory would stay empty
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	c, err := connectNew(ctx, dir)
	if err != nil {
		return nil, err
	}
	send.c = c
	defer func() { err = errors.Join(err, c.Close()) }()
	before, err := c.wait(ctx)
	if err != nil {
		return nil, err
	}
	var info Info
	if err := c.get(ctx, "/_accounting/info", &info); err != nil {
		return nil, err
	}
	out = &Imported{Rules: map[string]int{}, NoClusterBefore: info.Counts["no_cluster"]}
	err = read(ctx, from, out, func(source store.Source, cluster string, text []byte) error {
		if source != send.source {
			if err := send.flush(); err != nil {
				return err
			}
			send.source = source
		}
		if cluster == "" {
			out.NoCluster++
		}
		return send.add(cluster, text)
	}, func(name string, r *run.Run) error {
		out.Mixed += info.Clusters[name]
		if err := errors.Join(c.describe(ctx, name, r), c.addHealth(ctx, name, r)); err != nil {
			return err
		}
		if err := writeReport(dir, name, r); err != nil {
			out.Unreported = append(out.Unreported, fmt.Sprintf("%s: %v", name, err))
		}
		return nil
	})
	if err == nil {
		err = send.flush()
	}
	if err != nil {
		return nil, err
	}
	after, err := c.wait(ctx)
	out.Records = send.all
	out.Added, out.Duplicate = after.Added-before.Added, after.Duplicate-before.Duplicate
	out.Replaced, out.Kept = after.Replaced-before.Replaced, after.Kept-before.Kept
	return out, err
}

// read calls the function each with the document of every job in the sources. If described is not
// nil, read calls it with every run. It adds the counts of rules to the parameter out, and sets
// out.Mistake to the first mistake.
func read(ctx context.Context, from Records, out *Imported,
	each func(source store.Source, cluster string, text []byte) error, described func(name string, r *run.Run) error,
) error {
	opts := workload.ReadOptions{Cluster: from.ClusterName, Start: from.Start, End: from.End, Zone: from.Zone.Location(),
		Latest: time.Now()}
	lost := lostRuns{held: map[numbered][]finished.Job{}, send: func(runs []finished.Job, lost bool) error {
		job := &runs[len(runs)-1]
		text, err := records.Document(job, from.ClusterName, lost, runs[:len(runs)-1]...)
		if err != nil {
			return err
		}
		return each(store.Imported, cmp.Or(job.Cluster, from.ClusterName), text)
	}}
	opts.Record = func(record any) error { return lost.add(record.(*finished.Job)) }
	var list, runs []string
	for _, source := range from.Sources {
		if from.From != string(build.Auto) {
			list = append(list, source)
			continue
		}
		found, err := isRun(source)
		switch {
		case err != nil:
			return err
		case found:
			if err := ended(source); err != nil && !from.Live {
				return err
			}
			runs = append(runs, source)
		default:
			list = append(list, source)
		}
	}
	if from.ClusterName != "" && len(runs) > 1 {
		return fmt.Errorf("reading %d %s: all of them would be named %s (want a single run with --cluster-name)",
			len(runs), quantity.Plural(len(runs), "run", "runs"), from.ClusterName)
	}
	names := runNames(runs)
	for i, source := range runs {
		if err := readRun(source, cmp.Or(from.ClusterName, names[i]), from, each, described); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		return nil
	}
	r, err := build.From(ctx, build.Kind(from.From), list[0], build.Options{Options: slurmdb.Options{ReadOptions: opts,
		Password: from.Password}, More: list[1:]})
	if err == nil {
		err = lost.close()
	}
	if err != nil {
		return err
	}
	for name, n := range r.Workload.Rules {
		out.Rules[name] += n
	}
	out.Mistake = r.Workload.Mistake
	return nil
}

// lostRuns determines which records of preempted, requeued and failed runs are lost runs. Accounting
// has the states PREEMPTED and NODE_FAIL both for a lost run and for a job that ended. After a lost
// run there is another record of the job, whose submit time is the time of the requeue.
type lostRuns struct {
	held  map[numbered][]finished.Job // the lost runs of a job, and then the last run read, which may be lost
	order []numbered
	send  func(runs []finished.Job, lost bool) error // sends the last of runs; the others are lost runs of the job
}

// maxRequeue is the longest time between the end of a run and the requeue of its job. This time
// can be long because of epilogs. After that time, Slurm may have given the number to another job.
const maxRequeue = 24 * time.Hour

func (l *lostRuns) add(job *finished.Job) error {
	runs := []finished.Job{*job}
	if job.Number == 0 {
		return l.send(runs, false)
	}
	key := numbered{job.Cluster, int64(job.Number)}
	if before := l.held[key]; before != nil {
		delete(l.held, key)
		after := job.Submit.Sub(before[len(before)-1].End)
		lost := after >= 0 && after < maxRequeue
		if err := l.send(before, lost); err != nil {
			return err
		}
		if lost {
			runs = slices.Concat(before, runs)
		}
	}
	if job.Start != 0 && job.End != 0 && job.State.Requeues() {
		l.held[key], l.order = runs, append(l.order, key)
		return nil
	}
	return l.send(runs, false)
}

// close sends the remaining records. There was no later record, so these jobs ended.
func (l *lostRuns) close() error {
	for _, key := range l.order {
		if runs := l.held[key]; runs != nil {
			delete(l.held, key)
			if err := l.send(runs, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// describe sends the description of a run to the server, which shows the run like a cluster.
func (c *client) describe(ctx context.Context, name string, r *run.Run) error {
	body, err := json.Marshal(runCluster(name, &r.Manifest))
	if err != nil {
		return err
	}
	answer, err := c.stream(ctx, http.MethodPut, "/_accounting/cluster", bytes.NewReader(body))
	if err != nil {
		return err
	}
	return answer.Close()
}

// runCluster returns the description of a run as a cluster.
func runCluster(name string, m *run.Manifest) store.Cluster {
	cluster := store.Cluster{Name: name, Kind: "run", Nodes: positive(m.Cluster.Nodes),
		CPUs: positive(m.Cluster.Processors), Doubt: m.Doubt(), Frozen: m.Clock.Model == "frozen",
		Simulated: m.Engine == "sim"}
	if m.WindowStart != 0 {
		cluster.Window = m.WindowStart.Std().UTC()
	}
	if begin := cmp.Or(m.WindowStart, m.VirtualStart); begin != 0 {
		cluster.Begin = begin.Std().UTC()
	}
	switch m.Engine {
	case run.EngineRecorded:
		cluster.Description = "recorded in " + filepath.Base(m.Workload.Path)
	case "sim":
		cluster.Description = fmt.Sprintf("%s simulated with %s", filepath.Base(m.Workload.Path), m.Policy)
	default:
		cluster.Description = fmt.Sprintf("%s replayed on Slurm %s", filepath.Base(m.Workload.Path), m.Versions.Slurm)
	}
	return cluster
}

func positive(n int) document.Int {
	return document.Int{Value: int64(n), Known: n > 0}
}

// cluster stores the description of a cluster in a request.
func (s *site) cluster(w http.ResponseWriter, r *http.Request) {
	var c store.Cluster
	err := json.NewDecoder(r.Body).Decode(&c)
	if err == nil && c.Name == "" {
		err = errors.New("the cluster has no name")
	}
	if err != nil {
		receive.Fail(w, http.StatusBadRequest, "parse_exception", err.Error())
		return
	}
	if err := s.intake.Store().SetCluster(c); err != nil {
		receive.Fail(w, http.StatusServiceUnavailable, "store_exception", err.Error())
	}
}

// writeReport writes the report of a run into the directory from which the pages serve it.
func writeReport(dir, name string, r *run.Run) error {
	set, err := compare.Load(&run.Set{Dir: r.Dir, Runs: []*run.Run{r}})
	if err != nil {
		return err
	}
	page, err := report.New([]compare.Set{set}, report.Options{Title: name})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "reports")
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	_, err = output.File(filepath.Join(path, url.PathEscape(name)+".html"), page.WriteHTML)
	return err
}

// Doubt returns the reason why a source is a run that is not valid, or an empty text.
func Doubt(source string) string { return formats.Doubt(source) }

// ended returns an error for a run that is still going on. The store would keep its pending and running jobs beside the
// same jobs of a later import. A run that was interrupted or killed has ended.
func ended(path string) error {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return nil
	}
	if r, err := run.Open(path); err == nil && r.Live {
		return fmt.Errorf("reading the run: %s: the run is still going on: import it when it has ended", path)
	}
	return nil
}

// isRun reports whether a source is a run or a workload with the outcomes of its jobs; false means
// accounting records. A workload without outcomes and a set of realizations are errors.
func isRun(path string) (bool, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if _, err := os.Stat(filepath.Join(path, run.RealizationsFile)); err == nil {
			return false, fmt.Errorf("reading accounting records: %s: a set of realizations (want runs of the set, such as %s)",
				path, filepath.Join(path, run.RealizationDir(1)))
		}
		_, err := os.Stat(filepath.Join(path, "manifest.json"))
		return err == nil, nil
	}
	if path == "-" {
		return false, nil
	}
	if _, err := formats.DetectAccounting(path); err == nil {
		return false, nil
	}
	_, err := formats.OpenRun(path)
	if err == nil {
		return true, nil
	}
	if _, other := formats.Open(path); other != nil {
		return false, nil // the reader of records reports a file that it cannot read
	}
	return false, err
}

// runNames names runs as clusters, after their files or directories. For runs with the same name,
// the name of their directory is added in front and, if this is not enough, a number at the end.
func runNames(paths []string) []string {
	names, count := make([]string, len(paths)), map[string]int{}
	for i, path := range paths {
		if full, err := filepath.Abs(path); err == nil {
			path = full // so that "." has a name
		}
		names[i] = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		count[names[i]]++
	}
	taken := map[string]bool{}
	for i, path := range paths {
		if full, err := filepath.Abs(path); err == nil && count[names[i]] > 1 {
			names[i] = filepath.Base(filepath.Dir(full)) + "-" + names[i]
		}
		for name, n := names[i], 2; taken[names[i]]; n++ {
			names[i] = fmt.Sprintf("%s-%d", name, n)
		}
		taken[names[i]] = true
	}
	return names
}

func readRun(path, name string, from Records,
	each func(source store.Source, cluster string, text []byte) error, described func(name string, r *run.Run) error,
) error {
	r, err := formats.OpenRun(path)
	if err != nil {
		return err
	}
	if described != nil {
		if err := described(name, r); err != nil {
			return err
		}
	}
	rows, err := r.Histories()
	if err != nil {
		return err
	}
	numbers := records.Numbers(rows, &r.Manifest)
	for i := range rows {
		row := &rows[i]
		if from.End != 0 && row.Submit >= from.End || from.Start != 0 && row.End != 0 && row.End < from.Start {
			continue
		}
		texts, err := records.RunDocuments(row, &r.Manifest, name, numbers[row.Job])
		if err != nil {
			return err
		}
		for _, text := range texts {
			if err := each(store.FromRun, name, text); err != nil {
				return err
			}
		}
	}
	return nil
}
