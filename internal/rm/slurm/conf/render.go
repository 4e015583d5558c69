package conf

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

// Render writes the changes as a table for people, one line for each change. Below the table, it
// writes what the site must change for the release, if anything, and the warnings.
func (ad *Adapted) Render(w io.Writer) error {
	if err := renderChanges(w, ad.Changes); err != nil {
		return err
	}
	if len(ad.Upgrade) > 0 {
		if _, err := fmt.Fprintf(w, "\nFor Slurm %s the site's own files need:\n\n", ad.Release.Series()); err != nil {
			return err
		}
		if err := renderChanges(w, ad.Upgrade); err != nil {
			return err
		}
	}
	for _, warning := range ad.Warnings {
		if _, err := fmt.Fprintf(w, "warning: %s\n", warning); err != nil {
			return err
		}
	}
	return nil
}

func renderChanges(w io.Writer, changes []Change) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tFROM\tTO\tWHERE\tREASON")
	for _, c := range changes {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", cell(c.Key), cell(c.From), cell(c.To), c.position(), c.Reason)
	}
	return t.Flush()
}

func (c Change) position() string {
	if c.File == "" {
		return "-"
	}
	return fmt.Sprintf("%s:%d", filepath.Base(c.File), c.Line)
}

// cell shortens a long value and replaces an empty one by "-", so that programs can split the table into columns.
func cell(s string) string {
	const limit = 48
	switch r := []rune(s); {
	case len(r) == 0:
		return "-"
	case len(r) > limit:
		return string(r[:limit-1]) + "…"
	}
	return s
}

// Write writes the files into an existing directory. Only their owner can read them, as slurmdbd requires.
func (ad *Adapted) Write(dir string) error {
	for name, data := range ad.Files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return fmt.Errorf("writing adapted configuration: %w", err)
		}
	}
	return nil
}
