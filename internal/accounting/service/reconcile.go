package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/accounting/document"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/quantity"
)

// shared are the fields with the same meaning in accounting records and in Slurm's documents. A
// field is compared only if both have a value.
var shared = []struct {
	name string
	of   func(j *document.Job) string
}{
	{"state", func(j *document.Job) string { return j.State }},
	{"submit", func(j *document.Job) string { return when(j.Submit) }},
	{"start", func(j *document.Job) string { return when(j.Start) }},
	{"end", func(j *document.Job) string { return when(j.End) }},
	{"user", func(j *document.Job) string { return j.User }},
	{"account", func(j *document.Job) string { return j.Account }},
	{"partition", func(j *document.Job) string { return j.Partition }},
	{"qos", func(j *document.Job) string { return j.QOS }},
	{"job_name", func(j *document.Job) string { return quotes.Replace(j.Name) }},
	{"node_list", func(j *document.Job) string { return j.NodeList }},
	{"exit_code", func(j *document.Job) string { return count(j.ExitCode) }},
	{"exit_signal", func(j *document.Job) string { return count(j.ExitSignal) }},
	{"limit_s", func(j *document.Job) string { return count(j.Limit) }},
	{"cpus", func(j *document.Job) string {
		if j.CPUsRequested {
			return ""
		}
		return allocated(j, j.CPUs)
	}},
	{"nodes", func(j *document.Job) string { return allocated(j, j.Nodes) }},
}

// quotes replaces quotes in a name by backquotes, as slurmctld does before it sends the name to
// slurmdbd.
var quotes = strings.NewReplacer(`"`, "`", "'", "`")

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format("2006-01-02T15:04:05")
}

func count(n document.Int) string {
	if !n.Known {
		return ""
	}
	return fmt.Sprint(n.Value)
}

// allocated omits the amount of a job that never ran, for which Slurm's document has the requested
// amount.
func allocated(j *document.Job, n document.Int) string {
	if !j.Ran() {
		return ""
	}
	return count(n)
}

