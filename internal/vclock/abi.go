package vclock

import (
	"sync/atomic"
	"unsafe"
)

// The Go side of shim/abi.h; abi_test.go compares the two layouts.
const (
	abiMagic   = 0x6b6c6372
	abiVersion = 9
	slotCount  = 8192
	slotSize   = 64
	linkCount  = 4096
	linkReach  = 64
	never      = 1<<63 - 1
	// maxInherited is the largest number of variables in shared.inherited.
	maxInherited = 8
)

// What a thread is doing (slot.state).
const (
	stateFree uint32 = iota
	stateRunning
	stateSlot
	stateKernel
	stateExiting
	stateReady
	stateArrived
)

// whyNames names the reasons for which a thread waits (slot.why), in abi.h's order.
var whyNames = [...]string{
	"", "sleep", "condition variable", "mutex", "rwlock", "semaphore", "thread to end", "poll", "connection",
	"input", "child process", "signal", "outside peer", "output", "input", "computing time",
	"timer",
}

// The reasons for waiting that the driver treats specially.
const (
	whyPoll    = 7
	whySignal  = 11
	whyOutside = 12
	whyWrite   = 13
	whyStream  = 14
)

// slot is struct rmr_slot: one managed thread.
type slot struct {
	state    atomic.Uint32
	pid      atomic.Int32
	tid      atomic.Int32
	why      atomic.Uint32
	deadline atomic.Int64
	object   atomic.Uint64
	ticket   atomic.Uint64
	_        [3]uint64
}

// link is struct rmr_link: a connection that has not been accepted yet. Addresses and ports are in
// network byte order. Threads may read a link while another thread writes it, so every field is
// atomic. The two ports share one word.
type link struct {
	state  atomic.Uint32
	fromIP atomic.Uint32
	toIP   atomic.Uint32
	ports  atomic.Uint32
}

// The states of a link are the lower two bits of link.state. The higher bits count the link's uses.
const (
	linkFree    uint32 = 0
	linkWriting uint32 = 1
	linkSet     uint32 = 2
	linkState   uint32 = 3
	linkUse     uint32 = 4
)

// shared is struct rmr_clock.
type shared struct {
	magic, version   uint32
	slots, slotSize  uint32
	driverIP         [4]byte
	driverPort       [2]byte
	ownAddress       uint16
	fifoDev, fifoIno uint64
	_                [3]uint64
	now              atomic.Int64
	limit            atomic.Int64
	busy             atomic.Int32
	lock             atomic.Uint32
	epoch            atomic.Uint64
	verified         atomic.Uint64
	inbox            atomic.Int64
	driverWord       atomic.Uint32
	driverWaiting    atomic.Uint32
	used             atomic.Uint32
	signals          atomic.Uint32
	steps            atomic.Uint64
	writers          atomic.Int64
	factor           atomic.Uint64 // the bits of a double
	charged          atomic.Int64
	connecting       atomic.Uint32
	turn             atomic.Uint32
	tickets          atomic.Uint64
	home             atomic.Uint32
	_                uint32
	_                [1]uint64
	ports            [1024]atomic.Uint64
	slot             [slotCount]slot
	link             [linkCount]link
	cpus             [16]uint64
	inherited        [256]byte
}

const sharedSize = int(unsafe.Sizeof(shared{}))
