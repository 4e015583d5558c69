// Package conf is the model of a Slurm site's configuration and its adaptation to a replay.
//
// It has three parts:
//
//   - The parser reads slurm.conf, gres.conf and topology.conf as Slurm 22.05 does, with
//     continuation lines, escapes and the values that slurmctld corrects silently. An error has
//     the file, the line and the correct form.
//   - [Open] reads a cluster directory and resolves nodes, partitions and generic resources.
//   - [Adapt] rewrites the configuration: the stock daemons of a release then run as an ordinary
//     user, on loopback and without slurmd. Adapt reports every change with its reason.
//
// Adapt keeps keys that decide scheduling. Adapt changes or drops such a key only if the key needs the site's hardware,
// programs or storage, or if Slurm would refuse it in a replay. Adapt warns of changes that may alter scheduling. One
// table classifies all keys (keys.go). history.Keys says which releases have a key.
package conf
