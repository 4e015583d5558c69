package vclock

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// user is the user of the managed processes. The driver reads their /proc files as this user. Nil
// means that the driver can read them as itself.
type user struct{ uid, gid int }

// become makes the calling thread access files as the user, until leave.
func (u *user) become() {
	if u == nil {
		return
	}
	runtime.LockOSThread()
	_ = unix.Setfsgid(u.gid) // root may do this; after a failure, every thread would seem to run
	_ = unix.Setfsuid(u.uid)
}

// leave ends the effect of become.
func (u *user) leave() {
	if u == nil {
		return
	}
	_ = unix.Setfsuid(os.Geteuid()) // a thread may always return to its own user
	_ = unix.Setfsgid(os.Getegid())
	runtime.UnlockOSThread()
}
