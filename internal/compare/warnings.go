package compare

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rmreplay/internal/quantity"
	"rmreplay/internal/run"
)

// varying matches the parts of warnings that may differ between runs: a number of jobs at the beginning of the text,
// durations and percentages.
var varying = regexp.MustCompile(`^\d+\b|\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b|\b\d+(\.\d+)? ?%`)

// Warnings lists the warnings of the set's runs, beginning with those that affect the result.
// Warnings that differ only in varying parts appear once, with the ranges of these parts.
func (s Set) Warnings() (list []string) {
	found := make(map[run.Warning][]run.Warning)
	runs := make(map[run.Warning]map[int]bool)
	var order []run.Warning
	for i, r := range s.Runs {
		for _, w := range r.Manifest.Warnings {
			key := run.Warning{Code: w.Code, Text: varying.ReplaceAllString(w.Text, "#"), AffectsResult: w.AffectsResult}
			if found[key] == nil {
				order, runs[key] = append(order, key), make(map[int]bool)
			}
			found[key], runs[key][i] = append(found[key], w), true
		}
	}
	for _, affects := range []bool{true, false} {
		for _, key := range order {
			if key.AffectsResult != affects {
				continue
			}
			text, count := ranges(found[key]), 0
			if affects {
				text = "[affects the result] " + text
			}
			for _, w := range found[key] {
				count += w.Count
			}
			var where []string
			if n := len(runs[key]); count > n {
				where = append(where, fmt.Sprintf("%d times", count))
			}
			if len(s.Runs) > 1 {
				where = append(where, fmt.Sprintf("in %d of %s", len(runs[key]), quantity.Counted(len(s.Runs), "run", "runs")))
			}
			if len(where) > 0 {
				text += " (" + strings.Join(where, " ") + ")"
			}
			list = append(list, text)
		}
	}
	return list
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
