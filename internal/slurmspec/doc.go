// Package slurmspec is Slurm's vocabulary: what Slurm's headers and manual pages name and
// number, written once for the wire protocol, the readers of accounting data, the
// configuration and the reports. It does no I/O and keeps no state.
//
// Releases differ. What differs by release is keyed by a [Release], which is a value: a run
// of slurmctld has one, and several can be used side by side in one process.
//
// Package sbatch below it has the options of sbatch.
package slurmspec
