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

// ruleOf returns the rule for a key, compared without case, in a release. If only other releases
// have the key, the rule drops the key. ruleOf returns nil if no release has the key.
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

// unknownTo returns a sentence that says that the release does not have the key, and which key replaced it.
func unknownTo(release slurmspec.Release, key string, l history.Lifetime) string {
	text := fmt.Sprintf("%s does not have it (%s)", release.Series(), l.Absence(release))
	if successor := history.Successors[key]; successor != "" {
		text += ": " + successor
	}
	return text
}
