package conf

import (
	"cmp"
	"fmt"
	"strings"

	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
)

// CheckRelease returns an error if [Adapt] does not know the configuration of a release.
func CheckRelease(release slurmspec.Release) error {
	if release.Supported() {
		return nil
	}
	return fmt.Errorf("the configuration of Slurm %s is not known (want one of %s)",
		cmp.Or(release.String(), "of an unknown release"), slurmspec.SupportedList())
}

// ruleOf returns the rule for a key, compared without case, in a release. The rule for a key of
// other releases drops the key. ruleOf returns nil for a key that no release has.
func ruleOf(key string, release slurmspec.Release) *rule {
	r := rulesByKey[strings.ToLower(key)]
	if r == nil || r.known.Includes(release) {
		return r
	}
	return &rule{
		key: r.key, kind: r.kind, known: r.known, secret: r.secret,
		action: drop, reason: unknownTo(release, r.key, r.known),
	}
}

// unknownTo returns a text that says that a release does not have a key, and what replaced the key.
func unknownTo(release slurmspec.Release, key string, l history.Lifetime) string {
	text := fmt.Sprintf("%s does not have it (%s)", release.Series(), l.Absence(release))
	if successor := history.Successors[key]; successor != "" {
		text += ": " + successor
	}
	return text
}
