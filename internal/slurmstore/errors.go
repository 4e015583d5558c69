package slurmstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/slurmspec"
)

// MissingError says that this machine, or the network, lacks what an installation needs.
type MissingError struct {
	Doing string // "reading the index of Debian's trixie"
	Err   error
}

// Error names what is missing, and how to install without a network and without Debian's tools.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%s: %v (without a network or Debian's tools: %s)", e.Doing, e.Err, Offline)
}

// Unwrap returns the cause.
func (e *MissingError) Unwrap() error { return e.Err }

// Offline is the command that installs a release without a network, for messages.
const Offline = "rmreplay slurm install --from FILE.tar, or an OCI image layout, or a directory of .deb files"

// InputError says that a version, an archive or a directory that the user named is wrong.
type InputError struct {
	Path string // what the user named
	Err  error
}

// Error names the input and what is wrong with it.
func (e *InputError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *InputError) Unwrap() error { return e.Err }

// NotInstalledError says that the store lacks a release.
type NotInstalledError struct {
	Version   string
	Installed []string // releases in the store, oldest first
	Own       string   // the release outside the cache; "" if no such release was found
}

// Error lists the machine's own release and those in the store, and the command that installs the missing release.
func (e *NotInstalledError) Error() string {
	have, list := "none is installed", slices.Clone(e.Installed)
	if e.Own != "" {
		list = slices.Insert(list, 0, e.Own+" on this machine")
	}
	if len(list) > 0 {
		have = "installed: " + strings.Join(list, ", ")
	}
	if r, err := slurmspec.ParseRelease(e.Version); err == nil && !r.Supported() {
		return fmt.Sprintf("slurm %s is not supported (want %s; %s)", e.Version, slurmspec.SupportedList(), have)
	}
	return fmt.Sprintf("slurm %s is not installed in the store (%s; install it with: rmreplay slurm install %s)",
		e.Version, have, e.Version)
}

// IsInput reports whether err says that an input of the user is wrong.
func IsInput(err error) bool {
	var input *InputError
	return errors.As(err, &input)
}

// IsMissing reports whether err says that the network, a tool or a release is missing.
func IsMissing(err error) bool {
	var missing *MissingError
	var absent *NotInstalledError
	return errors.As(err, &missing) || errors.As(err, &absent)
}
