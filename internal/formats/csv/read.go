// Package csv reads and writes a workload as a plain table (RFC 4180). The table has a row for
// each job. It has a column for each field, with the field's name in the trace format.
package csv

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/inert"
	"rmreplay/internal/jobjson"
	"rmreplay/internal/lines"
	"rmreplay/internal/workload"
)

// Format is a table with a header.
var Format = workload.Format{
	Name: "csv", Doc: "a table (CSV) with a header, a row for each job",
	Looks: "a table with the columns id and submit", Recognize: recognize, Read: Read, Write: Write,
}

// The columns about a job's user. All rows of a user have the same values in them.
const (
	userUID, userGroup, userGID = "user_uid", "user_group", "user_gid"
)

// recognize accepts a header with the columns id and submit. It returns a lower confidence for a
// header with any two known columns. For such a header the reader reports missing or unknown
// columns.
func recognize(head []byte) workload.Confidence {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, lines.ByteOrderMark), "\r\n")
	line, _, _ := bytes.Cut(head, []byte("\n"))
	known, needed := 0, 0
	for name := range strings.SplitSeq(string(line), ",") {
		name = strings.ToLower(strings.Trim(name, "\" \t\r"))
		if name == "id" || name == "submit" {
			needed++
		}
		if slices.Contains(names(), name) {
			known++
		}
	}
	switch {
	case needed == 2:
		return workload.Sure
	case known >= 2:
		return workload.Maybe
	}
	return workload.No
}

// names are the names of all columns.
func names() []string {
	list := make([]string, 0, len(columns)+3)
	for _, c := range columns {
		list = append(list, c.name)
	}
	return append(list, userUID, userGroup, userGID)
}

// Read reads a table. The parameter name is the source's name in errors, which have the form
// "reading csv: NAME:LINE:COLUMN: FIELD: what is wrong"; COLUMN counts the bytes of the line from
// 1.
//
// The header must have id and submit, and either run_time_s or both recorded_start and
// recorded_end. The columns may be in any order, and all must be known. An instant without a
// zone is in the zone of the options.
func Read(r io.Reader, name string, opts workload.ReadOptions) (*workload.Workload, error) {
	t := reader{
		csv: csv.NewReader(r), name: name, opts: opts,
		w: &workload.Workload{Source: name}, book: workload.RuleBook{Strict: opts.Strict}, users: map[string]hpc.User{},
	}
	t.csv.ReuseRecord = true
	if err := t.read(); err != nil {
		return nil, fmt.Errorf("reading csv: %w", err)
	}
	if t.w.Jobs.Len() == 0 {
		return nil, fmt.Errorf("reading csv: %s: it has no job", name)
	}
	t.w.Rules, t.w.Mistake = t.book.Counts, t.book.Mistake()
	t.w.Sort()
	t.w.Epoch = hpc.Unix(t.w.Jobs.Submit(0).UnixSeconds())
	return t.w, nil
}

// Accepts reports whether [Read] accepts the header of a table.
func Accepts(table io.Reader) bool {
	t := reader{csv: csv.NewReader(table)}
	header, err := t.csv.Read()
	return err == nil && t.readHeader(header) == nil
}

type reader struct {
	csv     *csv.Reader
	name    string
	opts    workload.ReadOptions
	w       *workload.Workload
	book    workload.RuleBook
	order   workload.OrderCheck
	columns []*column // columns of the table; nil for a column about the user
	header  []string
	at      map[string]int // the indices of the columns, by name
	users   map[string]hpc.User
}

func (t *reader) read() error {
	header, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: empty", t.name)
	}
	if err != nil {
		return t.malformed(err)
	}
	if err := t.readHeader(slices.Clone(header)); err != nil {
		return err
	}
	for {
		row, err := t.csv.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return t.malformed(err)
		}
		for i, cell := range row {
			row[i] = inert.Text(cell)
		}
		if err := t.row(row); err != nil {
			return err
		}
	}
}

// malformed returns an error with the place at which a text is not CSV.
func (t *reader) malformed(err error) error {
	e, ok := errors.AsType[*csv.ParseError](err)
	switch {
	case !ok:
		return fmt.Errorf("%s: %w", t.name, err)
	case errors.Is(e.Err, csv.ErrFieldCount):
		return fmt.Errorf("%s:%d: not as many fields as the header has (want %d)", t.name, e.Line, len(t.header))
	}
	return fmt.Errorf("%s:%d:%d: %w", t.name, e.Line, e.Column, e.Err)
}

