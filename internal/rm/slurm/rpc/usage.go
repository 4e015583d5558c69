package rpc

import (
	"strconv"

	"rmreplay/internal/slurmspec"
)

// UsageHeader returns the beginning of slurmctld's file assoc_usage. The file keeps the fair-share
// usage of associations between two runs of slurmctld (dump_assoc_mgr_state in assoc_mgr.c). The
// parameter saved is the time of saving, in seconds since the Unix epoch. [AppendUsage] appends
// the associations.
func (c Codec) UsageHeader(saved int64) []byte {
	e := newEncoder(nil, c.protocol)
	e.U16(uint16(c.protocol.version))
	e.Time(saved)
	return e.Bytes
}

// AppendUsage appends the usage of one association to a file that [Codec.UsageHeader] began. It
// excludes the usage of the associations below it. The parameter raw is in billing × seconds.
//
// slurmctld compares limits in TRES-minutes with the usage of each TRES. The parameter raw is the
// usage of the TRES billing, and also of CPUs if processors is set, which means that CPUs are
// billed. The usage of all other TRES, and the time that GrpWall limits, begin at 0.
func AppendUsage(dst []byte, association uint32, raw float64, processors bool) []byte {
	e := newEncoder(dst, nil)
	e.U32(association)
	seconds := strconv.FormatFloat(raw, 'f', 6, 64)
	e.Str(seconds)
	tres := strconv.Itoa(slurmspec.TRESBilling) + "=" + seconds
	if processors {
		tres = strconv.Itoa(slurmspec.TRESCPU) + "=" + seconds + "," + tres
	}
	e.Str(tres)
	e.U32(0)
	return e.Bytes
}

// AppendUsageReset appends slurmctld's file priority_last_decay_ran to dst. In this file, the
// priority plugin stores when usage last decayed and when it was last reset (_write_last_decay_ran
// in priority_multifactor.c). The parameter at is the time of the last reset, in seconds since the
// Unix epoch. The file says that usage has never decayed.
func AppendUsageReset(dst []byte, at int64) []byte {
	e := newEncoder(dst, nil)
	e.Time(0)
	e.Time(at)
	return e.Bytes
}
