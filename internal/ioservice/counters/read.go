package counters

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/hpc"
)

// errNoNumber says that the value of a counter is not a valid number.
var errNoNumber = errors.New("not a counter (want a number of bytes from 0 up)")

// bytesOf parses a counter.
func bytesOf(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || n > math.MaxUint64 || math.IsNaN(n) {
		return 0, fmt.Errorf("%.40q: %w", text, errNoNumber)
	}
	return n, nil
}

// maxSeconds is the latest instant, in seconds since 1970, because hpc.Time is in nanoseconds.
const maxSeconds = 9e9

// instant parses seconds since 1970, with or without a fraction.
func instant(text string) (hpc.Time, error) {
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	nanos, ferr := strconv.ParseUint((fraction + "000000000")[:9], 10, 32)
	if err != nil || ferr != nil || seconds <= 0 || seconds > maxSeconds {
		return 0, fmt.Errorf("%.40q: not a time (want seconds since 1970)", text)
	}
	return hpc.Unix(seconds).Add(time.Duration(nanos)), nil
}

// LDMS parses the files that LDMS's store_csv writes for the samplers of the Lustre client. Their
// columns are #Time, ProducerName, component_id and job_id, and either client.read_bytes#llite.FS
// and client.write_bytes#llite.FS, or read_bytes.sum and write_bytes.sum with fs_name and llite.
type LDMS struct {
	// FileSystem is the file system to count, such as "testfs" or "testfs-ffff8800"; "" counts all.
	FileSystem string

	columns                           int
	time, node, alias, job, fs, llite int // indices of columns; -1 for a missing column
	counters                          []int
}

// Header parses the line with the names of the columns.
func (l *LDMS) Header(line string) error {
	names := strings.Split(strings.TrimPrefix(strings.TrimSpace(line), "#"), ",")
	l.columns, l.counters = len(names), nil
	l.time, l.node, l.alias, l.job, l.fs, l.llite = -1, -1, -1, -1, -1, -1
	one := map[string]*int{"Time": &l.time, "ProducerName": &l.node, "component_id": &l.alias, "job_id": &l.job,
		"fs_name": &l.fs, "llite": &l.llite}
	for i, name := range names {
		name = strings.Trim(strings.TrimSpace(name), `"`)
		if at := one[name]; at != nil {
			*at = i
		}
		base, fs, _ := strings.Cut(strings.TrimPrefix(name, "client."), "#llite.")
		switch base {
		case "read_bytes", "write_bytes", "read_bytes.sum", "write_bytes.sum":
			if fs == "" || l.counts(fs) {
				l.counters = append(l.counters, i)
			}
		}
	}
	switch {
	case l.time < 0 || l.node < 0:
		return errors.New("the header lacks #Time or ProducerName (want a file of LDMS's store_csv with its header)")
	case len(l.counters) == 0 && l.FileSystem != "":
		return fmt.Errorf("no column has read_bytes or write_bytes of file system %s", l.FileSystem)
	case len(l.counters) == 0:
		return errors.New("no column has read_bytes or write_bytes (want a sampler of Lustre clients)")
	}
	return nil
}

// counts reports whether a file system, or an instance of it, must be counted.
func (l *LDMS) counts(fs string) bool {
	return l.FileSystem == "" || fs == l.FileSystem || strings.HasPrefix(fs, l.FileSystem+"-")
}

// Line parses a line after the header. The result skip is true if the line is about a file system
// that is not counted.
func (l *LDMS) Line(line string) (x Sample, skip bool, err error) {
	cells := strings.Split(line, ",")
	if len(cells) != l.columns {
		return x, false, fmt.Errorf("%d columns (want %d, as in the header)", len(cells), l.columns)
	}
	cell := func(i int) string {
		if i < 0 {
			return ""
		}
		return strings.Trim(strings.TrimSpace(cells[i]), `"`)
	}
	if l.fs >= 0 && !l.counts(cell(l.fs)) {
		return x, true, nil
	}
	if x.Time, err = instant(cell(l.time)); err != nil {
		return x, false, err
	}
	x.Node, x.Alias, x.Job = cell(l.node), cell(l.alias), cell(l.job)
	if x.Target = cell(l.llite); x.Target == "" {
		x.Target = cell(l.fs)
	}
	if x.Node == "" {
		return x, false, errors.New("no ProducerName")
	}
	for _, i := range l.counters {
		n, err := bytesOf(cell(i))
		if err != nil {
			return x, false, err
		}
		x.Bytes += n
	}
	return x, false, nil
}

// Collectl parses the output of "collectl -sl -P" on one node. It adds up the rates in the output,
// in KB per second, to a counter.
type Collectl struct {
	Node string // name of the file, until the header names the host

	zone                     *time.Location
	date, clock, read, write int
	columns                  int
	last                     hpc.Time
	bytes                    float64
}

// Line parses a line. The result none is true for a header, which has no sample.
func (c *Collectl) Line(line string) (x Sample, none bool, err error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return x, true, nil
	}
	if strings.HasPrefix(line, "#") {
		return x, true, c.header(words)
	}
	if c.columns == 0 {
		return x, false, errors.New("no header #Date Time [CLT]ReadKB (want the output of collectl -sl -P)")
	}
	if len(words) != c.columns {
		return x, false, fmt.Errorf("%d columns (want %d, as in the header)", len(words), c.columns)
	}
	zone := c.zone
	if zone == nil {
		zone = time.UTC
	}
	at, err := time.ParseInLocation("20060102 15:04:05", words[c.date]+" "+words[c.clock], zone) // accepts fractions, too
	if err != nil || at.Unix() <= 0 || at.Unix() > maxSeconds {
		return x, false, fmt.Errorf("%.40q: not a time (want 20240305 12:00:00)", words[c.date]+" "+words[c.clock])
	}
	var rate float64 // KB/s
	for _, i := range []int{c.read, c.write} {
		n, err := bytesOf(words[i])
		if err != nil {
			return x, false, err
		}
		rate += n
	}
	now := hpc.Time(at.UnixNano())
	if c.last != 0 && now > c.last {
		c.bytes += rate * 1024 * now.Sub(c.last).Seconds()
	}
	c.last = max(c.last, now)
	return Sample{Node: c.Node, Target: "collectl", Time: now, Bytes: c.bytes}, false, nil
}

// header parses a comment line: the host, the time zone, or the names of the columns.
func (c *Collectl) header(words []string) error {
	for i, word := range words[:len(words)-1] {
		switch word {
		case "Host:":
			c.Node, _, _ = strings.Cut(words[i+1], ".")
		case "TZ:":
			if t, err := time.Parse("-0700", words[i+1]); err == nil {
				c.zone = t.Location()
			}
		}
	}
	if words[0] != "#Date" {
		return nil
	}
	at := map[string]int{"#Date": -1, "Time": -1, "[CLT]ReadKB": -1, "[CLT]WriteKB": -1}
	for i, word := range words {
		if _, wanted := at[word]; wanted {
			at[word] = i
		}
	}
	for name, i := range at {
		if i < 0 {
			return fmt.Errorf("the header lacks %s (want the output of collectl -sl -P)", name)
		}
	}
	c.columns, c.date, c.clock, c.read, c.write = len(words), at["#Date"], at["Time"], at["[CLT]ReadKB"],
		at["[CLT]WriteKB"]
	return nil
}
