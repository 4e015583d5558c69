package vclock

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// TestABI compares the layout and the constants of shim/abi.h with the Go copy.
func TestABI(t *testing.T) {
	out, err := exec.Command(program(t, "abi")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var sh shared
	var sl slot
	var b strings.Builder
	field := func(name string, offset, size uintptr) { fmt.Fprintf(&b, "%s %d %d\n", name, offset, size) }
	field("clock.magic", unsafe.Offsetof(sh.magic), unsafe.Sizeof(sh.magic))
	field("clock.version", unsafe.Offsetof(sh.version), unsafe.Sizeof(sh.version))
	field("clock.slots", unsafe.Offsetof(sh.slots), unsafe.Sizeof(sh.slots))
	field("clock.slot_size", unsafe.Offsetof(sh.slotSize), unsafe.Sizeof(sh.slotSize))
	field("clock.driver_ip", unsafe.Offsetof(sh.driverIP), unsafe.Sizeof(sh.driverIP))
	field("clock.driver_port", unsafe.Offsetof(sh.driverPort), unsafe.Sizeof(sh.driverPort))
	field("clock.own_address", unsafe.Offsetof(sh.ownAddress), unsafe.Sizeof(sh.ownAddress))
	field("clock.fifo_dev", unsafe.Offsetof(sh.fifoDev), unsafe.Sizeof(sh.fifoDev))
	field("clock.fifo_ino", unsafe.Offsetof(sh.fifoIno), unsafe.Sizeof(sh.fifoIno))
	field("clock.now", unsafe.Offsetof(sh.now), unsafe.Sizeof(sh.now))
	field("clock.limit", unsafe.Offsetof(sh.limit), unsafe.Sizeof(sh.limit))
	field("clock.busy", unsafe.Offsetof(sh.busy), unsafe.Sizeof(sh.busy))
	field("clock.lock", unsafe.Offsetof(sh.lock), unsafe.Sizeof(sh.lock))
	field("clock.epoch", unsafe.Offsetof(sh.epoch), unsafe.Sizeof(sh.epoch))
	field("clock.verified", unsafe.Offsetof(sh.verified), unsafe.Sizeof(sh.verified))
	field("clock.inbox", unsafe.Offsetof(sh.inbox), unsafe.Sizeof(sh.inbox))
	field("clock.driver_word", unsafe.Offsetof(sh.driverWord), unsafe.Sizeof(sh.driverWord))
	field("clock.driver_waiting", unsafe.Offsetof(sh.driverWaiting), unsafe.Sizeof(sh.driverWaiting))
	field("clock.used", unsafe.Offsetof(sh.used), unsafe.Sizeof(sh.used))
	field("clock.signals", unsafe.Offsetof(sh.signals), unsafe.Sizeof(sh.signals))
	field("clock.steps", unsafe.Offsetof(sh.steps), unsafe.Sizeof(sh.steps))
	field("clock.writers", unsafe.Offsetof(sh.writers), unsafe.Sizeof(sh.writers))
	field("clock.factor", unsafe.Offsetof(sh.factor), unsafe.Sizeof(sh.factor))
	field("clock.charged", unsafe.Offsetof(sh.charged), unsafe.Sizeof(sh.charged))
	field("clock.connecting", unsafe.Offsetof(sh.connecting), unsafe.Sizeof(sh.connecting))
	field("clock.home", unsafe.Offsetof(sh.home), unsafe.Sizeof(sh.home))
	field("clock.cpus", unsafe.Offsetof(sh.cpus), unsafe.Sizeof(sh.cpus))
	field("clock.inherited", unsafe.Offsetof(sh.inherited), unsafe.Sizeof(sh.inherited))
	field("clock.ports", unsafe.Offsetof(sh.ports), unsafe.Sizeof(sh.ports))
	field("clock.slot", unsafe.Offsetof(sh.slot), unsafe.Sizeof(sh.slot))
	field("clock.link", unsafe.Offsetof(sh.link), unsafe.Sizeof(sh.link))
	field("slot.state", unsafe.Offsetof(sl.state), unsafe.Sizeof(sl.state))
	field("slot.pid", unsafe.Offsetof(sl.pid), unsafe.Sizeof(sl.pid))
	field("slot.tid", unsafe.Offsetof(sl.tid), unsafe.Sizeof(sl.tid))
	field("slot.why", unsafe.Offsetof(sl.why), unsafe.Sizeof(sl.why))
	field("slot.deadline", unsafe.Offsetof(sl.deadline), unsafe.Sizeof(sl.deadline))
	field("slot.object", unsafe.Offsetof(sl.object), unsafe.Sizeof(sl.object))

	var li link
	field("link.state", unsafe.Offsetof(li.state), unsafe.Sizeof(li.state))
	field("link.from_ip", unsafe.Offsetof(li.fromIP), unsafe.Sizeof(li.fromIP))
	field("link.to_ip", unsafe.Offsetof(li.toIP), unsafe.Sizeof(li.toIP))
	field("link.ports", unsafe.Offsetof(li.ports), unsafe.Sizeof(li.ports))

	constant := func(name string, v int64) { fmt.Fprintf(&b, "%s %d\n", name, v) }
	constant("sizeof clock", int64(sharedSize))
	constant("sizeof slot", int64(unsafe.Sizeof(sl)))
	constant("magic", abiMagic)
	constant("version", abiVersion)
	constant("slots", slotCount)
	constant("inherited", maxInherited)
	constant("links", linkCount)
	constant("link reach", linkReach)
	constant("never", never)
	constant("free", int64(stateFree))
	constant("running", int64(stateRunning))
	constant("slot", int64(stateSlot))
	constant("kernel", int64(stateKernel))
	constant("exiting", int64(stateExiting))
	constant("poll", whyPoll)
	constant("signal", whySignal)
	constant("outside", whyOutside)
	constant("write", whyWrite)
	constant("stream", whyStream)
	constant("reasons", int64(len(whyNames)))
	constant("wake signal", int64(wakeSignal))
	if diff := cmp.Diff(string(out), b.String()); diff != "" {
		t.Errorf("abi.go (+) is not abi.h (-):\n%s", diff)
	}
}
