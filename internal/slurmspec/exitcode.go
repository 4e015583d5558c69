package slurmspec

import (
	"errors"
	"strconv"
	"strings"
)

// ExitCode says how a script ended: with an exit status, or by a signal.
type ExitCode struct {
	Status int // 0 to 255
	Signal int // 0 to 127; 0 for no signal
}

var errExitCode = errors.New("not an exit code and a signal (want 1:0)")

// ParseExitCode reads an exit code as sacct prints it: "3:0", or "3" alone.
func ParseExitCode(text string) (ExitCode, error) {
	status, signal, both := strings.Cut(text, ":")
	var c ExitCode
	var err error
	if c.Status, err = strconv.Atoi(status); err != nil || c.Status < 0 || c.Status > 255 {
		return ExitCode{}, errExitCode
	}
	if both {
		if c.Signal, err = strconv.Atoi(signal); err != nil || c.Signal < 0 || c.Signal > 127 {
			return ExitCode{}, errExitCode
		}
	}
	return c, nil
}

// ExitCodeOfWait returns the exit code in a status of wait(2). Slurm's messages and slurmdbd's
// tables have such statuses.
func ExitCodeOfWait(status uint32) ExitCode {
	return ExitCode{Status: int(status >> 8 & 0xff), Signal: int(status & 0x7f)}
}

// Wait returns the status that wait(2) gives for this exit code.
func (c ExitCode) Wait() uint32 { return uint32(c.Status&0xff)<<8 | uint32(c.Signal&0x7f) }

// String returns the exit code as sacct prints it: "3:0".
func (c ExitCode) String() string { return strconv.Itoa(c.Status) + ":" + strconv.Itoa(c.Signal) }
