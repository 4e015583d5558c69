// Package slurmmodel is a model of Slurm's scheduler: a resource manager that makes slurmctld's decisions
// one by one, in virtual time and without any daemon. It is the same decisions and not only the same
// rules: the periodic work of slurmctld with its phases, the order of its lists, its rounding, and what
// it remembers between decisions.
//
// The names of files and packages are those of Slurm's parts. Comments name the function of Slurm that is
// modelled. docs/SLURM-MODEL.md says what the model has, how well it agrees with slurmctld, and what it
// lacks.
package slurmmodel