// wrong returns an error in a cell of the last row.
func (t *reader) wrong(i int, err error) error {
	line, at := t.csv.FieldPos(i)
	return fmt.Errorf("%s:%d:%d: %s: %w", t.name, line, at, t.header[i], err)
}

func (t *reader) readHeader(header []string) error {
	header[0] = strings.TrimPrefix(header[0], string(lines.ByteOrderMark))
	t.header, t.at = header, map[string]int{}
	known := names()
	for i, name := range header {
		if _, twice := t.at[name]; twice {
			return t.wrong(i, errors.New("an earlier column has the same name"))
		}
		t.at[name] = i
		if !slices.Contains(known, name) {
			hint := cmp.Or(jobjson.Meant(name, known), "want "+strings.Join(known[:4], ", ")+" and so on: see docs/FORMATS.md")
			return t.wrong(i, fmt.Errorf("not a known column (workload build --from table reads other tables; %s)", hint))
		}
		var of *column
		if c := slices.IndexFunc(columns, func(c column) bool { return c.name == name }); c >= 0 {
			of = &columns[c]
		}
		t.columns = append(t.columns, of)
	}
	for _, name := range []string{"id", "submit"} {
		if !t.has(name) {
			return fmt.Errorf("%s:1: no column %s (want at least id, submit, and run_time_s or recorded_start and recorded_end)",
				t.name, name)
		}
	}
	if !t.has("run_time_s") && (!t.has("recorded_start") || !t.has("recorded_end")) {
		return fmt.Errorf("%s:1: no column run_time_s (want it, or recorded_start and recorded_end)", t.name)
	}
	return nil
}

func (t *reader) has(name string) bool {
	_, has := t.at[name]
	return has
}

// row makes a job from a row.
func (t *reader) row(row []string) error {
	job := &hpc.Job{}
	for i, text := range row {
		if text == "" || t.columns[i] == nil {
			continue
		}
		text = lines.UTF8([]byte(text))
		if err := t.columns[i].set(job, text, t.opts.Location()); err != nil {
			return t.wrong(i, fmt.Errorf("%.60q: %w", text, err))
		}
	}
	switch {
	case job.ID == "":
		return t.wrong(t.at["id"], errors.New("missing"))
	case job.Submit == 0:
		return t.wrong(t.at["submit"], errors.New("missing"))
	}
	if at, has := t.at["run_time_s"]; !has || row[at] == "" {
		r := job.Recorded
		if r == nil || r.Start == 0 || r.End < r.Start {
			return t.wrong(max(at, 0), errors.New("run_time_s: missing (want it, or recorded_start with a later recorded_end)"))
		}
		job.RunTime = r.End.Sub(r.Start)
	} else if job.RunTime < 0 {
		return t.wrong(at, errors.New("negative (want 0 or more)"))
	}
	if err := t.user(row, job.User); err != nil {
		return err
	}
	if err := t.order.Job(&t.book, job.Submit); err != nil {
		return t.wrong(t.at["submit"], err)
	}
	t.w.Jobs.Append(job)
	return nil
}

// user adds the user of a row to the workload.
func (t *reader) user(row []string, name string) error {
	uid, has := t.at[userUID]
	if !has || row[uid] == "" || name == "" {
		return nil
	}
	user := hpc.User{Name: name}
	for _, c := range []struct {
		column string
		id     *uint32
	}{{userUID, &user.UID}, {userGID, &user.GID}} {
		at, has := t.at[c.column]
		if !has || row[at] == "" {
			continue
		}
		n, err := strconv.ParseUint(row[at], 10, 32)
		if err != nil {
			return t.wrong(at, fmt.Errorf("%.60q: not a number of 32 bits", row[at]))
		}
		*c.id = uint32(n)
	}
	if at, has := t.at[userGroup]; has {
		user.Group = lines.UTF8([]byte(row[at]))
	}
	before, known := t.users[name]
	if known && !before.Equal(user) {
		return t.wrong(uid, fmt.Errorf("user %s has the user ID %d, the group %q and the group ID %d in another row "+
			"(want the same in all rows)", name, before.UID, before.Group, before.GID))
	}
	if !known {
		t.users[name] = user
		t.w.Users = append(t.w.Users, user)
	}
	return nil
}
