package rpc

import (
	"strconv"

	"rmreplay/internal/slurmspec"
)

// AppendUsage appends the usage of one association, without that of the associations
// below it, to a file that [Codec.UsageHeader] began. raw is in seconds of billed
// TRES. Limits in TRES-minutes are held against the usage of single TRES, of which that
// of the TRES billing is the same, and that of processors is if they are what is billed;
// the others, and the time that GrpWall is about, are left at 0.
func AppendUsage(dst []byte, association uint32, raw float64, processors bool) []byte {
	e := encoder{b: dst}
	e.u32(association)
	seconds := strconv.FormatFloat(raw, 'f', 6, 64)
	e.str(seconds)
	tres := strconv.Itoa(slurmspec.TRESBilling) + "=" + seconds
	if processors {
		tres = strconv.Itoa(slurmspec.TRESCPU) + "=" + seconds + "," + tres
	}
	e.str(tres)
	e.u32(0)
	return e.b
}

// AppendUsageReset appends slurmctld's file priority_last_decay_ran, in which its priority
// plugin keeps when usage last decayed and when it was last reset, to dst. at is the
// reset, in seconds since the Unix epoch; the usage has never decayed
// (_write_last_decay_ran in priority_multifactor.c).
func AppendUsageReset(dst []byte, at int64) []byte {
	e := encoder{b: dst}
	e.time(0)
	e.time(at)
	return e.b
}
