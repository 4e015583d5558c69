package store_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"rmreplay/internal/accounting/store"
)

var update = flag.Bool("update", false, "write the table of columns in docs/ACCOUNTING.md anew")

// TestDocumented checks that docs/ACCOUNTING.md lists the columns as they are.
func TestDocumented(t *testing.T) {
	const path = "../../../docs/ACCOUNTING.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "-update -->\n")
	_, after, end := strings.Cut(rest, "<!-- end of columns -->")
	if !ok || !end {
		t.Fatal("docs/ACCOUNTING.md has no place for the columns")
	}
	var b strings.Builder
	b.WriteString("| column | type | key of the document | meaning |\n| --- | --- | --- | --- |\n")
	for _, c := range store.Columns {
		field := c.Field
		if field != "" {
			field = "`" + field + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Name, strings.TrimSuffix(c.Type, " NOT NULL"), field, c.Doc)
	}
	want := before + "-update -->\n" + b.String() + "<!-- end of columns -->" + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Error("docs/ACCOUNTING.md lists other columns " +
			"(go test ./internal/accounting/store -run Documented -update writes them)")
	}
}
