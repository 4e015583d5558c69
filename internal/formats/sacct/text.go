// Package sacct reads the output of Slurm's sacct -P and sacct --json, and writes output in the
// form of sacct -P.
package sacct

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/lines"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// Format is the format of sacct's output.
var Format = workload.Format{
	Name: "sacct", Doc: "what Slurm's sacct prints with -P or --json",
	Looks: "what sacct -P or --json prints", Recognize: recognize, Read: Read, Write: Write,
}

// recognize accepts a header with a column for the job's ID, or the JSON object of --json.
func recognize(head []byte) workload.Confidence {
	line, _ := lines.First(head)
	if strings.HasPrefix(line, "{") {
		if looksLikeJSON(head) {
			return workload.Sure
		}
		return workload.No
	}
	delimiter, ok := delimiterOf(line)
	switch names := strings.Split(strings.ToLower(line), delimiter); {
	case !ok, delimiter == "," && (!slices.Contains(names, "submit") || !slices.Contains(names, "state")):
		return workload.No
	}
	return workload.Sure
}

// delimiterOf returns the delimiter of a header. It is the characters after the column name of a
// job's ID, or before the name if this is the last column. The delimiter is a bar, or the value of
// sacct --delimiter. It cannot contain blanks, quotes, letters or digits.
func delimiterOf(header string) (delimiter string, ok bool) {
	isName := func(c byte) bool { return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' }
	for at := 0; at < len(header); at++ {
		if !isName(header[at]) {
			continue
		}
		start := at
		for at < len(header) && isName(header[at]) {
			at++
		}
		if name := header[start:at]; !strings.EqualFold(name, "JobID") && !strings.EqualFold(name, "JobIDRaw") {
			continue
		}
		end := at
		for end < len(header) && !isName(header[end]) {
			end++
		}
		begin := start
		for begin > 0 && !isName(header[begin-1]) {
			begin--
		}
		delimiter = header[at:end]
		if begin > 0 && (delimiter == "" || end == len(header)) {
			delimiter = header[begin:start]
		}
		return delimiter, delimiter != "" && !strings.ContainsAny(delimiter, " \"") &&
			!strings.ContainsFunc(delimiter, func(r rune) bool { return r >= 0x80 })
	}
	return "|", false
}

// Read is [Accounting] without the report of missing facts.
func Read(r io.Reader, name string, opts workload.ReadOptions) (*workload.Workload, error) {
	return NewReader().Read(r, name, opts)
}

// Accounting reads what sacct prints, with -P or with --json. The result missing lists the facts
// that the records lack, and the consequences for a replay.
func Accounting(r io.Reader, name string, opts workload.ReadOptions) (w *workload.Workload, missing []string,
	err error) {
	reader := NewReader()(name, opts)
	if err := reader.Read(r, name); err != nil {
		return nil, nil, err
	}
	return reader.Finish()
}

// NewReader returns a function that makes a reader of sacct's output. For a text without a header
// (sacct -n), columns are the names of its columns.
func NewReader(columns ...string) finished.NewReader {
	return func(source string, opts workload.ReadOptions) finished.Reader {
		b := finished.NewBuilder(source, opts)
		return &reader{
			textReader{b: b, opts: opts, given: columns, interned: make(map[string]string)}, jsonReader{b: b},
		}
	}
}

type reader struct {
	text textReader
	json jsonReader
}

// headLength is the number of bytes from which text and JSON are distinguished.
const headLength = 64 << 10

// Read reads a file of text or of JSON.
func (s *reader) Read(r io.Reader, name string) (err error) {
	buffered := bufio.NewReaderSize(r, headLength)
	head, _ := buffered.Peek(headLength) // the reader will find the same error again
	if line, _ := lines.First(head); strings.HasPrefix(line, "{") && looksLikeJSON(head) {
		s.json.name, s.json.jobs = name, 0
		if err = s.json.read(json.NewDecoder(buffered)); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	} else {
		err = s.text.read(buffered, name)
	}
	if err != nil {
		return fmt.Errorf("reading sacct: %w", err)
	}
	return nil
}

// Finish returns the workload.
func (s *reader) Finish() (*workload.Workload, []string, error) { return s.text.b.Close("sacct") }

// read reads the output of `sacct -P` (or -p). The columns must include JobID (or JobIDRaw),
// Submit, Start, End (or Elapsed), and one with the size (ReqCPUS, AllocCPUS, NCPUS, ReqTRES,
// AllocTRES, NNodes). The parameter name is the source's name in errors, which have the form
// "NAME:LINE: what is wrong".
//
// A name, comment or command line may contain bars and line breaks, and sacct does not mark them. A
// text is a record if each of the other columns then has a valid value.
func (s *textReader) read(r io.Reader, name string) error {
	s.name, s.columns, s.header, s.held = name, nil, nil, nil
	err := lines.Each(r, name, s.line)
	if err == nil {
		err = lines.Located(name, s.pendingAt, s.flush())
	}
	if err == nil {
		err = lines.Located(name, s.heldAt, s.release())
	}
	if err == nil && s.columns == nil {
		err = fmt.Errorf("%s: empty", name)
	}
	return err
}

// textReader makes records from lines.
type textReader struct {
	b       *finished.Builder
	name    string // the source
	opts    workload.ReadOptions
	given   []string // the columns of a text without a header
	header  []byte
	between []byte // the delimiter between columns
	columns []column
	at      columns
	fields  [][]byte
	// pending are lines that are not a whole record yet. pendingAt is the first of these lines.
	pending   []byte
	pendingAt int
	// held is the last record, if the following lines may belong to its last column. heldAt is its
	// line, and blank the number of blank lines after it.
	held          []byte
	heldAt, blank int
	interned      map[string]string
}

// column is a column with the kind of its text.
type column struct {
	name string
	kind columnKind
}

// barCost ranks columns by how unlikely a bar is in their text. The cost 0 means that the text cannot have a bar.
func (c column) barCost() int32 {
	switch {
	case c.name == "jobname" || c.name == "submitline":
		return 2
	case c.kind == freeText:
		return 3
	case c.kind == plainText:
		return 8
	}
	return 0
}

type columnKind uint8

const (
	freeText  columnKind = iota // may have bars and line breaks
	plainText                   // a word that should not have bars or line breaks, though Slurm does not check that
	someTime
	someDuration
	someNumber
	someState
	someID
	someExit
)

var columnKinds = map[string]columnKind{
	"jobname": freeText, "comment": freeText, "admincomment": freeText, "systemcomment": freeText,
	"submitline": freeText, "constraints": freeText, "workdir": freeText, "reason": freeText, "extra": freeText,
	"submit": someTime, "eligible": someTime, "start": someTime, "end": someTime,
	"elapsed": someDuration, "timelimit": someDuration, "cputime": someDuration, "suspended": someDuration,
	"totalcpu": someDuration, "usercpu": someDuration, "systemcpu": someDuration, "reserved": someDuration,
	"resvcpu":    someDuration,
	"elapsedraw": someNumber, "timelimitraw": someNumber, "cputimeraw": someNumber, "ncpus": someNumber,
	"nnodes":    someNumber,
	"alloccpus": someNumber, "allocnodes": someNumber, "reqcpus": someNumber, "reqnodes": someNumber, "reqmem": someNumber,
	"uid": someNumber, "gid": someNumber, "priority": someNumber, "qosraw": someNumber, "dbindex": someNumber,
	"associd": someNumber, "wckeyid": someNumber, "ntasks": someNumber, "consumedenergyraw": someNumber,
	"state": someState, "jobid": someID, "jobidraw": someID, "exitcode": someExit, "derivedexitcode": someExit,
}

// fits reports whether a column of the kind can have the text, without blanks around it. An empty text fits every kind.
func (k columnKind) fits(text []byte) bool {
	if text = bytes.Trim(text, " \t"); len(text) == 0 {
		return true
	}
	switch k {
	case someTime:
		return text[0] >= '0' && text[0] <= '9' && len(text) >= 9 || oneOf(text, "Unknown", "None", "N/A", "INVALID")
	case someDuration:
		return len(bytes.Trim(text, "0123456789:-.")) == 0 || oneOf(text, "UNLIMITED", "Partition_Limit", "INVALID",
			"Unknown")
	case someNumber:
		return len(bytes.Trim(text, "0123456789.-")) <= 2
	case someState:
		word, _, _ := bytes.Cut(text, []byte(" "))
		return len(word) > 2 && len(bytes.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_+")) == 0
	case someID:
		return text[0] >= '0' && text[0] <= '9'
	case someExit:
		return len(bytes.Trim(text, "0123456789:")) == 0
	}
	return true
}

func oneOf(text []byte, words ...string) bool {
	for _, w := range words {
		if string(text) == w {
			return true
		}
	}
	return false
}

// columns has the indices of the columns that are read, or -1 for a column that the dump lacks.
type columns struct {
	jobID, jobIDRaw, cluster, name, user, group, uid, gid, account, partition, qos, wckey, reservation,
	constraints, licenses, comment, submit, eligible, start, end, elapsed, elapsedRaw, suspended,
	timelimit, timelimitRaw, state, exitCode, reason, priority, reqCPUs, allocCPUs, nCPUs, reqNodes,
	tresIn, tresOut, aveRSS, nTasks, allocNodes, nNodes, reqMem, reqTRES, allocTRES, reqGRES, nodeList, submitLine,
	workDir, restarts, flags int
}

// readHeader reads the names of the columns.
func (s *textReader) readHeader(names []string) error {
	s.at = columns{}
	c := &s.at
	places := map[string]*int{
		"jobid": &c.jobID, "jobidraw": &c.jobIDRaw, "cluster": &c.cluster, "jobname": &c.name, "user": &c.user,
		"group": &c.group, "uid": &c.uid, "gid": &c.gid, "account": &c.account, "partition": &c.partition,
		"qos": &c.qos, "wckey": &c.wckey, "reservation": &c.reservation, "constraints": &c.constraints,
		"licenses": &c.licenses, "comment": &c.comment, "submit": &c.submit, "eligible": &c.eligible,
		"start": &c.start, "end": &c.end, "elapsed": &c.elapsed, "elapsedraw": &c.elapsedRaw,
		"suspended": &c.suspended, "timelimit": &c.timelimit, "timelimitraw": &c.timelimitRaw,
		"state": &c.state, "exitcode": &c.exitCode, "reason": &c.reason, "priority": &c.priority,
		"reqcpus": &c.reqCPUs, "alloccpus": &c.allocCPUs, "ncpus": &c.nCPUs, "reqnodes": &c.reqNodes,
		"allocnodes": &c.allocNodes, "nnodes": &c.nNodes, "reqmem": &c.reqMem, "reqtres": &c.reqTRES,
		"alloctres": &c.allocTRES, "reqgres": &c.reqGRES, "nodelist": &c.nodeList, "submitline": &c.submitLine,
		"tresusageintot": &c.tresIn, "tresusageouttot": &c.tresOut, "averss": &c.aveRSS, "ntasks": &c.nTasks,
		"workdir": &c.workDir, "restarts": &c.restarts, "flags": &c.flags,
	}
	for _, p := range places {
		*p = -1
	}
	s.columns = nil
	for i, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
		kind, typed := columnKinds[name]
		if !typed {
			kind = plainText
		}
		if string(s.between) == "," && (typed && kind == freeText && name != "jobname" ||
			strings.HasSuffix(name, "nodelist") || strings.HasSuffix(name, "tres")) {
			return fmt.Errorf("commas between the columns, as in %s (want the output of sacct -P, or of sacct "+
				"--delimiter with another character)",
				name)
		}
		if p := places[name]; p != nil && *p < 0 {
			*p = i
		}
		s.columns = append(s.columns, column{name, kind})
	}
	return s.checkHeader()
}

// checkHeader returns an error if a dump lacks a necessary column. The error names the option
// of sacct that adds it.
func (s *textReader) checkHeader() error {
	c := &s.at
	var missing []string
	for _, need := range []struct {
		has  bool
		name string
	}{
		{c.jobID >= 0 || c.jobIDRaw >= 0, "JobID"}, {c.submit >= 0, "Submit"}, {c.start >= 0, "Start"},
		{c.end >= 0 || c.elapsed >= 0 || c.elapsedRaw >= 0, "End"},
		{c.reqCPUs >= 0 || c.allocCPUs >= 0 || c.nCPUs >= 0 || c.reqTRES >= 0 || c.allocTRES >= 0 || c.nNodes >= 0 ||
			c.allocNodes >= 0, "ReqCPUS"},
	} {
		if !need.has {
			missing = append(missing, need.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no column %s (want sacct -P -o ...,%s)", strings.Join(missing, ", "), strings.Join(missing, ","))
	}
	return nil
}

// delimiterOfRecord returns the delimiter of a text without a header: the first of the usual
// delimiters that occurs often enough in the first record.
func delimiterOfRecord(line []byte, columns int) []byte {
	for _, delimiter := range []string{"|", "\t", ";", "^", "~", ","} {
		if bytes.Count(line, []byte(delimiter)) >= columns-1 {
			return []byte(delimiter)
		}
	}
	return []byte("|")
}

func (s *textReader) line(number int, line []byte) error {
	switch {
	case s.columns == nil && len(bytes.TrimSpace(line)) == 0:
		return nil
	case s.columns == nil && s.given != nil:
		s.between = delimiterOfRecord(line, len(s.given))
		if err := s.readHeader(s.given); err != nil {
			return err
		}
	case s.columns == nil:
		delimiter, _ := delimiterOf(string(line))
		if strings.Trim(delimiter, " ") == "" && len(strings.Fields(string(line))) > 1 {
			return errors.New("columns padded with blanks: sacct was run without -P (want sacct -P)")
		}
		if strings.Contains(delimiter, `"`) {
			return errQuoted
		}
		s.header, s.between = bytes.Clone(line), []byte(delimiter)
		return s.readHeader(strings.Split(string(line), delimiter))
	}
	switch {
	case s.pending == nil && len(line) == 0:
		s.blank++
		return nil
	case s.header != nil && bytes.Equal(line, s.header):
		return s.release()
	case s.pending != nil:
		return s.continuation(number, line)
	}
	if fields, ok := s.align(line); ok {
		return s.hold(number, fields, line)
	} else if len(s.fields) < len(s.columns) {
		if s.goesOn(line) {
			return nil
		}
		s.pending, s.pendingAt = bytes.Clone(line), number
		return s.release()
	}
	if err := s.release(); err != nil {
		return err
	}
	_, _ = s.align(line) // sets s.fields, whose length is needed
	return s.unusable(number, string(line), "%d fields, where the header has %d", len(s.fields), len(s.columns))
}

// unusable counts a text that is not a record. It begins at the given line.
func (s *textReader) unusable(number int, text, format string, args ...any) error {
	s.b.At(s.name, "", number)
	s.b.Row()
	return s.b.Unusable(finished.RuleNoRecord, text, format, args...)
}

// hold adds a record. If the last column may have line breaks, the record waits for the next line.
func (s *textReader) hold(number int, fields [][]byte, text []byte) error {
	if s.columns[len(s.columns)-1].kind != freeText || len(s.columns) == 1 {
		s.b.At(s.name, "", number)
		return s.record(fields, text)
	}
	text = bytes.Clone(text)
	err := s.release()
	s.held, s.heldAt, s.blank = text, number, 0
	return err
}

// release adds the waiting record, if a record waits.
func (s *textReader) release() error {
	if s.held == nil {
		return nil
	}
	text := s.held
	s.held = nil
	s.b.At(s.name, "", s.heldAt)
	fields, _ := s.align(text) // align succeeded for this text before
	return lines.At(s.heldAt, s.record(fields, text))
}

// goesOn adds a line with too few fields to the last column of the previous record. It returns
// false if there is no record, or if the line begins like a new record: with a valid value of the
// first column and a bar. s.fields has the line's fields.
func (s *textReader) goesOn(line []byte) bool {
	if s.held == nil {
		return false
	}
	first := s.columns[0].kind
	if typed := first != freeText && first != plainText && len(s.fields[0]) > 0; len(s.fields) > 1 &&
		(!typed || first.fits(s.fields[0])) {
		return false
	}
	joined := append(bytes.Clone(s.held), bytes.Repeat([]byte{'\n'}, s.blank+1)...)
	joined = append(joined, line...)
	if _, ok := s.align(joined); !ok || len(joined) > maxPending {
		return false
	}
	s.held, s.blank = joined, 0
	return true
}

// maxPending is the largest size, in bytes, of a record of several lines.
const maxPending = 4 << 20

// continuation reads a line after an incomplete record. The line may be a record by itself. Then
// continuation counts the incomplete record as unusable. Otherwise the line continues that record.
func (s *textReader) continuation(number int, line []byte) error {
	if fields, ok := s.align(line); ok && len(s.columns) > 1 {
		if err := s.flush(); err != nil {
			return err
		}
		return s.hold(number, fields, line)
	}
	joined := append(append(s.pending, '\n'), line...)
	s.pending = joined
	fields, ok := s.align(joined)
	switch {
	case ok:
		s.pending = nil
		return s.hold(number, fields, joined)
	case len(s.fields) >= len(s.columns), len(joined) > maxPending:
		return s.flush()
	}
	return nil
}

// flush counts lines that are not records as unusable. Each line counts, except lines that can continue a record with
// a line break in a text: they follow a line that begins like a record, and do not begin like one themselves.
func (s *textReader) flush() error {
	if s.pending == nil {
		return nil
	}
	all := strings.Split(string(s.pending), "\n")
	s.pending = nil
	for from := 0; from < len(all); {
		to := from + 1
		for s.begins(all[from]) && to < len(all) && !s.begins(all[to]) {
			to++
		}
		number, text := s.pendingAt+from, strings.Join(all[from:to], "\n")
		if from = to; text == "" {
			continue
		}
		why := fmt.Sprintf("fewer fields than the header's %d", len(s.columns))
		if fields := strings.Count(text, string(s.between)) + 1; fields >= len(s.columns) {
			why = fmt.Sprintf("%d fields, where the header has %d", fields, len(s.columns))
		}
		if err := s.unusable(number, text, "%s", why); err != nil {
			return lines.At(number, err)
		}
	}
	return nil
}

// begins reports whether a line begins like a record: with a valid value of the first column and a delimiter. If the
// first column may have any text, a delimiter is sufficient.
func (s *textReader) begins(line string) bool {
	first, _, found := strings.Cut(line, string(s.between))
	switch kind := s.columns[0].kind; {
	case !found:
		return false
	case kind == freeText || kind == plainText:
		return true
	case kind == someID:
		first = strings.TrimSpace(first)
		id, _ := jobOfStep([]byte(first))
		return parseJobID(new(finished.Job), cmp.Or(string(id), first)) == nil
	default:
		return first != "" && kind.fits([]byte(first))
	}
}

// maxBars is the largest number of bars in names that align assigns to columns in one record.
const maxBars = 200

// align splits a text into one field for each column. It stores the pieces between the bars in
// s.fields.
func (s *textReader) align(text []byte) (fields [][]byte, ok bool) {
	s.fields = s.fields[:0]
	rest := text
	for {
		at := bytes.Index(rest, s.between)
		if at < 0 {
			s.fields = append(s.fields, rest)
			break
		}
		s.fields = append(s.fields, rest[:at])
		rest = rest[at+len(s.between):]
	}
	extra := len(s.fields) - len(s.columns)
	switch {
	case extra == 0:
		return s.fields, true
	case extra < 0 || extra > maxBars:
		return nil, false
	}
	taken := s.distribute(extra)
	if taken == nil {
		return nil, false
	}
	start := 0
	for _, n := range taken {
		// In the text, the pieces follow each other with a bar between them.
		first, last := s.fields[start], s.fields[start+n]
		length := cap(first) - cap(last) + len(last)
		fields = append(fields, first[:length:length])
		start += n + 1
	}
	return fields, true
}

// distribute returns the number of bars in the text of each column. Of the texts that fit their columns, it chooses
// those with the lowest cost. So as few texts as possible contain bars. It returns nil if no texts fit.
func (s *textReader) distribute(extra int) []int {
	const impossible = 1 << 30
	columns := len(s.columns)
	// cost[i][e] is the lowest cost of the columns from i on if e bars remain.
	cost := make([][]int32, columns+1)
	choice := make([][]int32, columns)
	for i := range cost {
		cost[i] = make([]int32, extra+1)
		for e := range cost[i] {
			cost[i][e] = impossible
		}
	}
	cost[columns][0] = 0
	for i := columns - 1; i >= 0; i-- {
		choice[i] = make([]int32, extra+1)
		for e := 0; e <= extra; e++ {
			first := i + extra - e
			kind := s.columns[i].kind
			if kind.fits(s.fields[first]) {
				cost[i][e] = cost[i+1][e]
			}
			barCost := s.columns[i].barCost()
			if barCost == 0 {
				continue
			}
			for bars := 1; bars <= e; bars++ {
				if c := cost[i+1][e-bars] + barCost; c < cost[i][e] {
					cost[i][e], choice[i][e] = c, int32(bars)
				}
			}
		}
	}
	if cost[0][extra] >= impossible {
		return nil
	}
	taken := make([]int, columns)
	for i, e := 0, extra; i < columns; i++ {
		taken[i] = int(choice[i][e])
		e -= taken[i]
	}
	return taken
}

// getter returns a function that returns one of the fields, or nil if the column is missing.
func (s *textReader) getter(fields [][]byte) func(at int) []byte {
	padded := false // a file whose IDs have blanks around them has blanks around texts, too
	for _, at := range []int{s.at.jobID, s.at.jobIDRaw} {
		padded = padded || at >= 0 && len(bytes.TrimSpace(fields[at])) < len(fields[at])
	}
	return func(at int) []byte {
		if at < 0 {
			return nil
		}
		if padded || s.columns[at].kind != freeText {
			return bytes.TrimSpace(fields[at])
		}
		return fields[at]
	}
}

// record adds a job or a step from its fields. The fields are valid only during the call.
func (s *textReader) record(fields [][]byte, text []byte) error {
	get := s.getter(fields)
	c := &s.at
	id := get(c.jobID)
	if len(id) == 0 {
		id = get(c.jobIDRaw)
	}
	s.b.Row()
	if job, isStep := jobOfStep(id); isStep {
		if !s.b.Part(string(job)) {
			return nil
		}
		if start, err := s.time(get(c.start)); err == nil && s.b.LacksStart(job) {
			s.b.Step(string(job), start)
		}
		return s.used(string(job), get)
	}
	if s.b.OtherCluster(s.intern(get(c.cluster))) {
		return nil
	}
	var r finished.Job
	var err error
	if r.Submit, err = s.time(get(c.submit)); err != nil {
		return s.b.Unusable(finished.RuleNoRecord, string(text), "job %.40s: Submit %.40q: %v", id, get(c.submit),
			timeError(get(c.submit), err))
	}
	if r.End, err = s.end(get); err != nil {
		return s.b.Unusable(finished.RuleNoRecord, string(text), "job %.40s: End %.40q: %v", id, get(c.end),
			timeError(get(c.end), err))
	}
	if r.Submit > 0 && !s.opts.InWindow(r.Submit, r.End) {
		return s.outside(&r, string(id), fields, text)
	}
	return s.job(&r, string(id), get, text)
}

// outside handles a job outside the window. A record that was submitted after the window may be read later, so outside
// copies its fields: see [finished.Builder.Outside].
func (s *textReader) outside(r *finished.Job, id string, fields [][]byte, text []byte) error {
	if s.opts.End == 0 || r.Submit < s.opts.End || s.opts.Record != nil {
		return s.b.Outside(id, r.Submit, r.End, nil)
	}
	copied, text := make([][]byte, len(fields)), bytes.Clone(text)
	all := bytes.Join(fields, nil)
	for i, field := range fields {
		copied[i], all = all[:len(field):len(field)], all[len(field):]
	}
	late := finished.Job{Submit: r.Submit, End: r.End}
	return s.b.Outside(id, r.Submit, r.End, func() error { return s.job(&late, id, s.getter(copied), text) })
}

// job adds a job. r has its submission and its end.
func (s *textReader) job(r *finished.Job, id string, get func(int) []byte, text []byte) error {
	var err error
	if r.Start, err = s.time(get(s.at.start)); err != nil {
		return s.b.Unusable(finished.RuleNoRecord, string(text), "job %.40s: Start %.40q: %v", id, get(s.at.start),
			timeError(get(s.at.start), err))
	}
	if err := parseJobID(r, id); err != nil {
		return s.b.Unusable(finished.RuleNoRecord, string(text), "JobID: %v", err)
	}
	if err := s.details(r, get); err != nil {
		return err
	}
	if err := s.b.CheckSlurm(r, s.at.suspended >= 0); err != nil {
		return err
	}
	return s.b.Add(r, string(text))
}

// timeError adds a hint to the error about a time: the user's SLURM_TIME_FORMAT may have changed
// how sacct writes times. sacct never quotes a time.
func timeError(text []byte, err error) error {
	if bytes.HasPrefix(text, []byte(`"`)) {
		return fmt.Errorf("%w; %w", err, errQuoted)
	}
	return fmt.Errorf("%w; if sacct printed it, SLURM_TIME_FORMAT was set (want it unset)", err)
}

var errQuoted = errors.New("quoted values: a table? (want workload build --from table)")

// jobOfStep returns the job of a step's ID: "17" of "17.batch". A list of tasks that sacct has cut
// also has dots: "17_[1,4,7...%2]".
func jobOfStep(id []byte) (job []byte, isStep bool) {
	dot := bytes.IndexByte(id, '.')
	if bracket := bytes.IndexByte(id, '['); dot < 0 || bracket >= 0 && bracket < dot {
		return nil, false
	}
	return id[:dot], true
}

// used reads a step's usage. Without the column TRESUsageInTot the memory is AveRSS times NTasks.
func (s *textReader) used(job string, get func(int) []byte) error {
	c := &s.at
	in, out := string(get(c.tresIn)), string(get(c.tresOut))
	memory, read, err := usage(in)
	_, written, err2 := usage(out)
	if memory == 0 && err == nil {
		if rss := get(c.aveRSS); len(rss) > 0 {
			var each float64
			var tasks int
			each, err = slurmspec.ParseScaled(string(rss))
			tasks, _ = parseAmount(get(c.nTasks))
			memory = each * float64(max(tasks, 1))
		}
	}
	if err = cmp.Or(err, err2); err != nil {
		return s.b.Fall(finished.RuleBadValue, "a step of job %s: TRESUsageInTot %.60q, TRESUsageOutTot %.60q: %v", job, in,
			out, err)
	}
	s.b.Used(job, memory, read+written)
	return nil
}

// end reads when a job ended. If the end is not recorded, a job that started and has ended ran for
// the time in Elapsed and was suspended for the time in Suspended. Without the column End, a job
// without a state counts as ended.
func (s *textReader) end(get func(int) []byte) (hpc.Time, error) {
	c := &s.at
	state := slurmspec.ParseJobState(s.intern(get(c.state)))
	if end, err := s.time(get(c.end)); err != nil || end != 0 || !state.Ended() && (c.end >= 0 || state != "") {
		return end, err
	}
	ran, err := elapsed(get(c.elapsedRaw), get(c.elapsed))
	if err != nil || ran < 0 || c.end >= 0 && ran == 0 {
		return 0, err
	}
	suspended, err := parseClock(get(c.suspended))
	if err != nil {
		suspended = 0 // the method details counts this mistake
	}
	start, err := s.time(get(c.start))
	if err != nil || start == 0 {
		return 0, err
	}
	s.b.Note(finished.NoteEndFromElapsed)
	return start.Add(ran + suspended), nil
}

// time reads an instant as sacct prints it, and returns 0 if it is not known.
func (s *textReader) time(text []byte) (hpc.Time, error) {
	return slurmspec.ParseTime(text, s.opts.Location())
}

// intern returns the text as a string. Equal texts share one string, because names repeat.
func (s *textReader) intern(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	if known, ok := s.interned[string(text)]; ok {
		return known
	}
	word := lines.UTF8(text)
	if len(s.interned) < 1<<16 {
		s.interned[string(text)] = word
	}
	return word
}

// details reads the optional fields of a job. It counts and ignores a field that it cannot read.
func (s *textReader) details(r *finished.Job, get func(int) []byte) error {
	c := &s.at
	var bad error
	check := func(what string, field []byte, err error) {
		if err != nil && bad == nil {
			bad = s.b.Fall(finished.RuleBadValue, "job %s: %s %.60q: %v", r.ID, what, field, err)
		}
	}
	number := func(what string, at int) int {
		n, err := parseAmount(get(at))
		check(what, get(at), err)
		return n
	}
	r.User, r.Group, r.Account = s.intern(get(c.user)), s.intern(get(c.group)), s.intern(get(c.account))
	r.Partition, r.QOS, r.WCKey = s.intern(get(c.partition)), s.intern(get(c.qos)), s.intern(get(c.wckey))
	r.Reservation, r.Constraint, r.Licenses = s.intern(get(c.reservation)), s.intern(get(c.constraints)),
		s.intern(get(c.licenses))
	r.Name, r.Comment, r.SubmitLine = lines.UTF8(get(c.name)), lines.UTF8(get(c.comment)), lines.UTF8(get(c.submitLine))
	r.Cluster, r.ReqTRES, r.AllocTRES = s.intern(get(c.cluster)), s.intern(get(c.reqTRES)), s.intern(get(c.allocTRES))
	r.WorkDir, r.Flags = s.intern(get(c.workDir)), s.intern(get(c.flags))
	r.Restarts = number("Restarts", c.restarts)
	r.UID, r.HasUID = parseUint32(get(c.uid))
	r.GID, _ = parseUint32(get(c.gid))
	if raw, ok := parseUint32(get(c.jobIDRaw)); ok {
		r.Number = raw
	}
	var err error
	r.Eligible, err = s.time(get(c.eligible))
	check("Eligible", get(c.eligible), err)
	r.Elapsed, err = elapsed(get(c.elapsedRaw), get(c.elapsed))
	check("Elapsed", get(c.elapsed), err)
	r.Suspended, err = parseClock(get(c.suspended))
	check("Suspended", get(c.suspended), err)
	r.TimeLimit, err = sacctLimit(get(c.timelimitRaw), get(c.timelimit))
	check("Timelimit", get(c.timelimit), err)
	r.State = slurmspec.ParseJobState(s.intern(get(c.state)))
	if r.State == "" && r.End > 0 {
		r.State = hpc.Completed
	}
	code, signal, _ := bytes.Cut(get(c.exitCode), []byte(":"))
	var err2 error
	r.HasExit = len(code) > 0
	r.ExitCode, err = parseAmount(code)
	if r.Signal, err2 = parseAmount(signal); err != nil || err2 != nil || r.ExitCode > 255 || r.Signal > 127 {
		check("ExitCode", get(c.exitCode), errors.New("not an exit code and a signal (want 1:0)"))
		r.ExitCode, r.Signal, r.HasExit = 0, 0, false
	}
	r.Held = slurmspec.HeldForReason(string(get(c.reason)))
	if p, ok := parseUint32(get(c.priority)); ok {
		r.Priority = &p
	}
	r.ReqCPUs, r.ReqNodes = number("ReqCPUS", c.reqCPUs), number("ReqNodes", c.reqNodes)
	r.AllocCPUs = max(number("AllocCPUS", c.allocCPUs), number("NCPUS", c.nCPUs))
	r.AllocNodes = max(number("AllocNodes", c.allocNodes), number("NNodes", c.nNodes))
	r.NodeList = slurmspec.Given(s.intern(get(c.nodeList)))
	check("ReqMem", get(c.reqMem), requestedMemory(r, string(get(c.reqMem))))
	check("ReqTRES", get(c.reqTRES), finished.TakeTRES(r))
	check("AllocTRES", get(c.allocTRES), slurmspec.CheckTRES(string(get(c.allocTRES))))
	if gres := string(get(c.reqGRES)); gres != "" && r.GPUs == "" {
		r.GRES = strings.TrimPrefix(gres, "PER_NODE:")
	}
	return bad
}
