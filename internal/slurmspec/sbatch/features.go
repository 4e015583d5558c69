package sbatch

import (
	"fmt"
	"slices"
	"strings"
)

// Features has the alternatives in a value of --constraint. Each alternative is a list of features.
// A node must have all features of one of these lists.
type Features [][]string

// ParseFeatures reads features joined by "&", "," or "|". "|" has the lowest precedence. The error
// says that counts and groups of features are not simulated.
func ParseFeatures(s string) (Features, error) {
	if s == "" {
		return nil, nil
	}
	if strings.ContainsAny(s, "[]()*") {
		return nil, fmt.Errorf("--constraint=%s: counts and groups of features are not simulated", s)
	}
	var f Features
	for option := range strings.SplitSeq(s, "|") {
		f = append(f, strings.FieldsFunc(option, func(r rune) bool { return r == '&' || r == ',' }))
	}
	return f, nil
}

// Met reports whether a node with these features has all features of one of the lists.
func (f Features) Met(features []string) bool {
	if len(f) == 0 {
		return true
	}
	return slices.ContainsFunc(f, func(all []string) bool {
		return !slices.ContainsFunc(all, func(name string) bool { return !slices.Contains(features, name) })
	})
}
