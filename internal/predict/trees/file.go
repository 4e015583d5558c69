package trees

import (
	"encoding/json"
	"fmt"
)

// columns is the form of a tree in a file: the fields of its nodes, each as a list, and the values
// of its leaves.
type columns struct {
	Feature   []uint16  `json:"feature"`
	Threshold []float32 `json:"threshold"`
	Left      []int32   `json:"left"`
	Right     []int32   `json:"right"`
	Leaf      []float32 `json:"leaf"`
}

// MarshalJSON writes the tree.
func (t *Tree) MarshalJSON() ([]byte, error) {
	c := columns{Leaf: t.leaves}
	for _, n := range t.nodes {
		c.Feature, c.Threshold = append(c.Feature, n.feature), append(c.Threshold, n.threshold)
		c.Left, c.Right = append(c.Left, n.children[0]), append(c.Right, n.children[1])
	}
	return json.Marshal(c)
}

// UnmarshalJSON reads a tree that MarshalJSON wrote. [Ensemble.Check] checks that it is a tree.
func (t *Tree) UnmarshalJSON(text []byte) error {
	var c columns
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	nodes := len(c.Feature)
	if len(c.Threshold) != nodes || len(c.Left) != nodes || len(c.Right) != nodes {
		return fmt.Errorf("a tree of %d nodes has %d thresholds, and %d and %d children (want %[1]d of each)", nodes,
			len(c.Threshold), len(c.Left), len(c.Right))
	}
	*t = Tree{leaves: c.Leaf}
	for i := range nodes {
		t.nodes = append(t.nodes, node{feature: c.Feature[i], threshold: c.Threshold[i],
			children: [2]int32{c.Left[i], c.Right[i]}})
	}
	return nil
}

// Check reports what is wrong with an ensemble that was read from a file. Predictions for rows of
// this width must neither fail nor loop.
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
	nodes := len(t.nodes)
	if len(t.leaves) != nodes+1 {
		return fmt.Errorf("%d inner nodes with %d leaves (want one leaf more than inner nodes)", nodes, len(t.leaves))
	}
	for i, n := range t.nodes {
		if int(n.feature) >= width {
			return fmt.Errorf("feature %d (want less than %d)", n.feature, width)
		}
		for _, child := range n.children {
			if child >= 0 && (int(child) <= i || int(child) >= nodes) || child < 0 && int(^child) > nodes {
				return fmt.Errorf("node %d: child %d is not a later node or a leaf of the tree", i, child)
			}
		}
	}
	return nil
}
