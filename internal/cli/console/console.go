// Package console is what every command shares, whichever package it is in: how it prints, shows its
// progress, checks its arguments, names the flags that many commands have, and which exit status an
// error stands for.
package console

import (
	"encoding/json"
	"fmt"
	"io"
)

// Output is where a command prints: results to Stdout, everything else to Stderr.
type Output struct {
	Stdout, Stderr io.Writer
	Version        string // the program's, for what it writes
}

// Print prints a result for people.
func (o Output) Print(text string) error {
	if _, err := io.WriteString(o.Stdout, text); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// PrintJSON prints v as the command's one JSON object.
func (o Output) PrintJSON(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the result as JSON: %w", err)
	}
	if _, err := fmt.Fprintf(o.Stdout, "%s\n", text); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return nil
}

// Say prints a message for people. It ignores errors: a closed standard error stops no command.
func (o Output) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(o.Stderr, format+"\n", args...)
}
