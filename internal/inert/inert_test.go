package inert

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCell(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "job": "job", "it's": "it's", "'quoted'": "'quoted'", "=1+1": "'=1+1", "@SUM(A1)": "'@SUM(A1)", "+cmd|' /C calc'!A0": "'+cmd|' /C calc'!A0",
		"-": "'-", "-x": "'-x", "\t=1": "'\t=1", "\r=1": "'\r=1", "＝1+1": "'＝1+1", "'=1": "''=1", "a=1": "a=1",
		"-1": "-1", "+1.5": "+1.5", "-.5": "-.5", "-1e-9": "-1e-9", "+Inf": "+Inf", "-1+1": "'-1+1", "-1 ": "'-1 ", "2024-03-01": "2024-03-01",
	} {
		if got := Cell(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	for text, want := range map[string]string{
		"job": "job", "größe 漢字": "größe 漢字", "a\nb\tc": "a\nb\tc", "\x1b[2J": `\x1b[2J`, "bell\a": `bell\x07`, "a\rb": `a\x0db`,
		"\u009b31m": `\u009b31m`, "\x9b31m": `\x9b31m`, "a\u202eb": `a\u202eb`, "\u2066x\u2069": `\u2066x\u2069`, "\x7f": `\x7f`, "a\u2028b": `a\u2028b`,
		"\ufffd": "\ufffd",
	} {
		if got := Lines(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := Line("a\nb\tc"); got != `a\x0ab\x09c` {
		t.Errorf("a cell with lines becomes %q", got)
	}
}

// TestAnyText: a text can be read back from its cell, a cell is not a formula, and JSON keeps its
// value.
func TestAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.OneOf(rapid.SampledFrom([]rune("'=+-@\t\r\n1.e a＝\x1b\u009b\u202e")), rapid.Rune())).Draw(t, "text")
		cell := Cell(text)
		if got := Text(cell); got != text {
			t.Fatalf("%q becomes %q, and then %q", text, cell, got)
		}
		if cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r\n") && !number.MatchString(cell) {
			t.Fatalf("%q is a formula", cell)
		}
		if strings.IndexFunc(Line(text), acts) >= 0 {
			t.Fatalf("%q on a terminal is %q", text, Line(text))
		}
		encoded, err := json.MarshalIndent(map[string]string{text: text}, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		var before, after map[string]string
		if err := json.Unmarshal(encoded, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(JSON(encoded), &after); err != nil || after[text] != before[text] {
			t.Fatalf("%s: %v", JSON(encoded), err)
		}
	})
}

// TestWriters: no other package of the program writes CSV itself.
func TestWriters(t *testing.T) {
	files := 0
	for _, top := range []string{"../../internal", "../../cmd", "../../tools"} {
		err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			files++
			if strings.Contains(string(text), "csv."+"NewWriter(") && filepath.Base(filepath.Dir(path)) != "inert" {
				t.Errorf("%s: cells may be formulas for spreadsheets (want inert.NewWriter)", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 300 {
		t.Errorf("only %d files", files)
	}
}
