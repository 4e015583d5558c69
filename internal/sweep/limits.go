package sweep

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"rmreplay/internal/filekind"
)

// The limits of an experiment file. They are far above the needs of any experiment. They bound the
// memory and the time that a hostile file needs. The YAML parser's memory and time grow with the
// square of a line's length and with the square of the depth, and aliases can be nested.
const (
	maxBytes = 256 << 10
	maxLine  = 8 << 10
	maxDepth = 64      // depth of brackets, and of lists in one line
	maxNodes = 100_000 // values in the file; a use of an alias counts all its values
	maxRuns  = 100_000 // runs of a plan
)

// readLimited reads an experiment file and checks its limits.
func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if kind, known := filekind.Detect(text); known && kind.Name != filekind.Experiment {
		return nil, fmt.Errorf("%s: %s, not an experiment (want a YAML file; see rmreplay sweep --help and rmreplay tune "+
			"--help)", path, kind.Name)
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("%s: more than %d KiB (want less; is it an experiment file?)", path, maxBytes>>10)
	}
	return text, nil
}

// checkLimits checks a text before it is decoded.
func checkLimits(text []byte) error {
	depth := 0
	for number := 1; len(text) > 0; number++ {
		line, rest, _ := bytes.Cut(text, []byte{'\n'})
		text = rest
		if len(line) > maxLine {
			return errorAt(number, "line of %d bytes (want at most %d)", len(line), maxLine)
		}
		if bytes.IndexByte(line, 0) >= 0 {
			return errorAt(number, "this is not a text file: it has a NUL byte (want a YAML file)")
		}
		if marks := bytes.Count(line, []byte("- ")); marks > maxDepth {
			return errorAt(number, "lists are nested more than %d deep", maxDepth)
		}
		for _, c := range line {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > maxDepth {
				return errorAt(number, "brackets are open more than %d deep", maxDepth)
			}
		}
	}
	return nil
}

// checkAliases counts the values that a file would have with all aliases expanded, without expanding
// them.
func checkAliases(text []byte) error {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil // decoding fails with an error that names the line
	}
	count := counter{anchors: map[string]int{}}
	for _, doc := range file.Docs {
		if n := count.nodes(doc.Body); n > maxNodes {
			return fmt.Errorf("more than %d values, counted once for each use of an alias (want fewer)", maxNodes)
		}
	}
	return nil
}

// counter counts values. The field anchors has the number of values of each anchor.
type counter struct{ anchors map[string]int }

// nodes returns the number of values of a node, at most maxNodes+1.
func (c counter) nodes(n ast.Node) int {
	total := 1
	add := func(n ast.Node) { total = min(total+c.nodes(n), maxNodes+1) }
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			add(v)
		}
	case *ast.MappingValueNode:
		add(n.Value)
	case *ast.SequenceNode:
		for _, v := range n.Values {
			add(v)
		}
	case *ast.TagNode:
		add(n.Value)
	case *ast.AnchorNode:
		add(n.Value)
		c.anchors[n.Name.GetToken().Value] = total
	case *ast.AliasNode:
		total = max(1, c.anchors[n.Value.GetToken().Value])
	}
	return total
}
