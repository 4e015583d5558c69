// Package slurmstore keeps releases of Slurm beside the one that the machine may have. The releases
// of a user are in the user's cache, and those of root in a directory that all users can read. Each
// release is a root directory with the programs, the plugins and all libraries that they need, down
// to the C library and its dynamic loader. Nothing of it is installed on the machine, and no step
// needs root.
//
// A root comes from the packages of a Debian suite, which apt downloads and verifies, from a
// directory of such packages, from a tarball of a root, or from an image in the OCI layout. It
// is unpacked under a temporary name, slurmctld is run once, and one renaming puts it in place:
// a root in the store is complete.
//
// Archives are unpacked as a container runtime does it for an ordinary user: no entry and no link
// leaves the root, no device is made, and no file gets another owner or a set-user-ID bit.
package slurmstore
