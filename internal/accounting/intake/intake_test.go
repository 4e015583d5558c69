package intake

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	_ "rmreplay/internal/accounting/engine/enginetest" // an engine for the stores in these tests
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/wal"
)

// TestBacklog opens data directories whose journals have documents for two batches and several
// parts, in several segments. Some jobs occur again in the same part or in another one, and some
// have a different last document. Each job must be in the store once, with its last document.
func TestBacklog(t *testing.T) {
	const jobs = 50_000 // with three documents each: more rows than a part of the store has
	dir := t.TempDir()
	j, err := wal.Open(filepath.Join(dir, "journal"), 0, wal.Options{Kind: "accounting", SegmentBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)
	text := func(job int, name string) []byte {
		return fmt.Appendf(nil, `{"jobid":%d,"cluster":"vale","job_name":%q,"nodes":"n1","state":"COMPLETED","@submit":"2024-02-29T00:00:00","@start":"2024-02-29T01:00:00","@end":%q}`,
			job, name, end.Add(time.Duration(job)*time.Minute).Format("2006-01-02T15:04:05"))
	}
	var payloads [][]byte
	for round := range 3 {
		for job := 1; job <= jobs; job++ {
			name := "first"
			if round == 2 && job%10 == 1 {
				name = "last"
			}
			payloads = append(payloads, encode(Arrival{Source: store.Received, Index: "slurm", Document: text(job, name)}, "vale", end.Add(jobs*time.Minute)))
			if round == 0 && job%10 == 0 { // the same document again
				payloads = append(payloads, payloads[len(payloads)-1])
			}
		}
	}
	for part := range slices.Chunk(payloads, 10_000) {
		if _, err := j.Append(part...); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	in, err := Open(ctx, dir, Options{Now: time.Now, Report: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.Wait(ctx, int64(len(payloads))); err != nil {
		t.Fatal(err)
	}
	if got, want := in.Status().Outcome, (store.Outcome{Added: jobs, Duplicate: 2 * jobs, Replaced: jobs / 10}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	var rows, different, last, documents int64
	err = in.Store().Read(ctx, func(v *store.Snapshot) error {
		return v.Scan(`SELECT count(*), count(DISTINCT jobid), count(*) FILTER (job_name = 'last'), count(*) FILTER (contains(decode(document), '"last"')) FROM jobs`,
			nil, &rows, &different, &last, &documents)
	})
	if duplicates := in.Store().Summary().Counts["duplicate"]; err != nil || rows != jobs || different != jobs || last != jobs/10 || documents != jobs/10 || duplicates != 2*jobs {
		t.Error(rows, different, last, documents, duplicates, err)
	}
}

// TestFutureEnd checks that an end more than a day after the arrival is a bad value in documents
// that Slurm sent, but not in others.
func TestFutureEnd(t *testing.T) {
	now := time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)
	ctx := context.Background()
	in, err := Open(ctx, t.TempDir(), Options{Now: func() time.Time { return now }, Report: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var last int64
	for i, source := range []store.Source{store.Received, store.Kafka, store.Imported, store.Reconciled, store.FromRun} {
		for k, ahead := range []time.Duration{24 * time.Hour, 24*time.Hour + time.Second} {
			text := fmt.Appendf(nil, `{"jobid":%d,"cluster":"vale","nodes":"n1","state":"COMPLETED","@start":"2024-03-01T01:00:00","@end":%q}`,
				2*i+k+1, now.Add(ahead).Format("2006-01-02T15:04:05"))
			if last, err = in.Accept(Arrival{Source: source, Index: "slurm", Document: text}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := in.Wait(ctx, last); err != nil {
		t.Fatal(err)
	}
	var marked, others string
	err = in.Store().Read(ctx, func(v *store.Snapshot) error {
		return v.Scan(`SELECT string_agg(jobid, ' ' ORDER BY jobid) FILTER (marks = 'bad_value' AND end_time IS NULL AND elapsed_s IS NULL),
			string_agg(jobid, ' ' ORDER BY jobid) FILTER (marks IS NULL AND end_time IS NOT NULL) FROM jobs`, nil, &marked, &others)
	})
	if err != nil || marked != "2 4" || others != "1 3 5 6 7 8 9 10" {
		t.Errorf("marked: %s; not marked: %s (want 2 4 and the others): %v", marked, others, err)
	}
}
