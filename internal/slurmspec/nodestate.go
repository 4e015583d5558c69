package slurmspec

import "strings"

// States and flags of a node (enum node_states and NODE_STATE_ in slurm.h). The low bits,
// [NodeStateBase], have the base state. The other bits are flags.
const (
	NodeStateBase = uint32(0xf)

	NodeDown    = uint32(1)       // NODE_STATE_DOWN: its jobs fail or are requeued
	NodeUndrain = uint32(1 << 6)  // NODE_STATE_UNDRAIN
	NodeResume  = uint32(1 << 8)  // NODE_RESUME: ends down, drained or failing
	NodeDrain   = uint32(1 << 9)  // NODE_STATE_DRAIN: no new jobs
	NodeFailing = uint32(1 << 13) // NODE_STATE_FAIL: about to fail
)

// OutageOfNumber returns how a node went out of service, from its state in slurmdbd's event table.
// The result is "down" if the node is down and neither drained nor failing, and otherwise "drain".
func OutageOfNumber(state int64) string {
	if uint32(state)&NodeStateBase == NodeDown && uint32(state)&(NodeDrain|NodeFailing) == 0 {
		return "down"
	}
	return "drain"
}

// OutageOfState returns how a node went out of service, from its state as scontrol prints it
// ("IDLE+DRAIN", "DOWN*+NOT_RESPONDING"): "down", "drain", or "" for a node in service.
func OutageOfState(state string) string {
	base, flags, _ := strings.Cut(state, "+")
	switch strings.TrimRight(base, "*~#!%$@^-") {
	case "DOWN", "ERROR", "FUTURE":
		return "down"
	case "DRAINED", "DRAINING", "DRAIN", "FAIL", "FAILING":
		return "drain"
	}
	for flag := range strings.SplitSeq(flags, "+") {
		if flag == "DRAIN" || flag == "FAIL" {
			return "drain"
		}
	}
	return ""
}
