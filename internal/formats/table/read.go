package table

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/finished"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/workload"
)

// NoteStateGuessed counts jobs with an end but no state. Their state is FAILED if the exit code or
// the signal is not 0, and otherwise COMPLETED.
const NoteStateGuessed = "state_guessed"

// NoteDecimalGuessed counts jobs with numbers such as 1.024 or 2,5, if the map does not say which decimal separator
// the table has, but other numbers of the table show it.
const NoteDecimalGuessed = "decimal_guessed"

// Reader reads the jobs of tables with one map.
type Reader struct {
	b     *finished.Builder
	m     *Map
	times map[*Field]*clockReader
	kinds map[string]kind // by field
	rows  int
	words map[string]string // equal texts share one string

	arrays map[uint32]hpc.Time // the submissions of arrays whose tasks have IDs such as 17_3

	numbers notation // notation of numbers in the current table
}

// NewReader returns a reader. source names the origin of the jobs.
func NewReader(m *Map, source string, opts workload.ReadOptions) (*Reader, error) {
	s := &Reader{b: finished.NewBuilder(source, opts), m: m, times: make(map[*Field]*clockReader),
		words: make(map[string]string), arrays: make(map[uint32]hpc.Time), kinds: make(map[string]kind)}
	zone, err := m.zone(opts.Location())
	if err != nil {
		return nil, err
	}
	origin, err := m.origin(opts.EpochOrDefault())
	if err != nil {
		return nil, err
	}
	for name, field := range m.Fields {
		spec, _ := specOf(name)
		if s.kinds[name] = spec.kind; spec.kind != anInstant {
			continue
		}
		how := field.Time
		if how == "" {
			how = m.Time
		}
		if s.times[field], err = newClockReader(how, zone, origin); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Read reads a table. The parameters at and size give access to the whole file, which Parquet
// needs; for a stream, at is nil. Errors have the form "reading table: NAME: line 17, column end:
// what is wrong".
func (s *Reader) Read(r *bufio.Reader, at io.ReaderAt, size int64, name string) error {
	t, err := open(r, at, size, s.m)
	if err == nil {
		head, _ := r.Peek(headLength) // open has peeked
		s.numbers = s.notationOf(t, head)
		err = s.read(t)
	}
	if err != nil {
		return fmt.Errorf("reading table: %s: %w", name, err)
	}
	return nil
}

// Finish returns the workload of all tables. The result missing lists the facts that the rows
// lack, and the consequences for a replay.
func (s *Reader) Finish() (w *workload.Workload, missing []string, err error) {
	return s.b.Close("table")
}

// column is a column that a field needs.
type column struct {
	field string
	name  string // name in the table; "" if all rows have the same value
}

func (s *Reader) read(t table) error {
	columns, err := s.columns(t)
	if err != nil {
		return err
	}
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	cells := cells{columns: columns, values: make(map[string]string, len(columns))}
	return t.each(names, func(r *row) error {
		s.rows++
		s.b.Row()
		if r.fault != nil {
			return s.place(r, s.b.Unusable(finished.RuleNoRecord, r.text, "%v", r.fault))
		}
		cells.set(s.m, r)
		return s.place(r, s.job(&cells))
	})
}

// place adds the place of the row to an error.
func (s *Reader) place(r *row, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", r.place, err)
}

// columns returns the columns of the table that the map's fields need.
func (s *Reader) columns(t table) (columns []column, err error) {
	has := t.names()
	_, isJSON := t.(*jsonTable)
	for _, name := range slices.Sorted(maps.Keys(s.m.Fields)) {
		field := s.m.Fields[name]
		if field.Value != "" {
			columns = append(columns, column{field: name})
			continue
		}
		at := slices.IndexFunc(field.Column, func(c string) bool { return slices.Contains(has, c) })
		switch {
		case at >= 0:
		case isJSON:
			at = 0 // later records may have the column
		default:
			return nil, fmt.Errorf("no column %s, which the map has for %s (want one of: %s)",
				strings.Join(field.Column, " or "), name, strings.Join(has, ", "))
		}
		columns = append(columns, column{name, field.Column[at]})
	}
	return columns, nil
}

// cells are the texts of a row by field. Unknown values are absent.
type cells struct {
	columns []column
	values  map[string]string
	row     *row
}

// set sets the cells to the cells of a row.
func (c *cells) set(m *Map, r *row) {
	c.row = r
	clear(c.values)
	for i, column := range c.columns {
		field := m.Fields[column.field]
		text := r.cells[i]
		if field.Value != "" {
			text = field.Value
		}
		if field.isUnknown(text, m.Unknown) {
			continue
		}
		if value, replaced := field.Values[text]; replaced {
			text = value
		}
		c.values[column.field] = text
	}
}

// text returns the row as "column=value", so that a user can find it in the table.
func (c *cells) text() string {
	var b strings.Builder
	b.WriteString(c.row.place)
	for i, column := range c.columns {
		if column.name != "" {
			fmt.Fprintf(&b, " %s=%q", column.name, c.row.cells[i])
		}
	}
	return b.String()
}

// wrong returns an error in the value of a field.
func (c *cells) wrong(field string, err error) error {
	for _, column := range c.columns {
		if column.field == field && column.name != "" {
			return fmt.Errorf("column %s (%s) %.60q: %w", column.name, field, c.values[field], err)
		}
	}
	return fmt.Errorf("%s %.60q: %w", field, c.values[field], err)
}

// job adds the job of a row.
func (s *Reader) job(c *cells) error {
	r := &finished.Job{ID: c.values["id"], ArrayTask: -1, Elapsed: -1}
	if r.ID == "" {
		r.ID = strconv.Itoa(s.rows)
	}
	if n, err := strconv.ParseUint(r.ID, 10, 32); err == nil {
		r.Number = uint32(n)
	}
	if s.b.OtherCluster(c.values["cluster"]) {
		return nil
	}
	v := values{s: s, c: c}
	v.times(r)
	if v.necessary != nil {
		return s.b.Unusable(finished.RuleNoRecord, c.text(), "%v", v.necessary)
	}
	v.size(r)
	v.words(r)
	v.fate(r)
	inWindow := s.b.Options().InWindow(r.Submit, r.End)
	if v.onlyGPUs && inWindow {
		s.b.Note(finished.NoteNoCPUs)
	}
	if v.twice && inWindow {
		s.b.Note(NoteHourTwice)
	}
	if v.skipped != nil {
		if err := s.b.Fall(RuleHourSkipped, "job %s: %v", r.ID, v.skipped); err != nil {
			return err
		}
	}
	if v.guessed {
		s.b.Note(NoteDecimalGuessed)
	}
	for _, err := range v.optional {
		if err := s.b.Fall(finished.RuleBadValue, "job %s: %v", r.ID, err); err != nil {
			return err
		}
	}
	return s.b.Add(r, c.text())
}

// values reads the values of a row.
type values struct {
	s         *Reader
	c         *cells
	necessary error   // the first mistake in a field that every job needs
	optional  []error // mistakes in other fields, which are ignored
	twice     bool    // an instant occurs twice; see [NoteHourTwice]
	skipped   error   // an instant does not exist; see [RuleHourSkipped]
	onlyGPUs  bool    // the job's CPUs and nodes are not known
	guessed   bool    // a number was read with a guess; see [NoteDecimalGuessed]
}

// value reads a field, unless it is not known. A mistake is added to v.optional.
func value[V any](v *values, name string, read func(*Field, string) (V, error)) (out V) {
	text, known := v.c.values[name]
	if !known {
		return out
	}
	text, err := v.plain(name, text)
	if err == nil {
		out, err = read(v.s.m.Fields[name], text)
	}
	if err != nil {
		v.optional = append(v.optional, v.c.wrong(name, err))
		var none V
		return none
	}
	return out
}

// need is [value] for a field that every job needs.
func need[V any](v *values, name string, read func(*Field, string) (V, error)) V {
	before := len(v.optional)
	out := value(v, name, read)
	if len(v.optional) > before {
		if v.necessary == nil {
			v.necessary = v.optional[before]
		}
		v.optional = v.optional[:before]
	}
	return out
}

// times sets the instants. The wait and the run time give the instants that are not recorded: for
// example the start, from the submission and the wait or from the end and the run time.
func (v *values) times(r *finished.Job) {
	at := func(f *Field, text string) (reading, error) { return v.s.times[f].read(text) }
	in := instants{submit: need(v, "submit", at), start: need(v, "start", at), end: need(v, "end", at)}
	in.eligible = value(v, "eligible", at)
	wait, run := need(v, "wait", (*Field).duration), need(v, "run_time", (*Field).duration)
	_, hasWait := v.c.values["wait"]
	_, ran := v.c.values["run_time"]
	in.wait, in.run = -1, -1
	if hasWait {
		in.wait = wait
	}
	if ran {
		in.run = run
	}
	v.choose(r, &in)
	if wait == hpc.Unlimited || run == hpc.Unlimited {
		v.necessary = errors.New("the run time or the wait is unlimited (want a duration)")
		return
	}
	if r.Start == 0 && r.Submit > 0 && hasWait {
		r.Start = r.Submit.Add(wait)
	}
	if r.Start == 0 && r.End > 0 && ran && r.End > hpc.Time(run) {
		r.Start = r.End.Add(-run)
	}
	if r.Submit == 0 && r.Start > 0 && hasWait && r.Start > hpc.Time(wait) {
		r.Submit = r.Start.Add(-wait)
	}
	if r.Start > 0 && ran {
		r.Elapsed = run
		if r.End == 0 {
			r.End = r.Start.Add(run)
		}
	}
	r.Suspended = value(v, "suspended", (*Field).duration)
	if r.Suspended == hpc.Unlimited {
		r.Suspended = 0
	}
	r.TimeLimit = value(v, "time_limit", (*Field).duration)
}

// size sets the requested and the allocated resources.
func (v *values) size(r *finished.Job) {
	count := func(name string) int { return value(v, name, (*Field).count) }
	r.ReqCPUs, r.AllocCPUs = count("cpus"), count("alloc_cpus")
	r.ReqNodes, r.AllocNodes = count("nodes"), count("alloc_nodes")
	r.TasksPerNode = count("tasks_per_node")
	r.Memory = value(v, "memory", (*Field).memory)
	r.MemPerNode = value(v, "memory_per_node", (*Field).memory)
	r.MemPerCPU = value(v, "memory_per_cpu", (*Field).memory)
	r.ReqTRES, r.AllocTRES = value(v, "req_tres", (*Field).tres), value(v, "alloc_tres", (*Field).tres)
	if err := finished.TakeTRES(r); err != nil {
		v.optional = append(v.optional, v.c.wrong("req_tres", err))
	}
	if n := count("gpus"); n > 0 {
		r.GPUs = strconv.Itoa(n)
	}
	if n := count("gpus_per_node"); n > 0 {
		r.GRES = "gpu:" + strconv.Itoa(n)
	}
	if r.ReqCPUs == 0 && r.AllocCPUs == 0 && r.ReqNodes == 0 && r.AllocNodes == 0 && r.GPUs != "" {
		r.ReqCPUs, v.onlyGPUs = 1, true
	}
	r.NodeList = value(v, "node_list", (*Field).nodeList)
	v.array(r)
}

// array finds the array of a task by the fields for it, or by an ID as Slurm writes it: 17_3,
// 17_[4-9]. Such IDs count only if all tasks of an array have the same instant of submission,
// because other systems number jobs by date or host.
func (v *values) array(r *finished.Job) {
	job, hasJob := v.c.values["array_job"]
	task, hasTask := v.c.values["array_task"]
	if number, err := strconv.ParseUint(job, 10, 32); hasJob && hasTask && err == nil && number > 0 {
		if n, err := strconv.Atoi(task); err == nil && n >= 0 && n <= hpc.MaxArrayIndex {
			r.ArrayJob, r.ArrayTask = uint32(number), n
			r.ID = job + "_" + task
		}
		return
	}
	id, err := slurmspec.ParseJobID(r.ID)
	if err != nil || id.Number == 0 || id.Task < 0 && id.Rest == "" || id.Task > hpc.MaxArrayIndex {
		return
	}
	submit, seen := v.s.arrays[id.Number]
	if !seen {
		submit, v.s.arrays[id.Number] = r.Submit, r.Submit
	}
	if submit == r.Submit {
		r.ArrayJob, r.ArrayTask, r.ArrayRest = id.Number, id.Task, id.Rest
	}
}

// words sets names.
func (v *values) words(r *finished.Job) {
	for _, f := range []struct {
		name string
		to   *string
	}{
		{"name", &r.Name}, {"user", &r.User}, {"group", &r.Group}, {"account", &r.Account}, {"partition", &r.Partition},
		{"qos", &r.QOS},
		{"wckey", &r.WCKey}, {"reservation", &r.Reservation}, {"constraint", &r.Constraint}, {"licenses", &r.Licenses},
		{"comment", &r.Comment},
		{"submit_line", &r.SubmitLine}, {"work_dir", &r.WorkDir}, {"dependency", &r.Dependency}, {"cluster", &r.Cluster},
	} {
		text, known := v.c.values[f.name]
		if !known {
			continue
		}
		*f.to = v.s.word(v.s.m.Fields[f.name].Prefix + text)
	}
	r.Restarts = value(v, "restarts", (*Field).count)
	if n := value(v, "priority", (*Field).count); n > 0 {
		r.Priority = new(uint32(n))
	}
}

// word returns the stored copy of a text, so that equal texts share memory, because names repeat.
func (s *Reader) word(text string) string {
	if shared, have := s.words[text]; have {
		return shared
	}
	if len(s.words) < 1<<16 {
		s.words[text] = text
	}
	return text
}

// fate sets how the job ended.
func (v *values) fate(r *finished.Job) {
	r.State = value(v, "state", (*Field).state)
	exit := value(v, "exit_code", func(f *Field, text string) (e [2]int, err error) {
		e[0], e[1], err = f.exitCode(text)
		r.HasExit = err == nil
		return e, err
	})
	r.ExitCode, r.Signal = exit[0], exit[1]
	switch r.State { // an instant that has not come yet is only an estimate
	case hpc.Pending:
		r.Start, r.End, r.Elapsed = 0, 0, -1
	case hpc.Running, hpc.Suspended:
		r.End, r.Elapsed = 0, -1
	}
	if r.State != "" || r.End == 0 {
		return
	}
	v.s.b.Note(NoteStateGuessed)
	if r.State = hpc.Completed; r.ExitCode != 0 || r.Signal != 0 {
		r.State = hpc.Failed
	}
}
