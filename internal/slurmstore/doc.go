// Package slurmstore manages releases of Slurm in addition to a Slurm that is installed on the
// machine. A user's releases are in the user's cache, and root's releases in a directory that all
// users can read. A release is a root directory with Slurm's programs and plugins and with all
// libraries that they need, including the C library and its dynamic loader. Nothing is installed
// on the machine itself, and no step needs root.
//
// A root is made from one of four sources: packages of a Debian suite, which apt downloads and verifies; a directory of
// such packages; a tarball of a root; or an image in the OCI layout. A root is unpacked under a temporary name,
// slurmctld is run once, and then the directory is renamed, so each root in the store is complete.
//
// Archives are unpacked as a container runtime does for an ordinary user: entries and links cannot
// leave the root, devices are not created, and files get no other owner and no set-user-ID bit.
package slurmstore
