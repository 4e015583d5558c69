// Package edit changes a site's configuration by the names of its parameters. Sweeps and searches
// use it to try other settings on a copy of a cluster directory.
//
// A parameter has a single value. Its name has one of these forms:
//
//	KEY                              a key of slurm.conf: PriorityWeightAge
//	KEY.OPTION                       one option of a key whose value is a list:
//	                                 SchedulerParameters.bf_max_job_test
//	partition NAME KEY               a key of a partition's line: partition long MaxTime
//	partition NAME KEY.OPTION        one item of its list: partition gpu TRESBillingWeights.gres/gpu
//	qos NAME OPTION                  an option of sacctmgr: qos normal MaxTRESPerUser
//	account NAME OPTION              account physics fairshare
//	user NAME OPTION                 user ada fairshare, in all accounts of the user
//	user NAME in ACCOUNT OPTION      user ada in physics fairshare
//
// The names of qos, account and user may also end in OPTION.ITEM: "qos normal MaxTRESPerUser.cpu",
// "qos normal Flags.DenyOnLimit". Keys and options are compared without case.
//
// In the file an option or an item is written NAME=TEXT. The value of such a parameter is TEXT. "true" sets a flag or
// adds a name to a list, and "false" removes the option, the item or the limit.
//
//   - [Setting.Check] returns an error for a setting that is wrong for every cluster. Check also
//     refuses two things that slurmctld accepts: a misspelt option, which slurmctld ignores, and a
//     number that slurmctld replaces by its default.
//   - [Edit] applies settings to a cluster in memory. It also refuses partitions, QOS, accounts,
//     users and trackable resources that the cluster does not have. [Edited.Lines] is the text
//     that the site itself would write.
//   - [Copy] writes an edited copy of a cluster directory.
//
// An edit keeps all other lines. A line that it replaces becomes a comment. Settings of accounts,
// QOS and users are commands for sacctmgr at the end of accounts.sacctmgr.
package edit
