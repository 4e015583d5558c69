// Package warned lists the warnings of several runs of one experiment, without repetitions.
package warned

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// varying matches the parts of warnings that may differ between runs: a number of jobs at the begin
// of the text, durations and percentages.
var varying = regexp.MustCompile(`^\d+\b|\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b|\b\d+(\.\d+)? ?%`)

// List returns the warnings of the runs, beginning with those that affect the result. Warnings that differ only in
// varying parts appear once, with the ranges of these parts. The text says how many runs have the warning and, if it
// counts more than one case in a run, how many cases each of these runs has.
func List(runs []*run.Manifest) (list []string) {
	found := make(map[run.Warning][]run.Warning)
	counts := make(map[run.Warning]map[int]int) // of each run that has the warning
	var order []run.Warning
	for i, m := range runs {
		for _, w := range m.Warnings {
			key := run.Warning{Code: w.Code, Text: varying.ReplaceAllString(w.Text, "#"), AffectsResult: w.AffectsResult}
			if found[key] == nil {
				order, counts[key] = append(order, key), make(map[int]int)
			}
			found[key] = append(found[key], w)
			counts[key][i] += w.Count
		}
	}
	for _, affects := range []bool{true, false} {
		for _, key := range order {
			if key.AffectsResult != affects {
				continue
			}
			text := ranges(found[key])
			if affects {
				text = "[affects the result] " + text
			}
			if where := cases(slices.Sorted(maps.Values(counts[key])), len(runs)); where != "" {
				text += " (" + where + ")"
			}
			list = append(list, text)
		}
	}
	return list
}

// cases returns a text about how often runs have a warning; "" for one case in the only run. The counts are those of
// the runs that have the warning, in ascending order.
func cases(counts []int, runs int) string {
	least, most := counts[0], counts[len(counts)-1]
	where := fmt.Sprintf("%d of %s", len(counts), quantity.Counted(runs, "run", "runs"))
	if len(counts) == runs {
		where = fmt.Sprint("all ", quantity.Counted(runs, "run", "runs"))
	}
	times := fmt.Sprint(quantity.Count(least), " times")
	if most > least {
		times = fmt.Sprintf("%s to %s times", quantity.Count(least), quantity.Count(most))
	}
	switch {
	case most <= 1 && runs == 1:
		return ""
	case most <= 1:
		return "in " + where
	case runs == 1:
		return times
	}
	return times + " in each of " + strings.TrimPrefix(where, "all ")
}

// ranges returns the text of warnings that differ only in varying parts.
func ranges(list []run.Warning) string {
	i := -1
	return varying.ReplaceAllStringFunc(list[0].Text, func(string) string {
		i++
		parts := make([]string, len(list))
		for k, w := range list {
			parts[k] = varying.FindAllString(w.Text, -1)[i]
		}
		value := func(text string) float64 {
			if d, err := time.ParseDuration(text); err == nil {
				return d.Seconds()
			}
			x, _ := strconv.ParseFloat(strings.TrimRight(text, " %"), 64)
			return x
		}
		slices.SortStableFunc(parts, func(a, b string) int { return cmp.Compare(value(a), value(b)) })
		return strings.Join(slices.Compact([]string{parts[0], parts[len(parts)-1]}), "–")
	})
}
