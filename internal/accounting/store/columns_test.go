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

// partOfWait begins what the columns with the parts of a wait are.
const partOfWait = "the part of wait_s in which the job waited "

// TestDocumented checks that docs/SCHEMA.md lists the columns as they are.
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
	var parts []string // of the wait, which share a row
	for _, c := range store.Columns {
		if strings.HasPrefix(c.Doc, partOfWait) {
			parts = append(parts, "`"+c.Name+"`")
			continue
		}
		b.WriteString(documented(&c))
	}
	fmt.Fprintf(&b, "| %s | int64 | s | if it is not known | the [parts](EXPLAIN.md#the-parts-of-a-wait) of wait_s | |\n",
		strings.Join(parts, ", "))
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

// documented returns a column's line.
func documented(c *store.Column) string {
	kind, required, _ := strings.Cut(c.Type, " ")
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
	if kind == "TIMESTAMP" {
		unit = "UTC"
	}
	field := ""
	if c.Field != "" {
		field = "`" + c.Field + "`"
	}
	types := map[string]string{"BIGINT": "int64", "DOUBLE": "double", "VARCHAR": "string", "TIMESTAMP": "timestamp[us]"}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |\n", c.Name, types[kind], unit, null, meaning, field)
}
