// Package conf is the model of a Slurm site's configuration and its adaptation to
// a replay.
//
// It has three parts. The parser reads slurm.conf, gres.conf and topology.conf as
// Slurm 22.05 itself does, down to continuation lines, escapes and the values that
// slurmctld corrects in silence, but answers a mistake with its file, line and what
// would be right. [Open] reads a cluster directory and resolves nodes, partitions
// and generic resources. [Adapt] rewrites the configuration so that the stock
// daemons run as an ordinary user, on loopback, without slurmd, and reports every
// change with its reason. A key that decides scheduling is kept unless Slurm would
// refuse it here, and what a change may do to scheduling is a warning; each key of
// 22.05 is classified in one table (keys.go).
package conf
