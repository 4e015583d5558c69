// Package pbs reads the accounting logs of PBS: Torque, OpenPBS and PBS Professional. Each day
// has its own file.
//
// Sources: TORQUE Administrator Guide, "Accounting records"; PBS Professional Administrator's
// Guide, "Accounting log"; PBS Professional Reference Guide, "Formats" and "Job exit status".
package pbs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/workload"
)

// Format is the accounting log of PBS.
var Format = workload.Format{
	Name: "pbs", Doc: "the accounting log of Torque, OpenPBS or PBS Professional",
	Looks: "an accounting log of PBS", Recognize: recognize, Read: finished.NewReader(New).Read,
}

// The notes that a reader counts beside those of [finished.Builder].
const (
	// NoteArrayParent counts records of whole job arrays. Their tasks have records of their own.
	NoteArrayParent = "array_as_a_whole"
	// NoteChunks counts jobs that asked for chunks of different sizes. In a workload a job asks for
	// the same resources on each node, so these jobs get the mean.
	NoteChunks = "chunks_averaged"
	// NoteHostDropped counts jobs that asked for hosts by their names.
	NoteHostDropped = "named_host_dropped"
	// NoteNodesShared counts jobs whose nodes shared hosts. Torque's nodes are virtual, and its
	// schedulers may place several of them on one host (JOBNODEMATCHPOLICY of Maui and Moab). Such a
	// job asks for as many nodes as it had hosts.
	NoteNodesShared = "nodes_shared_hosts"
	// NoteVirtualMemory counts jobs that limit their virtual memory and ask for no memory. Virtual
	// memory is not memory, so these jobs' memory is not known.
	NoteVirtualMemory = "virtual_memory_only"
)

// recognize accepts a first line with a date, a type, a job's ID and a further text.
func recognize(head []byte) workload.Confidence {
	for line := range bytes.Lines(bytes.TrimPrefix(head, lines.ByteOrderMark)) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if _, err := parseRecord(line); err != nil {
			return workload.No
		}
		return workload.Sure
	}
	return workload.No
}

// record is a line: "DATE;TYPE;ID;KEY=VALUE KEY=VALUE ...".
type record struct {
	date []byte // local time, such as "03/01/2024 08:00:00"
	kind byte
	id   string
	text []byte
}

func parseRecord(line []byte) (r record, err error) {
	parts := bytes.SplitN(line, []byte(";"), 4)
	if len(parts) < 4 || len(parts[1]) != 1 || len(parts[0]) < 19 || parts[0][2] != '/' || parts[0][5] != '/' {
		return r, errors.New("not a record (want DATE;TYPE;JOB;KEY=VALUE ...)")
	}
	return record{parts[0], parts[1][0], string(bytes.TrimSpace(parts[2])), parts[3]}, nil
}

// at returns when the record was written. The date is in the zone of the server.
func (r *record) at(zone *time.Location) (hpc.Time, error) {
	t, err := time.ParseInLocation("01/02/2006 15:04:05", string(r.date[:19]), zone)
	if err != nil || t.Year() < 1970 || t.Year() > 2200 {
		return 0, fmt.Errorf("date %.30q: not a time (want MM/DD/YYYY HH:MM:SS, such as 03/31/2024 08:00:00)", r.date)
	}
	return hpc.Time(t.UnixNano()), nil
}

// attributes yields the keys and values of a record. Any value may contain blanks, with or without
// quotes: a value without quotes continues until the next key.
func attributes(text []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		key, rest := nextKey(text)
		for key != "" {
			var value []byte
			var next string
			if at := endOfQuotes(rest); at > 0 {
				value = rest[1 : at-1]
				next, rest = keyBehindBlank(rest[at:])
			} else {
				var after []byte
				if next, after = keyBehindBlank(rest); next == "" {
					value = bytes.TrimSpace(rest)
				} else {
					value = bytes.TrimSpace(rest[:len(rest)-len(after)-len(next)-1])
				}
				rest = after
			}
			if !yield(key, value) {
				return
			}
			key = next
		}
	}
}

// endOfQuotes returns the length of the quoted text at the beginning, or 0 if the text begins
// without a quote.
func endOfQuotes(text []byte) int {
	if len(text) < 2 || text[0] != '"' {
		return 0
	}
	for at := 1; at < len(text); at++ {
		if text[at] == '"' && (at+1 == len(text) || text[at+1] == ' ') {
			return at + 1
		}
	}
	return 0
}

// nextKey returns the first word that ends in "=", and the text after it. A key begins at the
// beginning of the text or after a blank.
func nextKey(text []byte) (key string, rest []byte) {
	for at := 0; at < len(text); {
		end := at
		for end < len(text) && isKey(text[end]) {
			end++
		}
		if end > at && end < len(text) && text[end] == '=' {
			return string(text[at:end]), text[end+1:]
		}
		blank := bytes.IndexByte(text[end:], ' ')
		if blank < 0 {
			break
		}
		at = end + blank + 1
	}
	return "", nil
}

