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

// sqlWords matches the words of a condition, and as a whole texts, quoted names and comments.
var sqlWords = regexp.MustCompile(`(?s)[eE]'(?:\\.|''|[^'\\])*'|` + sqlText +
	`|"(?:[^"]|"")*"|\$\$.*?\$\$|--[^\n]*|/\*.*?\*/|\.?[\pL_][\pL\d_$]*`)

// sqlSession maps the keywords that are values of DuckDB's session to the column that is meant. DuckDB takes
// user = 'ada' as a comparison with the session's user, which is false for all jobs. The keywords of instants
// (current_date, current_timestamp, localtime, localtimestamp) are of use in conditions.
var sqlSession = map[string]string{"user": "user_name", "current_user": "user_name", "session_user": "user_name",
	"current_role": "user_name", "current_catalog": "cluster", "current_schema": "cluster"}

// conditionKeyword returns an error if a condition has a keyword in the place of a column.
func conditionKeyword(condition string) error {
	for _, word := range sqlWords.FindAllString(condition, -1) {
		word = strings.Trim(word, `"`) // DuckDB takes "user" as the keyword, too
		if column := sqlSession[strings.ToLower(word)]; column != "" {
			return fmt.Errorf("--where %q: %s is a keyword of SQL, not a column (want %s)", condition, word, column)
		}
	}
	return nil
}

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
