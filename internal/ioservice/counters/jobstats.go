package counters

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"rmreplay/internal/lines"
)

// Jobstats reads the output of "lctl get_param obdfilter.*.job_stats mdt.*.job_stats" and calls
// the function add for each job on each target. jobid_var must be SLURM_JOB_ID, or a jobid_name
// that begins with the job's number. The result others is the number of entries that are not about
// jobs, for example about daemons.
//
// The format is described in the Lustre manual: "PARAMETER=" and "job_stats:", then per job "-
// job_id:", "snapshot_time:" and a line per operation with the sum in braces. Lustre 2.15 and newer
// add start_time and elapsed_time, and fractions to the times.
func Jobstats(r io.Reader, name string, add func(Sample)) (others int, err error) {
	var p jobstats
	p.add = add
	if err := lines.Each(r, name, p.line); err != nil {
		return p.others, err
	}
	if err := p.end(); err != nil {
		return p.others, fmt.Errorf("%s: %w", name, err)
	}
	if !p.any {
		return p.others, fmt.Errorf("%s: no job_stats (want the output of lctl get_param obdfilter.*.job_stats)", name)
	}
	return p.others, nil
}

type jobstats struct {
	add    func(Sample)
	target string
	entry  Sample
	open   bool // an entry is being read
	any    bool
	others int
}

func (p *jobstats) line(_ int, line []byte) error {
	text := strings.TrimSpace(string(line))
	if param, empty, found := strings.Cut(text, ".job_stats="); found && !strings.ContainsAny(param, " {:") {
		if err := p.end(); err != nil {
			return err
		}
		p.any, p.target = true, param
		text = strings.TrimSpace(empty)
	}
	field, value, found := strings.Cut(strings.TrimPrefix(text, "- "), ":")
	value = strings.TrimSpace(value)
	switch field = strings.TrimSpace(field); {
	case text == "" || strings.HasPrefix(text, "#"):
		return nil
	case !found:
		return fmt.Errorf("%.60q: not a line of job_stats (want KEY: VALUE)", text)
	case field == "job_stats":
		p.any = true
	case field == "job_id":
		if err := p.end(); err != nil {
			return err
		}
		p.open = true
		p.entry = Sample{Node: p.target, Target: "jobstats", OfJob: true, Job: jobNumber(strings.Trim(value, `"`))}
	case !p.open:
		return fmt.Errorf("%.60q comes before the first job_id", text)
	case field == "snapshot_time" || field == "start_time":
		seconds, _, _ := strings.Cut(value, " ") // "secs.nsecs" may follow
		at, err := instant(seconds)
		if err != nil {
			return err
		}
		if field == "start_time" {
			p.entry.Begin = at
		} else {
			p.entry.Time = at
		}
	case field == "read_bytes" || field == "write_bytes":
		sum, err := braceSum(value)
		if err != nil {
			return err
		}
		p.entry.Bytes += sum
	}
	return nil
}

// end ends the entry that was read, and passes it to the function add.
func (p *jobstats) end() error {
	if !p.open {
		return nil
	}
	p.open = false
	switch {
	case p.entry.Job == "":
		p.others++
		return nil
	case p.entry.Time == 0:
		return fmt.Errorf("job %s of %s has no snapshot_time", p.entry.Job, p.target)
	}
	p.add(p.entry)
	return nil
}

// jobNumber returns the number at the beginning of a job ID, or "". The number may be followed by a
// dot, a colon, an underscore or a hyphen, as in "1234.nid00001".
func jobNumber(id string) string {
	end := strings.IndexFunc(id, func(r rune) bool { return r < '0' || r > '9' })
	switch {
	case end < 0:
		end = len(id)
	case !strings.ContainsRune(".:_-", rune(id[end])):
		return ""
	}
	if end > 20 {
		return ""
	}
	return id[:end]
}

// braceSum returns the sum in "{ samples: 2, unit: bytes, min: 4096, max: 4096, sum: 8192 }".
func braceSum(value string) (float64, error) {
	inside, found := strings.CutPrefix(value, "{")
	inside, _, closed := strings.Cut(inside, "}")
	if !found || !closed {
		return 0, fmt.Errorf("%.60q: not a counter of job_stats (want { samples: N, unit: bytes, ... sum: N })", value)
	}
	for field := range strings.SplitSeq(inside, ",") {
		key, number, _ := strings.Cut(field, ":")
		if strings.TrimSpace(key) == "sum" {
			return bytesOf(strings.TrimSpace(number))
		}
	}
	return 0, errors.New("the counter has no sum")
}
