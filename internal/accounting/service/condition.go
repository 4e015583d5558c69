package service

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"rmreplay/internal/accounting/store"
	"rmreplay/internal/spelling"
)

// DuckDB's messages about an invalid condition: the class of the error and the first line. Further
// lines would show the whole statement, which the user did not write.
var (
	sqlFault      = regexp.MustCompile(`(Binder|Parser|Catalog|Conversion|Invalid Input|Out of Range) Error: ([^\n]*)`)
	sqlNoColumn   = regexp.MustCompile(`^Referenced column "([^"]*)" not found`)
	sqlConversion = regexp.MustCompile(`^Could not convert string '(.*)' to (\w+)`)
)

// conditionFault translates errors in a condition of --where into words of the command line. It
// returns other errors unchanged.
func conditionFault(condition string, err error) error {
	if condition == "" || err == nil {
		return err
	}
	found := sqlFault.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	say := func(format string, args ...any) error {
		return fmt.Errorf("--where %q: %w", condition, fmt.Errorf(format, args...))
	}
	if column := sqlNoColumn.FindStringSubmatch(found[2]); column != nil {
		name := column[1]
		known := make([]string, len(store.Columns))
		for i, c := range store.Columns {
			known[i] = c.Name
		}
		if near := spelling.Nearest(strings.ToLower(name), max(1, len(name)/3), known); near != "" {
			return say("there is no column %s (did you mean %s? a text needs quotes: '%s')", name, near, name)
		}
		return say("there is no column %s (a text needs quotes: '%s')", name, name)
	}
	if value := sqlConversion.FindStringSubmatch(found[2]); value != nil {
		kind := map[string]string{"INT64": "a number", "DOUBLE": "a number",
			"TIMESTAMP": "an instant, such as 2024-03-05 14:00:00"}
		return say("%q: not a value of the column (want %s)", value[1], cmp.Or(kind[value[2]], value[2]))
	}
	return say("%w", errors.New(plainSQL(found[2])+
		" (want a condition in SQL, such as state = 'FAILED' AND elapsed_s > 3600)"))
}

// plainSQL returns the first sentence of a message of DuckDB, with a lower-case initial.
func plainSQL(message string) string {
	sentence, _, _ := strings.Cut(strings.TrimRight(message, "!. "), "! ")
	return strings.ToLower(sentence[:min(1, len(sentence))]) + sentence[min(1, len(sentence)):]
}