// keyBehindBlank is [nextKey] for a text whose first word is a value.
func keyBehindBlank(text []byte) (key string, rest []byte) {
	blank := bytes.IndexByte(text, ' ')
	if blank < 0 {
		return "", nil
	}
	return nextKey(text[blank+1:])
}

func isKey(c byte) bool {
	return c == '_' || c == '.' || c == '-' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// New returns a reader of accounting logs. The files may be read in any order, but the record of a
// job that is read last decides how the job ended.
func New(source string, opts workload.ReadOptions) finished.Reader {
	return &reader{b: finished.NewBuilder(source, opts), open: make(map[string]*job)}
}

type reader struct {
	b    *finished.Builder
	open map[string]*job // jobs without a record of their end, by ID
	ids  []string        // their IDs, in the order of the log
	zone *time.Location
}

// job has the data of a job's records so far.
type job struct {
	finished.Job
	text    string   // the last record
	deleted hpc.Time // when a user deleted the job, or the server aborted it
	asked   bool     // a record has the request
	shared  bool     // its nodes shared hosts, and this was counted
	closed  bool     // the job has ended, and was given to the builder
}

// Read reads the log of a day.
func (s *reader) Read(r io.Reader, name string) error {
	s.zone = s.b.Options().Location()
	if err := lines.Each(r, name, func(_ int, line []byte) error { return s.line(line) }); err != nil {
		return fmt.Errorf("reading PBS accounting: %w", err)
	}
	return nil
}

func (s *reader) line(line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	s.b.Row()
	r, err := parseRecord(line)
	if err != nil {
		return s.b.Unusable(finished.RuleNoRecord, string(line), "%v", err)
	}
	switch r.kind {
	case 'Q', 'S', 'E', 'R', 'D', 'A':
	default: // reservations, licences, checkpoints, releases of nodes
		s.b.Note(finished.NoteOtherRecord)
		return nil
	}
	id, err := parseID(r.id)
	if err != nil {
		return s.b.Unusable(finished.RuleNoRecord, string(line), "%v", err)
	}
	if s.b.OtherCluster(id.server) {
		return nil
	}
	if id.array {
		s.b.Drop(NoteArrayParent)
		return nil
	}
	when, err := r.at(s.zone)
	if err != nil {
		return s.b.Unusable(finished.RuleNoRecord, string(line), "%v", err)
	}
	j := s.job(r.kind, id)
	if j == nil { // the user deleted the job after its end
		s.b.Joined()
		return nil
	}
	if j.text != "" {
		s.b.Joined()
	}
	j.text = string(line)
	if err := s.read(j, r.text); err != nil {
		return err
	}
	return s.event(j, r.kind, when)
}

// job returns the job of a record, which may be its first.
func (s *reader) job(kind byte, id identity) *job {
	j := s.open[id.text]
	switch {
	case j != nil && !j.closed:
		return j
	case j != nil && (kind == 'D' || kind == 'A'):
		return nil
	}
	j = &job{Job: finished.Job{ID: id.text, Number: id.number, ArrayTask: -1, Elapsed: -1, Cluster: id.server}}
	if id.task >= 0 { // PBS gives tasks no numbers of their own
		j.ArrayJob, j.ArrayTask, j.Number = id.number, id.task, 0
	}
	if s.open[id.text] == nil {
		s.ids = append(s.ids, id.text)
	}
	s.open[id.text] = j
	return j
}

// event handles a record by its type.
func (s *reader) event(j *job, kind byte, when hpc.Time) error {
	switch kind {
	case 'Q':
		if j.Submit == 0 {
			j.Submit = when
		}
	case 'S':
		if j.Start == 0 {
			j.Start = when
		}
		j.State = hpc.Running
	case 'D', 'A':
		j.deleted = when
	case 'R':
		if j.Start == 0 {
			return nil
		}
		again := *j
		if again.End == 0 {
			again.End = when
		}
		again.State = hpc.Requeued
		s.b.Row() // the record ends a run and queues the job for the next one
		j.Start, j.End, j.State, j.NodeList, j.ExitCode = 0, 0, "", "", 0
		return s.b.Add(&again.Job, j.text)
	case 'E':
		if j.End == 0 {
			j.End = when
		}
		return s.close(j)
	}
	return nil
}

// close gives the builder a job that has ended.
func (s *reader) close(j *job) error {
	j.closed = true
	text := j.text
	j.State = j.fate()
	done := j.Job
	*j = job{closed: true, Job: finished.Job{ID: j.ID}}
	return s.b.Add(&done, text)
}

// exitWalltime is the exit status of a job of PBS Professional that exceeded its time limit
// (JOB_EXEC_KILL_WALLTIME).
const exitWalltime = -29

// fate returns the state of an ended job from its exit status. 0 to 255 is the script's status.
// 256+N (Torque: also 128+N) means that signal N ended the job. A negative status means that PBS
// ended it. A signal at the time limit means that the limit ended the job, and a signal after a
// deletion that qdel ended it.
func (j *job) fate() hpc.State {
	status := j.ExitCode
	j.ExitCode = 0
	signalled := status > 128 || status < 0
	switch {
	case status > 256:
		j.Signal = min(status-256, 127)
	case status >= 0 && status < 256:
		j.ExitCode = status
	}
	switch {
	case status == 0:
		return hpc.Completed
	case j.deleted != 0:
		return hpc.Cancelled
	case status == exitWalltime, signalled && j.TimeLimit > 0 && j.Start > 0 && j.End.Sub(j.Start) >= j.TimeLimit:
		return hpc.TimedOut
	}
	return hpc.Failed
}

// Finish gives the builder the jobs whose end is not in the logs, and returns the workload.
func (s *reader) Finish() (*workload.Workload, []string, error) {
	for _, id := range s.ids {
		j := s.open[id]
		if j == nil || j.closed {
			continue
		}
		if j.deleted != 0 && j.Start == 0 {
			j.State, j.End = hpc.Cancelled, j.deleted
		} else if j.State == "" {
			j.State = hpc.Pending
		}
		if err := s.b.Add(&j.Job, j.text); err != nil {
			return nil, nil, fmt.Errorf("reading PBS accounting: %w", err)
		}
	}
	return s.b.Close("PBS accounting")
}

// identity is a job's ID: "17.server", "17[4].server" or Torque's "17-4.server" for a task of an
// array, "17[].server" for the array as a whole.
type identity struct {
	text, server string
	number       uint32
	task         int // -1 for a job that is not a task
	array        bool
}

func parseID(text string) (id identity, err error) {
	job, server, _ := strings.Cut(text, ".")
	id = identity{text: job, server: server, task: -1}
	number := job
	if at := strings.IndexAny(job, "[-"); at >= 0 {
		rest := strings.TrimSuffix(job[at+1:], "]")
		number = job[:at]
		if id.array = rest == ""; !id.array {
			if id.task, err = strconv.Atoi(rest); err != nil || id.task < 0 || id.task > hpc.MaxArrayIndex {
				return id, fmt.Errorf("job %.40q: %q is not a task's number (want 0 to %d)", text, rest, hpc.MaxArrayIndex)
			}
		}
	}
	n, err := strconv.ParseUint(number, 10, 63)
	if err != nil {
		return id, fmt.Errorf("job %.40q: not a job's number (want 17.server)", text)
	}
	if id.number = uint32(n); uint64(id.number) != n || n == 0 { // PBS Professional's numbers have up to 12 digits
		id.number, id.task = 0, -1
	}
	if id.task >= 0 {
		id.text = number + "_" + strconv.Itoa(id.task)
	}
	return id, nil
}

// instant reads seconds since 1970. Some logs in PBS's format have decimals, which are ignored.
func instant(text []byte) (hpc.Time, error) {
	whole, _, _ := bytes.Cut(text, []byte{'.'})
	sec, err := strconv.ParseInt(string(whole), 10, 64)
	if err != nil || sec < 0 || sec > 7258118400 {
		return 0, errors.New("not a time (want seconds since 1970)")
	}
	return hpc.Unix(sec), nil
}

// duration reads "HH:MM:SS", "MM:SS" or seconds.
func duration(text string) (time.Duration, error) {
	var total int64
	for i, part := range strings.Split(text, ":") {
		n, err := strconv.ParseUint(part, 10, 32)
		if total = 60*total + int64(n); err != nil || i > 2 || total > 4e9 {
			return 0, errors.New("not a duration (want HH:MM:SS)")
		}
	}
	return time.Duration(total) * time.Second, nil
}

// mebibytes reads an amount of memory ("8gb", "500mw", bytes without a unit) and rounds up. A
// word of memory (w) has 8 bytes.
func mebibytes(text string) (int64, error) {
	number, size := strings.ToLower(text), 1.0
	switch {
	case strings.HasSuffix(number, "w"):
		number, size = number[:len(number)-1], 8
	case strings.HasSuffix(number, "b"):
		number = number[:len(number)-1]
	}
	if number != "" {
		if at := strings.IndexByte("kmgtp", number[len(number)-1]); at >= 0 {
			number = number[:len(number)-1]
			for range at + 1 {
				size *= 1024
			}
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if mib := n * size / (1 << 20); err == nil && mib >= 0 && mib <= 1<<40 {
		return int64(mib) + int64(cmp.Compare(mib, float64(int64(mib)))), nil
	}
	return 0, errors.New("not an amount of memory (want 8gb)")
}
