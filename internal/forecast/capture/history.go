package capture

import (
	"path/filepath"
	"strings"
	"time"

	"rmreplay/internal/input"
)

// After wholeAfter, the whole history is read again. Otherwise the stored history would grow
// without limit. sacct is also queried for the time overlap before the earlier capture, because
// slurmdbd may have received an end later than slurmctld.
const (
	wholeAfter = 24 * time.Hour
	overlap    = 15 * time.Minute
)

// since returns the beginning of the range of sacct's query. It also sets the earlier history, to
// which sacct's output is appended. It returns zero if the options request no history. An earlier
// capture that cannot be read is ignored.
func (c *capturing) since() time.Time {
	if c.opts.History <= 0 {
		return time.Time{}
	}
	c.made.History = c.opts.Now.UTC()
	if c.opts.Earlier != "" {
		before, err := readIndexFile(c.opts.Earlier)
		if err == nil && c.opts.Now.Sub(before.History) < wholeAfter {
			text, err := input.ReadFile(filepath.Join(c.opts.Earlier, historyFile), most)
			if err == nil {
				c.made.History, c.earlier = before.History, string(text)
				return before.At.Add(-overlap)
			}
		}
	}
	return c.opts.Now.Add(-c.opts.History)
}

// continued joins two texts of sacct. Records of the later text replace earlier records of the same jobs. Names of
// jobs may have line breaks, so a record begins at each line with the number of a job.
func continued(earlier, later string) string {
	header, rest, _ := strings.Cut(later, "\n")
	again := map[string]bool{}
	records(rest, func(job, _ string) { again[job] = true })
	var b strings.Builder
	b.WriteString(header + "\n")
	_, old, _ := strings.Cut(earlier, "\n")
	records(old, func(job, text string) {
		if !again[job] {
			b.WriteString(text)
		}
	})
	b.WriteString(rest)
	return b.String()
}

// records calls f for each record of sacct with the job's number (JobIDRaw, the second column).
func records(text string, f func(job, text string)) {
	begin, job := 0, ""
	at := 0
	for line := range strings.Lines(text) {
		columns := strings.SplitN(line, "|", 3)
		if len(columns) == 3 && digits(columns[1]) && line[0] >= '0' && line[0] <= '9' {
			if at > begin {
				f(job, text[begin:at])
			}
			begin, job = at, columns[1]
		}
		at += len(line)
	}
	if at > begin {
		f(job, text[begin:at])
	}
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
