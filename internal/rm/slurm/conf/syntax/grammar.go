package syntax

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rmreplay/internal/spelling"
)

// Grammar lists the keys that a file, or the rest of a line, may have, by their names in lower
// case. It corresponds to an option table of Slurm (s_p_options_t).
type Grammar map[string]Key

// Key is one key of a grammar.
type Key struct {
	Name string // in the spelling of the manual page
	Kind Kind
	// Attributes are the keys that may follow on the line; nil for a key that stands alone.
	Attributes Grammar
}

// Lookup returns the key with the given name. The case of the name does not matter.
func (g Grammar) Lookup(name string) (Key, bool) {
	k, ok := g[strings.ToLower(name)]
	return k, ok
}

// Canonical returns the name in the spelling of the manual page.
func (g Grammar) Canonical(name string) string {
	if k, ok := g.Lookup(name); ok {
		return k.Name
	}
	return name
}

// Suggest returns "; did you mean X?" with the known key most similar to a wrong name, or "" if
// none is similar.
func (g Grammar) Suggest(name string) string {
	near := spelling.Nearest(strings.ToLower(name), len(name)/3, slices.Collect(maps.Keys(g)))
	if near == "" {
		return ""
	}
	return "; did you mean " + g[near].Name + "?"
}

// Add adds keys of one kind and returns the grammar.
func (g Grammar) Add(k Kind, names ...string) Grammar {
	for _, name := range names {
		g[strings.ToLower(name)] = Key{Name: name, Kind: k}
	}
	return g
}

// Check returns an error if the key does not exist or if Slurm refuses its value.
func (g Grammar) Check(name, value string) error {
	k, known := g.Lookup(name)
	if !known {
		return fmt.Errorf("%s: unrecognized key%s", name, g.Suggest(name))
	}
	if err := k.Kind.Check(value); err != nil {
		return fmt.Errorf("%s=%s: %w", name, value, err)
	}
	return nil
}
