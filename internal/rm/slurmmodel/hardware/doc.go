// Package hardware describes the nodes and switches of a machine, and what jobs request.
package hardware
