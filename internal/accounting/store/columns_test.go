package store_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"rmreplay/internal/accounting/store"
)

var update = flag.Bool("update", false, "write the table of columns in docs/SCHEMA.md anew")

// TestDocumented checks that docs/SCHEMA.md lists all columns correctly.
func TestDocumented(t *testing.T) {
	const path = "../../../docs/SCHEMA.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "-update -->\n")
	_, after, end := strings.Cut(rest, "| `document` ")
	if !ok || !end {
		t.Fatal("docs/SCHEMA.md has no place for the columns")
	}
	var b strings.Builder
	b.WriteString("| column | type | unit | null | meaning | key |\n| --- | --- | --- | --- | --- | --- |\n")
	for rest := store.Columns; len(rest) > 0; {
		n := 1
		for n < len(rest) && oneRow(rest[:n+1]) {
			n++
		}
		b.WriteString(documented(rest[:n]))
		rest = rest[n:]
	}
	want := before + "-update -->\n" + b.String() + "| `document` " + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Error("docs/SCHEMA.md lists other columns " +
			"(go test ./internal/accounting/store -run Documented -update writes them)")
	}
}

// partOfWait is the beginning of the doc of each column with a part of the wait.
const partOfWait = "the part of wait_s in which the job waited "

// longestRow bounds the total length of the meanings of columns that share a row.
const longestRow = 120

// row is what the columns that share a row of the page have in common.
type row struct {
	kind, unit, null string // the type in Arrow, the unit, and when a value is null
	keyed, part      bool   // whether Slurm's document has the column, and whether the column is a part of the wait
}

// oneRow reports whether columns share a row: the parts of the wait do, and columns of one kind with short meanings.
func oneRow(columns []store.Column) bool {
	first, _ := described(&columns[0])
	length := 0
	for i := range columns {
		r, meaning := described(&columns[i])
		length += len(meaning)
		if r != first || !r.part && (length > longestRow || strings.Contains(meaning, ";")) {
			return false
		}
	}
	return true
}

// documented returns the row of the page for columns that share a row.
func documented(columns []store.Column) string {
	var names, meanings, keys []string
	r, _ := described(&columns[0])
	for i := range columns {
		_, meaning := described(&columns[i])
		name := "`" + columns[i].Name + "`"
		if len(columns) > 1 {
			meaning = name + ": " + meaning
		}
		names, meanings = append(names, name), append(meanings, meaning)
		if r.keyed {
			keys = append(keys, "`"+columns[i].Field+"`")
		}
	}
	text := strings.Join(meanings, "; ")
	if r.part {
		text = "the [parts](EXPLAIN.md#the-parts-of-a-wait) of wait_s"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n",
		strings.Join(names, ", "), r.kind, r.unit, r.null, text, strings.Join(keys, ", "))
}

// described returns the row that a column belongs to, and the meaning of the column.
func described(c *store.Column) (r row, meaning string) {
	inSQL, required, _ := strings.Cut(c.Type, " ")
	meaning, null, ok := strings.Cut(strings.Replace(c.Doc, " (UTC)", "", 1), "; NULL ")
	if !ok {
		null = "if not known"
	}
	if required != "" {
		null = "never"
	}
	unit := ""
	for end, u := range map[string]string{"_s": "s", "_mib": "MiB", "_hours": "h", "_bytes": "bytes"} {
		if strings.HasSuffix(c.Name, end) {
			unit = u
		}
	}
	if inSQL == "TIMESTAMP" {
		unit = "UTC"
	}
	types := map[string]string{"BIGINT": "int64", "DOUBLE": "double", "VARCHAR": "string", "TIMESTAMP": "timestamp[us]"}
	return row{types[inSQL], unit, null, c.Field != "", strings.HasPrefix(meaning, partOfWait)}, meaning
}
