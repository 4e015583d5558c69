package console

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestInert: commands print control characters as visible text, for people and as JSON.
func TestInert(t *testing.T) {
	const name = "a\x1b[2J\a\u009b31m\u202eb"
	const want = `a\x1b[2J\x07\u009b31m\u202eb`
	var out, messages strings.Builder
	o := Output{Stdout: &out, Stderr: &messages}
	if err := errors.Join(o.Print(name), o.Printf("%s", name), o.Render(func(w io.Writer) error {
		_, err := io.WriteString(w, name+"\n\t|")
		return err
	})); err != nil || out.String() != want+want+want+"\n\t|" {
		t.Errorf("%q, %v", out.String(), err)
	}
	o.Say("reading %s: %v", name, errors.New(name))
	p := o.Progress(false)
	p.Step(name)
	p.Notice(name)
	if got := messages.String(); strings.Count(got, want) != 4 || strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
	out.Reset()
	var value string
	if err := o.PrintJSON(name); err != nil || strings.ContainsAny(out.String(), "\x1b\u009b\u202e") {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := json.Unmarshal([]byte(out.String()), &value); err != nil || value != name {
		t.Errorf("%q becomes %q, %v", out.String(), value, err)
	}
}
