package console

import (
	"strings"

	"github.com/spf13/pflag"

	"rmreplay/internal/metrics"
)

// Groupings returns the names that --by accepts.
func Groupings() (names []string) {
	for _, by := range metrics.Groupings {
		names = append(names, string(by))
	}
	return names
}

// AddBy adds the flag --by. [ParseBy] reads its values.
func AddBy(f *pflag.FlagSet, to *[]string) {
	f.StringSliceVar(to, "by", nil, "divide the jobs into groups by `GROUP`: one or more of "+
		strings.Join(Groupings(), ", "))
}

// ParseBy reads the values of --by. Its error is an error of usage.
func ParseBy(names []string) (list []metrics.By, err error) {
	for _, name := range names {
		by, err := metrics.ParseBy(name)
		if err != nil {
			return nil, Usagef("--by %w", err)
		}
		list = append(list, by)
	}
	return list, nil
}
