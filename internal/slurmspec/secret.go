package slurmspec

import "regexp"

// secret matches keys of Slurm's configuration whose values may be secrets: StoragePass,
// AccountingStoragePass, JwtKey, AuthAltParameters, ...
var secret = regexp.MustCompile(`(?i)pass|secret|token|key$|auth.*(info|parameters)`)

// Secret reports whether the value of a key of slurm.conf or slurmdbd.conf may be a secret.
func Secret(key string) bool { return secret.MatchString(key) }
