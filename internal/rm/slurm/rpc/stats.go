package rpc

import "time"

// StatsRequest is the body of a [RequestStats]. slurmctld answers with a [ResponseStats].
type StatsRequest struct {
	// Reset makes slurmctld reset its counters.
	Reset bool
}

// append follows _pack_stats_request_msg (slurm_protocol_pack.c).
func (m *StatsRequest) append(e *encoder) { e.Bool16(!m.Reset) }

// Stats are slurmctld's own counters since its start or the last reset, as sdiag shows them.
// Completed counts every job whose script ended by itself, with any exit code. Fields that begin
// with Main are about the main scheduler, and their times are about its cycles. BackfilledJobs
// counts since the last reset, BackfilledSinceStart since slurmctld's start.
type Stats struct {
	// Time is when slurmctld answered, and Since is when counting began, in seconds since the Unix
	// epoch.
	Time, Since                             int64
	ServerThreads                           uint32
	AgentQueue, Agents, AgentThreads        uint32
	DBDQueue                                uint32 // messages that wait for slurmdbd
	Submitted, Started, Completed           uint32
	Cancelled, Failed, Pending, Running     uint32
	MainCycles, MainDepthSum, MainQueue     uint32
	MainMax, MainLast, MainSum              time.Duration
	BackfilledJobs, BackfilledSinceStart    uint32
	BackfillCycles                          uint32
	BackfillLast, BackfillMax, BackfillSum  time.Duration
	BackfillLastDepth, BackfillLastDepthTry uint32
	BackfillQueue                           uint32
	BackfillLastTime                        int64 // seconds since the Unix epoch
	BackfillDepthSum, BackfillDepthTrySum   uint32
	BackfillQueueSum, BackfillTableSize     uint32
	BackfillTableSizeSum                    uint32
	BackfillActive                          bool
	// MainExits and BackfillExits count why the schedulers ended their cycles, in the order of schedule_exit_t and
	// bf_exit_t (slurmctld.h). Slurm before 23.11 does not count why cycles ended.
	MainExits, BackfillExits []uint32
	// RPCs are the requests that slurmctld has handled, by type.
	RPCs []RPCStat
}

// RPCStat counts the requests of one type and the time that they took.
type RPCStat struct {
	Type  Type
	Count uint32
	Total time.Duration
}

// DecodeStats reads a [ResponseStats]. It follows _unpack_stats_response_msg
// (slurm_protocol_pack.c). It skips the counters by user and the counters of waiting messages. A
// version that the driver does not use is an error.
func DecodeStats(m *Message) (*Stats, error) {
	d, own, err := ownDecoder(m.Version, "the statistics", m.Body)
	if err != nil {
		return nil, err
	}
	s := own.stats(d)
	if err := d.Finish(); err != nil {
		return nil, err
	}
	return s, nil
}

// statsFields are the fields of the statistics that only some versions have.
type statsFields struct {
	exits    bool // why the schedulers ended their cycles
	rpcQueue bool // the requests that wait, by type
}

func (f statsFields) read(d *decoder) *Stats {
	s := &Stats{}
	if d.U32("parts") != 0 {
		f.counters(d, s)
	}
	d.U32("rpc types")
	types, counts, times := d.U16s("rpc type"), d.U32s("rpc counts"), d.U64s("rpc times")
	if len(types) != len(counts) || len(types) != len(times) {
		d.Fail("there are %d rpc types, %d counts and %d times", len(types), len(counts), len(times))
	}
	if f.rpcQueue && d.U8("rpc queue flag") != 0 {
		d.U16s("queued rpcs")
		d.U64s("dropped rpcs")
		d.U16s("rpcs of the last cycle")
		d.U16s("most rpcs of a cycle")
	}
	d.U32("rpc users")
	d.U32s("rpc user")
	d.U32s("rpc user counts")
	d.U64s("rpc user times")
	d.U32s("rpc queue types")
	d.U32s("rpc queue counts")
	d.U32s("rpc dump types")
	d.Strs("rpc dump hosts")
	for i := range types {
		if d.Err() == nil {
			s.RPCs = append(s.RPCs, RPCStat{Type(types[i]), counts[i], micros(times[i])})
		}
	}
	return s
}

// counters reads the counters of slurmctld and its schedulers.
func (f statsFields) counters(d *decoder, s *Stats) {
	s.Time, s.Since = d.Time("time"), d.Time("since")
	micro := func(field string) time.Duration { return micros(uint64(d.U32(field))) }
	for _, p := range []*uint32{
		&s.ServerThreads, &s.AgentQueue, &s.Agents, &s.AgentThreads, &s.DBDQueue,
	} {
		*p = d.U32("agent counters")
	}
	d.U32("gettimeofday latency")
	for _, p := range []*uint32{
		&s.Submitted, &s.Started, &s.Completed, &s.Cancelled, &s.Failed, &s.Pending, &s.Running,
	} {
		*p = d.U32("job counters")
	}
	d.Time("job states time")
	s.MainMax, s.MainLast, s.MainSum = micro("cycle max"), micro("cycle last"), micro("cycle sum")
	s.MainCycles, s.MainDepthSum = d.U32("cycles"), d.U32("cycle depth")
	if f.exits {
		s.MainExits = d.U32s("cycle exits")
	}
	s.MainQueue = d.U32("cycle queue")
	s.BackfilledSinceStart, s.BackfilledJobs = d.U32("backfilled jobs"), d.U32("last backfilled jobs")
	s.BackfillCycles = d.U32("backfill cycles")
	s.BackfillSum = micros(d.U64("backfill sum"))
	s.BackfillLast = micro("backfill last")
	s.BackfillLastDepth, s.BackfillLastDepthTry = d.U32("backfill depth"), d.U32("backfill depth try")
	s.BackfillQueue = d.U32("backfill queue")
	s.BackfillMax = micro("backfill max")
	s.BackfillLastTime = d.Time("backfill time")
	for _, p := range []*uint32{
		&s.BackfillDepthSum, &s.BackfillDepthTrySum, &s.BackfillQueueSum,
		&s.BackfillTableSize, &s.BackfillTableSizeSum,
	} {
		*p = d.U32("backfill counters")
	}
	s.BackfillActive = d.U32("backfill active") != 0
	d.U32("backfilled heterogeneous jobs")
	if f.exits {
		s.BackfillExits = d.U32s("backfill exits")
	}
}

func micros(us uint64) time.Duration {
	return time.Duration(min(us, uint64(1<<63-1)/1000)) * time.Microsecond
}
