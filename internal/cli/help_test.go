package cli

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// On a terminal, the descriptions of flags are as wide as the terminal, but at most 100 columns. Elsewhere each is one
// line, as programs expect.
func TestHelpOnTerminal(t *testing.T) {
	args := []string{"workload", "transform", "--help"}
	widest := func(text string) (most int) {
		_, flags, _ := strings.Cut(text, "\nFlags:\n")
		for line := range strings.Lines(flags) {
			most = max(most, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
		}
		return most
	}
	near, far := pseudoTerminal(t)
	reader := bufio.NewReader(near)
	for _, columns := range []int{70, 100, 250} {
		if err := unix.IoctlSetWinsize(int(near.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}); err != nil {
			t.Fatal(err)
		}
		text := make(chan string)
		go func() {
			s, _ := reader.ReadString('\a')
			text <- strings.ReplaceAll(s, "\r", "")
		}()
		if code := execute(t.Context(), args, far, far); code != 0 {
			t.Fatal(code)
		}
		if _, err := far.WriteString("\a"); err != nil {
			t.Fatal(err)
		}
		out := <-text
		if most := widest(out); most > min(columns, 100) || most < min(columns, 100)-20 {
			t.Errorf("%d columns: a line of %d", columns, most)
		}
		if !strings.Contains(out, "\n"+strings.Repeat(" ", 37)+"of ") && !strings.Contains(out, "\n"+strings.Repeat(" ", 37)+"than ") {
			t.Errorf("%d columns: no hanging indent in\n%s", columns, out)
		}
	}
	var b bytes.Buffer
	if code := execute(t.Context(), args, &b, &b); code != 0 || widest(b.String()) <= 100 {
		t.Errorf("%d, lines of %d without a terminal", code, widest(b.String()))
	}
}
