package search

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"rmreplay/internal/accounting/search/query"
)

const (
	maxPaths    = 64 // of a filter_path
	maxSegments = 32 // of a path: a [places] has a bit for each
)

// pathFilter is a filter_path: it keeps the parts of an answer that its paths name, and drops those of
// paths with a minus sign.
type pathFilter struct{ includes, excludes paths }

// paths are paths of members, divided at their dots.
type paths [][]string

// places are where a member of an answer is in paths: bit i of the number k means that what is left of
// path k begins with its segment i. So a member has at most as many places as the paths have segments,
// however often "**" is in them and however deep it is.
type places []uint32

// newPathFilter reads a filter_path. An empty one keeps everything.
func newPathFilter(text string) (f pathFilter, err error) {
	if text == "" {
		return f, nil
	}
	if n := strings.Count(text, ",") + 1; n > maxPaths {
		return f, query.Illegal("filter_path has %d paths (want at most %d)", n, maxPaths)
	}
	for _, p := range strings.Split(text, ",") {
		rest, excluded := strings.CutPrefix(p, "-")
		segments := strings.Split(rest, ".")
		if len(segments) > maxSegments {
			return f, query.Illegal("filter_path has a path of %d segments (want at most %d)", len(segments), maxSegments)
		}
		if excluded {
			f.excludes = append(f.excludes, segments)
		} else {
			f.includes = append(f.includes, segments)
		}
	}
	return f, nil
}

// apply returns an answer with the members that the filter keeps.
func (f pathFilter) apply(body any) any {
	if len(f.includes)+len(f.excludes) == 0 {
		return body
	}
	text, err := json.Marshal(body)
	if err != nil {
		return body
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&tree) != nil {
		return body
	}
	if len(f.includes) > 0 {
		if tree, _ = f.includes.keep(tree, f.includes.begin()); tree == nil {
			tree = map[string]any{}
		}
	}
	if len(f.excludes) > 0 {
		f.excludes.drop(tree, f.excludes.begin())
	}
	return tree
}

// begin returns the places of the answer itself.
func (p paths) begin() places {
	return slices.Repeat(places{1}, len(p))
}

// step returns the places of a member of an object that is at some places, and whether there are any.
// whole means that a path ends at the member, so that it is meant with all that it has.
func (p paths) step(at places, name string) (below places, some, whole bool) {
	below = make(places, len(p))
	for k, segments := range p {
		here := at[k]
		for i, segment := range segments {
			if here>>i&1 == 0 {
				continue
			}
			matches := query.Matches(segment, name) // "**" matches every name
			switch last := i == len(segments)-1; {
			case matches && last:
				return nil, false, true
			case segment == "**":
				// It stands for this member and perhaps more, or for none: then the next segment begins here.
				below[k] |= 1 << i
				here |= 1 << (i + 1)
			case matches:
				below[k] |= 1 << (i + 1)
			}
		}
		some = some || below[k] != 0
	}
	return below, some, false
}

func (p paths) keep(v any, at places) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, x := range v {
			below, some, whole := p.step(at, name)
			if whole {
				kept[name] = x
			} else if some {
				if part, ok := p.keep(x, below); ok {
					kept[name] = part
				}
			}
		}
		return kept, len(kept) > 0
	case []any:
		var kept []any
		for _, x := range v {
			if part, ok := p.keep(x, at); ok {
				kept = append(kept, part)
			}
		}
		return kept, len(kept) > 0
	}
	return nil, false
}

func (p paths) drop(v any, at places) {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			below, some, whole := p.step(at, name)
			if whole {
				delete(v, name)
			} else if some {
				p.drop(x, below)
			}
		}
	case []any:
		for _, x := range v {
			p.drop(x, at)
		}
	}
}
