// Package sources follows files in which other programs record the I/O of nodes and jobs. It
// provides their contents as an [ioservice.Source].
package sources

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioservice"
	"rmreplay/internal/ioservice/counters"
)

// kinds are the kinds of files, with a description of each.
var kinds = []struct{ Name, Doc string }{
	{"ldms", "a growing CSV file of LDMS's store_csv with the sampler of Lustre clients"},
	{"jobstats", "output of lctl get_param obdfilter.*.job_stats, written again and again"},
	{"collectl", "a growing file with the output of collectl -sl -P on one node"},
	{"darshan", "output of darshan-parser --total, one file for each log"},
	{"sacct", "output of sacct -P with the steps' TRESUsageInTot and TRESUsageOutTot"},
}

// Kinds lists the kinds of files for a help text.
func Kinds() string {
	var b strings.Builder
	for _, k := range kinds {
		fmt.Fprintf(&b, "  %-9s  %s\n", k.Name, k.Doc)
	}
	return b.String()
}

// maxAhead is how far the clocks of nodes may be ahead of this machine's clock.
const maxAhead = 10 * time.Minute

// Options configures [New].
type Options struct {
	Files      []string       // KIND:PATTERN; PATTERN is a path or a glob pattern
	FileSystem string         // the file system to count in LDMS's files; "" counts all
	Retention  time.Duration  // how long samples are kept
	Zone       *time.Location // time zone of sacct's dates
}

// longestLine is the highest number of bytes in a line, so that a file without newlines cannot
// exhaust the memory.
const longestLine = 1 << 20

// Files follows files. Its methods are safe for concurrent use.
type Files struct {
	opts     Options
	patterns []pattern
	say      func(format string, args ...any) // called with the first mistake in each file

	mu    sync.Mutex
	store *counters.Store
	files map[string]*file
	count Counts
	now   hpc.Time // instant of the last refresh
}

// Counts says how much was read.
type Counts struct {
	Samples int `json:"samples"`
	Late    int `json:"late_samples"`  // ignored: not after the counter's last sample, or older than the retention
	Other   int `json:"other_samples"` // ignored: of other file systems, or of processes outside of jobs
	Bad     int `json:"bad_lines"`
}

type pattern struct{ kind, glob string }

// file is the state of a followed file.
type file struct {
	pattern
	path     string
	identity [2]uint64 // device and inode
	size     int64     // number of bytes that were read
	modified time.Time
	rest     []byte // the beginning of an incomplete line
	ldms     *counters.LDMS
	collectl *counters.Collectl
	bad      int
}

// New returns a follower, which has not read anything yet. It returns an error for an unknown kind
// of file.
func New(opts Options, say func(format string, args ...any)) (*Files, error) {
	f := &Files{opts: opts, say: say, store: counters.NewStore(), files: map[string]*file{}}
	for _, text := range opts.Files {
		kind, glob, found := strings.Cut(text, ":")
		known := slices.ContainsFunc(kinds, func(k struct{ Name, Doc string }) bool { return k.Name == kind })
		if !found || !known || glob == "" {
			return nil, fmt.Errorf("source %q: not a source (want KIND:FILES with a kind of %s)", text, kindNames())
		}
		if _, err := filepath.Match(glob, ""); err != nil {
			return nil, fmt.Errorf("source %q: %w", text, err)
		}
		f.patterns = append(f.patterns, pattern{kind, glob})
	}
	return f, nil
}

func kindNames() string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

// Refresh reads new contents of the files. It counts mistakes, and reports the first mistake in
// each file.
func (f *Files) Refresh(now hpc.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = now
	for _, p := range f.patterns {
		paths, _ := filepath.Glob(p.glob) // New has checked the pattern
		for _, path := range paths {
			if strings.Contains(filepath.Base(path), ".HEADER") {
				continue // a header that LDMS wrote separately
			}
			one := f.files[path]
			if one == nil {
				one = &file{pattern: p, path: path}
				f.files[path] = one
			}
			if err := f.follow(one); err != nil && !errors.Is(err, fs.ErrNotExist) {
				f.mistake(one, err)
			}
		}
	}
	f.store.Drop(now.Add(-f.opts.Retention))
}

// mistake counts a mistake, and reports it if it is the first in its file.
func (f *Files) mistake(one *file, err error) {
	f.count.Bad++
	if one.bad++; one.bad == 1 {
		f.say("reading %s for the use of the file system: %v; further mistakes in this file are only counted", one.path,
			err)
	}
}

