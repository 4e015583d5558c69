// Package history knows what Slurm's releases from 22.05 to 26.05 changed in slurm.conf: which
// releases know a key, an attribute, an option or a plugin, what replaced it in other releases, and
// which defaults changed that decide scheduling. It also lists known changes of behaviour. The
// facts come from Slurm's source at each release's branch. The tables are read only.
package history
