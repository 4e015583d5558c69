package values

import (
	"regexp"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/slurmspec"
)

// behindBrackets finds a name with text after its last bracket ("n[1-4].example.org").
var behindBrackets = regexp.MustCompile(`\][^\[\],\s]+(?:[,\s]|$)`)

// HostList returns a host list in a form that a release reads. Before 23.11 no text may follow the
// last bracket of a name (hostlist_create in src/common/hostlist.c), so the names are listed one by
// one.
func HostList(list string, release slurmspec.Release) string {
	if release.Since(slurmspec.R2311) || !behindBrackets.MatchString(list) {
		return list
	}
	names, err := hostlist.Expand(list)
	if err != nil { // the error is reported where the list is read
		return list
	}
	return hostlist.Compress(names)
}
