// Package slurmmodel is a model of Slurm's scheduler: a resource manager that decides as slurmctld
// does, in virtual time and without daemons. It also models slurmctld's periodic work and its
// phases, the order of its lists, its rounding, and the state that it keeps between decisions.
//
// Files and packages are named after Slurm's parts, and comments name Slurm's functions.
// docs/SLURM-MODEL.md says what the model has, how well it agrees with slurmctld, and what it lacks.
package slurmmodel
