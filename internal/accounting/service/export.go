package service

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rmreplay/internal/accounting/receive"
	"rmreplay/internal/accounting/records"
	"rmreplay/internal/accounting/store"
	"rmreplay/internal/finished"
	"rmreplay/internal/formats"
	"rmreplay/internal/hpc"
	"rmreplay/internal/output"
	"rmreplay/internal/workload"
)

// request is the body of a request for many jobs.
type request struct {
	Filter store.Filter
	Format store.Table
}

// ending is the last line of a stream of documents. A stream without this line is incomplete.
type ending struct {
	Whole bool   `json:"whole"`
	Error string `json:"error,omitempty"`
}

// documents requests documents, and calls the function in the parameter each with every document.
func (c *client) documents(ctx context.Context, filter store.Filter, each func(d *store.Stored) error) error {
	body, err := json.Marshal(request{Filter: filter})
	if err != nil {
		return err
	}
	answer, err := c.stream(ctx, http.MethodPost, "/_accounting/documents", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Close() // the body was only read
	lines := json.NewDecoder(answer)
	for {
		var line struct {
			store.Stored
			ending
		}
		if err := lines.Decode(&line); err != nil {
			return fmt.Errorf("reading jobs: %w", unexpected(err))
		}
		switch {
		case line.Error != "":
			return errors.New(line.Error)
		case line.Whole:
			return nil
		}
		if err := each(&line.Stored); err != nil {
			return err
		}
	}
}

// documents responds with documents, one JSON object per line.
func (s *site) documents(w http.ResponseWriter, r *http.Request) {
	asked, ok := decode(w, r)
	if !ok {
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := json.NewEncoder(w)
	v := s.intake.Store().View()
	defer v.Close()
	err := v.Each(r.Context(), asked.Filter, func(d *store.Stored) error { return lines.Encode(d) })
	last := ending{Whole: err == nil}
	if err != nil {
		last.Error = err.Error()
	}
	_ = lines.Encode(last) // an error means that the client has disconnected
}

func decode(w http.ResponseWriter, r *http.Request) (asked request, ok bool) {
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		receive.Fail(w, http.StatusBadRequest, "parse_exception", err.Error())
		return asked, false
	}
	return asked, true
}

// jobsHeader is the header with the number of jobs in a table.
const jobsHeader = "X-Rmreplay-Jobs"

// table responds with jobs as Parquet or CSV.
func (s *site) table(w http.ResponseWriter, r *http.Request) {
	asked, ok := decode(w, r)
	if !ok {
		return
	}
	v := s.intake.Store().View()
	defer v.Close()
	path, jobs, err := v.Export(r.Context(), asked.Filter, asked.Format)
	if err != nil {
		receive.Fail(w, http.StatusBadRequest, "store_exception", err.Error())
		return
	}
	w.Header().Set(jobsHeader, fmt.Sprint(jobs))
	sendFile(w, path)
}

// backup responds with a copy of the store, as a tar archive. The copy includes all documents
// received before.
func (s *site) backup(w http.ResponseWriter, r *http.Request) {
	if err := s.intake.Wait(r.Context(), s.intake.Status().Received); err != nil {
		receive.Fail(w, http.StatusServiceUnavailable, "store_exception", err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/x-tar")
	if err := s.intake.Store().Backup(w); err != nil {
		panic(http.ErrAbortHandler) // the archive lacks its last file, and the client gets an error
	}
}

// sendFile sends a file and removes it. With Content-Length, the client can check that the file is
// complete.
func sendFile(w http.ResponseWriter, path string) {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close() // the file was only read
		err = os.Remove(path)
	}
	var info os.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if err != nil {
		receive.Fail(w, http.StatusInternalServerError, "store_exception", err.Error())
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(info.Size()))
	_, _ = io.Copy(w, f) // an error means that the client has disconnected
}

// Backup copies a data directory to another place. It returns the size of the copy in bytes.
func (Service) Backup(ctx context.Context, dir, to string) (size int64, err error) {
	c, err := connect(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if within(to, dir) {
		return 0, fmt.Errorf("writing the copy: %s: the path is in the data directory %s (want a path outside)", to, dir)
	}
	if _, err := os.Stat(to); err == nil {
		return 0, fmt.Errorf("writing the copy: %s: the directory exists already (want a new directory)", to)
	}
	answer, err := c.stream(ctx, http.MethodPost, "/_accounting/backup", nil)
	if err != nil {
		return 0, err
	}
	defer answer.Close() // the body was only read
	err = output.Directory(to, func(target string) error {
		if err := os.Chmod(target, 0o700); err != nil {
			return err
		}
		if size, err = store.Unpack(answer, target); err != nil {
			return err
		}
		more, err := copyPages(dir, target)
		size += more
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("writing the copy: %w", err)
	}
	return size, nil
}

// within reports whether a path, which need not exist, is below a directory.
func within(path, dir string) bool {
	for path, err := filepath.Abs(path); err == nil && path != filepath.Dir(path); path = filepath.Dir(path) {
		above, err := os.Stat(filepath.Dir(path))
		if own, ownErr := os.Stat(dir); err == nil && ownErr == nil && os.SameFile(above, own) {
			return true
		}
	}
	return false
}

// copyPages copies the pages' own files: the saved views and the reports of runs.
func copyPages(from, to string) (size int64, err error) {
	names := []string{"views.json"}
	reports, err := os.ReadDir(filepath.Join(from, "reports"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, r := range reports {
		if r.Type().IsRegular() && filepath.Ext(r.Name()) == ".html" {
			names = append(names, filepath.Join("reports", r.Name()))
		}
	}
	for _, name := range names {
		f, err := os.Open(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return size, err
		}
		path := filepath.Join(to, name)
		n := int64(0)
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			n, err = writeNew(path, f)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return size, err
		}
		size += n
	}
	return size, nil
}

// writeNew creates a file that only its owner can read. It fails if the file exists.
func writeNew(path string, from io.Reader) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	size, err = io.Copy(f, from)
	return size, errors.Join(err, f.Sync(), f.Close())
}

// Export writes jobs into a file.
func (Service) Export(ctx context.Context, dir string, opts Export) (out *Exported, err error) {
	if err := conditionKeyword(opts.Where); err != nil {
		return nil, err
	}
	c, err := connect(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err == nil && out.Jobs == 0 && opts.Where != "" {
			out.Absent, err = c.absent(ctx, opts.Where)
		}
		err = errors.Join(conditionFault(opts.Where, err), c.Close())
	}()
	if _, err := c.wait(ctx); err != nil {
		return nil, err
	}
	out = &Exported{Output: opts.Output}
	filter := store.Filter{Where: opts.Where}
	if opts.ClusterName != "" {
		if err := c.knows(ctx, dir, opts.ClusterName); err != nil {
			return nil, err
		}
		filter.Clusters = []string{opts.ClusterName}
	}
	switch opts.Format {
	case "trace", "swf":
		filter.From, filter.To = at(opts.Start), at(opts.End)
		w, missing, err := c.workload(ctx, dir, filter, workload.ReadOptions{Start: opts.Start, End: opts.End,
			Cluster: opts.ClusterName})
		if errors.Is(err, finished.ErrNoJob) && opts.Where != "" {
			if text, failed := c.absent(ctx, opts.Where); failed == nil {
				err = fmt.Errorf("%w%s", err, text)
			}
		}
		if err != nil {
			return nil, err
		}
		out.Jobs, out.Rules, out.Missing = int64(w.Jobs.Len()), w.Rules, missing
		out.Counted, out.Records = workload.Counted(&w.Jobs), &w.Rows
		if opts.Format == "trace" {
			return out, formats.Save(opts.Output, w)
		}
		out.Losses, err = formats.SaveAs(opts.Output, w, opts.Format)
		return out, err
	}
	filter.EndedFrom, filter.EndedTo = at(opts.Start), at(opts.End)
	body, err := json.Marshal(request{Filter: filter, Format: store.Table(opts.Format)})
	if err != nil {
		return nil, err
	}
	answer, header, err := c.send(ctx, http.MethodPost, "/_accounting/table", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer answer.Close() // the body was only read
	if _, err := fmt.Sscan(header.Get(jobsHeader), &out.Jobs); err != nil {
		return nil, fmt.Errorf("reading the number of jobs in the server's answer: %w", err)
	}
	_, err = output.File(opts.Output, func(w io.Writer) error {
		if filepath.Ext(opts.Output) != ".gz" {
			_, err := io.Copy(w, answer)
			return err
		}
		zip := gzip.NewWriter(w)
		_, err := io.Copy(zip, answer)
		return errors.Join(err, zip.Close())
	})
	return out, err
}

// knows returns an error unless a data directory has jobs of the cluster.
func (c *client) knows(ctx context.Context, dir, cluster string) error {
	var info Info
	if err := c.get(ctx, "/_accounting/info", &info); err != nil {
		return err
	}
	if info.Clusters[cluster] > 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(info.Clusters))
	if len(names) == 0 {
		return fmt.Errorf("reading jobs: %s: it has no jobs", dir)
	}
	return fmt.Errorf("reading jobs: %s: it has no jobs of the cluster %q (want one of %s)",
		dir, cluster, strings.Join(names, ", "))
}

// several returns the error for a data directory with jobs of several clusters.
func (c *client) several(ctx context.Context, dir string) error {
	var info Info
	if err := c.get(ctx, "/_accounting/info", &info); err != nil {
		return err
	}
	return fmt.Errorf("reading jobs: %s: %w", dir, finished.SeveralClusters(slices.Sorted(maps.Keys(info.Clusters))))
}

func at(t hpc.Time) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return t.Std()
}

// Workload makes a workload from the jobs in a data directory that were pending or running in a
// window.
func (Service) Workload(ctx context.Context, dir string, opts workload.ReadOptions) (w *workload.Workload,
	missing []string, err error) {
	c, err := connect(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.wait(ctx); err != nil {
		return nil, nil, err
	}
	filter := store.Filter{From: at(opts.Start), To: at(opts.End)}
	if opts.Cluster != "" {
		if err := c.knows(ctx, dir, opts.Cluster); err != nil {
			return nil, nil, err
		}
		filter.Clusters = []string{opts.Cluster}
	}
	return c.workload(ctx, dir, filter, opts)
}

// workload makes a workload from the jobs that a filter chooses.
func (c *client) workload(ctx context.Context, dir string, filter store.Filter, opts workload.ReadOptions) (
	*workload.Workload, []string, error) {
	b := finished.NewBuilder(dir, opts)
	err := c.documents(ctx, filter, func(d *store.Stored) error {
		r, _ := records.Finished(d.Document, d.Cluster)
		b.Row()
		if b.OtherCluster(r.Cluster) {
			if opts.Cluster != "" {
				return nil
			}
			return c.several(ctx, dir) // at once, since there may be many documents
		}
		return b.Add(r, string(d.Document))
	})
	if err != nil {
		return nil, nil, err
	}
	return b.Close("jobs of " + dir)
}
