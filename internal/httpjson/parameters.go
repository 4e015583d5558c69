package httpjson

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"rmreplay/internal/spelling"
)

// CheckParameters returns an error for the first parameter of a request, in the order of the alphabet, that is not
// known. The error names the nearest known parameter, or all known parameters. An unknown parameter
// is a mistake of the client. If the server ignored it, the client would get the answer to a
// different question.
func CheckParameters(values url.Values, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains(known, name) {
			continue
		}
		near := spelling.Nearest(name, 2, known)
		if near == "" && len(known) == 0 {
			return fmt.Errorf("%.40q is not a parameter (want a request without parameters)", name)
		}
		return fmt.Errorf("%.40q is not a parameter (want %s)", name, cmp.Or(near, strings.Join(known, ", ")))
	}
	return nil
}
