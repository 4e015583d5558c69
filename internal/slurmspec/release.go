package slurmspec

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Release is a release of Slurm: "22.05", or with its patch "22.05.8". The zero Release means that
// the release is not known.
type Release struct {
	Major, Minor int // 22 and 5 of "22.05.8"
	Patch        int // 8 of "22.05.8"; -1 if only the series is known
}

// The series of releases whose protocol is known.
var (
	R2011 = series(20, 11)
	R2108 = series(21, 8)
	R2205 = series(22, 5)
	R2302 = series(23, 2)
	R2311 = series(23, 11)
	R2405 = series(24, 5)
	R2411 = series(24, 11)
	R2505 = series(25, 5)
	R2511 = series(25, 11)
	R2605 = series(26, 5)
)

func series(major, minor int) Release { return Release{Major: major, Minor: minor, Patch: -1} }

// KnownRelease has the properties of a series: the protocol of its daemons, the oldest protocol
// that its slurmctld accepts (SLURM_PROTOCOL_VERSION and SLURM_MIN_PROTOCOL_VERSION in
// slurm_protocol_common.h), and the protocol that rmreplay uses with it.
type KnownRelease struct {
	Release Release
	// Number is the protocol's number. A message carries it shifted left by 8.
	Number uint16
	// Oldest is the number of the oldest protocol that slurmctld accepts; 0 if it is not known.
	Oldest uint16
	// Driver is the number of the protocol that rmreplay's nodes and clients use with the release's daemons; 0 for a
	// release that rmreplay does not run. It is the newest protocol that slurmctld accepts and that rmreplay can write.
	Driver uint16
}

// Releases are the known series, oldest first.
var Releases = []KnownRelease{
	{Release: R2011, Number: 36},
	{Release: R2108, Number: 37},
	{Release: R2205, Number: 38, Oldest: 36, Driver: 38},
	{Release: R2302, Number: 39, Oldest: 37, Driver: 38},
	{Release: R2311, Number: 40, Oldest: 38, Driver: 40},
	{Release: R2405, Number: 41, Oldest: 39, Driver: 40},
	{Release: R2411, Number: 42, Oldest: 39, Driver: 42},
	{Release: R2505, Number: 43, Oldest: 40, Driver: 42},
	{Release: R2511, Number: 44, Oldest: 41, Driver: 42},
	{Release: R2605, Number: 45, Oldest: 42, Driver: 42},
}

// SupportedReleases are the series that rmreplay runs, oldest first.
func SupportedReleases() []Release {
	var list []Release
	for _, k := range Releases {
		if k.Driver != 0 {
			list = append(list, k.Release)
		}
	}
	return list
}

// SupportedList names the supported series in words: "22.05", or "22.05 or 24.11".
func SupportedList() string {
	var names []string
	for _, r := range SupportedReleases() {
		names = append(names, r.String())
	}
	if n := len(names) - 1; n > 0 {
		return strings.Join(names[:n], ", ") + " or " + names[n]
	}
	return strings.Join(names, "")
}

var errRelease = errors.New("not a release of Slurm (want, for example, 22.05 or 22.05.8)")

// releaseSyntax finds the number in "22.05.8", "slurm 22.05.8" and "slurm-wlm 22.05.8-4+b1".
var releaseSyntax = regexp.MustCompile(`^(?:slurm[a-z-]* )?([0-9]{2})\.([0-9]{2})(?:\.([0-9]{1,4}))?(?:[^0-9.].*)?$`)

// ParseRelease reads a release as users write it and as Slurm's programs print it with
// --version: "22.05", "22.05.8", "slurm 22.05.8", "slurm-wlm 22.05.8". It drops what a
// distribution or a release candidate appends to the number ("24.11.0-0rc1").
func ParseRelease(text string) (Release, error) {
	m := releaseSyntax.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return Release{}, fmt.Errorf("%.40q: %w", text, errRelease)
	}
	number := func(s string) int {
		n, _ := strconv.Atoi(s) // the syntax has digits only
		return n
	}
	r := series(number(m[1]), number(m[2]))
	if m[3] != "" {
		r.Patch = number(m[3])
	}
	return r, nil
}

// String returns the release as Slurm writes it: "22.05" or "22.05.8". It returns "" for the zero
// Release.
func (r Release) String() string {
	switch {
	case r.IsZero():
		return ""
	case r.Patch < 0:
		return fmt.Sprintf("%02d.%02d", r.Major, r.Minor)
	}
	return fmt.Sprintf("%02d.%02d.%d", r.Major, r.Minor, r.Patch)
}

// IsZero reports whether r is the zero Release.
func (r Release) IsZero() bool { return r.Major == 0 }

// Series returns the release without its patch. The series decides about protocols and options.
func (r Release) Series() Release {
	if !r.IsZero() {
		r.Patch = -1
	}
	return r
}

// Compare orders releases by age: it returns -1 if r is older than the other release, 0 if they
// are equal, and 1 if r is newer. A series is older than its patches.
func (r Release) Compare(other Release) int {
	return cmp.Or(cmp.Compare(r.Major, other.Major), cmp.Compare(r.Minor, other.Minor), cmp.Compare(r.Patch, other.Patch))
}

// Since reports whether r belongs to the series of the other release or to a newer one.
func (r Release) Since(other Release) bool {
	return r.Major > other.Major || r.Major == other.Major && r.Minor >= other.Minor
}

// KnownSeries returns what is known of the release's series. ok is false for an unknown series.
func (r Release) KnownSeries() (known KnownRelease, ok bool) {
	for _, k := range Releases {
		if k.Release == r.Series() {
			return k, true
		}
	}
	return KnownRelease{}, false
}

// Supported reports whether rmreplay runs the release.
func (r Release) Supported() bool {
	k, _ := r.KnownSeries()
	return k.Driver != 0
}

// Protocol returns the version of the protocol that the release's daemons speak, as messages
// carry it: 38<<8 for 22.05. It returns 0 for an unknown release.
func (r Release) Protocol() uint16 {
	k, _ := r.KnownSeries()
	return k.Number << 8
}

// DriverProtocol returns the version of the protocol in which rmreplay speaks to the release's
// daemons, as messages carry it: 42<<8 for 25.05. It returns 0 for a release that rmreplay does
// not run.
func (r Release) DriverProtocol() uint16 {
	k, _ := r.KnownSeries()
	return k.Driver << 8
}

// OldestProtocol returns the oldest version of the protocol that the release's slurmctld
// accepts. slurmctld speaks that version to a node that has not registered. It returns 0 if the
// version is not known.
func (r Release) OldestProtocol() uint16 {
	k, _ := r.KnownSeries()
	return k.Oldest << 8
}

// ReleaseOfProtocol returns the series that introduced a version of the protocol. ok is false
// if no known release did.
func ReleaseOfProtocol(version uint16) (r Release, ok bool) {
	for _, k := range Releases {
		if k.Number<<8 == version {
			return k.Release, true
		}
	}
	return Release{}, false
}

// UnsupportedError says that rmreplay does not run a release.
type UnsupportedError struct{ Release Release }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("Slurm %s is not supported (want %s)", cmp.Or(e.Release.String(), "of an unknown release"),
		SupportedList())
}

// CheckSupported returns nil for a supported release and an [UnsupportedError] for any other.
func CheckSupported(r Release) error {
	if r.Supported() {
		return nil
	}
	return &UnsupportedError{r}
}
