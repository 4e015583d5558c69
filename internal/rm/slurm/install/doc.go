// Package install finds the stock programs that a replay on real Slurm runs, and
// says what this machine lacks and which command mends it.
//
// Three habits of real machines shape it. The PATH of an ordinary user often has
// no sbin directories, where Debian keeps the daemons. The name slurmctld may
// belong, through Debian's alternatives, to the emulator package, which was built
// for another purpose and cannot serve. And a site may keep several versions of
// Slurm under prefixes of its own: the environment variable [PrefixVariable] names
// the one to use.
package install
