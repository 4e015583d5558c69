package trees

import (
	"encoding/json"
	"fmt"
)

// columns is the form of a tree in a file. It has a list for each field of the nodes, and the values
// of the leaves.
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

// UnmarshalJSON reads a tree that MarshalJSON wrote. [Ensemble.Check] checks its structure.
func (t *Tree) UnmarshalJSON(text []byte) error {
	var c columns
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	nodes := len(c.Feature)
	if len(c.Threshold) != nodes || len(c.Left) != nodes || len(c.Right) != nodes {
		return fmt.Errorf("a tree of %d nodes has %d thresholds, %d left and %d right children (want %[1]d of each)",
			nodes, len(c.Threshold), len(c.Left), len(c.Right))
	}
	*t = Tree{leaves: c.Leaf}
	for i := range nodes {
		t.nodes = append(t.nodes, node{feature: c.Feature[i], threshold: c.Threshold[i],
			children: [2]int32{c.Left[i], c.Right[i]}})
	}
	return nil
}

// Check returns an error if an ensemble that was read from a file is damaged. After a check without
// an error, predictions for rows of this width do not fail or loop.
func (e *Ensemble) Check(width int) error {
	if e == nil {
		return fmt.Errorf("the ensemble has no trees")
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
		return fmt.Errorf("a tree is null (want an object)")
	}
	nodes := len(t.nodes)
	if len(t.leaves) != nodes+1 {
		return fmt.Errorf("the tree has %d inner nodes and %d leaves (want one leaf more than inner nodes)", nodes,
			len(t.leaves))
	}
	for i, n := range t.nodes {
		if int(n.feature) >= width {
			return fmt.Errorf("a node uses feature %d (want less than %d)", n.feature, width)
		}
		for _, child := range n.children {
			if child >= 0 && (int(child) <= i || int(child) >= nodes) || child < 0 && int(^child) > nodes {
				return fmt.Errorf("node %d: child %d is not a later node or a leaf of the tree", i, child)
			}
		}
	}
	return nil
}