// Reconcile compares a data directory with records.
func (Service) Reconcile(ctx context.Context, dir string, from Records, fill bool) (out *Reconciled, err error) {
	c, err := connect(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.wait(ctx); err != nil {
		return nil, err
	}
	all := recorded{jobs: map[string]record{}, runs: map[jobRun]string{}, clusters: map[string]bool{}}
	if err := read(ctx, from, &Imported{Rules: map[string]int{}}, all.add, nil); err != nil {
		return nil, err
	}
	out = &Reconciled{Records: len(all.jobs), Missing: []string{}, Differing: []Difference{}}
	err = c.documents(ctx, store.Filter{EndedFrom: all.first, EndedTo: all.last.Add(time.Second)},
		func(d *store.Stored) error {
			all.compare(d, out)
			return nil
		})
	if err != nil {
		return nil, err
	}
	for id := range all.jobs {
		out.Missing = append(out.Missing, id)
	}
	slices.Sort(out.Missing)
	if 2*len(out.Missing) > out.Records {
		if out.Shifted, err = all.shifted(ctx, c); err != nil {
			return nil, err
		}
	}
	if !fill {
		return out, nil
	}
	if 2*out.Shifted > len(out.Missing) {
		return nil, fmt.Errorf(
			"adding the missing jobs: %s: %d of %d missing %s are stored with other dates, so the records are in "+
				"another time zone (want --timezone, the zone in which sacct printed them)", dir, out.Shifted, len(out.Missing), quantity.Plural(len(out.Missing), "job", "jobs"))
	}
	send := &sender{ctx: ctx, c: c, source: store.Reconciled}
	for _, id := range out.Missing {
		if err := send.add(all.jobs[id].cluster, all.jobs[id].text); err != nil {
			return nil, err
		}
	}
	if err := send.flush(); err != nil {
		return nil, err
	}
	_, err = c.wait(ctx)
	out.Filled = len(out.Missing)
	return out, err
}

// recorded has the jobs in accounting records that were not found in the data directory yet.
type recorded struct {
	jobs        map[string]record
	runs        map[jobRun]string // the id of each run; empty if two clusters have the same run
	clusters    map[string]bool
	first, last time.Time // first and last end of a job
}

type record struct {
	cluster string
	text    []byte
}

// jobRun identifies a run of a job without its cluster. Slurm's document of a job without an
// association names no cluster, so the store has the job under the name of the index or of
// --cluster-name.
type jobRun struct{ job, run int64 }

func runOf(j *document.Job) jobRun { return jobRun{j.JobID, j.Run} }

// add adds the record of a job. It skips jobs that have not ended, because Slurm has not sent a
// document yet.
func (r *recorded) add(_ store.Source, cluster string, text []byte) error {
	j := document.Parse(text, "")
	if !j.Finished() || j.End.IsZero() {
		return nil
	}
	if r.first.IsZero() || j.End.Before(r.first) {
		r.first = j.End
	}
	if j.End.After(r.last) {
		r.last = j.End
	}
	if j.Cluster == "" {
		return fmt.Errorf("job %d: the records do not name the cluster (want --cluster-name)", j.JobID)
	}
	id, run := store.ID(&j), runOf(&j)
	if other, known := r.runs[run]; known && other != id {
		id = ""
	}
	r.runs[run] = id
	r.clusters[j.Cluster] = true
	r.jobs[store.ID(&j)] = record{cluster, text}
	return nil
}

// numbered identifies a job, but not a run of the job.
type numbered struct {
	cluster string
	job     int64
}

// farthest exceeds the largest difference between the clocks of two time zones.
const farthest = 27 * time.Hour

// shifted counts records of jobs that are in the data directory with the same number and the same
// time between submit time and end, but with other dates. Clocks of time zones differ by multiples
// of a quarter of an hour.
func (r *recorded) shifted(ctx context.Context, c *client) (n int, err error) {
	records := map[numbered][]document.Job{}
	for _, of := range r.jobs {
		j := document.Parse(of.text, "")
		key := numbered{j.Cluster, j.JobID}
		records[key] = append(records[key], j)
	}
	err = c.documents(ctx, store.Filter{EndedFrom: r.first.Add(-farthest), EndedTo: r.last.Add(farthest)},
		func(d *store.Stored) error {
			got := document.Parse(d.Document, d.Cluster)
			key := numbered{d.Cluster, got.JobID}
			for i, want := range records[key] {
				by := got.Submit.Sub(want.Submit)
				if by != 0 && by.Abs() < farthest && by%(15*time.Minute) == 0 && got.End.Sub(want.End) == by {
					records[key] = slices.Delete(records[key], i, i+1)
					n++
					break
				}
			}
			return nil
		})
	return n, err
}

// compare compares a document with its record, if the document has a record.
func (r *recorded) compare(d *store.Stored, out *Reconciled) {
	got := document.Parse(d.Document, d.Cluster)
	id := store.ID(&got)
	if _, ok := r.jobs[id]; !ok && got.Marks&document.NoCluster != 0 {
		if id = r.runs[runOf(&got)]; id != "" {
			out.NoCluster++
		}
	}
	of, ok := r.jobs[id]
	if !ok {
		if r.clusters[d.Cluster] {
			out.Unknown++
		}
		return
	}
	delete(r.jobs, id)
	want := document.Parse(of.text, "")
	if differing := differences(id, &want, &got); len(differing) > 0 {
		out.Differing = append(out.Differing, differing...)
	} else {
		out.Equal++
	}
}

// differences returns the shared fields that differ between the record and the document.
func differences(id string, want, got *document.Job) (list []Difference) {
	// Up to 25.05, sacct subtracts 128 from an exit status of at least 128 before printing it
	// (print.c, PRINT_EXITCODE). Documents have the original status.
	sameStatus := got.ExitCode.Value >= 128 && want.ExitCode.Value == got.ExitCode.Value-128
	for _, f := range shared {
		if f.name == "exit_code" && sameStatus {
			continue
		}
		if w, g := f.of(want), f.of(got); w != g && w != "" && g != "" {
			list = append(list, Difference{Job: id, Field: f.name, Recorded: w, Received: g})
		}
	}
	return list
}

var errEnd = errors.New("the server's answer ended early")

// unexpected replaces the error of a response that ended inside a JSON value.
func unexpected(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errEnd
	}
	return err
}
