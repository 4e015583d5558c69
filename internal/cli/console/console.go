// Package console has the code that all commands share: printing, progress, the checks of
// arguments, common flags, and the exit statuses of errors.
package console

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"rmreplay/internal/inert"
)

// Output is where a command prints: results to Stdout, everything else to Stderr.
type Output struct {
	Stdout, Stderr io.Writer
	Version        string // the program's version, for files that commands write
}

// Print prints a result for people. Control characters are printed as visible text, so that a
// terminal does not obey them: see [inert.Lines].
func (o Output) Print(text string) error {
	if _, err := io.WriteString(o.Stdout, inert.Lines(text)); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// Printf formats a result for people, and prints it as [Output.Print] does.
func (o Output) Printf(format string, args ...any) error {
	return o.Print(fmt.Sprintf(format, args...))
}

// Render prints the output of write, as [Output.Print] does.
func (o Output) Render(write func(io.Writer) error) error {
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	return o.Print(b.String())
}

// Pictures reports whether results go to a terminal, where small pictures help.
func (o Output) Pictures() bool {
	f, ok := o.Stdout.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// PrintJSON prints v as the command's one JSON object. Control characters in strings are escaped,
// so that a terminal does not obey them.
func (o Output) PrintJSON(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the result as JSON: %w", err)
	}
	if _, err := fmt.Fprintf(o.Stdout, "%s\n", inert.JSON(text)); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// Say prints a message for people as [Output.Print] does. It ignores errors, so a command
// continues when its standard error is closed.
func (o Output) Say(format string, args ...any) {
	_, _ = io.WriteString(o.Stderr, inert.Lines(fmt.Sprintf(format+"\n", args...)))
}

// helpColumns is the width of help texts.
const helpColumns = 88

// Words returns words as indented lines of a help text, separated by commas.
func Words(words []string) string {
	var b strings.Builder
	column := helpColumns
	for _, word := range words {
		if column+1+len(word) > helpColumns {
			b.WriteString("\n ")
			column = 1
		}
		b.WriteString(" " + word)
		column += 1 + len(word)
	}
	return strings.TrimPrefix(b.String(), "\n") + "\n"
}
