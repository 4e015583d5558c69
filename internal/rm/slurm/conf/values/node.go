package values

import (
	"errors"
	"strings"
)

// NodeState parses a node's configured state as Slurm's state_str2int does. An empty result means
// that the node is in service.
func NodeState(s string) (string, error) {
	upper := strings.ToUpper(s)
	switch {
	case upper == "", upper == "UNKNOWN", upper == "IDLE", upper == "ALLOCATED", upper == "MIXED":
		return "", nil
	case upper == "DOWN", upper == "FUTURE":
		return upper, nil
	case upper == "ERROR":
		return "DOWN", nil
	case strings.HasPrefix(upper, "CLOUD"):
		return "CLOUD", nil
	case strings.HasPrefix(upper, "DRAIN"):
		return "DRAIN", nil
	case strings.HasPrefix(upper, "FAIL"):
		return "FAIL", nil
	}
	return "", errors.New("not a node state (want UNKNOWN, IDLE, DOWN, DRAIN, FAIL, FUTURE or CLOUD)")
}
