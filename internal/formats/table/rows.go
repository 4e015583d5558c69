package table

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"rmreplay/internal/inert"
	"rmreplay/internal/lines"
)

// row is a row of a table. An absent value is "".
type row struct {
	place string // such as "line 17"
	cells []string
	fault error  // the row does not have the form of the table
	text  string // the row's original text, if there is a fault
}

// table is an open table.
type table interface {
	// names returns the names of the columns. Text and Parquet files give the names of all columns,
	// JSON the paths in the first record.
	names() []string
	// each calls f with every row. The row has the cells of the given columns, in this order; an
	// empty name means that the cell has no column. The cells are valid only during the call.
	each(columns []string, f func(*row) error) error
}

// open opens a table, whose form it recognizes by the content. The fields at and size give access
// to the whole file, which Parquet needs. If the file can only be read from its beginning, at is
// nil. m may be nil.
func open(r *bufio.Reader, at io.ReaderAt, size int64, m *Map) (table, error) {
	if m == nil {
		m = new(Map)
	}
	head, err := r.Peek(headLength)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(head, lines.ByteOrderMark))
	switch {
	case bytes.HasPrefix(head, []byte("PAR1")):
		if at == nil {
			return nil, errors.New("a Parquet file that is compressed, or read from a pipe (want the file itself)")
		}
		return openParquet(at, size)
	case len(trimmed) == 0:
		return nil, errors.New("empty")
	case trimmed[0] == '{' || trimmed[0] == '[' && m.Delimiter == "":
		return &jsonTable{r: r, head: bytes.Clone(head), list: m.Rows}, nil
	}
	return openText(r, head, m)
}

// headLength is the number of bytes from which the form of a table is recognized.
const headLength = 64 << 10

// textTable is a table with a delimiter.
type textTable struct {
	r         *bufio.Reader
	header    []string
	inFile    bool // the header is the first row
	delimiter string
	comment   rune
}

func openText(r *bufio.Reader, head []byte, m *Map) (*textTable, error) {
	t := &textTable{r: r, header: m.Columns, delimiter: m.Delimiter, inFile: len(m.Columns) == 0}
	if m.Header != nil {
		t.inFile = *m.Header
	}
	if m.Comment != "" {
		t.comment, _ = utf8.DecodeRuneInString(m.Comment)
	}
	first := t.firstLine(head)
	switch t.delimiter {
	case "tab":
		t.delimiter = "\t"
	case "":
		t.delimiter = delimiterOf(first)
	}
	if t.header == nil {
		reader := t.csv(strings.NewReader(first))
		names, err := reader.Read()
		if t.isPlain() {
			names, err = t.split(first), nil
		}
		if err != nil {
			return nil, fmt.Errorf("line 1: %w", err)
		}
		for _, name := range names {
			t.header = append(t.header, strings.TrimSpace(name))
		}
	}
	return t, nil
}

// firstLine returns the first line that is neither blank nor a comment.
func (t *textTable) firstLine(head []byte) string {
	for line := range bytes.Lines(bytes.TrimPrefix(head, lines.ByteOrderMark)) {
		line = bytes.TrimRight(line, "\r\n")
		if c, _ := utf8.DecodeRune(line); len(bytes.TrimSpace(line)) > 0 && (t.comment == 0 || c != t.comment) {
			return lines.UTF8(line)
		}
	}
	return ""
}

// delimiterOf returns the usual delimiter that a line has most often, or "blanks" for words between
// blanks.
func delimiterOf(line string) string {
	best, most := ",", 0
	for _, delimiter := range []string{",", "\t", ";", "|", "^"} {
		if n := strings.Count(line, delimiter); n > most {
			best, most = delimiter, n
		}
	}
	if most == 0 && len(strings.Fields(line)) > 2 {
		return "blanks"
	}
	return best
}

func (t *textTable) names() []string { return t.header }

// begin returns a table with the rows in the first bytes of the file.
func (t *textTable) begin(head []byte) *textTable {
	start := *t
	start.r = bufio.NewReader(bytes.NewReader(head))
	return &start
}

// isPlain reports whether a table's texts are written without quotes.
func (t *textTable) isPlain() bool {
	return utf8.RuneCountInString(t.delimiter) != 1 || strings.ContainsAny(t.delimiter, "\"\r\n") ||
		t.delimiter == string(t.comment)
}

func (t *textTable) split(line string) []string {
	if t.delimiter == "blanks" {
		return strings.Fields(line)
	}
	return strings.Split(line, t.delimiter)
}

