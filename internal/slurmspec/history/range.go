package history

import (
	"slices"

	"rmreplay/internal/slurmspec"
)

// Range is the series from From to To, both included.
type Range struct{ From, To slurmspec.Release }

// All returns the range of all known series.
func All() Range {
	return Range{slurmspec.Releases[0].Release, slurmspec.Releases[len(slurmspec.Releases)-1].Release}
}

// See narrows the range to the series in which something exists.
func (r *Range) See(l Lifetime) {
	if !l.Since.IsZero() && l.Since.Compare(r.From) > 0 {
		r.From = l.Since
	}
	for _, k := range slices.Backward(slurmspec.Releases) {
		if l.Until.IsZero() || !r.To.Since(l.Until) {
			return
		}
		r.To = k.Release
	}
}

// Empty reports whether the range has no series, because the lifetimes given to [Range.See]
// contradict each other.
func (r *Range) Empty() bool { return r.From.Compare(r.To) > 0 }
