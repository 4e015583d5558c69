// Package history lists the changes of slurm.conf in Slurm's releases from 22.05 to 26.05. It says
// which releases have a key, an attribute, an option or a plugin, what replaced it in other
// releases, and which defaults that decide scheduling changed. It also lists known changes of
// behaviour. The facts come from Slurm's source at each release's branch. The tables are read only.
package history