func (t *textTable) csv(r io.Reader) *csv.Reader {
	c := csv.NewReader(r)
	c.ReuseRecord, c.LazyQuotes, c.FieldsPerRecord, c.Comment = true, true, -1, t.comment
	if !t.isPlain() {
		c.Comma, _ = utf8.DecodeRuneInString(t.delimiter)
	}
	return c
}

func (t *textTable) each(columns []string, f func(*row) error) error {
	places := make([]int, len(columns))
	for i, column := range columns {
		places[i] = slices.Index(t.header, column)
	}
	cells := make([]string, len(columns))
	waiting := t.inFile
	take := func(line int, fields []string) error {
		switch {
		case len(fields) == 1 && strings.TrimSpace(fields[0]) == "":
			return nil
		case waiting:
			waiting = false
			return nil
		}
		r := row{place: "line " + strconv.Itoa(line), cells: cells}
		if len(fields) == len(t.header)+1 && fields[len(fields)-1] == "" {
			fields = fields[:len(t.header)] // a delimiter at the end of the line
		}
		if len(fields) != len(t.header) {
			r.fault = fmt.Errorf("%d fields (want %d)", len(fields), len(t.header))
			r.text = lines.UTF8([]byte(strings.Join(fields, t.delimiter)))
			return f(&r)
		}
		for i, place := range places {
			if cells[i] = ""; place >= 0 {
				cells[i] = lines.UTF8([]byte(strings.TrimSpace(fields[place])))
			}
		}
		return f(&r)
	}
	if bom, _ := t.r.Peek(len(lines.ByteOrderMark)); bytes.Equal(bom, lines.ByteOrderMark) {
		_, _ = t.r.Discard(len(bom)) // these bytes are already buffered
	}
	if t.isPlain() {
		return lines.Each(t.r, "", func(number int, line []byte) error {
			if c, _ := utf8.DecodeRune(line); t.comment != 0 && c == t.comment {
				return nil
			}
			return take(number, t.split(string(line)))
		})
	}
	reader := t.csv(t.r)
	for {
		fields, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i, field := range fields {
			fields[i] = inert.Text(field) // undo Cell, as in tables that rmreplay wrote
		}
		line, _ := reader.FieldPos(0)
		if err := take(line, fields); err != nil {
			return err
		}
	}
}

// jsonTable is a list of objects, a list in an object, or one object after another.
type jsonTable struct {
	r    *bufio.Reader
	head []byte
	list string // the name of the list in the outermost object
}

// names returns the paths of the values in the first object, if the head of the file has all of
// this object.
func (t *jsonTable) names() (names []string) {
	ended := errors.New("enough")
	found := make(map[string]bool)
	d := json.NewDecoder(bytes.NewReader(t.head))
	_ = t.records(d, func(value any) error { // the head may end within an object
		paths("", value, func(path string) {
			if !found[path] {
				found[path] = true
				names = append(names, path)
			}
		})
		if len(names) > 0 {
			return ended
		}
		return nil
	})
	return names
}

// paths calls f with the path of every value in an object. For a list it uses the last element.
func paths(prefix string, value any, f func(path string)) {
	switch v := value.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			paths(strings.TrimPrefix(prefix+"."+key, "."), v[key], f)
		}
	case []any:
		if len(v) > 0 && prefix != "" && strings.Count(prefix, ".") < 20 {
			paths(prefix+".-1", v[len(v)-1], f)
		}
	default:
		f(prefix)
	}
}

func (t *jsonTable) each(columns []string, f func(*row) error) error {
	cells := make([]string, len(columns))
	number := 0
	d := json.NewDecoder(t.r)
	return t.records(d, func(value any) error {
		number++
		r := row{place: "record " + strconv.Itoa(number), cells: cells}
		if _, isObject := value.(map[string]any); !isObject {
			text, _ := json.Marshal(value) // it was decoded from JSON, so this cannot fail
			r.fault, r.text = errors.New("not an object (want {...})"), string(text)
			return f(&r)
		}
		for i, column := range columns {
			if cells[i] = ""; column != "" {
				cells[i] = strings.Join(lookUp(value, strings.Split(column, ".")), ",")
			}
		}
		return f(&r)
	})
}

// records calls f with every element of the list.
func (t *jsonTable) records(d *json.Decoder, f func(any) error) error {
	d.UseNumber()
	if first, _ := t.firstByte(); first == '[' {
		if _, err := d.Token(); err != nil {
			return err
		}
		return elements(d, f)
	}
	if t.list == "" {
		for {
			var value any
			if err := d.Decode(&value); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := f(value); err != nil {
				return err
			}
		}
	}
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if key != t.list {
			var other json.RawMessage
			if err := d.Decode(&other); err != nil {
				return err
			}
			continue
		}
		if open, err := d.Token(); err != nil || open != json.Delim('[') {
			return fmt.Errorf("%s: not a list", t.list)
		}
		return elements(d, f)
	}
	return fmt.Errorf("it has no list %s", t.list)
}

