package install

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"rmreplay/internal/accounts"
	"rmreplay/internal/supervise"
)

// Root's daemons run under one of these user numbers, which systemd reserves for services without
// an account (DynamicUser). Run n may use firstUser+n and every usersApart-th number after it.
const (
	firstUser  = 61184
	lastUser   = 65519
	usersApart = 256
)

// DaemonUser returns the user of a run's daemons. Daemons never run as root: if root calls rmreplay, they run under a UID that has no account on this machine. Runs at the same time must have different run numbers,
// all below 256. Each run then has another user. If the caller is not root, the user is the
// caller. The error is a [*UserError].
func DaemonUser(run int) (supervise.User, error) {
	if os.Geteuid() != 0 {
		return supervise.User{UID: os.Geteuid(), GID: os.Getegid()}, nil
	}
	for id := firstUser + run; id <= lastUser; id += usersApart {
		taken, err := accounts.Has(id)
		if err != nil {
			return supervise.User{}, &UserError{Err: err}
		}
		if taken {
			continue
		}
		return supervise.User{UID: id, GID: id}, runAs(id)
	}
	return supervise.User{}, &UserError{Err: fmt.Errorf("every %dth user ID from %d to %d has an account (want one without)", usersApart, firstUser+run, lastUser)}
}

// runAs starts a process as another user.
func runAs(id int) error {
	c := exec.Command("/bin/true")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
	if err := c.Run(); err != nil {
		return &UserError{Err: fmt.Errorf("starting a process of user %d: %w", id, err)}
	}
	return nil
}

// UserError says that root cannot start daemons as an unprivileged user.
type UserError struct{ Err error }

// Error says what to change.
func (e *UserError) Error() string {
	return fmt.Sprintf("daemons of a replay never run as root, and root cannot start them as another user here: %v "+
		"(replay as an ordinary user, or give root the capabilities CHOWN, SETGID and SETUID)", e.Err)
}

// Unwrap returns the wrapped error.
func (e *UserError) Unwrap() error { return e.Err }

// checkUser starts a process as the user of the daemons.
func checkUser() Check {
	c := Check{
		Name: "daemons' user", Why: "daemons never run as root", Required: true,
		Fix: "replay as an ordinary user, or give root the capabilities CHOWN, SETGID and SETUID",
	}
	u, err := DaemonUser(0)
	var none *UserError
	switch {
	case errors.As(err, &none):
		c.Found = none.Err.Error()
	case os.Geteuid() == 0:
		c.OK, c.Found = true, fmt.Sprintf("an unprivileged one, such as %d", u.UID)
	default:
		c.OK, c.Found = true, "the user who replays"
	}
	return c
}
