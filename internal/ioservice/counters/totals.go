package counters

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
)

// Darshan parses the output of "darshan-parser --total" for one log. It counts the bytes of the
// modules POSIX and STDIO, which MPI-IO and HDF5 also use for their I/O.
func Darshan(r io.Reader, name string) (t Total, err error) {
	counted := false
	err = lines.Each(r, name, func(_ int, line []byte) (err error) {
		key, value, found := strings.Cut(string(line), ":")
		if !found {
			return nil
		}
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(strings.TrimPrefix(key, "#")) {
		case "jobid":
			t.Job = jobNumber(value)
		case "start_time":
			t.Start, err = instant(value)
		case "end_time":
			t.End, err = instant(value)
		case "total_POSIX_BYTES_READ", "total_POSIX_BYTES_WRITTEN", "total_STDIO_BYTES_READ", "total_STDIO_BYTES_WRITTEN":
			counted = true
			var n float64
			if value != "-1" { // Darshan writes -1 for a missing counter
				n, err = bytesOf(value)
			}
			t.Bytes += n
		}
		return err
	})
	switch {
	case err != nil:
		return t, err
	case t.Job == "" || t.Start == 0 || t.End == 0 || !counted:
		return t, fmt.Errorf(
			"%s: lacks jobid, start_time, end_time or total_POSIX_BYTES_READ (want the output of darshan-parser --total)", name)
	case t.End < t.Start:
		return t, fmt.Errorf("%s: end_time is before start_time", name)
	case t.End == t.Start:
		t.End = t.Start.Add(time.Second) // because Darshan's times have no fractions
	}
	return t, nil
}

// SacctJob is a finished job in the output of sacct.
type SacctJob struct {
	Total
	Comment, Name, Nodes string
	Counted              bool // whether sacct has the bytes of at least one step
}

// sacctColumns are the columns that [Sacct] reads. The columns in the second line of the list may
// be missing.
var sacctColumns = []string{
	"JobID", "Start", "End", "TRESUsageInTot", "TRESUsageOutTot",
	"JobIDRaw", "Comment", "JobName", "NodeList",
}

const sacctRequired = 5 // number of required columns

// Sacct parses the output of "sacct -P --format=JobID,JobIDRaw,Start,End,Comment,JobName,NodeList,
// TRESUsageInTot,TRESUsageOutTot" with steps and header. A job's bytes are the sum over its steps:
// of fs/lustre if the site gathers it (AcctGatherFilesystemType), and otherwise of fs/disk. Sacct
// calls the function add for each job that has ended, in the order of the file. The result open is
// the number of jobs that have no start or no end.
func Sacct(r io.Reader, name string, zone *time.Location, add func(SacctJob)) (open int, err error) {
	var at map[string]int
	var job *SacctJob
	var id string
	finish := func() {
		if job != nil {
			add(*job)
		}
		job = nil
	}
	err = lines.Each(r, name, func(_ int, line []byte) error {
		cells := strings.Split(string(bytes.TrimRight(line, "\r\n")), "|")
		if at == nil {
			at, err = sacctHeader(cells)
			return err
		}
		cell := func(column string) string {
			if i, found := at[column]; found && i < len(cells) {
				return cells[i]
			}
			return ""
		}
		if len(cells) < len(at) {
			return fmt.Errorf("%d columns (want %d, as in the header)", len(cells), len(at))
		}
		jobID, _, step := strings.Cut(cell("JobID"), ".")
		if !step {
			finish()
			var ended bool
			if job, ended, err = sacctJob(cell, zone); err != nil {
				return err
			} else if !ended {
				job = nil
				open++
			}
			id = jobID
			return nil
		}
		if job == nil || jobID != id {
			return nil // the step's job is still running, or is not in the output
		}
		n, counted, err := fileSystemBytes(cell("TRESUsageInTot"), cell("TRESUsageOutTot"))
		job.Bytes, job.Counted = job.Bytes+n, job.Counted || counted
		return err
	})
	if err == nil && at == nil {
		err = fmt.Errorf("%s: empty (want the output of sacct -P with its header)", name)
	}
	if err == nil {
		finish()
	}
	return open, err
}

func sacctHeader(names []string) (map[string]int, error) {
	at := map[string]int{}
	for i, name := range names {
		for _, known := range sacctColumns {
			if strings.EqualFold(name, known) {
				at[known] = i
			}
		}
	}
	for _, name := range sacctColumns[:sacctRequired] {
		if _, found := at[name]; !found {
			return nil, fmt.Errorf("the header lacks %s (want sacct -P --format=%s)", name, strings.Join(sacctColumns, ","))
		}
	}
	return at, nil
}

// sacctJob parses a job's line. The result ended is false if the start or the end is missing.
func sacctJob(cell func(string) string, zone *time.Location) (job *SacctJob, ended bool, err error) {
	job = &SacctJob{Comment: cell("Comment"), Name: cell("JobName"), Nodes: cell("NodeList")}
	if job.Job = cell("JobIDRaw"); job.Job == "" {
		job.Job = cell("JobID")
	}
	for _, one := range []struct {
		text string
		to   *hpc.Time
	}{{cell("Start"), &job.Start}, {cell("End"), &job.End}} {
		if one.text == "Unknown" || one.text == "None" || one.text == "" {
			return job, false, nil
		}
		t, err := time.ParseInLocation("2006-01-02T15:04:05", one.text, zone)
		if err != nil {
			return nil, false, fmt.Errorf("%.40q: not a time (want 2024-03-05T12:00:00)", one.text)
		}
		*one.to = hpc.Unix(t.Unix())
	}
	return job, job.End > job.Start, nil
}

// fileSystemBytes returns the sum of file system bytes in lists of TRES.
func fileSystemBytes(lists ...string) (sum float64, counted bool, err error) {
	for _, list := range lists {
		values := map[string]string{}
		for one := range strings.SplitSeq(list, ",") {
			name, value, _ := strings.Cut(one, "=")
			values[name] = value
		}
		value, found := values["fs/lustre"]
		if !found {
			value, found = values["fs/disk"]
		}
		if !found || value == "" {
			continue
		}
		n, err := scaled(value)
		if err != nil {
			return sum, counted, err
		}
		sum, counted = sum+n, true
	}
	return sum, counted, nil
}

// scaled parses a number in sacct's format: 4.15M means 4.15 times 1024².
func scaled(text string) (float64, error) {
	factor, digits := 1.0, text
	if i := strings.IndexByte("KMGTPE", text[len(text)-1]); i >= 0 {
		for range i + 1 {
			factor *= 1024
		}
		digits = text[:len(text)-1]
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil || n < 0 || n > 1e19 || math.IsNaN(n) {
		return 0, fmt.Errorf("%.40q: not a number of bytes (want digits, and K, M, G, T, P or E)", text)
	}
	return n * factor, nil
}
