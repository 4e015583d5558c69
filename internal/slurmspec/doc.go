// Package slurmspec is Slurm's vocabulary: the names and numbers of Slurm's headers and manual
// pages, written once for the wire protocol, the readers of accounting data, the configuration
// and the reports. It does no I/O and keeps no state.
//
// Some names and numbers differ between releases. Functions that depend on the release take a [Release]. A release is a
// value: one process can use several side by side.
//
// Package sbatch has the options of sbatch.
package slurmspec
