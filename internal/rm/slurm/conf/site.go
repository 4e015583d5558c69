package conf

import (
	"strings"

	"rmreplay/internal/rm/slurm/conf/syntax"
	"rmreplay/internal/slurmspec"
	"rmreplay/internal/slurmspec/history"
)

// Releases returns the range of series that the configuration fits: the oldest and the newest. If [Cluster.SiteRelease]
// is set, both are that release; otherwise the range follows from keys, attributes, options and plugins that only some
// releases know, because an unknown key is a fatal error for Slurm. Without such evidence, or with contradictory
// evidence, the result is all known series.
func (c *Cluster) Releases() (from, to slurmspec.Release) {
	if !c.SiteRelease.IsZero() {
		return c.SiteRelease.Series(), c.SiteRelease.Series()
	}
	e := evidence{history.All()}
	for _, s := range c.Statements {
		e.statement(s)
	}
	e.database(c)
	if _, set := c.Get("SelectType"); !set && c.consumesCores() {
		e.See(history.Lifetime{Since: slurmspec.R2311}) // these options exclude select/linear, the older default
	}
	if c.TopologyYAML != nil {
		e.See(history.Lifetime{Since: slurmspec.R2505})
	}
	if e.Empty() {
		e.Range = history.All()
	}
	return e.From, e.To
}

// On returns a function like [Cluster.Get] for a replay on a release, with the values of [history.Complete].
func (c *Cluster) On(release slurmspec.Release) func(key string) (value string, set bool) {
	from, to := c.Releases()
	return history.Complete(c.Get, release, from, to)
}

// consumesCores reports whether SelectTypeParameters has options that only select/cons_tres and select/cons_res have.
func (c *Cluster) consumesCores() bool {
	value, _ := c.Get("SelectTypeParameters")
	return len(selectOptions(value, func(name string) bool {
		return name != "cr_memory" && strings.HasPrefix(name, "cr_")
	})) > 0
}

// evidence is the range of series that know all keys and values seen so far.
type evidence struct{ history.Range }

func (e *evidence) statement(s Statement) {
	r := rulesByKey[strings.ToLower(s.Key)]
	if r == nil {
		return
	}
	e.See(r.known)
	for _, attribute := range s.Attributes {
		e.See(history.Attributes[r.key+" "+r.attributes.Canonical(attribute.Key)])
	}
	if list, ok := history.Options[r.key]; ok {
		for _, option := range syntax.List(s.Value) {
			life := list.Some[history.OptionName(option)].Lifetime
			if !list.Refused {
				life.Until = slurmspec.Release{} // Slurm ignores options of old releases
			}
			e.See(life)
		}
	}
	if life, ok := history.Plugins[strings.ToLower(s.Value)]; ok {
		e.See(life.Lifetime)
	}
}
