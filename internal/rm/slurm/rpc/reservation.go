package rpc

import (
	"fmt"
	"strings"
	"time"

	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec"
)

// ReservationDesc is the body of a [RequestCreateReservation] and a [RequestUpdateReservation] (resv_desc_msg_t in
// slurm.h). slurmctld answers a creation with a [ResponseCreateReservation], which has the name, or refuses it with a
// [ResponseRC]. slurmctld answers an update with a [ResponseRC].
type ReservationDesc struct {
	Name          string
	Start, End    int64  // seconds since the Unix epoch; slurmspec.NoVal if not set
	Duration      uint32 // minutes, slurmspec.NoVal or slurmspec.Infinite
	Flags         uint64
	NodeCounts    []uint32 // the last element is 0, as Slurm requires
	CoreCounts    []uint32 // the last element is 0
	Nodes         string
	Features      string
	Licenses      string
	MaxStartDelay uint32 // seconds
	Partition     string
	PurgeComp     uint32 // seconds
	Watts         uint32
	Users         string
	Accounts      string
	BurstBuffer   string
	Groups        string
}

// NewReservationDesc returns the description of a workload's reservation, as scontrol makes it
// (scontrol/create_res.c).
//
// An update changes only the values that r gives. A new reservation needs a start, a duration, users or accounts, and
// one of these: nodes, a number of nodes, licenses, a partition. The error names a missing value or an unknown flag.
//
// Slurm counts durations in minutes. If a duration is not a number of whole minutes, the description gives the end
// instead ([ExactEnd]). If the end is not known, NewReservationDesc rounds the duration up.
func NewReservationDesc(r hpc.Reservation, update bool) (*ReservationDesc, error) {
	d := &ReservationDesc{
		Name: r.Name, Start: int64(slurmspec.NoVal), End: int64(slurmspec.NoVal), Duration: slurmspec.NoVal,
		Flags: slurmspec.NoVal64,
		Nodes: r.Nodes, Features: r.Features, Licenses: r.Licenses,
		MaxStartDelay: slurmspec.NoVal, Partition: r.Partition, PurgeComp: slurmspec.NoVal, Watts: slurmspec.NoVal,
		Users: strings.Join(r.Users, ","), Accounts: strings.Join(r.Accounts, ","),
	}
	fail := func(format string, args ...any) (*ReservationDesc, error) {
		return nil, fmt.Errorf("reservation %q: %s", r.Name, fmt.Sprintf(format, args...))
	}
	if !r.Start.IsZero() {
		d.Start = slurmspec.SecondsUp(r.Start)
	}
	var err error
	if d.Duration, err = slurmspec.Minutes(r.Duration); err != nil {
		return fail("duration %v", err)
	}
	if d.Start != int64(slurmspec.NoVal) && ExactEnd(r) {
		d.End, d.Duration = slurmspec.SecondsUp(r.Start.Add(r.Duration)), slurmspec.NoVal
	}
	if r.NodeCount > 0 {
		d.NodeCounts = []uint32{uint32(r.NodeCount), 0}
	}
	for _, text := range r.Flags {
		flag, err := slurmspec.ParseReservationFlag(text)
		if err != nil {
			return fail("%v", err)
		}
		d.addFlag(flag.Bit())
		if flag.Time > 0 {
			d.PurgeComp = uint32(flag.Time / time.Second)
		}
	}
	if update {
		return d, nil
	}
	partNodes := slurmspec.ReservationFlag{Name: slurmspec.FlagPartNodes}
	if strings.EqualFold(d.Nodes, "all") && d.Partition != "" {
		d.addFlag(partNodes.Bit())
	}
	if d.Nodes == "" && r.NodeCount == 0 && d.Licenses == "" {
		if d.Partition == "" {
			return fail("it has no nodes, node count, licenses or partition")
		}
		d.addFlag(partNodes.Bit())
		d.Nodes = "ALL"
	}
	switch {
	case r.Start.IsZero():
		return fail("it has no start")
	case r.Duration == 0:
		return fail("it has no duration")
	case d.Users == "" && d.Accounts == "":
		return fail("it has no users and no accounts")
	}
	return d, nil
}

// ExactEnd reports whether [NewReservationDesc] gives Slurm the end of a reservation instead of
// its duration.
func ExactEnd(r hpc.Reservation) bool {
	return r.Duration != hpc.Unlimited && r.Duration%time.Minute != 0 && !r.HasFlag(slurmspec.FlagTimeFloat)
}

func (m *ReservationDesc) addFlag(bit uint64) {
	if m.Flags == slurmspec.NoVal64 {
		m.Flags = 0
	}
	m.Flags |= bit
}

func (m *ReservationDesc) append(e *encoder) { e.protocol.own.reservation(e, m) }

// appendReservation2311 follows the layout since 23.11: one number of nodes instead of a list, and
// a comment and TRES at the end.
func appendReservation2311(e *encoder, m *ReservationDesc) {
	count := func(list []uint32) {
		if len(list) == 0 {
			e.U32(slurmspec.NoVal)
			return
		}
		e.U32(list[0])
	}
	m.appendTimes(e)
	count(m.NodeCounts)
	count(m.CoreCounts)
	m.appendRest(e)
	e.Str("") // comment
	e.Str("") // TRES
}

// appendReservation follows _pack_update_resv_msg (slurm_protocol_pack.c).
func appendReservation(e *encoder, m *ReservationDesc) {
	m.appendTimes(e)
	e.U32s(m.NodeCounts)
	e.U32s(m.CoreCounts)
	m.appendRest(e)
}

// appendTimes appends the name, the times and the flags.
func (m *ReservationDesc) appendTimes(e *encoder) {
	e.Str(m.Name)
	e.Time(m.Start)
	e.Time(m.End)
	e.U32(m.Duration)
	e.U64(m.Flags)
}

// appendRest appends the fields after the numbers of nodes and cores.
func (m *ReservationDesc) appendRest(e *encoder) {
	e.Str(m.Nodes)
	e.Str(m.Features)
	e.Str(m.Licenses)
	e.U32(m.MaxStartDelay)
	e.Str(m.Partition)
	e.U32(m.PurgeComp)
	e.U32(m.Watts)
	e.Str(m.Users)
	e.Str(m.Accounts)
	e.Str(m.BurstBuffer)
	e.Str(m.Groups)
}

// DeleteReservation is the body of a [RequestDeleteReservation]. slurmctld answers with a
// [ResponseRC].
type DeleteReservation struct {
	Name string
}

// append follows _pack_resv_name_msg (slurm_protocol_pack.c).
func (m *DeleteReservation) append(e *encoder) { e.Str(m.Name) }

// DecodeCreateReservation reads the reply to a [RequestCreateReservation] and returns the name of
// the new reservation. If slurmctld refused the reservation, the error wraps an [slurmspec.Errno].
func DecodeCreateReservation(m *Message) (name string, err error) {
	if m.Type != ResponseCreateReservation {
		return "", refusal("a reservation", m)
	}
	d := newDecoder("a reservation's response", m.Body)
	name = d.Str("name")
	return name, d.Finish()
}
