package reservations

import (
	"strings"

	"rmreplay/internal/rm/slurmmodel/accounts"
)

// WhoIs returns the user and the accounts of a job. The parameter assoc may be nil. The parameter
// enforced says that slurmctld enforces associations, so that the accounts above count, too.
func WhoIs(user, account string, assoc *accounts.Association, enforced bool) Who {
	who := Who{User: strings.ToLower(user), Accounts: []string{strings.ToLower(account)}}
	if assoc == nil {
		return who
	}
	who.Accounts = who.Accounts[:0]
	for a := range assoc.Up {
		if a.User == "" || len(who.Accounts) == 0 {
			who.Accounts = append(who.Accounts, a.Account)
		}
		if !enforced {
			break
		}
	}
	return who
}
