package accounts

import "strings"

// Enforcement is AccountingStorageEnforce (_validate_accounting_storage_enforce in read_config.c).
type Enforcement struct {
	// Associations, Limits, QOS and Safe say what slurmctld enforces. Limits, QOS and Safe imply
	// Associations; Safe also implies Limits.
	Associations, Limits, QOS, Safe bool
}

// ReadEnforcement reads AccountingStorageEnforce. The function get returns the value of a key of
// slurm.conf.
func ReadEnforcement(get func(key string) (string, bool)) Enforcement {
	var e Enforcement
	text, _ := get("AccountingStorageEnforce")
	for word := range strings.SplitSeq(strings.ToLower(text), ",") {
		switch word {
		case "1", "associations", "wckeys":
			e.Associations = true
		case "2", "limits":
			e.Associations, e.Limits = true, true
		case "safe":
			e.Associations, e.Limits, e.Safe = true, true, true
		case "qos":
			e.Associations, e.QOS = true, true
		case "all":
			e = Enforcement{true, true, true, true}
		}
	}
	return e
}
