// Package slurmmodel is a model of Slurm's scheduler: a resource manager that makes slurmctld's decisions one by one,
// in virtual time and without any daemon. It has more than the rules: the periodic work of slurmctld with its phases,
// the order of its lists, its rounding, and what it remembers between decisions.
//
// Files and packages are named after Slurm's parts, and comments name Slurm's functions.
// docs/SLURM-MODEL.md says what the model has, how well it agrees with slurmctld, and what it lacks.
package slurmmodel
