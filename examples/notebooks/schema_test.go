package notebooks

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// column is a column of a table.
type column struct {
	name, kind, unit string
	null             bool
}

// tables are the headings of docs/SCHEMA.md, and the files that they are about.
var tables = map[string]*regexp.Regexp{
	"RUN/jobs.parquet":      regexp.MustCompile(`^(run|sweep/.+)/jobs\.parquet$`),
	"RUN/events.parquet":    regexp.MustCompile(`^(run|sweep/.+)/events\.parquet$`),
	"RUN/scheduler.parquet": regexp.MustCompile(`^run/scheduler\.parquet$`),
	"STORE/jobs/":           regexp.MustCompile(`^store/(jobs|fresh)/\d+\.parquet$`),
	"STORE/gone/":           regexp.MustCompile(`^store/(gone/|fresh/gone-)\d+\.parquet$`),
	"STORE/health/":         regexp.MustCompile(`^store/health/\d+\.parquet$`),
	"STORE/health_counts/":  regexp.MustCompile(`^store/health_counts/\d+\.parquet$`),
	"EXPORT":                regexp.MustCompile(`^export\.parquet$`),
}

// private matches the files of a store that docs/SCHEMA.md does not describe, because only the
// server uses them.
var private = regexp.MustCompile(`^store/cells/\d+\.parquet$`)

// TestSchema compares docs/SCHEMA.md with all Parquet files of a run, a sweep, a store and an export.
func TestSchema(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED by -short: runs a sweep")
	}
	text, err := os.ReadFile("../../docs/SCHEMA.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := sections(t, string(text))
	documented["EXPORT"] = append(slices.DeleteFunc(slices.Clone(documented["STORE/jobs/"]),
		func(c column) bool { return c.name == "document" }), documented["EXPORT"]...)
	dir := written(t)
	seen := map[string]int{}
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".parquet") {
			return err
		}
		name := strings.TrimPrefix(path, dir+"/")
		for heading, files := range tables {
			if files.MatchString(name) {
				seen[heading]++
				for _, difference := range differences(documented[heading], columns(t, path)) {
					t.Errorf("%s, docs/SCHEMA.md, %s: %s", name, heading, difference)
				}
				return nil
			}
		}
		if !private.MatchString(name) {
			t.Errorf("%s: docs/SCHEMA.md has no table for it", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for heading := range documented {
		if seen[heading] == 0 {
			t.Errorf("docs/SCHEMA.md, %s: no such file was written", heading)
		}
	}
}

// TestDifferences checks that [differences] finds each kind of difference.
func TestDifferences(t *testing.T) {
	is := []column{{"a", "int64", "", false}, {"b_s", "double", "s", true}}
	if got := differences(is, is); len(got) > 0 {
		t.Fatal(got)
	}
	for want, page := range map[string][]column{
		"b_s has no row":                               {is[0]},
		"c is no column":                               {is[0], is[1], {"c", "int64", "", false}},
		"a is int64 (the row says uint32)":             {{"a", "uint32", "", false}, is[1]},
		"a is never null (the row says when it is)":    {{"a", "int64", "", true}, is[1]},
		"b_s may be null (the row says never)":         {is[0], {"b_s", "double", "s", false}},
		"b_s: the row has the unit \"h\" (want \"s\")": {is[0], {"b_s", "double", "h", true}},
	} {
		if got := differences(page, is); !slices.Equal(got, []string{want}) {
			t.Errorf("got %q (want %q)", got, want)
		}
	}
}

// sections returns the columns of the page's tables by their headings.
func sections(t *testing.T, text string) map[string][]column {
	t.Helper()
	list := map[string][]column{}
	for _, section := range strings.Split(text, "\n### ")[1:] {
		heading, rest, _ := strings.Cut(section, "\n")
		for line := range strings.Lines(rest) {
			cells := strings.Split(line, "|")
			if len(cells) < 7 || !strings.HasPrefix(cells[1], " `") {
				continue
			}
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			if cells[4] == "" || cells[5] == "" {
				t.Errorf("%s: %s: the row does not say when it is null, or what it means", heading, cells[1])
			}
			for name := range strings.SplitSeq(cells[1], ", ") { // columns of one kind share a row
				list[heading] = append(list[heading], column{strings.Trim(name, "`"), cells[2], cells[3], cells[4] != "never"})
			}
		}
	}
	if len(list) != len(tables) {
		t.Fatalf("docs/SCHEMA.md has %d tables (want %d)", len(list), len(tables))
	}
	return list
}

// columns returns the columns of a file.
func columns(t *testing.T, path string) (list []column) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return fields("", file.Schema().Fields())
}

func fields(prefix string, all []parquet.Field) (list []column) {
	for _, f := range all {
		c := column{name: prefix + f.Name(), unit: unitOf(f.Name()), null: f.Optional()}
		if f.Leaf() {
			c.kind = cmp.Or(arrow[f.Type().String()], f.Type().String())
			if strings.HasPrefix(c.kind, "timestamp") {
				c.unit = "UTC"
			}
			list = append(list, c)
			continue
		}
		// A list is a group of a repeated group of an element, which is a struct here.
		c.kind = "list"
		list = append(append(list, c), fields(c.name+".", f.Fields()[0].Fields()[0].Fields())...)
	}
	return list
}

// unitOf returns the unit at the end of a column's name.
func unitOf(name string) string {
	if strings.HasPrefix(name, "no_") { // a number of jobs
		return ""
	}
	end := name[strings.LastIndexByte(name, '_')+1:]
	return map[string]string{"s": "s", "ns": "ns", "us": "µs", "mib": "MiB", "hours": "h", "bytes": "bytes"}[end]
}

// arrow maps the types of Parquet columns to their names in Apache Arrow.
var arrow = map[string]string{
	"TIMESTAMP(isAdjustedToUTC=true,unit=NANOS)":   "timestamp[ns, UTC]",
	"TIMESTAMP(isAdjustedToUTC=false,unit=MICROS)": "timestamp[us]",
	"STRING":        "string",
	"INT(64,true)":  "int64",
	"INT64":         "int64",
	"INT(32,true)":  "int32",
	"INT(32,false)": "uint32",
	"DOUBLE":        "double",
	"BOOLEAN":       "bool",
	"BYTE_ARRAY":    "binary",
}

// differences says how the page's rows differ from a file's columns.
func differences(page, file []column) (list []string) {
	report := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	named := func(columns []column, name string) int {
		return slices.IndexFunc(columns, func(c column) bool { return c.name == name })
	}
	for _, c := range file {
		i := named(page, c.name)
		if i < 0 {
			report("%s has no row", c.name)
			continue
		}
		row := page[i]
		switch {
		case row.kind != c.kind:
			report("%s is %s (the row says %s)", c.name, c.kind, row.kind)
		case row.null && !c.null:
			report("%s is never null (the row says when it is)", c.name)
		case c.null && !row.null:
			report("%s may be null (the row says never)", c.name)
		case c.unit != "" && row.unit != c.unit:
			report("%s: the row has the unit %q (want %q)", c.name, row.unit, c.unit)
		}
	}
	for _, c := range page {
		if named(file, c.name) < 0 {
			report("%s is no column", c.name)
		}
	}
	return list
}
