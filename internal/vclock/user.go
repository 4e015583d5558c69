package vclock

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// user is the user of the managed processes. The driver takes this user's identity to look at them.
// Nil means that it can look under its own.
type user struct{ uid, gid int }

// become makes the calling thread read files as the user, until leave.
func (u *user) become() {
	if u == nil {
		return
	}
	runtime.LockOSThread()
	_ = unix.Setfsgid(u.gid) // root may do this; without it every thread seems to run
	_ = unix.Setfsuid(u.uid)
}

// leave undoes become.
func (u *user) leave() {
	if u == nil {
		return
	}
	_ = unix.Setfsuid(os.Geteuid()) // a thread may return to its own user
	_ = unix.Setfsgid(os.Getegid())
	runtime.UnlockOSThread()
}