func (t *jsonTable) firstByte() (byte, bool) {
	trimmed := bytes.TrimSpace(bytes.TrimPrefix(t.head, lines.ByteOrderMark))
	if len(trimmed) == 0 {
		return 0, false
	}
	return trimmed[0], true
}

func elements(d *json.Decoder, f func(any) error) error {
	for d.More() {
		var value any
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := f(value); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// lookUp returns the values at a path. The path consists of names of members and numbers of
// elements (-1 is the last element); "*" stands for all elements, and "#" at the end for their
// number.
func lookUp(value any, path []string) []string {
	if len(path) == 0 {
		return scalarText(value)
	}
	switch v := value.(type) {
	case map[string]any:
		member, has := v[path[0]]
		if !has { // a name may have dots
			member, has = v[strings.Join(path, ".")]
			path = path[len(path)-1:]
		}
		if has {
			return lookUp(member, path[1:])
		}
	case []any:
		switch at, err := strconv.Atoi(path[0]); {
		case path[0] == "#":
			return []string{strconv.Itoa(len(v))}
		case path[0] == "*":
			var all []string
			sum, counts := 0, path[len(path)-1] == "#"
			for _, element := range v {
				found := lookUp(element, path[1:])
				all = append(all, found...)
				for _, text := range found {
					n, _ := strconv.Atoi(text)
					sum += n
				}
			}
			if counts {
				return []string{strconv.Itoa(sum)}
			}
			return all
		case err == nil && at < 0 && -at <= len(v):
			return lookUp(v[len(v)+at], path[1:])
		case err == nil && at >= 0 && at < len(v):
			return lookUp(v[at], path[1:])
		}
	}
	return nil
}

func scalarText(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{strings.TrimSpace(v)}
	case json.Number:
		return []string{v.String()}
	case bool:
		return []string{strconv.FormatBool(v)}
	}
	return nil
}

// parquetTable is a Parquet file.
type parquetTable struct {
	file    *parquet.File
	columns map[string]*parquet.Column // columns without lists and without bytes of a fixed length
	header  []string
}

// guard turns a panic of the library, which some damaged files cause, into an error.
func guard(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("a damaged Parquet file: %v", fault)
	}
}

func openParquet(at io.ReaderAt, size int64) (t *parquetTable, err error) {
	defer guard(&err)
	file, err := parquet.OpenFile(at, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("not a Parquet file that can be read: %w", err)
	}
	t = &parquetTable{file: file, columns: make(map[string]*parquet.Column)}
	t.add(file.Root())
	return t, nil
}

func (t *parquetTable) add(column *parquet.Column) {
	for _, c := range column.Columns() {
		switch {
		case c.Repeated():
		case !c.Leaf():
			t.add(c)
		case c.Type().Kind() != parquet.FixedLenByteArray:
			name := strings.Join(c.Path(), ".")
			t.columns[name] = c
			t.header = append(t.header, name)
		}
	}
}

func (t *parquetTable) names() []string { return t.header }

func (t *parquetTable) each(columns []string, f func(*row) error) (err error) {
	number := int64(0)
	for _, group := range t.file.RowGroups() {
		if err := t.group(group, columns, &number, f); err != nil {
			return err
		}
	}
	return nil
}

// group reads the rows of a group. It reads only the requested columns.
func (t *parquetTable) group(group parquet.RowGroup, columns []string, number *int64, f func(*row) error) error {
	readers := make([]*columnReader, len(columns))
	defer func() {
		for _, r := range readers {
			if r != nil {
				r.close()
			}
		}
	}()
	chunks := group.ColumnChunks()
	for i, name := range columns {
		if c := t.columns[name]; c != nil {
			if c.Index() >= len(chunks) {
				return errors.New("a damaged Parquet file: a group of rows without all columns")
			}
			readers[i] = &columnReader{chunk: chunks[c.Index()], text: textOf(c)}
		}
	}
	cells := make([]string, len(columns))
	for range group.NumRows() {
		*number++
		for i, r := range readers {
			if cells[i] = ""; r != nil {
				text, err := r.next()
				if err != nil {
					return fmt.Errorf("row %d, column %s: %w", *number, columns[i], err)
				}
				cells[i] = text
			}
		}
		if err := f(&row{place: "row " + strconv.FormatInt(*number, 10), cells: cells}); err != nil {
			return err
		}
	}
	return nil
}

