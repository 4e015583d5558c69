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
	"rmreplay/internal/cli/accountingcmd"
)

// shared are the fields that accounting records and Slurm's documents both have, with the same
// meaning. A field that one of them does not say is not compared.
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
	{"cpus", func(j *document.Job) string { return allocated(j, j.CPUs) }},
	{"nodes", func(j *document.Job) string { return allocated(j, j.Nodes) }},
}

// quotes writes a name as slurmctld sends it to slurmdbd: with backquotes in place of quotes.
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

// allocated leaves out the amounts of jobs that never ran: Slurm's document has what was asked for.
func allocated(j *document.Job, n document.Int) string {
	if !j.Ran() {
		return ""
	}
	return count(n)
}

// Reconcile compares a data directory with records.
func (Service) Reconcile(ctx context.Context, dir string, from accountingcmd.Records, fill bool) (out *accountingcmd.Reconciled, err error) {
	c, err := connect(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.wait(ctx); err != nil {
		return nil, err
	}
	type record struct {
		cluster string
		text    []byte
	}
	recorded := make(map[string]record)
	runs := map[jobRun]string{} // ids in recorded; "" where two clusters have the same
	out = &accountingcmd.Reconciled{Missing: []string{}, Differing: []accountingcmd.Difference{}}
	var first, last time.Time // ends of the records
	clusters := map[string]bool{}
	err = read(ctx, from, map[string]int{}, func(_ store.Source, cluster string, text []byte) error {
		j := document.Parse(text, "")
		if !j.Finished() || j.End.IsZero() {
			return nil // it has not ended, so nothing was sent
		}
		if first.IsZero() || j.End.Before(first) {
			first = j.End
		}
		if j.End.After(last) {
			last = j.End
		}
		if j.Cluster == "" {
			return fmt.Errorf("job %d: the records do not name the cluster (want --cluster-name)", j.JobID)
		}
		clusters[j.Cluster] = true
		id := store.ID(&j)
		if other, known := runs[runOf(&j)]; known && other != id {
			runs[runOf(&j)] = ""
		} else {
			runs[runOf(&j)] = id
		}
		recorded[id] = record{cluster, text}
		return nil
	}, nil)
	if err != nil {
		return nil, err
	}
	out.Records = len(recorded)
	err = c.documents(ctx, store.Filter{EndedFrom: first, EndedTo: last.Add(time.Second)}, func(d *store.Stored) error {
		got := document.Parse(d.Document, d.Cluster)
		id := store.ID(&got)
		if _, ok := recorded[id]; !ok && got.Marks&document.NoCluster != 0 {
			if id = runs[runOf(&got)]; id != "" {
				out.Unnamed++
			}
		}
		r, ok := recorded[id]
		if !ok {
			if clusters[d.Cluster] {
				out.Unknown++
			}
			return nil
		}
		delete(recorded, id)
		want := document.Parse(r.text, "")
		if differing := differences(id, &want, &got); len(differing) > 0 {
			out.Differing = append(out.Differing, differing...)
		} else {
			out.Equal++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for id := range recorded {
		out.Missing = append(out.Missing, id)
	}
	slices.Sort(out.Missing)
	if !fill {
		return out, nil
	}
	send := &sender{ctx: ctx, c: c, source: store.Reconciled}
	for _, id := range out.Missing {
		if err := send.add(recorded[id].cluster, recorded[id].text); err != nil {
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

// jobRun is a run of a job, whichever cluster it ran on. Slurm's document of a job without an association
// names no cluster, so the store has it under the name of the index or of --cluster-name.
type jobRun struct{ job, run int64 }

func runOf(j *document.Job) jobRun { return jobRun{j.JobID, j.Run} }

// differences returns the shared fields that differ.
func differences(id string, want, got *document.Job) (list []accountingcmd.Difference) {
	// sacct to 25.05 prints an exit status from 128 on less 128 (print.c, PRINT_EXITCODE). Documents
	// have the status.
	sameStatus := got.ExitCode.Value >= 128 && want.ExitCode.Value == got.ExitCode.Value-128
	for _, f := range shared {
		if f.name == "exit_code" && sameStatus {
			continue
		}
		if w, g := f.of(want), f.of(got); w != g && w != "" && g != "" {
			list = append(list, accountingcmd.Difference{Job: id, Field: f.name, Recorded: w, Received: g})
		}
	}
	return list
}

var errEnd = errors.New("the server's answer ended early")

// unexpected names an answer that ended within a value.
func unexpected(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errEnd
	}
	return err
}
