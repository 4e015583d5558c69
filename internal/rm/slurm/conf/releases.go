package conf

import (
	"fmt"
	"strings"

	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
)

// oldest and newest are the first and the last series to which [Adapt] adapts a configuration.
var oldest, newest = slurmspec.R2205, slurmspec.Releases[len(slurmspec.Releases)-1].Release

// CheckRelease returns an error if [Adapt] does not know the configuration of a release.
func CheckRelease(release slurmspec.Release) error {
	if _, known := release.KnownSeries(); known && release.Since(oldest) {
		return nil
	}
	var names []string
	for _, k := range slurmspec.Releases {
		if k.Release.Since(oldest) {
			names = append(names, k.Release.String())
		}
	}
	name := release.String()
	if name == "" {
		name = "of an unknown release"
	}
	return fmt.Errorf("the configuration of Slurm %s is not known (want one of %s)", name, strings.Join(names, ", "))
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
