package rpc

import "strconv"

// AppendUsageHeader appends the beginning of slurmctld's file assoc_usage, in which it
// keeps the fair-share usage of associations between two runs, to dst. saved is in
// seconds since the Unix epoch (dump_assoc_mgr_state in assoc_mgr.c).
func AppendUsageHeader(dst []byte, saved int64) []byte {
	e := encoder{b: dst}
	e.u16(uint16(V2205))
	e.time(saved)
	return e.b
}

// AppendUsage appends the usage of one association, without that of the associations
// below it, to a file that [AppendUsageHeader] began. raw is in seconds of billed
// TRES. The usage of single TRES, against which only limits in TRES-minutes are
// held, is left at 0.
func AppendUsage(dst []byte, association uint32, raw float64) []byte {
	e := encoder{b: dst}
	e.u32(association)
	e.str(strconv.FormatFloat(raw, 'f', 6, 64))
	e.str("")
	e.u32(0)
	return e.b
}
