package history

import "rmreplay/internal/slurmspec"

// DatabaseKeys has the keys of slurmdbd.conf that one of the known series lacks. It follows the
// options in src/slurmdbd/read_config.c of the last patch of each series from 20.11 to 26.05.
// slurmdbd does not start with a key that it does not know.
var DatabaseKeys = map[string]Lifetime{
	"AllowNoDefAcct":         {Since: slurmspec.R2205},
	"AllResourcesAbsolute":   {Since: slurmspec.R2302},
	"ArchiveJobEnv":          {Since: slurmspec.R2605},
	"ArchiveJobScript":       {Since: slurmspec.R2605},
	"DisableArchiveCommands": {Since: slurmspec.R2511},
	"DisableCoordDBD":        {Since: slurmspec.R2405},
	"DisableRollups":         {Since: slurmspec.R2605},
	"HashPlugin":             {Since: slurmspec.R2405},
	"MaxPurgeLimit":          {Since: slurmspec.R2511},
	"PurgeJobEnvAfter":       {Since: slurmspec.R2605},
	"PurgeJobScriptAfter":    {Since: slurmspec.R2605},
	"StoragePassScript":      {Since: slurmspec.R2511},
	"TLSParameters":          {Since: slurmspec.R2405},
	"TLSType":                {Since: slurmspec.R2405},
}

// DatabaseSuccessors says what replaces a key of slurmdbd.conf in releases that lack it.
var DatabaseSuccessors = map[string]string{
	"AllowNoDefAcct":       "every user needs a default account",
	"AllResourcesAbsolute": "sacctmgr reads the allowed part of a resource as a percentage",
	"ArchiveJobEnv":        "ArchiveJobs archives the environments",
	"ArchiveJobScript":     "ArchiveJobs archives the scripts",
	"DisableCoordDBD":      "coordinators of accounts may change them",
	"PurgeJobEnvAfter":     "environments are purged with their jobs",
	"PurgeJobScriptAfter":  "scripts are purged with their jobs",
	"StoragePassScript":    "StoragePass has the password",
}
