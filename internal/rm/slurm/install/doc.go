// Package install finds the stock programs that a replay on real Slurm runs. It names what is
// missing on this machine and the command that installs it.
//
// It handles three complications of real machines. The PATH of an ordinary user often lacks the
// sbin directories, where Debian keeps the daemons. With Debian's alternatives, the name slurmctld
// may belong to the emulator package, which does not work here. A site may have several versions
// of Slurm. [FindSlurm] finds a version by its directory, which is a prefix, such as
// /opt/slurm/24.05, or the root of an unpacked image. The programs of a root run with the root's
// own C library through its [Loader].
package install
