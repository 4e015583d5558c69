package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
)

// RuleBook counts the records of a source to which named rules apply. If the book is strict, the first record to which
// a rule applies is an error.
type RuleBook struct {
	Strict bool
	// Counts has the number of records by rule; nil while all counts are 0.
	Counts map[string]int
	first  string // the first mistake
	// where the reader is in its source: the file's name and a line or record; without a name, mistakes have no place
	name, unit string
	number     int
}

// At says where in the source the next mistakes are, so that [RuleBook.Mistake] names the place. unit is "" for
// lines, or the word for what number counts, such as "job". Without a name, mistakes have no place.
func (b *RuleBook) At(name, unit string, number int) { b.name, b.unit, b.number = name, unit, number }

// located adds the current place in the source to a mistake.
func (b *RuleBook) located(mistake string) string {
	switch {
	case b.name == "":
		return mistake
	case b.unit == "":
		return fmt.Sprintf("%s:%d: %s", b.name, b.number, mistake)
	}
	return fmt.Sprintf("%s: %s %d: %s", b.name, b.unit, b.number, mistake)
}

// Fall counts a record to which a rule applies, and returns nil. A strict book returns the record's
// mistake as an error; the caller adds the line.
func (b *RuleBook) Fall(rule, format string, args ...any) error {
	if b.Strict {
		return fmt.Errorf("%s (rule %s)", fmt.Sprintf(format, args...), rule)
	}
	if b.first == "" {
		b.first = b.located(fmt.Sprintf(format, args...))
	}
	b.Note(rule, 1)
	return nil
}

// Note counts n decisions that a reader made because the source lacks a fact that the workload needs. Decisions about
// missing facts are not mistakes of the source, so a strict book counts them without an error.
func (b *RuleBook) Note(what string, n int) {
	if n == 0 {
		return
	}
	if b.Counts == nil {
		b.Counts = make(map[string]int)
	}
	b.Counts[what] += n
}

// Mistake returns the first mistake, in words, or "".
func (b *RuleBook) Mistake() string { return b.first }

// Summary lists the counts for an error, with the first mistake: " (rule 3, other_rule 1; the
// first: field 2: no submit time)". It returns "" if all counts are 0.
func (b *RuleBook) Summary() string {
	var parts []string
	for _, rule := range slices.Sorted(maps.Keys(b.Counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", rule, b.Counts[rule]))
	}
	if len(parts) == 0 {
		return ""
	}
	text := strings.Join(parts, ", ")
	if b.first != "" {
		text += "; the first: " + b.first
	}
	return " (" + text + ")"
}

// OrderCheck applies the rules about the order of submissions, which all formats share. It gets
// one job after another in the order of the source.
type OrderCheck struct {
	started bool
	latest  hpc.Time
}

// Job counts a submission in the book if [RuleOutOfOrder] or [RuleClockJump] applies. If the book is strict, Job
// returns the book's error.
func (c *OrderCheck) Job(book *RuleBook, submit hpc.Time) error {
	latest, started := c.latest, c.started
	c.started = true
	if !started || submit > latest {
		c.latest = submit
	}
	switch {
	case !started:
		return nil
	case submit < latest:
		return book.Fall(RuleOutOfOrder, "submitted at %s, after a job that was submitted at %s", submit, latest)
	case submit.Sub(latest) > MaxGap:
		return book.Fall(RuleClockJump, "submitted at %s, %.0f days after the previous job", submit,
			submit.Sub(latest).Hours()/24)
	}
	return nil
}