// follow reads what was appended to a file.
func (f *Files) follow(one *file) error {
	handle, err := os.Open(one.path)
	if err != nil {
		return err
	}
	defer handle.Close()
	info, err := handle.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	var identity [2]uint64
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		identity = [2]uint64{stat.Dev, stat.Ino}
	}
	if identity == one.identity && info.Size() == one.size && info.ModTime().Equal(one.modified) {
		return nil
	}
	switch one.kind {
	case "jobstats", "darshan", "sacct":
		err = f.whole(one, handle)
		one.size = info.Size()
	default:
		if identity != one.identity || info.Size() < one.size { // the file was replaced or truncated
			one.size, one.rest, one.ldms, one.collectl = 0, nil, nil, nil
		}
		err = f.grown(one, handle)
	}
	one.identity, one.modified = identity, info.ModTime()
	return err
}

// whole reads a file that a program always rewrites completely.
func (f *Files) whole(one *file, r io.Reader) error {
	switch one.kind {
	case "jobstats":
		host := filepath.Base(one.path)
		others, err := counters.Jobstats(r, one.path, func(x counters.Sample) {
			if x.Node == "" {
				x.Node = host
			}
			if x.Time <= f.now.Add(maxAhead) && f.store.Add(x) { // an unchanged entry is not a new sample
				f.count.Samples++
			}
		})
		f.count.Other += others
		return err
	case "darshan":
		t, err := counters.Darshan(r, one.path)
		if err == nil {
			f.store.AddTotal(one.path, t)
			f.count.Samples++
		}
		return err
	}
	_, err := counters.Sacct(r, one.path, f.opts.Zone, func(j counters.SacctJob) {
		if j.Counted {
			f.store.AddTotal(one.path, j.Total)
			f.count.Samples++
		}
	})
	return err
}

// add adds a sample. It refuses a sample from the future, because later correct samples would then
// count as too old.
func (f *Files) add(x counters.Sample) error {
	switch {
	case x.Time > f.now.Add(maxAhead):
		return fmt.Errorf("node %s: the sample has the time %v, which is in the future (want synchronized clocks)",
			x.Node, x.Time)
	case x.Time >= f.now.Add(-f.opts.Retention) && f.store.Add(x):
		f.count.Samples++
	default:
		f.count.Late++
	}
	return nil
}

// grown reads the lines that were added to a file.
func (f *Files) grown(one *file, handle *os.File) error {
	if _, err := handle.Seek(one.size, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(handle, 64<<10)
	for {
		part, err := r.ReadSlice('\n')
		one.size += int64(len(part))
		one.rest = append(one.rest, part...)
		whole := err == nil
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		case len(one.rest) > longestLine && !whole:
			one.rest = one.rest[:longestLine] // the rest of the line is dropped; the beginning is not a valid sample
		}
		if whole {
			line := string(bytes.TrimRight(one.rest, "\r\n"))
			one.rest = one.rest[:0]
			if err := f.line(one, line); err != nil {
				f.mistake(one, err)
			}
		}
	}
}

// line processes a line of a growing file.
func (f *Files) line(one *file, line string) error {
	if strings.TrimSpace(line) == "" {
		return nil
	}
	var x counters.Sample
	var skip bool
	var err error
	if one.kind == "collectl" {
		if one.collectl == nil {
			one.collectl = &counters.Collectl{Node: filepath.Base(one.path)}
		}
		if x, skip, err = one.collectl.Line(line); skip || err != nil {
			return err
		}
		return f.add(x)
	}
	if strings.HasPrefix(line, "#") || one.ldms == nil {
		return f.header(one, line)
	}
	if x, skip, err = one.ldms.Line(line); err != nil {
		return err
	}
	if skip {
		f.count.Other++
		return nil
	}
	return f.add(x)
}

// header reads the header for an LDMS file: its first line, or the separate file of LDMS's
// altheader.
func (f *Files) header(one *file, line string) error {
	if !strings.HasPrefix(line, "#") {
		text, err := os.ReadFile(one.path + ".HEADER")
		if err != nil {
			return fmt.Errorf("no header (want #Time,... as the first line, or in %s.HEADER)", one.path)
		}
		data := line
		line, _, _ = strings.Cut(string(text), "\n")
		defer func() {
			if one.ldms != nil {
				if err := f.line(one, data); err != nil {
					f.mistake(one, err)
				}
			}
		}()
	}
	reader := &counters.LDMS{FileSystem: f.opts.FileSystem}
	if err := reader.Header(line); err != nil {
		return err
	}
	one.ldms = reader
	return nil
}

// Counts returns how much was read so far.
func (f *Files) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count
}

// Use returns the use of a job. It uses the job's nodes and times if they are known and a node's
// counters cover them, and otherwise the job's number.
func (f *Files) Use(job ioservice.Job) (counters.Use, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(job.Nodes) > 0 {
		if use, found := f.store.During(job.Nodes, job.Start, job.End); found {
			return use, true
		}
	}
	return f.store.Job(job.ID, job.Start, job.End)
}

// Rate returns the rate of all counters together.
func (f *Files) Rate(from, to hpc.Time) (float64, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.store.Rate(from, to)
}
