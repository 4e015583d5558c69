// Package alternatives has constraints with brackets, such as [rack1|rack2]: all nodes of a job must have the same
// one of the features in the brackets (matching OR, before 23.02 called exclusive OR).
package alternatives

import (
	"iter"
	"strings"

	"rmreplay/internal/rm/nodeset"
)

// Constraint is a constraint of a job (build_feature_list in job_scheduler.c).
type Constraint struct {
	// Common is the expression outside of the brackets, which each node must meet; "" for none.
	Common string
	// OneOf are the features in the brackets; nil without brackets.
	OneOf []string
	// Terms are all features of a constraint with brackets, in order.
	Terms []string
}

// Read reads a constraint. It returns false for a constraint that the model lacks: one with counts or parentheses,
// with & in the brackets, or with | outside of them, too.
func Read(text string) (c Constraint, ok bool) {
	before, rest, found := strings.Cut(text, "[")
	if !found {
		return Constraint{Common: text}, !strings.ContainsAny(text, "(*")
	}
	before, rest = strings.ReplaceAll(before, ",", "&"), strings.ReplaceAll(rest, ",", "&")
	inside, after, closed := strings.Cut(rest, "]")
	first, left := strings.CutSuffix(before, "&")
	last, right := strings.CutPrefix(after, "&")
	switch {
	case !closed, strings.ContainsAny(before+after, "|[](*"), strings.ContainsAny(inside, "&[(*"),
		before != "" && !left, after != "" && !right, !strings.Contains(inside, "|"):
		return Constraint{}, false
	}
	add := func(words string) {
		for word := range strings.SplitSeq(words, "&") {
			if words != "" {
				c.Terms = append(c.Terms, word)
			}
		}
	}
	c.OneOf = strings.Split(inside, "|")
	add(first)
	c.Terms = append(c.Terms, c.OneOf...)
	add(last)
	c.Common = strings.Trim(first+"&"+last, "&")
	return c, true
}

// Sets are the nodes with each feature of a constraint with brackets. The zero value is for all other constraints.
type Sets struct{ oneOf, terms []nodeset.Set }

// Find returns the nodes with each feature of a constraint. The function with returns the nodes that have a feature.
func (c *Constraint) Find(with func(feature string) nodeset.Set) (s Sets) {
	for _, feature := range c.OneOf {
		s.oneOf = append(s.oneOf, with(feature))
	}
	for _, feature := range c.Terms {
		s.terms = append(s.terms, with(feature))
	}
	return s
}

// Split divides a job's nodes, and the usable ones of them, into those with each alternative (_valid_features and
// _pick_best_nodes in node_scheduler.c). Without brackets it returns the given sets.
func (s Sets) Split(set, usable nodeset.Set) iter.Seq2[nodeset.Set, nodeset.Set] {
	return func(yield func(nodeset.Set, nodeset.Set) bool) {
		if s.oneOf == nil {
			yield(set, usable)
			return
		}
		for _, with := range s.oneOf {
			among, able := set.Clone(), usable.Clone()
			among.And(with)
			able.And(with)
			if among.Next(0) >= 0 && !yield(among, able) {
				return
			}
		}
	}
}

// Each returns the nodes of a set that have each feature of the constraint, if they are at least a given number. Like
// slurmctld, backfill looks for a start on each of these sets, even for features outside of the brackets (_try_sched
// in backfill.c). Without brackets it returns the given set.
func (s Sets) Each(set nodeset.Set, least int) iter.Seq[nodeset.Set] {
	return func(yield func(nodeset.Set) bool) {
		if s.terms == nil {
			yield(set)
			return
		}
		for _, with := range s.terms {
			some := set.Clone()
			some.And(with)
			if some.Count() >= least && !yield(some) {
				return
			}
		}
	}
}