// columnReader reads the values of a column one by one.
type columnReader struct {
	chunk  parquet.ColumnChunk
	text   func(parquet.Value) string
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	buffer [256]parquet.Value
	rest   []parquet.Value
}

func (c *columnReader) next() (text string, err error) {
	defer guard(&err)
	for len(c.rest) == 0 {
		if c.values == nil {
			if c.pages == nil {
				c.pages = c.chunk.Pages()
			}
			page, err := c.pages.ReadPage()
			if err != nil {
				if errors.Is(err, io.EOF) {
					err = errors.New("fewer values than rows")
				}
				return "", err
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.buffer[:])
		c.rest = c.buffer[:n]
		switch {
		case errors.Is(err, io.EOF), err == nil && n == 0:
			c.values = nil // the texts of its values must be read before the page is released
			if n == 0 {
				c.release()
			}
		case err != nil:
			return "", err
		}
	}
	value := c.rest[0]
	c.rest = c.rest[1:]
	if value.IsNull() {
		return "", nil
	}
	return c.text(value), nil
}

func (c *columnReader) release() {
	if c.page != nil {
		parquet.Release(c.page)
		c.page = nil
	}
}

func (c *columnReader) close() {
	if c.pages != nil {
		_ = c.pages.Close() // the file is only read
	}
}

// textOf returns the function that writes a column's values as text. Instants are written in UTC if the column is in
// UTC, and otherwise without a zone.
func textOf(column *parquet.Column) func(parquet.Value) string {
	kind := column.Type().Kind()
	if logical := column.Type().LogicalType(); logical != nil {
		switch l := logical.Value.(type) {
		case *format.TimestampType:
			unit := time.Nanosecond
			if l.Unit.Value != nil {
				unit = l.Unit.Value.Duration()
			}
			return func(v parquet.Value) string { return instantText(v.Int64(), unit, l.IsAdjustedToUTC) }
		case *format.DateType:
			return func(v parquet.Value) string {
				return time.Unix(int64(v.Int32())*86400, 0).UTC().Format("2006-01-02")
			}
		case *format.DecimalType:
			scale := math.Pow10(-int(l.Scale))
			switch kind {
			case parquet.Int32:
				return func(v parquet.Value) string { return floatText(float64(v.Int32()) * scale) }
			case parquet.Int64:
				return func(v parquet.Value) string { return floatText(float64(v.Int64()) * scale) }
			}
		}
	}
	if old := column.Type().ConvertedType(); old != nil && kind == parquet.Int64 {
		switch *old {
		case deprecated.TimestampMillis:
			return func(v parquet.Value) string { return instantText(v.Int64(), time.Millisecond, true) }
		case deprecated.TimestampMicros:
			return func(v parquet.Value) string { return instantText(v.Int64(), time.Microsecond, true) }
		}
	}
	switch kind {
	case parquet.Boolean:
		return func(v parquet.Value) string { return strconv.FormatBool(v.Boolean()) }
	case parquet.Int32:
		return func(v parquet.Value) string { return strconv.FormatInt(int64(v.Int32()), 10) }
	case parquet.Int64:
		return func(v parquet.Value) string { return strconv.FormatInt(v.Int64(), 10) }
	case parquet.Int96: // Julian day and nanoseconds of the day
		return func(v parquet.Value) string {
			n := v.Int96()
			day, nanos := int64(n[2]), int64(n[1])<<32|int64(n[0])
			return time.Unix((day-2440588)*86400, nanos).UTC().Format("2006-01-02T15:04:05.999999999")
		}
	case parquet.Float:
		return func(v parquet.Value) string { return floatText(float64(v.Float())) }
	case parquet.Double:
		return func(v parquet.Value) string { return floatText(v.Double()) }
	}
	return func(v parquet.Value) string { return lines.UTF8(bytes.Clone(v.ByteArray())) }
}

// floatText writes a number; "" for NaN, as pandas writes a missing number.
func floatText(n float64) string {
	if math.IsNaN(n) {
		return ""
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

func instantText(n int64, unit time.Duration, utc bool) string {
	perSecond := int64(time.Second / unit)
	seconds := n / perSecond
	t := time.Unix(seconds, (n-seconds*perSecond)*int64(unit)).UTC()
	if utc {
		return t.Format("2006-01-02T15:04:05.999999999Z")
	}
	return t.Format("2006-01-02T15:04:05.999999999")
}
