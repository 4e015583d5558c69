package trees

import "fmt"

// Check reports what is wrong with an ensemble that was read from a file: it must not make a
// prediction for rows of this width fail or loop.
func (e *Ensemble) Check(width int) error {
	if e == nil {
		return fmt.Errorf("no trees")
	}
	for i, t := range e.Trees {
		if err := t.check(width); err != nil {
			return fmt.Errorf("tree %d: %w", i, err)
		}
	}
	return nil
}

func (t *Tree) check(width int) error {
	if t == nil {
		return fmt.Errorf("no nodes")
	}
	nodes := len(t.Feature)
	if len(t.Threshold) != nodes || len(t.Left) != nodes || len(t.Right) != nodes || len(t.Leaf) != nodes+1 {
		return fmt.Errorf("%d nodes with %d thresholds and %d leaves", nodes, len(t.Threshold), len(t.Leaf))
	}
	for i, f := range t.Feature {
		if int(f) >= width {
			return fmt.Errorf("feature %d (want less than %d)", f, width)
		}
		for _, child := range [...]int32{t.Left[i], t.Right[i]} {
			if child >= 0 && (int(child) <= i || int(child) >= nodes) || child < 0 && int(^child) > nodes {
				return fmt.Errorf("node %d has the child %d", i, child)
			}
		}
	}
	return nil
}
